#include "codec/url.h"

#include "tap.h"

TEST(targets, "a target is split into path and query")
{
	struct url url;

	CHECK(url_target(STR("/v1/a%20b?x=1&y"), &url));
	CHECK(str_is(url.path, "/v1/a%20b") && str_is(url.query, "x=1&y"));
	CHECK(url.scheme.len == 0 && url.host.len == 0 && url.port == 0);
	CHECK(url_target(STR("/"), &url) && str_is(url.path, "/") && url.query.len == 0);
	CHECK(url_target(STR("/?"), &url) && str_is(url.path, "/") && url.query.len == 0);
	CHECK(url_target(STR("//x?a?b"), &url) && str_is(url.query, "a?b"));
}

TEST(bad_targets, "a target without a slash, with a fragment or a control character is none")
{
	static const char *const bad[] = {"",	  "x",	  "*",	    "?a",    "/a#b",
					  "/a b", "/a\n", "/a\x7f", "/\x80", "http://x/"};
	struct url url = {.port = 7};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!url_target(str_of(bad[i]), &url));
	CHECK(!url_target(STR("/a\0b"), &url) && url.port == 7);
}

TEST(absolute, "an absolute URL gives host, port and path")
{
	struct url url;

	CHECK(url_absolute(STR("http://127.0.0.1:8484"), &url));
	CHECK(str_is(url.scheme, "http") && str_is(url.host, "127.0.0.1") && url.port == 8484);
	CHECK(str_is(url.path, "/"));
	CHECK(url_absolute(STR("HTTP://box.example/x/y?z"), &url));
	CHECK(str_is(url.host, "box.example") && url.port == 0 && str_is(url.path, "/x/y"));
	CHECK(str_is(url.query, "z"));
	CHECK(url_absolute(STR("https://[::1]:1/"), &url));
	CHECK(str_is(url.scheme, "https") && str_is(url.host, "::1") && url.port == 1);
}

TEST(bad_absolute, "a malformed URL is refused, also one with a user or an odd port")
{
	static const char *const bad[] = {"",
					  "http://",
					  "http:///x",
					  "ftp://x",
					  "http:/x",
					  "http://a@b",
					  "http://a:b@c",
					  "http://a:",
					  "http://a:0",
					  "http://a:65536",
					  "http://a:+1",
					  "http://a:000080",
					  "http://[::1",
					  "http://[]",
					  "http://[::1]x",
					  "http://a b",
					  "http://a\nb",
					  "http://a/#x",
					  "http://a#x",
					  "http://a?x",
					  "http://\xc3\xa4",
					  "http://a/\x01",
					  "http://[::1]:",
					  "http://a:1:2"};
	struct url url;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!url_absolute(str_of(bad[i]), &url));
}

TEST(pairs, "a query is walked pair by pair")
{
	struct str rest = STR("&a=1&&b&c=&=d&e=f=g"), key, value;
	static const char *const want[] = {"a", "1", "b", "", "c", "", "", "d", "e", "f=g"};
	size_t n = 0;

	for (; url_pair(&rest, &key, &value); n += 2)
		CHECK(n < 10 && str_is(key, want[n]) && str_is(value, want[n + 1]));
	CHECK(n == 10);
	rest = (struct str){NULL, 0};
	CHECK(!url_pair(&rest, &key, &value));
}

TEST(values, "a value is decoded, plus to blank; malformed ones leave nothing behind")
{
	auto_buf out = BUF_INIT(100);
	struct str query = STR("a=1&na%6de=x+y%2B%20z&bad=abc%zz&nul=%00&a=2");

	CHECK(url_query(query, "name", &out));
	CHECK_STR(out.at, "x y+ z");
	buf_clear(&out);
	CHECK(url_query(query, "a", &out));
	CHECK_STR(out.at, "1");
	buf_clear(&out);
	CHECK(!url_query(query, "bad", &out) && !url_query(query, "nul", &out));
	CHECK(!url_query(query, "absent", &out) && !url_query(query, "nam", &out));
	CHECK(!url_query(query, "names", &out) && out.len == 0);
}
