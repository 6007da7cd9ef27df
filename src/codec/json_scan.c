// The grammar of RFC 8259, with a bit per level instead of a stack: nesting is bounded by
// JSON_SCAN_DEPTH, or what the caller allows, so a megabyte of '[' is refused at its 33rd byte.
#include "codec/json_scan.h"

#include "codec/text.h"

#define INTEGER_MAX (1ull << 53)
#define NUMBER_MAX 128

struct cursor {
	const char *at, *end;
	const char *fault;
	size_t members, values;
	int depth, depth_max;
	bool any_integer;
	uint64_t is_object[JSON_SCAN_DEPTH_MAX / 64 + 1]; // bit n: the container at depth n is one
	bool in_key;					  // keys are passed on as C strings
};

static bool json_scan_refuse(struct cursor *cur, const char *fault)
{
	cur->fault = fault;
	return false;
}

// The current byte, or 0 at the end; a NUL is part of no token, so the two need no distinction.
static char json_scan_peek(const struct cursor *cur)
{
	return cur->at < cur->end ? *cur->at : 0;
}

static void skip_space(struct cursor *cur)
{
	char c;

	while ((c = json_scan_peek(cur)) == ' ' || c == '\t' || c == '\n' || c == '\r')
		cur->at++;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool json_scan_hex4(struct cursor *cur, unsigned int *out)
{
	unsigned int value = 0;

	for (int i = 0; i < 4; i++, cur->at++) {
		int digit = text_hex_digit(json_scan_peek(cur));

		if (digit < 0)
			return json_scan_refuse(cur, "\\u is not followed by four hex digits");
		value = value << 4 | (unsigned int)digit;
	}
	*out = value;
	return true;
}

// An unpaired surrogate in a value becomes U+FFFD, as in JavaScript. In a member's name it is
// refused, because two names would become equal.
static bool unicode_escape(struct cursor *cur)
{
	unsigned int first, second;

	if (!json_scan_hex4(cur, &first))
		return false;
	if (first == 0 && cur->in_key)
		return json_scan_refuse(cur, "a NUL in the name of a member");
	if (first < 0xd800 || first > 0xdfff || !cur->in_key)
		return true;
	if (first > 0xdbff || cur->end - cur->at < 2 || cur->at[0] != '\\' || cur->at[1] != 'u')
		return json_scan_refuse(cur, "half of a surrogate pair");
	cur->at += 2;
	if (!json_scan_hex4(cur, &second))
		return false;
	if (second < 0xdc00 || second > 0xdfff)
		return json_scan_refuse(cur, "half of a surrogate pair");
	return true;
}

static bool json_scan_string(struct cursor *cur)
{
	for (cur->at++; cur->at < cur->end;) {
		unsigned char c = (unsigned char)*cur->at;
		size_t len;

		if (c == '"') {
			cur->at++;
			return true;
		}
		if (c < 0x20)
			return json_scan_refuse(cur, "a control character in a string");
		if (c >= 0x80) {
			if (str_utf8((struct str){cur->at, (size_t)(cur->end - cur->at)}, &len) !=
			    STR_UTF8_GOOD)
				return json_scan_refuse(cur, "a string that is not UTF-8");
			cur->at += len;
			continue;
		}
		cur->at++;
		if (c != '\\')
			continue;
		c = (unsigned char)json_scan_peek(cur);
		if (!c || !strchr("\"\\/bfnrtu", c))
			return json_scan_refuse(cur, "an unknown escape in a string");
		cur->at++;
		if (c == 'u' && !unicode_escape(cur))
			return false;
	}
	return json_scan_refuse(cur, "a string without an end");
}

static bool json_scan_digits(struct cursor *cur)
{
	if (!is_digit(json_scan_peek(cur)))
		return json_scan_refuse(cur, "a malformed number");
	while (is_digit(json_scan_peek(cur)))
		cur->at++;
	return true;
}

static bool json_scan_number(struct cursor *cur)
{
	const char *start = cur->at, *first;
	bool is_integer = true;
	uint64_t value;

	if (json_scan_peek(cur) == '-')
		cur->at++;
	first = cur->at;
	if (!json_scan_digits(cur))
		return false;
	if (*first == '0' && cur->at - first > 1)
		return json_scan_refuse(cur, "a number with a leading zero");
	if (json_scan_peek(cur) == '.') {
		cur->at++;
		is_integer = false;
		if (!json_scan_digits(cur))
			return false;
	}
	if (json_scan_peek(cur) == 'e' || json_scan_peek(cur) == 'E') {
		cur->at++;
		is_integer = false;
		if (json_scan_peek(cur) == '+' || json_scan_peek(cur) == '-')
			cur->at++;
		if (!json_scan_digits(cur))
			return false;
	}
	if (cur->at - start > NUMBER_MAX)
		return json_scan_refuse(cur, "a number of too many digits");
	if (is_integer && !cur->any_integer &&
	    !str_to_u64((struct str){first, (size_t)(cur->at - first)}, 0, INTEGER_MAX, &value))
		return json_scan_refuse(cur, "an integer beyond 2^53");
	return true;
}

static bool json_scan_word(struct cursor *cur, struct str text)
{
	size_t left = (size_t)(cur->end - cur->at);

	if (left < text.len || memcmp(cur->at, text.at, text.len) != 0)
		return json_scan_refuse(cur, "not a JSON value");
	cur->at += text.len;
	return true;
}

static bool json_scan_scalar(struct cursor *cur)
{
	switch (json_scan_peek(cur)) {
	case '"':
		return json_scan_string(cur);
	case 't':
		return json_scan_word(cur, STR("true"));
	case 'f':
		return json_scan_word(cur, STR("false"));
	case 'n':
		return json_scan_word(cur, STR("null"));
	case '-':
	case '0' ... '9':
		return json_scan_number(cur);
	default:
		return json_scan_refuse(cur, cur->at == cur->end ? "the text ends early"
								 : "not a JSON value");
	}
}

static bool json_scan_key(struct cursor *cur)
{
	skip_space(cur);
	if (json_scan_peek(cur) != '"')
		return json_scan_refuse(cur, "a member without a name");
	cur->in_key = true;
	if (!json_scan_string(cur))
		return false;
	cur->in_key = false;
	skip_space(cur);
	if (json_scan_peek(cur) != ':')
		return json_scan_refuse(cur, "no colon behind the name of a member");
	cur->at++;
	cur->members++;
	return true;
}

static bool in_object(const struct cursor *cur)
{
	return cur->is_object[cur->depth / 64] >> cur->depth % 64 & 1;
}

// Opens containers until a scalar or an empty container is complete.
static bool open_value(struct cursor *cur)
{
	for (;;) {
		char c;

		skip_space(cur);
		c = json_scan_peek(cur);
		cur->values++;
		if (c != '{' && c != '[')
			return json_scan_scalar(cur);
		if (cur->depth == cur->depth_max)
			return json_scan_refuse(cur, "nested too deeply");
		cur->depth++;
		cur->is_object[cur->depth / 64] &= ~(1ull << cur->depth % 64);
		cur->is_object[cur->depth / 64] |= (uint64_t)(c == '{') << cur->depth % 64;
		cur->at++;
		skip_space(cur);
		if (json_scan_peek(cur) == (c == '{' ? '}' : ']')) {
			cur->at++;
			cur->depth--;
			return true;
		}
		if (c == '{' && !json_scan_key(cur))
			return false;
	}
}

// After a complete value: closes the containers that end here. *more: a comma, so another value
// follows.
static bool close_values(struct cursor *cur, bool *more)
{
	*more = false;
	while (cur->depth > 0) {
		char c;

		skip_space(cur);
		c = json_scan_peek(cur);
		if (c == ',') {
			cur->at++;
			*more = true;
			return !in_object(cur) || json_scan_key(cur);
		}
		if (c != (in_object(cur) ? '}' : ']'))
			return json_scan_refuse(cur, cur->at == cur->end
							     ? "the text ends early"
							     : "neither a comma nor an end");
		cur->at++;
		cur->depth--;
	}
	return true;
}

static bool json_scan_document(struct cursor *cur, struct json_scan *out)
{
	bool more = true;

	skip_space(cur);
	out->value.at = cur->at;
	while (more)
		if (!open_value(cur) || !close_values(cur, &more))
			return false;
	out->value.len = (size_t)(cur->at - out->value.at);
	skip_space(cur);
	return cur->at == cur->end || json_scan_refuse(cur, "something behind the value");
}

static bool json_scan_with(struct cursor *cur, struct json_scan *out)
{
	const char *start = cur->at;
	struct json_scan scan = {0};
	bool ok = json_scan_document(cur, &scan);

	scan.members = cur->members;
	scan.values = cur->values;
	scan.fault = cur->fault;
	scan.at = (size_t)(cur->at - start);
	*out = scan;
	return ok;
}

bool json_scan(struct str text, struct json_scan *out)
{
	if (!text.len) // perhaps without an address
		text = STR("");
	return json_scan_with(&(struct cursor){.at = text.at,
					       .end = text.at + text.len,
					       .depth_max = JSON_SCAN_DEPTH},
			      out);
}

bool json_scan_within(struct str text, int depth, struct json_scan *out)
{
	if (!text.len)
		text = STR("");
	return json_scan_with(&(struct cursor){.at = text.at,
					       .end = text.at + text.len,
					       .depth_max = depth,
					       .any_integer = true},
			      out);
}
