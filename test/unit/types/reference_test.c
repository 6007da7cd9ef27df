#include "types/reference.h"

#include "tap.h"

static const char *canonical(const char *text)
{
	static char room[REFERENCE_MAX];
	struct reference reference;
	auto_buf out = BUF_INIT(REFERENCE_MAX);
	auto_err err = reference_read(str_of(text), &reference);

	if (err)
		return strcmp(err_reason(err), "bad_reference") != 0 ? err_reason(err) : "";
	reference_write(&reference, &out);
	snprintf(room, sizeof(room), "%s", out.at);
	return room;
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(forms, "short names get docker's host, its library and the tag latest")
{
	CHECK_STR(canonical("python"), "docker.io/library/python:latest");
	CHECK_STR(canonical("python:3.12"), "docker.io/library/python:3.12");
	CHECK_STR(canonical("org/app"), "docker.io/org/app:latest");
	CHECK_STR(canonical("index.docker.io/library/python"), "docker.io/library/python:latest");
	CHECK_STR(canonical("localhost/app"), "localhost/app:latest");
	CHECK_STR(canonical("Host.Example:5000/a/b-c__d.e:T_1"),
		  "host.example:5000/a/b-c__d.e:T_1");
	CHECK_STR(canonical("app:1@sha256:" HEX), "docker.io/library/app@sha256:" HEX);
}

TEST(bad, "anything else is refused")
{
	static const char *const bad[] = {
		"",	 "A",	  "a b",       "a:",	 ":a",	       "a//b",
		"/a",	 "a/",	  "a.",	       "a..b",	 "a___b",      "-a",
		"a:b:c", "h:0/a", "h:99999/a", "a@",	 "a@sha256:1", ("a@md5:" HEX),
		"a.b/",	 "a?b",	  "a%2f",      ".b.c/a", "a:-x",       "a:.x",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_STR(canonical(bad[i]), "");
}

static bool fits(const char *image, const char *pattern)
{
	struct reference reference;
	auto_err err = reference_read(str_of(image), &reference);

	return !err && reference_is_pattern(str_of(pattern)) &&
	       reference_matches(&reference, pattern);
}

TEST(patterns, "a pattern is that of the canonical form, or of host and path")
{
	CHECK(fits("python", "*") && fits("python", "docker.io/library/*"));
	CHECK(fits("python:3", "docker.io/library/python"));
	CHECK(fits("python:3", "docker.io/library/python:3"));
	CHECK(fits("ghcr.io/a/b:1", "*.io/*/b:1") && fits("ghcr.io/a/b:1", "ghcr.io/a/b*"));
	CHECK(!fits("python:33", "docker.io/library/python:3"));
	CHECK(!fits("pythonx", "docker.io/library/python") && !fits("ghcr.io/a", "docker.io/*"));
	CHECK(!fits("python:3@sha256:" HEX, "docker.io/library/python:3")); // the digest decides
	CHECK(!fits("python", "python") && !fits("python", "") && !fits("python", "docker.io/ *"));
}

TEST(names, "a template is called after the last component and the tag")
{
	struct reference reference;
	auto_buf out = BUF_INIT(256);

	CHECK_OK(reference_read(STR("ghcr.io/org/app:V1.0"), &reference));
	reference_template(&reference, &out);
	CHECK_STR(out.at, "app-v1.0");
	buf_clear(&out);
	CHECK_OK(reference_read(STR("app@sha256:" HEX), &reference));
	reference_template(&reference, &out);
	CHECK_STR(out.at, "app-0123456789ab");
}
