// Regular expressions: what matches, what does not, what is refused, and that none of them is slow.
#include "codec/regex.h"

#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "tap.h"

static int test(const char *pattern, const char *text, bool no_case)
{
	auto_regex regex = NULL;
	auto_err err = regex_compile(str_of(pattern), no_case, &regex);

	if (err)
		return -1;
	return regex_test(regex, str_of(text));
}

static bool hits(const char *pattern, const char *text)
{
	return test(pattern, text, false) == 1;
}

static bool misses(const char *pattern, const char *text)
{
	return test(pattern, text, false) == 0;
}

TEST(literals, "text is found anywhere in a line")
{
	CHECK(hits("ready", "server is ready now") && misses("ready", "read"));
	CHECK(hits("", "") && hits("", "x"));
	CHECK(hits("a.c", "xabcx") && misses("a.c", "ac") && misses("a.c", "a\nc"));
	CHECK(hits("gr.n", "gr\xc3\xbcn") && hits("^.$", "\xc3\xa9") && hits("^.$", "\xff"));
}

TEST(anchors, "the beginning, the end and the edges of words")
{
	CHECK(hits("^ready$", "ready") && misses("^ready$", "ready!") &&
	      misses("^ready", "xready"));
	CHECK(hits("\\bport\\b", "a port here") && misses("\\bport\\b", "export"));
	CHECK(hits("\\Bport", "export") && hits("^$", ""));
}

TEST(classes, "ranges, names and opposites")
{
	CHECK(hits("[a-c]+[^0-9]", "bbx") && misses("^[a-c]+$", "abcd"));
	CHECK(hits("port \\d+", "port 8080") && misses("port \\d+", "port x"));
	CHECK(hits("^\\w+\\s\\S+$", "hello w\xc3\xb6rld") && misses("\\D", "123"));
	CHECK(hits("[\\d.]+", "1.2") && hits("[]x]", "]") && hits("[x-]", "-") &&
	      hits("[\\]]", "]"));
	CHECK(hits("\\.", ".") && misses("\\.", "x") && hits("a\\/b", "a/b") && hits("\\t", "\t"));
	CHECK(hits("[\xc3\xa4-\xc3\xbc]", "\xc3\xb6") && misses("[^\xc3\xb6]", "\xc3\xb6"));
}

TEST(repeats, "stars, counts and choices")
{
	CHECK(hits("^ab*c$", "ac") && hits("^ab*c$", "abbbc") && misses("^ab+c$", "ac"));
	CHECK(hits("^a?b??$", "") && hits("^(ab|cd)+$", "abcdab") && misses("^(ab|cd)+$", "abc"));
	CHECK(hits("^a{2,3}$", "aa") && hits("^a{2,3}$", "aaa") && misses("^a{2,3}$", "aaaa"));
	CHECK(misses("^a{2,3}$", "a") && hits("^a{2}$", "aa") && hits("^a{2,}$", "aaaaa"));
	CHECK(hits("^(a|b|cd)$", "cd") && hits("^(a|b|cd)$", "b") && hits("^(?:x|)$", ""));
	CHECK(hits("^(a(b(c|d))*)+$", "abcabdabc") && hits("a{x", "a{x") && hits("x{,3}", "x{,3}"));
	CHECK(hits("(^a|b$)", "xb") && hits("^(a*)*$", "aaa") && misses("^(a*)*$", "b"));
	CHECK(hits("Listening on (https?://)?[\\w.]+:\\d{2,5}",
		   "Listening on http://0.0.0.0:3000"));
}

TEST(cases, "letter case may be ignored")
{
	CHECK(test("READY", "it is ready", true) == 1 && test("[a-c]+$", "ABC", true) == 1);
	CHECK(test("^[^a]$", "A", true) == 0 && test("ready", "READY", false) == 0);
}

TEST(refusals, "a malformed expression is refused")
{
	static const char *const bad[] = {"(",
					  ")",
					  "a)",
					  "(a",
					  "[",
					  "[a",
					  "*",
					  "+a",
					  "a**",
					  "\\",
					  "(?=a)",
					  "(?<n>a)",
					  "[z-a]",
					  "\\1",
					  "\\q",
					  "a|*",
					  "(((a{1000}){1000}){1000})"};
	auto_free char *deep = mem_new(200);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (test(bad[i], "", false) != -1)
			printf("# taken: %s\n", bad[i]);
		CHECK(test(bad[i], "", false) == -1);
	}
	memset(deep, '(', 100);
	CHECK(test(deep, "", false) == -1);
	auto_free char *longer = mem_new(3000);

	memset(longer, 'a', 2000);
	CHECK(test(longer, "", false) == -1);
}

// The least of five, of this process: others may be busy, too. -1: it matches, and should not.
static clock_t spent_on(const char *pattern, char *text, size_t len)
{
	clock_t least = -1;

	memset(text, 'a', len);
	text[len] = 0;
	for (int i = 0; i < 5; i++) {
		clock_t begin = clock(), spent;

		if (test(pattern, text, false) != 0)
			return -1;
		spent = clock() - begin;
		least = least < 0 || spent < least ? spent : least;
	}
	return least;
}

TEST(linear, "no expression is slow")
{
	static const char *const cruel[] = {"(a*)*b",
					    "(a|a)*b",
					    "(a|aa)+b",
					    "(.*)*x",
					    "a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaab",
					    "(a{0,30}){0,30}b"};
	auto_free char *text = mem_new(20001);

	// Twice the text takes twice as long, on whatever machine: four times would be quadratic.
	for (size_t i = 0; i < sizeof(cruel) / sizeof(*cruel); i++) {
		clock_t half = spent_on(cruel[i], text, 10000);
		clock_t all = spent_on(cruel[i], text, 20000);

		CHECK(half >= 0 && all >= 0 && all < 3 * half + CLOCKS_PER_SEC / 50);
	}
}
