#include "cli/forward.h"

#include "tap.h"

TEST(reads, "a word names a local address and a port in the sandbox")
{
	static const struct {
		const char *word, *listen;
		unsigned port;
	} rows[] = {
		{"8080:80", "127.0.0.1:8080", 80},	   {"5432", "127.0.0.1:5432", 5432},
		{"0:5432", "127.0.0.1:0", 5432},	   {"0.0.0.0:80:3000", "0.0.0.0:80", 3000},
		{"[::1]:8080:65535", "[::1]:8080", 65535},
	};
	struct forward_spec spec;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK_OK(forward_read(rows[i].word, &spec));
		CHECK_STR(spec.listen, rows[i].listen);
		CHECK(spec.port == rows[i].port);
	}
}

TEST(refuses, "a malformed pair of ports is refused")
{
	static const char *const bad[] = {"",	  ":",	      "a",	  "80:",  ":80",
					  "80:0", "65536:80", "80:65536", "80:x", "0"};
	struct forward_spec spec;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_ERR(forward_read(bad[i], &spec), INVALID);
}
