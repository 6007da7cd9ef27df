#include "toolbox/files.h"

#include "tap.h"

TEST(modes, "a mode is read in octal or in letters")
{
	static const struct {
		const char *text;
		uint32_t mode;
	} rows[] = {{"0755", 0755},	 {"644", 0644},	  {"0", 0},
		    {"04755", 04755},	 {"7777", 07777}, {"rwxr-xr-x", 0755},
		    {"rw-------", 0600}, {"---------", 0}};
	static const char *const bad[] = {"",	    "8",   "-1",	"10000",
					  "000000", "rwx", "rwxrwxrwy", "0o755"};
	uint32_t mode = 1;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK(entry_mode(str_of(rows[i].text), &mode));
		CHECK(mode == rows[i].mode);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!entry_mode(str_of(bad[i]), &mode));
}

TEST(fields, "an entry has type, size, time, mode and the owner's rights")
{
	auto_buf text = BUF_INIT(4096);
	struct json_out out = json_to(&text);
	struct fileop_stat stat = {.type = FILEOP_SYMLINK,
				   .mode = 06755 | 01000,
				   .size = 7,
				   .mtime_us = 981173106789000};

	json_begin(&out, '{');
	entry_put_stat(&out, &stat);
	json_end(&out, '}');
	CHECK_STR(text.at, "{\"type\":\"symlink\",\"size\":7,\"modifiedAt\":"
			   "\"2001-02-03T04:05:06.789Z\",\"mode\":\"rwsr-sr-t\",\"permissions\":"
			   "{\"readable\":true,\"writable\":true,\"executable\":true}}");
}

TEST(times, "times out of range become the nearest valid time")
{
	auto_buf text = BUF_INIT(4096);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_time(&out, "a", INT64_MIN);
	json_put_time(&out, "b", INT64_MAX);
	json_end(&out, '}');
	CHECK_STR(text.at, "{\"a\":\"1970-01-01T00:00:00.000Z\",\"b\":"
			   "\"9999-12-31T23:59:59.999Z\"}");
}
