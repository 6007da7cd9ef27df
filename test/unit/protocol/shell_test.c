// What is written to a shell, and how its answers are read. The lines are tried with a real bash in
// test/unit/box/session_test.c.
#include "protocol/shell.h"

#include "tap.h"

static char seen[4096];
static size_t seen_len;

static void keep(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	if (seen_len + len < sizeof(seen))
		memcpy(seen + seen_len, bytes, len);
	seen_len += len;
	seen[seen_len < sizeof(seen) ? seen_len : sizeof(seen) - 1] = 0;
}

// In pieces of every size: the cuts must not matter.
static bool sifts_to(struct shell_filter like, const char *text, const char *wanted)
{
	size_t len = strlen(text);

	for (size_t piece = 1; piece <= len + 1; piece++) {
		struct shell_filter filter = like;

		filter.give = keep;
		seen_len = 0;
		seen[0] = 0;
		for (size_t at = 0; at < len; at += piece)
			shell_sift(&filter, text + at, len - at < piece ? len - at : piece);
		shell_sift_end(&filter);
		if (strcmp(seen, wanted) != 0)
			return false;
	}
	return true;
}

static bool quotes_to(const char *text, const char *wanted)
{
	auto_buf out = BUF_INIT(4096);

	shell_quote(&out, str_of(text));
	return str_is(buf_view(&out), wanted);
}

TEST(quotes, "a quoted text is one word, whatever is in it")
{
	CHECK(quotes_to("", "''"));
	CHECK(quotes_to("a b", "'a b'"));
	CHECK(quotes_to("it's", "'it'\\''s'"));
	CHECK(quotes_to("'", "''\\'''"));
	CHECK(quotes_to("$(x) `y` \\ \n!", "'$(x) `y` \\ \n!'"));
}

static enum shell_parsed hear(const char *text, size_t len, struct shell_end *end, size_t *used)
{
	return shell_parse((struct str){text, len}, end, used);
}

TEST(hears, "an end record is status, mark, job and directory")
{
	static const char whole[] = "127 18446744073709551615 42 /a b";
	struct shell_end end;
	size_t used = 0;

	CHECK(hear(whole, sizeof(whole), &end, &used) == SHELL_END);
	CHECK(end.status == 127 && end.mark == UINT64_MAX && end.job == 42 &&
	      str_is(end.cwd, "/a b") && used == sizeof(whole));
	CHECK(hear("0 7  /", 7, &end, &used) == SHELL_END);
	CHECK(end.status == 0 && end.mark == 7 && end.job == 0 && str_is(end.cwd, "/"));
	for (size_t i = 0; i < sizeof(whole); i++)
		CHECK(hear(whole, i, &end, &used) == SHELL_MORE);
}

TEST(unknown_place, "a directory that is none is not known")
{
	struct shell_end end;
	size_t used = 0;

	CHECK(hear("0 7  ", 6, &end, &used) == SHELL_END && end.cwd.len == 0);
	CHECK(hear("0 7  x", 7, &end, &used) == SHELL_END && end.cwd.len == 0);
}

TEST(nonsense, "other records are malformed, and so is one without end")
{
	static const char *const bad[] = {"",	     "x",	  "0",	      "0 1",
					  "0 1 2",   "256 1 2 /", "-1 1 2 /", "0 x 2 /",
					  "0 1 x /", "0 1 0 /",	  "0  1 /"};
	static char flood[SHELL_END_MAX + 1];
	struct shell_end end;
	size_t used = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(hear(bad[i], strlen(bad[i]) + 1, &end, &used) == SHELL_NONSENSE);
	memset(flood, 'x', sizeof(flood));
	CHECK(hear(flood, SHELL_END_MAX - 1, &end, &used) == SHELL_MORE);
	CHECK(hear(flood, SHELL_END_MAX, &end, &used) == SHELL_NONSENSE);
}

TEST(one_newline, "exactly one newline goes, at the very end")
{
	struct shell_filter filter = {0};

	CHECK(sifts_to(filter, "", ""));
	CHECK(sifts_to(filter, "a", "a"));
	CHECK(sifts_to(filter, "a\n", "a"));
	CHECK(sifts_to(filter, "a\n\n", "a\n"));
	CHECK(sifts_to(filter, "\n", ""));
	CHECK(sifts_to(filter, "\n\na\nb", "\n\na\nb"));
	CHECK(sifts_to(filter, "[1] 23\nexit\n", "[1] 23\nexit"));
}

#define TTY "bash: [21852: 1 (255)] tcsetattr: Inappropriate ioctl for device\n"

TEST(remarks, "messages of an interactive bash are removed from stderr, line by line")
{
	struct shell_filter filter = {.remarks = true, .jobs = true, .left = true};

	CHECK(sifts_to(filter, "[1] 23\n", ""));
	CHECK(sifts_to(filter, "a\n[1] 23\nb\n[2] 4\n", "a\nb"));
	CHECK(sifts_to(filter, TTY, ""));
	CHECK(sifts_to(filter, "a\n" TTY "b\n" TTY, "a\nb"));
	CHECK(sifts_to(filter, "err\nexit\n", "err"));
	CHECK(sifts_to(filter, "exit\n", ""));
	CHECK(sifts_to(filter, "exit\nexit\n", "exit"));
}

TEST(not_remarks, "text that only resembles such a message stays")
{
	struct shell_filter all = {.remarks = true, .jobs = true, .left = true};
	struct shell_filter none = {.remarks = true};

	CHECK(sifts_to(all, "[1] 23", "[1] 23"));
	CHECK(sifts_to(all, "[] 23\n[1]23\n[1] \n[x] 1\n", "[] 23\n[1]23\n[1] \n[x] 1"));
	CHECK(sifts_to(all, "a[1] 23\n", "a[1] 23"));
	CHECK(sifts_to(all, "exit\nbye\n", "exit\nbye"));
	CHECK(sifts_to(all, "exit", "exit"));
	CHECK(sifts_to(all, "bash: [1: 2 (3)] tcgetattr\n", "bash: [1: 2 (3)] tcgetattr"));
	CHECK(sifts_to(all, "bash: nosuch: command not found\n",
		       "bash: nosuch: command not found"));
	CHECK(sifts_to(all,
		       "[1] 1111111111111111111111111111111111111111111111111111111111111111"
		       "111111111111111111111111111111111111111111111111111111111111111111\n",
		       "[1] 1111111111111111111111111111111111111111111111111111111111111111"
		       "111111111111111111111111111111111111111111111111111111111111111111"));
	CHECK(sifts_to(none, "[1] 23\nexit\n", "[1] 23\nexit"));
}

TEST(wraps, "a prelude stands in front of a command; without one the command stands alone")
{
	auto_buf out = BUF_INIT(4096);

	shell_wrap(&out, STR(""), NULL, "/x", STR("echo 'a'"));
	CHECK(str_is(buf_view(&out), "echo 'a'"));
	buf_clear(&out);
	shell_wrap(&out, STR("x=1"), NULL, NULL, STR("echo 'a'"));
	CHECK(str_is(buf_view(&out), "\\eval 'x=1' >/dev/null 2>&1;\\eval 'echo '\\''a'\\'''"));
}

TEST(offers, "a variable of the box is set only where the shell has what it was told before")
{
	auto_buf out = BUF_INIT(4096);

	shell_offer(&out, STR("A"), NULL, "1");
	shell_offer(&out, STR("B"), "it's", NULL);
	CHECK_STR(out.at, "if [[ ! ${A+x} ]];then \\builtin export A='1' 2>/dev/null||:;fi;"
			  "if [[ ${B+x}${B-} = x'it'\\''s' ]];then \\builtin unset B "
			  "2>/dev/null||:;fi;");
}

TEST(echoes, "input that bash echoes is shown as the client sent it")
{
	static const struct {
		const char *heard, *shown;
	} rows[] = {
		{"{ echo a\n\n};{ __cove_r=$?;} >/dev/null 2>&1\nerr\n", "echo a\nerr"},
		{"{ echo a\n\n};{ __cove_r=$?;} >/dev/null 2>&1\n", "echo a"},
		{"{ echo b\n", "{ echo b"},
		{"{ echo a\n\n};{ __cove", "{ echo a\n\n};{ __cove"},
		{"{", "{"},
		{"plain\n", "plain"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK(sifts_to((struct shell_filter){.remarks = true, .command = STR("echo a")},
			       rows[i].heard, rows[i].shown));
}

TEST(feeds, "a script of any length is counted in bytes")
{
	auto_buf out = BUF_INIT(4096);
	struct str rest, count;
	uint64_t number;

	shell_feed(&out, true, STR("echo h\xc3\xa9"));
	rest = buf_view(&out);
	CHECK(str_cut(&rest, '\n', &count) && str_to_u64(count, 1, 4096, &number));
	CHECK(number == rest.len && !memmem(rest.at, rest.len, "/dev/null", 9));
	buf_clear(&out);
	shell_feed(&out, false, STR("x"));
	rest = buf_view(&out);
	CHECK(str_cut(&rest, '\n', &count) && str_to_u64(count, 1, 4096, &number));
	CHECK(number == rest.len && memmem(rest.at, rest.len, "exec </dev/null;", 16));
}
