// Regular expressions from outside, held against text from outside: time is bounded by the length
// of the text times that of the expression, whatever the two are. No backtracking, no
// back-references.
//
// What is known: literals, `.`, [classes] with ranges, \d \w \s and their opposites, ^ $, groups,
// |, * + ? {n} {n,} {n,m} (a `?` behind them changes nothing). Characters are those of UTF-8; bad
// bytes count as one each.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define REGEX_TEXT_MAX 1024  // bytes of an expression
#define REGEX_STEPS_MAX 2048 // what it may come to, repetitions written out

struct regex;

// INVALID bad_pattern, with what is wrong. The caller owns *out.
fallible regex_compile(struct str text, bool ignore_case, struct regex **out);
void regex_free(struct regex *regex); // takes NULL
static inline void auto_regex_(struct regex **regex)
{
	regex_free(*regex);
}
#define auto_regex on_exit_call(auto_regex_) struct regex *

// Whether it matches anywhere in the text. Holds no state: any thread may ask.
bool regex_test(const struct regex *regex, struct str text);
