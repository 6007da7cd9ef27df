// Digits are collected in groups of four; a group that is cut by a piece waits for the next. An
// error is sticky. Bits that padding leaves over are ignored; text_unbase64() refuses them.
#include "codec/base64.h"

#define BAD 0xff

static uint8_t value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (uint8_t)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (uint8_t)(c - 'a' + 26);
	if (c >= '0' && c <= '9')
		return (uint8_t)(c - '0' + 52);
	return c == '+' ? 62 : c == '/' ? 63 : BAD;
}

static bool base64_refuse(struct base64 *base64)
{
	base64->bad = true;
	return false;
}

static bool base64_add(struct base64 *base64, char c, struct buf *out)
{
	uint8_t value = value_of(c);

	if (c == '=') {
		// One or two pads, where the group lacks one or two digits.
		base64->pads++;
		return base64->digits >= 2 && base64->digits + base64->pads <= 4
			       ? true
			       : base64_refuse(base64);
	}
	if (value == BAD || base64->pads)
		return base64_refuse(base64);
	base64->bits = base64->bits << 6 | value;
	if (++base64->digits == 4) {
		char group[3] = {(char)(base64->bits >> 16), (char)(base64->bits >> 8),
				 (char)base64->bits};

		buf_add(out, group, sizeof(group));
		base64->digits = 0;
		base64->bits = 0;
	}
	return true;
}

// Decodes whole groups at once; returns their number of characters.
static size_t base64_add_groups(struct str text, char *at, size_t *done)
{
	size_t i = 0;

	for (; i + 4 <= text.len; i += 4) {
		uint8_t a = value_of(text.at[i]), b = value_of(text.at[i + 1]);
		uint8_t c = value_of(text.at[i + 2]), d = value_of(text.at[i + 3]);

		if ((a | b | c | d) & 0xc0)
			break;
		at[*done] = (char)(a << 2 | b >> 4);
		at[*done + 1] = (char)(b << 4 | c >> 2);
		at[*done + 2] = (char)(c << 6 | d);
		*done += 3;
	}
	return i;
}

bool base64_feed(struct base64 *base64, struct str text, struct buf *out)
{
	size_t done = 0;
	char *at;

	if (base64->bad)
		return false;
	while (text.len && (base64->digits || base64->pads)) {
		if (!base64_add(base64, text.at[0], out))
			return false;
		text = str_skip(text, 1);
	}
	at = buf_space(out, text.len / 4 * 3);
	if (!at)
		return base64_refuse(base64);
	text = str_skip(text, base64_add_groups(text, at, &done));
	buf_grew(out, done);
	for (; text.len; text = str_skip(text, 1))
		if (!base64_add(base64, text.at[0], out))
			return false;
	return buf_ok(out) || base64_refuse(base64);
}

bool base64_end(struct base64 *base64, struct buf *out)
{
	uint32_t bits = base64->bits << (24 - 6 * base64->digits);

	if (base64->bad || base64->digits == 1 ||
	    (base64->pads && base64->digits + base64->pads != 4))
		return base64_refuse(base64);
	if (base64->digits >= 2)
		buf_char(out, (char)(bits >> 16));
	if (base64->digits == 3)
		buf_char(out, (char)(bits >> 8));
	*base64 = (struct base64){0};
	return buf_ok(out);
}
