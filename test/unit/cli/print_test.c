#include "cli/print.h"

#include <stdlib.h>

#include "tap.h"

static const char *indented(const char *json)
{
	static struct buf out;

	buf_done(&out);
	out = BUF_INIT(4096);
	print_indent(str_of(json), &out);
	return out.at;
}

TEST(indents, "JSON is indented, and strings are not changed")
{
	CHECK_STR(indented("{\"a\":[1,2],\"b\":{}}"),
		  "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
	CHECK_STR(indented("\"x{\\\"[,:}\""), "\"x{\\\"[,:}\"");
	CHECK_STR(indented("\"\xc3\xa9 \xe2\x82\xac\xf0\x9f\x90\x9a\xc2\x9b\""),
		  "\"\xc3\xa9 \xe2\x82\xac\xf0\x9f\x90\x9a\\u009b\"");
	CHECK_STR(indented("[]"), "[]");
	CHECK_STR(indented(" [ 1 ] "), "[\n  1\n]");
}

TEST(members, "a member is found at its own depth, as it was written")
{
	struct str page = STR("{\"x\":{\"items\":1},\"s\":\"items\",\"items\":[{\"a\":\"]\"},2],"
			      "\"cursor\":null}");
	struct str items = print_member(page, "items");

	CHECK(str_is(items, "[{\"a\":\"]\"},2]"));
	CHECK(str_is(print_member(page, "cursor"), "null"));
	CHECK(str_is(print_member(STR("{ \"a\" : [1] }"), "a"), "[1]"));
	CHECK(print_member(page, "a").at == NULL);
	CHECK(print_member(STR("\""), "a").at == NULL);
}

static const char *escaped(struct str text)
{
	static struct buf out;

	buf_done(&out);
	out = BUF_INIT(4096);
	print_escape(text, &out);
	return out.at;
}

TEST(escapes, "control characters are escaped, and the text around them is not changed")
{
	CHECK_STR(escaped(STR("plain \\ text: \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a")),
		  "plain \\ text: \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a");
	CHECK_STR(escaped(STR("\033[2J\n\t\r\x7f")), "\\x1b[2J\\n\\t\\r\\x7f");
	CHECK_STR(escaped((struct str){"a\0b", 3}), "a\\x00b");
	CHECK_STR(escaped(STR("\xc2\x9b"
			      "2J \xc2\xa0")),
		  "\\u009b2J \xc2\xa0");
	const char overrides[] = {(char)0xe2, (char)0x80, (char)0xae, ' ',
				  (char)0xe2, (char)0x81, (char)0xa6, 0};

	CHECK_STR(escaped(str_of(overrides)), "\\u202e \\u2066");
	CHECK_STR(escaped(STR("\x9b"
			      "2J")),
		  "\\x9b2J");
	CHECK_STR(escaped(STR("\xe2\x82")), "\\xe2\\x82");
	CHECK_STR(escaped(STR("\xc0\x9b")), "\\u001b");
	CHECK_STR(indented("\"a\xc2\x9b\x7f\""), "\"a\\u009b\\u007f\"");
	CHECK_STR(indented("\xc2\x9b[1\x7f]"), "[\n  1\n]");
}

TEST(tables, "columns are as wide as their widest cell")
{
	static const char *const cells[] = {"ID", "NAME", "x", "a-long-id", "-", "y"};
	auto_grid grid = {.columns = 3};
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	for (size_t i = 0; i < 6; i++)
		grid_add(&grid, cells[i]);
	setenv("NO_COLOR", "1", 1);
	grid_print(&grid, to);
	fclose(to);
	CHECK_STR(text, "ID          NAME   x\na-long-id   -      y\n");
	free(text);
}

TEST(sizes, "sizes and ages are printed in a readable unit")
{
	auto_buf out = BUF_INIT(256);

	print_size(1023, &out);
	buf_char(&out, ' ');
	print_size(1536, &out);
	buf_char(&out, ' ');
	print_size(5ull << 40, &out);
	CHECK_STR(out.at, "1023 B 1.5 KiB 5.0 TiB");
	buf_clear(&out);
	print_age(-5, &out);
	buf_char(&out, ',');
	print_age(119 * 1000, &out);
	buf_char(&out, ',');
	print_age(7200 * 1000, &out);
	buf_char(&out, ',');
	print_age(259200000, &out);
	CHECK_STR(out.at, "0 s,119 s,2 h,3 d");
}

TEST(times, "a timestamp of the API is parsed, and other text is refused")
{
	CHECK(print_when(STR("1970-01-02T00:00:01.500Z")) == 86401000);
	CHECK(print_when(STR("yesterday")) == -1);
	CHECK(print_when((struct str){0}) == -1);
}
