#include "gateway/urls.h"

#include "tap.h"

static const char *of(const char *domain, const char *bound, bool tls, bool by_path,
		      struct buf *out)
{
	struct urls urls = {0};
	bool is;

	buf_clear(out);
	err_free(urls_make(str_of(domain), str_of(bound), tls, &urls));
	is = by_path ? urls_path(&urls, "0123456789ab", 8080, "tok", out)
		     : urls_host(&urls, "0123456789ab", 8080, "tok", out);
	urls_done(&urls);
	return is ? out->at : "none";
}

TEST(hosts, "a preview is a subdomain, on our port unless the operator says otherwise")
{
	auto_buf out = BUF_INIT(512);

	CHECK_STR(of("localhost", "127.0.0.1:8485", false, false, &out),
		  "http://8080-0123456789ab-tok.localhost:8485/");
	CHECK_STR(of("p.example.org", "0.0.0.0:443", true, false, &out),
		  "https://8080-0123456789ab-tok.p.example.org/");
	CHECK_STR(of("https://p.example.org", "127.0.0.1:8485", false, false, &out),
		  "https://8080-0123456789ab-tok.p.example.org/");
	CHECK_STR(of("https://p.example.org:8443", "127.0.0.1:8485", false, false, &out),
		  "https://8080-0123456789ab-tok.p.example.org:8443/");
	CHECK_STR(of("p.example.org:81", "127.0.0.1:8485", false, false, &out),
		  "http://8080-0123456789ab-tok.p.example.org:81/");
	CHECK_STR(of("", "127.0.0.1:8485", false, false, &out), "none");
	CHECK_STR(of("localhost", "", false, false, &out), "none");
}

TEST(paths, "the path form is on the listener itself")
{
	auto_buf out = BUF_INIT(512);

	CHECK_STR(of("", "127.0.0.1:8485", false, true, &out),
		  "http://127.0.0.1:8485/8080-0123456789ab-tok/");
	CHECK_STR(of("localhost", "0.0.0.0:99,[::1]:98", true, true, &out),
		  "https://127.0.0.1:99/8080-0123456789ab-tok/");
	CHECK_STR(of("localhost", "[::]:99", false, true, &out),
		  "http://127.0.0.1:99/8080-0123456789ab-tok/");
	CHECK_STR(of("localhost", "", false, true, &out), "none");
}

TEST(refused, "a malformed domain is refused")
{
	static const char *const bad[] = {"a b", "127.0.0.1", "ftp://x.org", "x.org/path",
					  "https://[::1]"};
	struct urls urls = {0};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERR(urls_make(str_of(bad[i]), STR("127.0.0.1:1"), false, &urls), INVALID);
}
