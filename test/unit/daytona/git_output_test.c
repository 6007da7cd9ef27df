#include "daytona/git_output.h"

#include "tap.h"

#define TEXT(literal) ((struct str){literal, sizeof(literal) - 1})

static bool status_is(struct str text, const char *want)
{
	auto_buf body = BUF_INIT(1 << 16);
	struct json_out out = json_to(&body);

	if (!git_output_status(text, &out))
		return !want;
	if (want && str_is(buf_view(&body), want))
		return true;
	printf("# " STR_FMT "\n", STR_ARG(buf_view(&body)));
	return false;
}

#define HASHES " N... 100644 100644 100644 aa bb "

TEST(status, "entries of all kinds are read")
{
	CHECK(status_is(
		TEXT("# branch.oid ab\0# branch.head main\0# branch.upstream o/main\0"
		     "# branch.ab +2 -1\0"
		     "1 .M" HASHES "a b\0? new\0"
		     "2 R. N... 100644 100644 100644 aa bb R100 to\0from\0"
		     "u UU N... 1 2 3 4 aa bb cc both\0"),
		"{\"fileStatus\":["
		"{\"name\":\"a "
		"b\",\"staging\":\"Unmodified\",\"worktree\":\"Modified\",\"extra\":\"\"},"
		"{\"name\":\"new\",\"staging\":\"Untracked\",\"worktree\":\"Untracked\",\"extra\":"
		"\"\"},"
		"{\"name\":\"to\",\"staging\":\"Renamed\",\"worktree\":\"Unmodified\",\"extra\":"
		"\"from\"},"
		"{\"name\":\"both\",\"staging\":\"Updated but unmerged\","
		"\"worktree\":\"Updated but unmerged\",\"extra\":\"\"}],"
		"\"currentBranch\":\"main\",\"branchPublished\":true,\"ahead\":2,\"behind\":1,"
		"\"detached\":false,\"upstream\":\"o/main\"}"));
	CHECK(status_is(TEXT("# branch.head (detached)\0"),
			"{\"fileStatus\":[],\"currentBranch\":\"HEAD\",\"branchPublished\":false,"
			"\"ahead\":0,\"behind\":0,\"detached\":true}"));
}

TEST(malformed, "a record that is malformed is refused")
{
	CHECK(status_is(TEXT("1 .M short\0"), NULL));
	CHECK(status_is(TEXT("1\0"), NULL));
	CHECK(status_is(TEXT("x what\0"), NULL));
	CHECK(status_is(TEXT("? \0"), NULL));
	CHECK(status_is(TEXT("\0"), NULL));
}

TEST(history, "commits are fields that end with NUL")
{
	auto_buf body = BUF_INIT(1 << 16);
	struct json_out out = json_to(&body);

	git_output_history(TEXT("ab\0n\0e\0t\0m\n\0cd\0"), &out);
	CHECK(str_starts(buf_view(&body),
			 "[{\"hash\":\"ab\",\"author\":\"n\",\"email\":\"e\","
			 "\"timestamp\":\"t\",\"message\":\"m\\n\"},{\"hash\":\"cd\""));
}
