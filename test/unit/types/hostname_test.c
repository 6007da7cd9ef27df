#include "types/hostname.h"

#include "tap.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static enum hostname_kind kind_of(const char *text, char out[HOSTNAME_MAX + 1])
{
	return hostname_read(str_of(text), out);
}

TEST(normal, "NET-6 b a name is lower case, without the dot at its end")
{
	static const char *const names[][2] = {{"Example.COM", "example.com"},
					       {"example.com.", "example.com"},
					       {"localhost", "localhost"},
					       {"xn--bcher-kva.example", "xn--bcher-kva.example"},
					       {"1e100.net", "1e100.net"},
					       {"r3---sn-ab.example", "r3---sn-ab.example"},
					       {"1.2.3.4.nip.io", "1.2.3.4.nip.io"}};
	char out[HOSTNAME_MAX + 1];

	for (size_t i = 0; i < COUNT(names); i++) {
		CHECK(kind_of(names[i][0], out) == HOSTNAME_NAME);
		CHECK_STR(out, names[i][1]);
	}
}

TEST(refused, "NET-6 b what is no host's name is none, and leaves nothing behind")
{
	static const char *const names[] = {
		"",	     ".",	   "..",	   "a..b",	  ".a",
		"a.b..",     "-a.example", "a-.example",   "a_b.example", "a b",
		"a\tb",	     "a/b",	   "b\xc3\xbc.de", "*.a",	  "a@b",
		"a%2eb",     "127.1",	   "0x7f.1",	   "2130706433",  "0x7f000001",
		"1.2.3.4.5", "256.1.1.1",  "1.2.3.0x",	   "01.2.3.4",	  "a.1",
		"a.0x1",     "[::1]",	   "::1%lo",	   "1:2"};
	char out[HOSTNAME_MAX + 1];

	for (size_t i = 0; i < COUNT(names); i++) {
		memset(out, 'x', sizeof(out));
		if (kind_of(names[i], out) == HOSTNAME_BAD && !out[0])
			continue;
		printf("# %s\n", names[i]);
		CHECK(false);
	}
	CHECK(hostname_read((struct str){"a\0.example", 10}, out) == HOSTNAME_BAD);
	CHECK(hostname_read((struct str){"example.com\0.evil.example", 24}, out) == HOSTNAME_BAD);
}

TEST(literals, "NET-6 b an address is told apart, in one form")
{
	static const char *const literals[][2] = {{"10.0.2.15", "10.0.2.15"},
						  {"10.0.2.15.", "10.0.2.15"},
						  {"::1", "::1"},
						  {"FE80::0:1", "fe80::1"},
						  {"::ffff:169.254.169.254", "169.254.169.254"}};
	char out[HOSTNAME_MAX + 1];

	for (size_t i = 0; i < COUNT(literals); i++) {
		CHECK(kind_of(literals[i][0], out) == HOSTNAME_LITERAL);
		CHECK_STR(out, literals[i][1]);
	}
}

TEST(lengths, "63 bytes of a label and 253 of a name, not one more")
{
	char text[300], out[HOSTNAME_MAX + 1];

	memset(text, 'a', sizeof(text));
	CHECK(hostname_read((struct str){text, 63}, out) == HOSTNAME_NAME);
	CHECK(hostname_read((struct str){text, 64}, out) == HOSTNAME_BAD);
	for (size_t i = 50; i < sizeof(text); i += 51)
		text[i] = '.';
	CHECK(hostname_read((struct str){text, 253}, out) == HOSTNAME_NAME);
	CHECK(strlen(out) == 253);
	CHECK(hostname_read((struct str){text, 254}, out) == HOSTNAME_BAD);
	text[253] = '.';
	CHECK(hostname_read((struct str){text, 254}, out) == HOSTNAME_NAME);
}

TEST(host_field, "a Host field has a name and perhaps a port")
{
	char out[HOSTNAME_MAX + 1];
	uint16_t port = 7;

	CHECK(hostname_read_host(STR("Example.com"), out, &port) == HOSTNAME_NAME && port == 0);
	CHECK(hostname_read_host(STR("example.com:8443"), out, &port) == HOSTNAME_NAME);
	CHECK_STR(out, "example.com");
	CHECK(port == 8443);
	CHECK(hostname_read_host(STR("[::1]:443"), out, &port) == HOSTNAME_LITERAL && port == 443);
	CHECK_STR(out, "::1");
	static const char *const bad[] = {"",	       ":80",	  "a:",	   "a:0",    "a:65536",
					  "a:b",       "a:80:80", "[::1",  "[::1]x", "[a]",
					  "[1.2.3.4]", "::1:80",  "[]:80", "a:+80",  "[::1]]:80"};

	port = 7;
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(hostname_read_host(str_of(bad[i]), out, &port) == HOSTNAME_BAD);
	CHECK(port == 7);
}

TEST(beneath, "a name lies beneath a domain at a dot only")
{
	CHECK(hostname_is_beneath("a.b.c", "b.c"));
	CHECK(hostname_is_beneath("b.c", "b.c"));
	CHECK(!hostname_is_beneath("ab.c", "b.c"));
	CHECK(!hostname_is_beneath("c", "b.c"));
	CHECK(!hostname_is_beneath("b.c", ""));
}

TEST(preview, "a preview's host is taken apart and put together")
{
	struct hostname_preview preview;
	auto_buf out = BUF_INIT(256);

	CHECK(hostname_read_preview(STR("8080-0123456789ab-tok_en1.Preview.test:8485"),
				    "preview.test:9000", &preview));
	CHECK(preview.port == 8080);
	CHECK_STR(preview.id, "0123456789ab");
	CHECK_STR(preview.token, "tok_en1");
	CHECK(hostname_write_preview(&preview, "preview.test:9000", &out));
	CHECK_STR(out.at, "8080-0123456789ab-tok_en1.preview.test:9000");
	CHECK(hostname_read_preview(STR("80-my-long-name-x.localhost"), "localhost", &preview));
	CHECK(preview.port == 80);
	CHECK_STR(preview.id, "my-long-name");
	CHECK_STR(preview.token, "x");
	CHECK(hostname_read_preview(STR("80-NAME-X.localhost."), "localhost", &preview));
	CHECK_STR(preview.id, "name");
	CHECK(hostname_read_preview(STR("80-0123456789ab.localhost"), "localhost", &preview));
	CHECK(preview.port == 80 && !preview.token[0]);
	CHECK_STR(preview.id, "0123456789ab");
	buf_clear(&out);
	CHECK(hostname_write_preview(&preview, "localhost", &out));
	CHECK_STR(out.at, "80-0123456789ab.localhost");
}

TEST(no_preview, "V-01 what is no preview's host is refused")
{
	static const char *const bad[] = {
		"",
		"preview.test",
		"x.preview.test",
		"80-name.preview.test",
		"80-name-.preview.test",
		"80--x.preview.test",
		"0-name-x.preview.test",
		"080-name-x.preview.test",
		"65536-name-x.preview.test",
		"-1-name-x.preview.test",
		"80-name-x.other.test",
		"80-name-x.a.preview.test",
		"80-name-x.preview.test.evil",
		"80-name-x",
		"80-name-x.",
		"80-na_me-x.preview.test",
		"80-name-12345678901234567.preview.test",
		"80-name-x.preview.test:x",
		"80-name-\xc3\xbc.preview.test",
	};
	struct hostname_preview preview;
	auto_buf out = BUF_INIT(256);

	for (size_t i = 0; i < COUNT(bad); i++) {
		if (!hostname_read_preview(str_of(bad[i]), "preview.test", &preview))
			continue;
		printf("# %s\n", bad[i]);
		CHECK(false);
	}
	CHECK(!hostname_read_preview((struct str){"80-name-x\0.preview.test", 23}, "preview.test",
				     &preview));
	memset(&preview, 0, sizeof(preview));
	preview.port = 65535;
	memset(preview.id, 'a', 50);
	memset(preview.token, 'b', 16);
	CHECK(!hostname_write_preview(&preview, "preview.test", &out) && !out.len);
}
