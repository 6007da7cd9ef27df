// Random ids, and the grammars of ids and names. A name must not have the form of an id or a prefix
// of one, because both are used in the same place of a URL.
#include "base/id.h"

#include "base/secret.h"

#define HEX_MAX (ID_BOX_LEN - 4)

void id_box(char out[ID_BOX_LEN + 1])
{
	memcpy(out, "box-", 4);
	secret_hex(out + 4, HEX_MAX / 2);
}

void id_volume(char out[ID_BOX_LEN + 1])
{
	memcpy(out, "vol-", 4);
	secret_hex(out + 4, HEX_MAX / 2);
}

static bool id_is_hex(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!(s.at[i] >= '0' && s.at[i] <= '9') && !(s.at[i] >= 'a' && s.at[i] <= 'f'))
			return false;
	return true;
}

bool id_is_box(struct str s)
{
	static const char *const prefixes[] = {"box-", "org-", "usr-", "bot-", "ubt-", "ses-"};

	if (s.len != ID_BOX_LEN || !id_is_hex(str_skip(s, 4)))
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (str_starts(s, prefixes[i]))
			return true;
	return false;
}

bool id_is_volume(struct str s)
{
	return s.len == ID_BOX_LEN && str_starts(s, "vol-") && id_is_hex(str_skip(s, 4));
}

bool id_is_short(struct str s)
{
	return s.len >= ID_SHORT_LEN && s.len <= HEX_MAX && id_is_hex(s);
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// First a letter or digit, then those and `others`.
static bool is_word(struct str s, size_t max, const char *others)
{
	if (s.len == 0 || s.len > max || !is_alnum(s.at[0]))
		return false;
	for (size_t i = 1; i < s.len; i++)
		if (!is_alnum(s.at[i]) && !(s.at[i] && strchr(others, s.at[i])))
			return false;
	return true;
}

// A name that has the form of an id, whole or cut, is refused: both are used in the same place of a
// URL.
bool id_is_name(struct str s)
{
	return is_word(s, ID_NAME_MAX, "-") && !str_starts(s, "box-") && !id_is_box(s) &&
	       !(s.len >= ID_SHORT_LEN && id_is_hex(s));
}

bool id_is_template(struct str s)
{
	return is_word(s, 63, "._-") && !memmem(s.at, s.len, "..", 2);
}
