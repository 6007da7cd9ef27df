// Names of another API in the form of cove's: both directions. A name of cove that begins with the
// prefix is written as a form, too, so that no text is shown for two names.
#include "types/foreign_name.h"

#include <stdio.h>
#include <string.h>

#include "codec/text.h"

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// False: it does not fit. `used` bytes of `out` are the prefix.
static bool foreign_name_escape(struct str text, size_t used, char out[FOREIGN_NAME_MAX + 2])
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char byte = (unsigned char)text.at[i];
		size_t need = is_plain(text.at[i]) ? 1 : byte == '-' ? 2 : 3;

		if (byte < 0x20 || byte == 0x7f || used + need > FOREIGN_NAME_MAX)
			return false;
		if (need == 1)
			out[used] = text.at[i];
		else if (need == 2)
			memcpy(out + used, "--", 2);
		else
			snprintf(out + used, 4, "-%02x", byte);
		used += need;
	}
	out[used] = '\0';
	return true;
}

bool foreign_name_write(struct str text, bool (*is_own)(struct str name),
			char out[FOREIGN_NAME_MAX + 2])
{
	const size_t prefix = strlen(FOREIGN_NAME_PREFIX);

	if (!text.len || id_is_box(text))
		return false;
	if (is_own(text) && !str_starts(text, FOREIGN_NAME_PREFIX)) {
		snprintf(out, FOREIGN_NAME_MAX + 2, STR_FMT, STR_ARG(text));
		return true;
	}
	memcpy(out, FOREIGN_NAME_PREFIX, prefix);
	return foreign_name_escape(text, prefix, out);
}

// False: this is no form. `out` may have been written to.
static bool foreign_name_unescape(const char *at, char *out)
{
	size_t len = 0;

	for (; *at; at++) {
		int high, low;

		if (*at != '-') {
			out[len++] = *at;
		} else if (at[1] == '-') {
			out[len++] = *at++;
		} else {
			high = text_hex_digit(at[1]);
			low = high < 0 ? -1 : text_hex_digit(at[2]);
			if (low < 0)
				return false;
			out[len++] = (char)(high << 4 | low);
			at += 2;
		}
	}
	out[len] = '\0';
	return true;
}

void foreign_name_read(const char *name, bool (*is_own)(struct str name),
		       char out[FOREIGN_NAME_MAX + 2])
{
	char again[FOREIGN_NAME_MAX + 2];

	if (str_starts(str_of(name), FOREIGN_NAME_PREFIX) && strlen(name) <= FOREIGN_NAME_MAX &&
	    foreign_name_unescape(name + strlen(FOREIGN_NAME_PREFIX), out) &&
	    foreign_name_write(str_of(out), is_own, again) && !strcmp(name, again))
		return;
	snprintf(out, FOREIGN_NAME_MAX + 2, "%s", name);
}
