// The script that brings one shell to the state of another. The texts are bash's; that bash does
// what they say is tried with a real one in test/e2e/process.t.
#include "protocol/shell_state.h"

#include "tap.h"

#define PLAIN                                                                                      \
	"declare -r BASHOPTS=\"cmdhist:extquote\"\ndeclare -x HOME=\"/root\"\n"                    \
	"declare -i RANDOM\ndeclare -r SHELLOPTS=\"braceexpand:hashall\"\n"
#define STATE(variables, functions, rest) variables "\0" functions "\0" rest "\0/tmp\0y\0\0"
#define TEXT(literal) ((struct str){literal, sizeof(literal) - 1})

static bool changes(struct str from, struct str to, const char *wanted, const char *options)
{
	auto_buf out = BUF_INIT(65536), set = BUF_INIT(65536);
	struct shell_state here, there;

	if (!shell_state_read(from, &here) || !shell_state_read(to, &there) ||
	    !shell_state_change(&here, &there, &out, &set))
		return false;
	return str_is(out.len ? buf_view(&out) : STR(""), wanted) &&
	       str_is(set.len ? buf_view(&set) : STR(""), options);
}

TEST(same, "a shell in the same state has nothing to do")
{
	CHECK(changes(TEXT(STATE(PLAIN, "", "umask 0022\n")),
		      TEXT(STATE(PLAIN, "", "umask 0022\n")), "", ""));
}

TEST(variables, "a variable that differs is declared again, one that is gone is unset")
{
	struct str from = TEXT(STATE(PLAIN "declare -x A=\"1\"\ndeclare -- B=\"2\"\n", "", ""));

	CHECK(changes(from, TEXT(STATE(PLAIN "declare -x A=\"1\"\ndeclare -- B=\"3\"\n", "", "")),
		      "declare -- B=\"3\";", ""));
	CHECK(changes(from, TEXT(STATE(PLAIN "declare -x A=\"1\"\n", "", "")),
		      "\\builtin unset -v B;", ""));
	CHECK(changes(from, TEXT(STATE(PLAIN "declare -- A=\"1\"\ndeclare -- B=\"2\"\n", "", "")),
		      "\\builtin unset -v A;declare -- A=\"1\";", ""));
}

TEST(passing, "variables that every command changes, and ours, are left out")
{
	CHECK(changes(TEXT(STATE(PLAIN, "", "")),
		      TEXT(STATE(PLAIN "declare -a PIPESTATUS=([0]=\"1\")\ndeclare -- _=\"x\"\n"
				       "declare -- __cove_s=\"0\"\ndeclare -i SECONDS=\"5\"\n",
				 "", "")),
		      "", ""));
}

TEST(newlines, "a value with newlines in quotes of any kind is one value")
{
	CHECK(changes(
		TEXT(STATE(PLAIN, "", "")),
		TEXT(STATE(PLAIN "declare -- A=\"x\ndeclare -i RANDOM\n\\\"\ny\"\n"
				 "declare -- B=$'it\\'s\n\"'\ndeclare -a C=([0]='\\' [1]=\"2\")\n",
			   "", "")),
		"declare -- A=\"x\ndeclare -i RANDOM\n\\\"\ny\";declare -- B=$'it\\'s\n\"';"
		"declare -a C=([0]='\\' [1]=\"2\");",
		""));
}

TEST(options, "options are turned on and off, those of set apart")
{
	CHECK(changes(TEXT(STATE(PLAIN, "", "")),
		      TEXT(STATE("declare -r BASHOPTS=\"cmdhist:nullglob\"\n"
				 "declare -x HOME=\"/root\"\ndeclare -i RANDOM\n"
				 "declare -r SHELLOPTS=\"braceexpand:errexit\"\n",
				 "", "")),
		      "\\builtin shopt -u extquote;\\builtin shopt -s nullglob;",
		      "\\builtin set +o hashall;\\builtin set -o errexit;"));
}

#define OURS                                                                                       \
	"__cove_end () \n{ \n    x\n}\ndeclare -fr __cove_end\n"                                   \
	"__cove_keep () \n{ \n    y\n}\ndeclare -fr __cove_keep\n"
#define THEIRS "f () \n{ \n    echo 1\n}\n"

TEST(functions, "functions are taken over, but not ours")
{
	CHECK(changes(TEXT(STATE(PLAIN, "", "")), TEXT(STATE(PLAIN, OURS, "")), "", ""));
	CHECK(changes(TEXT(STATE(PLAIN, "", "")), TEXT(STATE(PLAIN, OURS THEIRS, "")), THEIRS, ""));
	CHECK(changes(TEXT(STATE(PLAIN, THEIRS, "")), TEXT(STATE(PLAIN, OURS THEIRS, "")), "", ""));
}

TEST(no_functions, "functions cannot be taken away")
{
	auto_buf out = BUF_INIT(65536), set = BUF_INIT(65536);
	struct shell_state here, there;

	CHECK(shell_state_read(TEXT(STATE(PLAIN, THEIRS, "")), &here));
	CHECK(shell_state_read(TEXT(STATE(PLAIN, OURS, "")), &there));
	CHECK(!shell_state_change(&here, &there, &out, &set));
}

TEST(fixed, "readonly variables can be set, but not removed")
{
	auto_buf out = BUF_INIT(65536), set = BUF_INIT(65536);
	struct shell_state here, there;

	CHECK(changes(TEXT(STATE(PLAIN, "", "")), TEXT(STATE(PLAIN "declare -r X=\"1\"\n", "", "")),
		      "declare -r X=\"1\";", ""));
	CHECK(changes(TEXT(STATE(PLAIN "declare -r X=\"1\"\n", "", "")),
		      TEXT(STATE(PLAIN "declare -r X=\"1\"\n", "", "")), "", ""));
	CHECK(shell_state_read(TEXT(STATE(PLAIN "declare -r X=\"1\"\n", "", "")), &here));
	CHECK(shell_state_read(TEXT(STATE(PLAIN, "", "")), &there));
	CHECK(!shell_state_change(&here, &there, &out, &set));
	CHECK(!changes(TEXT(STATE(PLAIN, "", "")),
		       TEXT(STATE(PLAIN "declare -rx LC_ALL=\"C\"\n", "", "")), "", ""));
}

TEST(rest, "aliases and arguments are taken over whole")
{
	CHECK(changes(TEXT(STATE(PLAIN, "", "alias a='b'\numask 0022\nset -- x\n")),
		      TEXT(STATE(PLAIN, "", "alias c='d'\numask 0022\n")),
		      "\\builtin unalias -a;\\builtin set --;alias c='d'\numask 0022\n", ""));
}

TEST(place, "it says whether its directory is still where it was")
{
	struct shell_state state;

	CHECK(shell_state_read(TEXT(STATE(PLAIN, "", "")), &state) && state.stands);
	CHECK(str_is(state.place, "/tmp"));
	CHECK(shell_state_read(TEXT(PLAIN "\0\0\0/gone\0\0\0"), &state) && !state.stands);
}

#define LIMITS(files, stack)                                                                       \
	"Max stack size            " stack " bytes     \nMax open files            " files         \
	" files     \n"
#define LIMITED(files, stack) PLAIN "\0\0\0/tmp\0y\0" LIMITS(files, stack) "\0"

TEST(limits, "limits that differ are set behind the options, and one that is lower is not raised")
{
	struct str from = TEXT(LIMITED("1024    4096", "8388608 unlimited"));

	CHECK(changes(from, from, "", ""));
	CHECK(changes(from, TEXT(LIMITED("128 128", "8388608 unlimited")), "",
		      "\\builtin ulimit -Sn 128||:;\\builtin ulimit -Hn 128||:;"));
	CHECK(changes(from, TEXT(LIMITED("1024 4096", "4194304 unlimited")), "",
		      "\\builtin ulimit -Ss 4096||:;"));
	CHECK(!changes(from, TEXT(LIMITED("1024 4097", "8388608 unlimited")), "", ""));
	CHECK(!changes(from, TEXT(LIMITED("1024 unlimited", "1 1")), "", ""));
}

TEST(dumps, "the limits of a dump become commands of it")
{
	auto_buf out = BUF_INIT(4096);

	CHECK(shell_read_dump(TEXT("x=1\n\0" LIMITS("5 7", "6144 unlimited")), &out));
	CHECK_STR(out.at, "x=1\n\\builtin ulimit -Sn 5||:;\\builtin ulimit -Hn 7||:;"
			  "\\builtin ulimit -Ss 6||:;\\builtin ulimit -Hs unlimited||:;\n");
	CHECK(!shell_read_dump(TEXT("x=1\n"), &out));
}

TEST(nonsense, "malformed state is refused")
{
	struct shell_state state;

	CHECK(!shell_state_read(TEXT(""), &state));
	CHECK(!shell_state_read(TEXT(PLAIN), &state));
	CHECK(!shell_state_read(TEXT(PLAIN "\0\0\0/tmp\0y\0"), &state));
	CHECK(!shell_state_read(TEXT(PLAIN "\0\0\0tmp\0y\0\0"), &state));
	CHECK(!shell_state_read(TEXT(STATE(PLAIN, "", "") "more"), &state));
	CHECK(!changes(TEXT(STATE(PLAIN, "", "")), TEXT(STATE("export A=1\n", "", "")), "", ""));
	CHECK(!changes(TEXT(STATE(PLAIN, "", "")), TEXT(STATE("declare -x\n", "", "")), "", ""));
}

TEST(cue, "a cue is counted in bytes, and holds the change and the command")
{
	auto_buf out = BUF_INIT(65536);
	struct str rest, count;
	uint64_t number;

	shell_cue(&out, STR("/a b"), STR("declare -- A='1';"), STR("\\eval 'echo h\xc3\xa9'"));
	rest = buf_view(&out);
	CHECK(str_cut(&rest, '\n', &count) && str_to_u64(count, 1, 65536, &number));
	CHECK(number == rest.len && buf_ok(&out));
	CHECK(memmem(rest.at, rest.len, "cd -- '/a b'", 12) != NULL);
	CHECK(memmem(rest.at, rest.len, "A='\\''1'\\'';", 12) != NULL);
	CHECK(str_ends(rest, "\\eval 'echo h\xc3\xa9'"));
}
