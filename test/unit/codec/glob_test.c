#include "codec/glob.h"

#include <time.h>

#include "tap.h"

TEST(matches, "stars stop at slashes, two of them do not, and classes are classes")
{
	static const struct {
		const char *glob, *text;
		bool match;
	} rows[] = {
		{"*.c", "a.c", true},
		{"*.c", "d/a.c", false},
		{"**.c", "d/a.c", true},
		{"**/*.c", "a.c", true},
		{"**/*.c", "d/e/a.c", true},
		{"src/**/x", "src/x", true},
		{"src/**/x", "src/a/b/x", true},
		{"src/**/x", "src/a/b/xy", false},
		{"src/**", "src/a/b", true},
		{"a?c", "abc", true},
		{"a?c", "a/c", false},
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[]]", "]", true},
		{"[", "[", true},
		{"\\*", "*", true},
		{"\\*", "a", false},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbY", false},
		{"*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
		{"**/a/**/b", "x/a/y/z/b", true},
		{"**/a/**/b", "x/a/y/z/c", false},
		{"-rf", "-rf", true},
		{"**a**/b", "aab", true},
		{"**/**/*", "a/b/c", true},
		{"a/**/", "a/", true},
		{"**/b", "ab", false},
		{"a\\***/b", "a*x/b", true},
		{"[!]", "x", false},
		{"[a]b]", "ab]", true},
		{"a[/]b", "a/b", false},
		{"a[!x]b", "a/b", false},
		{"*[", "x[", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (glob_match(rows[i].glob, rows[i].text) != rows[i].match)
			printf("# %s %s\n", rows[i].glob, rows[i].text);
		CHECK(glob_match(rows[i].glob, rows[i].text) == rows[i].match);
	}
}

TEST(paths, "a pattern without a slash means a name: the last one, or any")
{
	CHECK(glob_names("*.c", "d/a.c") && !glob_names("d", "d/a.c"));
	CHECK(glob_names("d/*.c", "d/a.c") && !glob_names("d/*.c", "x/d/a.c"));
	CHECK(glob_hits("node_modules", "a/node_modules/b/c") && glob_hits("*.c", "d/a.c"));
	CHECK(glob_hits("a/b", "a/b/c") && !glob_hits("a/b", "x/a/b") && !glob_hits("b", "abc"));
	CHECK(!glob_hits("x", ""));
	CHECK(glob_hits("/.env", ".env") && !glob_hits("/.env", "a/.env") &&
	      glob_hits("/a", "a/b"));
}

TEST(hostile, "the worst pattern costs length times length")
{
	static const char *const parts[] = {"a", "*a", "?", "[a-b]", "[", "**/", "**a*"};
	static char glob[4096], text[4096];
	clock_t began = clock();

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t n;

		memset(text, parts[i][0] == '[' && !parts[i][1] ? '[' : 'a', sizeof(text) - 1);
		for (size_t at = 9; at < sizeof(text) - 1; at += 10)
			text[at] = i % 2 ? 'a' : '/';
		memcpy(text, "/w/", 3);
		n = (size_t)snprintf(glob, sizeof(glob), "/w/**a*");
		while (n < sizeof(glob) / 2)
			n += (size_t)snprintf(glob + n, sizeof(glob) - n, "%s", parts[i]);
		glob[n] = '!';
		glob[n + 1] = 0;
		CHECK(!glob_match(glob, text));
	}
	printf("# %.3f s\n", (double)(clock() - began) / CLOCKS_PER_SEC);
	CHECK(clock() - began < 10 * CLOCKS_PER_SEC);
}

TEST(long_text, "a text that is too long matches nothing")
{
	static char text[8193];

	memset(text, 'a', 8191);
	CHECK(glob_match("*a", text) && glob_match("**", text));
	text[8191] = 'a';
	CHECK(!glob_match("*a", text));
}
