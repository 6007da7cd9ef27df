// Borrowed slices of text, and strict parsing of numbers in them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct str {
	const char *at;
	size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).len, (s).at

static inline struct str str_of(const char *text)
{
	return (struct str){text, text ? strlen(text) : 0};
}

bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); // ASCII only
bool str_is(struct str a, const char *b);
bool str_starts(struct str s, const char *prefix);
bool str_ends(struct str s, const char *suffix);
struct str str_trim(struct str s); // blanks and tabs at both ends
struct str str_skip(struct str s, size_t n);

// Cuts the part before `mark` off the front of *rest and skips the mark. Without a mark the whole
// rest is the last part; false, with an empty *out, once nothing is left (rest->at == NULL).
bool str_cut(struct str *rest, char mark, struct str *out);

// Decimal digits only, no sign, no blanks, no leading '+': false when malformed or out of range.
bool str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out);

// The mode of a file in octal digits, at most 07777: false otherwise.
bool str_to_mode(struct str s, uint32_t *out);

// "512", "512M", "2G", "64k" (powers of 1024) to bytes; "90s", "10m", "1h", "250ms" to
// milliseconds.
bool str_to_bytes(struct str s, uint64_t *out);
bool str_to_ms(struct str s, uint64_t *out);

// The UTF-8 sequence at the start of a non-empty text. *len is its length; of a bad one, how much
// to skip; of one that is cut by the end but valid so far, all that is left.
enum str_utf8 { STR_UTF8_GOOD, STR_UTF8_BAD, STR_UTF8_CUT };
enum str_utf8 str_utf8(struct str s, size_t *len);
