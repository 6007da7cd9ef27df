// One pass over text that json_scan() has accepted, so only depth and strings need to be tracked.
// Only top-level members are compared. Nothing is copied except the rest.
#include "codec/json_part.h"

static size_t skip_blank(struct str text, size_t at)
{
	while (at < text.len && memchr(" \t\r\n", text.at[at], 4))
		at++;
	return at;
}

static size_t skip_string(struct str text, size_t at)
{
	for (at++; at < text.len && text.at[at] != '"'; at++)
		at += text.at[at] == '\\';
	return at + 1;
}

// Returns the position after the value at `at`: a comma or closing bracket of the same depth ends
// it.
static size_t skip_value(struct str text, size_t at)
{
	size_t depth = 0;

	while (at < text.len) {
		char c = text.at[at];

		if (c == '"') {
			at = skip_string(text, at);
			continue;
		}
		if (depth == 0 && (c == ',' || c == '}' || c == ']'))
			break;
		depth += c == '{' || c == '[';
		depth -= c == '}' || c == ']';
		at++;
	}
	return at < text.len ? at : text.len;
}

static struct str json_part_slice(struct str text, size_t from, size_t to)
{
	while (to > from && memchr(" \t\r\n", text.at[to - 1], 4))
		to--;
	return (struct str){text.at + from, to - from};
}

bool json_part(struct str object, const char *key, struct buf *rest, struct str *out)
{
	struct str found = {NULL, 0};
	size_t at = 1;
	bool some = false;

	if (object.len < 2 || object.at[0] != '{')
		return false;
	if (rest)
		buf_char(rest, '{');
	for (;;) {
		size_t name = skip_blank(object, at), colon, value, end;
		struct str word;

		if (name >= object.len || object.at[name] != '"')
			break;
		colon = skip_blank(object, skip_string(object, name));
		value = skip_blank(object, colon + 1);
		end = skip_value(object, value);
		if (end > object.len || value >= end)
			return false;
		word = json_part_slice(object, name, skip_string(object, name));
		if (word.len == strlen(key) + 2 && memcmp(word.at + 1, key, word.len - 2) == 0) {
			if (found.at)
				return false;
			found = json_part_slice(object, value, end);
		} else if (rest) {
			if (some)
				buf_char(rest, ',');
			some = true;
			buf_str(rest, json_part_slice(object, name, end));
		}
		at = end + 1;
	}
	if (rest)
		buf_char(rest, '}');
	*out = found;
	return true;
}
