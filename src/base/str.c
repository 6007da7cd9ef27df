// Slices of text, strict number parsing, UTF-8. pid 1 links this file: libc's string functions and
// nothing else, no allocation.
#include "base/str.h"

bool str_eq(struct str a, struct str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool str_eq_nocase(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (lower(a.at[i]) != lower(b.at[i]))
			return false;
	return true;
}

bool str_is(struct str a, const char *b)
{
	return str_eq(a, str_of(b));
}

bool str_starts(struct str s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && (len == 0 || memcmp(s.at, prefix, len) == 0);
}

bool str_ends(struct str s, const char *suffix)
{
	size_t len = strlen(suffix);

	return s.len >= len && (len == 0 || memcmp(s.at + s.len - len, suffix, len) == 0);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct str str_trim(struct str s)
{
	while (s.len > 0 && is_blank(s.at[0]))
		s = str_skip(s, 1);
	while (s.len > 0 && is_blank(s.at[s.len - 1]))
		s.len--;
	return s;
}

struct str str_skip(struct str s, size_t n)
{
	if (n > s.len)
		n = s.len;
	return n ? (struct str){s.at + n, s.len - n} : s;
}

bool str_cut(struct str *rest, char mark, struct str *out)
{
	const char *found;

	if (!rest->at) {
		*out = (struct str){NULL, 0};
		return false;
	}
	found = memchr(rest->at, mark, rest->len);
	if (!found) {
		*out = *rest;
		*rest = (struct str){NULL, 0};
		return true;
	}
	*out = (struct str){rest->at, (size_t)(found - rest->at)};
	*rest = str_skip(*rest, out->len + 1);
	return true;
}

bool str_to_mode(struct str s, uint32_t *out)
{
	uint32_t mode = 0;

	if (s.len == 0 || s.len > 5)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '7')
			return false;
		mode = mode << 3 | (uint32_t)(s.at[i] - '0');
	}
	if (mode > 07777)
		return false;
	*out = mode;
	return true;
}

bool str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return false;
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(s.at[i] - '0'), &value))
			return false;
	}
	if (value < min || value > max)
		return false;
	*out = value;
	return true;
}

struct unit {
	const char *suffix;
	uint64_t times;
};

// The first unit whose suffix fits decides, so a longer one comes before its own tail.
static bool with_unit(struct str s, const struct unit *units, uint64_t *out)
{
	uint64_t value;

	for (; units->suffix; units++) {
		size_t len = strlen(units->suffix);
		struct str tail = str_skip(s, s.len > len ? s.len - len : 0);

		if (len && !str_eq_nocase(tail, str_of(units->suffix)))
			continue;
		if (!str_to_u64((struct str){s.at, s.len - len}, 0, UINT64_MAX, &value) ||
		    __builtin_mul_overflow(value, units->times, &value))
			return false;
		*out = value;
		return true;
	}
	return false;
}

bool str_to_bytes(struct str s, uint64_t *out)
{
	static const struct unit units[] = {{"k", 1ull << 10}, {"m", 1ull << 20}, {"g", 1ull << 30},
					    {"t", 1ull << 40}, {"", 1},		  {NULL, 0}};

	return with_unit(s, units, out);
}

bool str_to_ms(struct str s, uint64_t *out)
{
	static const struct unit units[] = {
		{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {NULL, 0}};

	return with_unit(s, units, out);
}

// How many bytes follow this lead byte, and the range of the first of them: it excludes overlong
// forms, surrogates and everything above U+10FFFF (Unicode, table 3-7).
static int utf8_lead(uint8_t lead, uint8_t *low, uint8_t *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (lead < 0x80)
		return 0;
	if (lead >= 0xc2 && lead <= 0xdf)
		return 1;
	if (lead >= 0xe0 && lead <= 0xef) {
		if (lead == 0xe0)
			*low = 0xa0;
		if (lead == 0xed)
			*high = 0x9f;
		return 2;
	}
	if (lead >= 0xf0 && lead <= 0xf4) {
		if (lead == 0xf0)
			*low = 0x90;
		if (lead == 0xf4)
			*high = 0x8f;
		return 3;
	}
	return -1;
}

enum str_utf8 str_utf8(struct str s, size_t *len)
{
	uint8_t low, high;
	int more = utf8_lead((uint8_t)s.at[0], &low, &high);

	*len = 1;
	if (more < 0)
		return STR_UTF8_BAD;
	for (; more > 0; more--, (*len)++) {
		if (*len == s.len)
			return STR_UTF8_CUT;
		if ((uint8_t)s.at[*len] < low || (uint8_t)s.at[*len] > high)
			return STR_UTF8_BAD;
		low = 0x80;
		high = 0xbf;
	}
	return STR_UTF8_GOOD;
}
