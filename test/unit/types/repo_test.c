#include "types/repo.h"

#include "tap.h"

static bool passes(const char *url)
{
	struct err *err = repo_check(str_of(url));
	bool good = !err;

	err_free(err);
	return good;
}

TEST(plain, "a URL of every plain kind passes")
{
	static const char *const good[] = {
		"https://example.com/a/b.git",
		"http://u:p@example.com/a",
		"git://example.com/a",
		"ssh://git@example.com:22/a",
		"git@example.com:a/b.git",
		"file:///tmp/repo",
		"/tmp/repo",
		"HTTPS://EXAMPLE.COM/x",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(passes(good[i]));
}

TEST(tricks, "what would run a helper, be an option or break a line is refused")
{
	static const char *const bad[] = {
		"",
		"ext::sh -c id",
		"--upload-pack=touch /tmp/x",
		"-u",
		"ssh://-oProxyCommand=id/x",
		"ssh://git@-oProxyCommand=id/x",
		"-oProxyCommand=id:x",
		"git@-oProxyCommand=id:x",
		"https://example.com/a\nb",
		"https:///a",
		"fd::17/foo",
		"ftp://example.com/a",
		"javascript://x",
		"https://",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!passes(bad[i]));
}

TEST(branch, "a branch is a name, not an option")
{
	static const char *const bad[] = {"", "-b", "a b", "a..b~1", "x^{}", "a:b"};
	struct err *err = repo_check_branch(STR("feature/one-2.0"));

	CHECK(!err);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		err = repo_check_branch(str_of(bad[i]));
		CHECK(err);
		err_free(err);
	}
}

TEST(name, "the directory is named like the repository")
{
	CHECK(str_is(repo_name(STR("https://example.com/a/b.git")), "b"));
	CHECK(str_is(repo_name(STR("https://example.com/a/b/")), "b"));
	CHECK(str_is(repo_name(STR("git@example.com:a/c.git")), "c"));
	CHECK(str_is(repo_name(STR("git@example.com:d")), "d"));
	CHECK(str_is(repo_name(STR("https://example.com/.git")), "repository"));
	CHECK(str_is(repo_name(STR("/")), "repository"));
	CHECK(str_is(repo_name(STR("/a/..")), "repository"));
}

TEST(redact, "credentials and secret parameters are made unreadable")
{
	auto_buf out = BUF_INIT(1024);

	repo_redact(&out, STR("clone https://user:pw@h/x?a=1&token=abc&b=2 and "
			      "http://t@h?X-Amz-Signature=zz"));
	CHECK_STR(out.at, "clone https://******@h/x?a=1&token=REDACTED&b=2 and "
			  "http://******@h?X-Amz-Signature=REDACTED");
	buf_clear(&out);
	repo_redact(&out, STR("https://host/a@b is plain"));
	CHECK_STR(out.at, "https://host/a@b is plain");
}
