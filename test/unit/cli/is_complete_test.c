#include "cli/is_complete.h"

#include "tap.h"

struct row {
	const char *cell;
	bool whole;
};

static void check(const struct row *rows, size_t count, bool (*is)(struct str cell))
{
	for (size_t i = 0; i < count; i++)
		CHECK_STR(is(str_of(rows[i].cell)) == rows[i].whole ? rows[i].cell : "",
			  rows[i].cell);
}
#define CHECK_ROWS(rows, is) check(rows, sizeof(rows) / sizeof(*(rows)), is)

TEST(python, "Python goes on inside of brackets, quotes and blocks")
{
	static const struct row rows[] = {
		{"", true},
		{"1 + 1", true},
		{"f(1,", false},
		{"f(1,\n2)", true},
		{"x = [", false},
		{"'it\\'s (", true}, // never closed: for the interpreter to say
		{"\"a\" 'b'", true},
		{"s = '''", false},
		{"s = '''\n(\n'''", true},
		{"s = \"\"\"a\"\"\"", true},
		{"a = 1 + \\", false},
		{"a = 1 + \\\n2", true},
		{"# (", true},
		{"x = '#' # '''", true},
		{"if x: y", true},
		{"if x:", false},
		{"if x: # why", false},
		{"for i in x:\n    print(i)", false},
		{"for i in x:\n    print(i)\n", true},
		{"for i in x:\n    print(i)\n  ", true},
		{"d = {1: 2,", false},
		{"d = {1:\n2}", true},
		{"@cache", false},
		{"a @ b", true},
		{"%%time", false},
		{"%%time\nx\n", true},
		{"f((\n\n", true}, // somebody wants out
	};

	CHECK_ROWS(rows, is_complete_python);
}

TEST(script, "JavaScript goes on inside of brackets, templates and comments")
{
	static const struct row rows[] = {
		{"1 + 1", true},
		{"function f() {", false},
		{"function f() {\n}", true},
		{"`a", false},
		{"`a\n{`", true},
		{"'(' + \"[\"", true},
		{"// {", true},
		{"/* {", false},
		{"/* {\n*/ 1", true},
		{"x = /[(/]/", true},
		{"s.replace(/\\(/g, '')", true},
		{"a / b / (", false},
		{"[1, 2", false},
		{"f(\n\n", true},
		{"/*\n\n", true},
	};

	CHECK_ROWS(rows, is_complete_script);
}
