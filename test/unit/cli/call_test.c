#include "cli/call.h"

#include "base/mem.h"
#include "tap.h"

static const struct verb verbs[] = {
	{VERB_RUN, VERB_STOPS, "run", "COMMAND", "run it", NULL, 0, -1},
	{VERB_PS, 0, "ps", "", "list", NULL, 0, 0},
	{VERB_RM, 0, "rm", "BOX...", "remove", NULL, 1, -1},
	{VERB_TEMPLATE_LS, 0, "template ls", "", "list", NULL, 0, 0},
	{VERB_TEMPLATE_RM, 0, "template rm", "NAME", "remove", NULL, 1, 1},
	{VERB_WORDS, VERB_HIDDEN, "pss", "", "hidden", NULL, 0, 0},
	{.name = NULL},
};
static const struct option options[] = {
	{OPT_MEMORY, 'm', "memory", "SIZE", "limit", ON(RUN)},
	{OPT_ENV, 'e', "env", "NAME=VALUE", "set", ON(RUN)},
	{OPT_QUIET, 'q', "quiet", NULL, "hush", ON(RUN) | ON(PS) | ON(RM)},
	{OPT_INTERACTIVE, 'i', "stdin", NULL, "read", ON(RUN)},
	{OPT_HELP, 'h', "help", NULL, "explain", ~0u},
	{.name = NULL},
};
static const struct remark remarks[] = {{.section = NULL}};
static const struct grammar grammar = {
	.verbs = verbs,
	.options = options,
	.remarks = remarks,
	.aliases =
		(const struct alias[]){{"list", "ps"}, {"images", "template ls"}, {.word = NULL}},
	.strangers = (const struct stranger[]){{"-p", "use forward"}, {.option = NULL}},
};

static struct call call;

// Reads a line of words parted by blanks; the words live in `room`.
static fallible read_line(const char *line)
{
	static char room[256];
	static char *argv[32];
	int argc = 0;

	call_done(&call);
	snprintf(room, sizeof(room), "%s", line);
	for (char *at = room; *at; at += strcspn(at, " ")) {
		if (*at == ' ')
			*at++ = 0;
		argv[argc++] = at;
	}
	argv[argc] = NULL;
	return call_read(&call, &grammar, argc, argv);
}

TEST(aliases, "verbs of other tools are aliases, and their options get a hint")
{
	auto_err err = NULL;

	CHECK_OK(read_line("list -q"));
	CHECK(call.verb->id == VERB_PS && call_has(&call, OPT_QUIET));
	CHECK_OK(read_line("images"));
	CHECK(call.verb->id == VERB_TEMPLATE_LS);
	err = read_line("run -p 80:80 true");
	CHECK(err && strcmp(err_hint_of(err), "use forward") == 0);
}

TEST(forms, "a value follows its option, an equals sign or the letter")
{
	static const char *const lines[] = {"run --memory 5m x", "run --memory=5m x", "run -m 5m x",
					    "run -m5m x", "run -m=5m x"};

	for (size_t i = 0; i < 5; i++) {
		CHECK_OK(read_line(lines[i]));
		CHECK_STR(call_value(&call, OPT_MEMORY), "5m");
		CHECK(call.word_count == 1);
	}
}

TEST(bundles, "flags may be bundled, and the last of a bundle may take a value")
{
	CHECK_OK(read_line("run -qim 5m x"));
	CHECK(call_has(&call, OPT_QUIET) && call_has(&call, OPT_INTERACTIVE));
	CHECK_STR(call_value(&call, OPT_MEMORY), "5m");
}

TEST(stops, "options end at the first word of a command")
{
	CHECK_OK(read_line("run -q ls -l --memory=1"));
	CHECK(call.word_count == 3);
	CHECK_STR(call.words[1], "-l");
	CHECK(!call_has(&call, OPT_MEMORY));
}

TEST(dashes, "two dashes end the options")
{
	CHECK_OK(read_line("run -- -x -q"));
	CHECK(call.word_count == 2 && !call_has(&call, OPT_QUIET));
	CHECK_OK(read_line("rm -- -q"));
	CHECK(call.word_count == 1);
}

TEST(anywhere, "verbs without a command take options among their words")
{
	CHECK_OK(read_line("rm a -q b"));
	CHECK(call.word_count == 2 && call_has(&call, OPT_QUIET));
}

TEST(repeated, "a repeated option is kept in order, and its last value wins where one counts")
{
	const char *value;
	size_t at = 0;

	CHECK_OK(read_line("run -e A=1 -m 1m -e B=2 -m 2m x"));
	CHECK(call_next(&call, OPT_ENV, &at, &value));
	CHECK_STR(value, "A=1");
	CHECK(call_next(&call, OPT_ENV, &at, &value));
	CHECK_STR(value, "B=2");
	CHECK(!call_next(&call, OPT_ENV, &at, &value));
	CHECK_STR(call_value(&call, OPT_MEMORY), "2m");
}

TEST(groups, "a verb may be two words")
{
	CHECK_OK(read_line("template rm x"));
	CHECK(call.verb->id == VERB_TEMPLATE_RM);
	CHECK_STR(call.words[0], "x");
	auto_err err = read_line("template list");

	CHECK(err && strstr(err_hint_of(err), "template ls"));
}

TEST(near, "a mistyped word gets a hint")
{
	auto_err verb = read_line("rnu x");
	auto_err hidden = read_line("pssx");
	auto_err option = read_line("run --memroy 5m x");

	CHECK(verb && strstr(err_hint_of(verb), "'cove run'"));
	CHECK(hidden && !strstr(err_hint_of(hidden), "pss'"));
	CHECK(option && strstr(err_hint_of(option), "--memory"));
	CHECK_STR(err_reason(option), "unknown_option");
}

TEST(refused, "verbs, options and words that are not in the table are refused")
{
	static const char *const lines[] = {
		"nonsense",	   "run --nonsense x", "run -z x", "run -m", "run --memory",
		"run --quiet=1 x", "ps --memory 5m",   "ps extra", "rm",     "template rm a b"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		CHECK_ERR(read_line(lines[i]), INVALID);
}

TEST(help, "asking for help needs no words")
{
	CHECK_OK(read_line("rm --help"));
	CHECK(call_has(&call, OPT_HELP));
}

TEST(distance, "the distance of words counts letters that differ")
{
	CHECK(call_distance("run", "run") == 0);
	CHECK(call_distance("run", "rum") == 1);
	CHECK(call_distance("", "run") == 3);
	CHECK(call_distance("exec", "exce") == 2);
	CHECK(call_distance("a", "0123456789012345678901234567890123456789") == 32);
}
