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

TEST(indents, "JSON is indented, and strings are left alone")
{
	CHECK_STR(indented("{\"a\":[1,2],\"b\":{}}"),
		  "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
	CHECK_STR(indented("\"x{\\\"[,:}\""), "\"x{\\\"[,:}\"");
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

TEST(sizes, "sizes and ages are said in the unit that suits them")
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

TEST(times, "a timestamp of the API is read, and nonsense is not")
{
	CHECK(print_when(STR("1970-01-02T00:00:01.500Z")) == 86401000);
	CHECK(print_when(STR("yesterday")) == -1);
	CHECK(print_when((struct str){0}) == -1);
}
