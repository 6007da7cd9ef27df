#include "cloudflare/path.h"

#include "base/id.h"
#include "tap.h"

TEST(ids, "a new id has 26 characters of base32 and is good as a name")
{
	char a[PATH_ID_LEN + 1], b[PATH_ID_LEN + 1];

	for (int i = 0; i < 1000; i++) {
		path_new_id(a);
		CHECK(strlen(a) == PATH_ID_LEN && path_is_id(str_of(a)) && id_is_name(str_of(a)));
	}
	path_new_id(b);
	CHECK(strcmp(a, b) != 0);
}

TEST(bad_ids, "other characters, or the form of a cove id, are refused")
{
	CHECK(path_is_id(STR("a")) && path_is_id(STR("mfrggzdfmy2tqnrzgezdgnbvay")));
	CHECK(!path_is_id(STR("")) && !path_is_id(STR("A")) && !path_is_id(STR("a1")));
	CHECK(!path_is_id(STR("a-b")) && !path_is_id(STR("a/b")) && !path_is_id(STR("..")));
	CHECK(!path_is_id(STR("abcdef234567")) && !path_is_id(STR("a\0b")));
}

TEST(sessions, "names of sessions have their grammar")
{
	CHECK(path_is_session(STR("a")) && path_is_session(STR("A.b_c-9")));
	CHECK(!path_is_session(STR("")) && !path_is_session(STR("a..b")));
	CHECK(!path_is_session(STR("a b")) && !path_is_session(STR("a/b")));
}

static const char *resolved(struct str path)
{
	static char text[256];
	auto_buf out = BUF_INIT(255);

	if (!path_resolve(path, &out))
		return "out";
	snprintf(text, sizeof(text), STR_FMT, STR_ARG(buf_view(&out)));
	return text;
}

TEST(paths, "dots are resolved, and a path that leads out of the workspace is refused")
{
	CHECK_STR(resolved(STR("/workspace")), "/workspace");
	CHECK_STR(resolved(STR("/workspace/")), "/workspace");
	CHECK_STR(resolved(STR("/workspace//a/./b/../c")), "/workspace/a/c");
	CHECK_STR(resolved(STR("a/b")), "/workspace/a/b");
	CHECK_STR(resolved(STR("../workspace/x")), "/workspace/x");
	CHECK_STR(resolved(STR("/../../workspace/x")), "/workspace/x");
	CHECK_STR(resolved(STR("..")), "out");
	CHECK_STR(resolved(STR("/workspace/..")), "out");
	CHECK_STR(resolved(STR("/workspacex")), "out");
	CHECK_STR(resolved(STR("/etc/passwd")), "out");
	CHECK_STR(resolved(STR("/workspace/../etc")), "out");
	CHECK_STR(resolved(STR("")), "out");
	CHECK_STR(resolved(STR("a\0b")), "out");
}

TEST(escapes, "a path is escaped but for its slashes")
{
	auto_buf out = BUF_INIT(255);

	path_escape(STR("/workspace/a b/%?#"), &out);
	CHECK_STR(out.at, "/workspace/a%20b/%25%3F%23");
}

TEST(quotes, "a word is quoted for bash, whatever is in it")
{
	auto_buf out = BUF_INIT(255);

	path_quote(STR("a'b $x\n"), &out);
	CHECK_STR(out.at, "'a'\\''b $x\n'");
	buf_clear(&out);
	path_quote(STR(""), &out);
	CHECK_STR(out.at, "''");
}
