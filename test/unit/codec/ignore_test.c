// Ignore files as git reads them. Rows were taken from gitignore(5) and from what git itself says
// of them; test/e2e/backup.t compares whole trees with a git of its own.
#include "codec/ignore.h"

#include "tap.h"

TEST(patterns, "patterns match as git's do")
{
	static const struct {
		const char *pattern, *path;
		bool match;
	} rows[] = {
		{"foo", "foo", true},
		{"foo", "fo", false},
		{"*", "foo", true},
		{"*", "a/b", false},
		{"a/*", "a/b", true},
		{"a/*", "a/b/c", false},
		{"a/**", "a/b/c", true},
		{"a/**", "a", false},
		{"**/b", "b", true},
		{"**/b", "a/x/b", true},
		{"a/**/b", "a/b", true},
		{"a/**/b", "a/x/y/b", true},
		{"a/**/b", "ab", false},
		{"***/b", "a/x/b", true},
		{"a/***", "a/b/c", true},
		{"a**b", "axxb", true},
		{"a**b", "a/b", false},
		{"**", "x", true},
		{"f?o", "f/o", false},
		{"f[a-o]o", "foo", true},
		{"f[!a-o]o", "foo", false},
		{"f[^p]o", "foo", true},
		{"f[/]o", "f/o", false},
		{"[]]", "]", true},
		{"[]-a]", "^", true},
		{"[a\\]]", "]", true},
		{"[[:digit:]x]", "7", true},
		{"[[:digit:]x]", "x", true},
		{"[[:digit:]x]", "y", false},
		{"[![:alpha:]]", "7", true},
		{"[abc", "[abc", false},
		{"\\*", "*", true},
		{"\\*", "x", false},
		{"x\\", "x\\", false},
		{"*.o", ".o", true},
		{"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
		{"**/a/**/b", "x/a/y/z/b", true},
		{"**/*x/y", "a/bx/y", true},
		{"", "", true},
		{"", "a", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (ignore_match(str_of(rows[i].pattern), str_of(rows[i].path)) != rows[i].match) {
			printf("# %s and %s\n", rows[i].pattern, rows[i].path);
			CHECK(false);
		}
}

TEST(rules, "the last rule that matches decides, and other lines are skipped")
{
	static const struct {
		const char *rules, *path;
		bool directory;
		enum ignore_verdict verdict;
	} rows[] = {
		{"*.log\n!keep.log\n", "a/x.log", false, IGNORE_OUT},
		{"*.log\n!keep.log\n", "a/keep.log", false, IGNORE_KEEP},
		{"!keep.log\n*.log\n", "keep.log", false, IGNORE_OUT},
		{"build/\n", "build", true, IGNORE_OUT},
		{"build/\n", "build", false, IGNORE_SILENT},
		{"build/\n", "a/build", true, IGNORE_OUT},
		{"/build\n", "a/build", true, IGNORE_SILENT},
		{"/build\n", "build", true, IGNORE_OUT},
		{"a/b\n", "x/a/b", false, IGNORE_SILENT},
		{"a/b/\n", "a/b", true, IGNORE_OUT},
		{"# .env\n\n.env", ".env", false, IGNORE_OUT},
		{"\\#x\n\\!y\n", "#x", false, IGNORE_OUT},
		{"\\#x\n\\!y\n", "!y", false, IGNORE_OUT},
		{"a \nb\\ \n", "a", false, IGNORE_OUT},
		{"a \nb\\ \n", "b ", false, IGNORE_OUT},
		{".env\r\nx\r\n", ".env", false, IGNORE_OUT},
		{"\xef\xbb\xbf.env\n", ".env", false, IGNORE_OUT},
		{"/\n!\n!/\n", "x", true, IGNORE_SILENT},
		{"", "x", false, IGNORE_SILENT},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (ignore_judge(str_of(rows[i].rules), str_of(rows[i].path), rows[i].directory) !=
		    rows[i].verdict) {
			printf("# %s and %s\n", rows[i].rules, rows[i].path);
			CHECK(false);
		}
}
