#include "toolbox/mime.h"

#include "tap.h"

TEST(by_name, "extensions have the names that Cloudflare's server gives them")
{
	static const char *const env_map[][2] = {
		{"/a/b.ts", "text/javascript"},	  {"x.TSX", "text/javascript"},
		{"a.py", "text/plain"},		  {"/etc/x.ini", "text/plain"},
		{"README.md", "text/markdown"},	  {"a.yaml", "text/yaml"},
		{"a.toml", "application/toml"},	  {"a.sh", "application/x-sh"},
		{"a.xml", "application/xml"},	  {"a.sql", "application/x-sql"},
		{"a.tar.gz", "application/gzip"}, {"a.svg", "image/svg+xml"},
	};

	for (size_t i = 0; i < sizeof(env_map) / sizeof(*env_map); i++)
		CHECK_STR(mime_by_name(str_of(env_map[i][0])), env_map[i][1]);
}

TEST(no_extension, "a dot in front, a dot in a directory, a blank or none at all is no extension")
{
	CHECK(!mime_by_name(STR("/home/.json")));
	CHECK(!mime_by_name(STR("/a.json/file")));
	CHECK(!mime_by_name(STR("Makefile")));
	CHECK(!mime_by_name(STR("a.")));
	CHECK(!mime_by_name(STR("a.js ts")));
	CHECK(!mime_by_name(STR("a. ")));
	CHECK(!mime_by_name(STR("")));
	CHECK(!mime_by_name(STR(".")));
	CHECK(!mime_by_name(STR("a.averyverylongextension")));
}

TEST(by_bytes, "a file without a known extension is recognized by its bytes")
{
	CHECK_STR(mime_by_bytes(STR(""), true), "inode/x-empty");
	CHECK_STR(mime_by_bytes(STR("hello\n"), true), "text/plain");
	CHECK_STR(mime_by_bytes(STR("gr\xc3"), false), "text/plain");
	CHECK_STR(mime_by_bytes(STR("gr\xc3"), true), "application/octet-stream");
	CHECK_STR(mime_by_bytes(STR("a\0b"), true), "application/octet-stream");
	CHECK_STR(mime_by_bytes(STR("\x89PNG\r\n\x1a\n...."), true), "image/png");
	CHECK_STR(mime_by_bytes(STR("PK\x03\x04"), true), "application/zip");
}

TEST(text, "text is what Cloudflare's SDK calls text")
{
	CHECK(mime_is_text("text/anything"));
	CHECK(mime_is_text("image/svg+xml"));
	CHECK(mime_is_text("application/ld+json"));
	CHECK(mime_is_text("application/json"));
	CHECK(mime_is_text("application/x-sh"));
	CHECK(mime_is_text("application/toml"));
	CHECK(mime_is_text("inode/x-empty"));
	CHECK(!mime_is_text("application/x-sql"));
	CHECK(!mime_is_text("application/octet-stream"));
	CHECK(!mime_is_text("image/png"));
}
