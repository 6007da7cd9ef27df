// Regular expressions for untrusted patterns and untrusted text: the time is bounded by the length
// of the text times that of the expression. No backtracking, no back-references.
//
// Supported: literals, `.`, [classes] with ranges, \d \w \s and their opposites, ^ $, groups, |, *
// + ? {n} {n,} {n,m} (a `?` after them changes nothing). Characters are UTF-8; an invalid byte
// counts as one character.
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define REGEX_TEXT_MAX 1024  // bytes of an expression
#define REGEX_STEPS_MAX 2048 // compiled size, with repetitions expanded

struct regex;

// INVALID bad_pattern, with the fault. The caller owns *out.
fallible regex_compile(struct str text, bool ignore_case, struct regex **out);
void regex_free(struct regex *regex); // takes NULL
static inline void auto_regex_(struct regex **regex)
{
	regex_free(*regex);
}
#define auto_regex on_exit_call(auto_regex_) struct regex *

// Whether it matches anywhere in the text. Stateless: any thread may call it.
bool regex_test(const struct regex *regex, struct str text);
