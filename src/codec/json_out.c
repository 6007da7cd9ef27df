// The writer half of json.h. It appends to a buf and allocates nothing itself; a full buf is
// reported by buf_ok() at the end.
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "codec/json.h"
#include "codec/text.h"

struct json_out json_to(struct buf *buf)
{
	return (struct json_out){.buf = buf};
}

// Writes the comma before each value but the first.
static void json_out_separate(struct json_out *out)
{
	if (out->comma)
		buf_char(out->buf, ',');
	out->comma = true;
}

void json_begin(struct json_out *out, char bracket)
{
	json_out_separate(out);
	buf_char(out->buf, bracket);
	out->comma = false;
}

void json_end(struct json_out *out, char bracket)
{
	buf_char(out->buf, bracket);
	out->comma = true;
}

static void json_out_escape(struct buf *out, uint8_t c)
{
	static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
	const char *found = c ? strchr(letters, c) : NULL;

	if (found) {
		buf_char(out, '\\');
		buf_char(out, names[found - letters]);
	} else {
		buf_fmt(out, "\\u%04x", c);
	}
}

// Writes all but an incomplete sequence at the end; returns its length.
static size_t json_out_pieces(struct buf *out, struct str text)
{
	while (text.len > 0 && buf_ok(out)) {
		size_t len = text_plain(text.at, text.len);

		if (len) {
			buf_add(out, text.at, len);
		} else if ((uint8_t)text.at[0] < 0x80) {
			json_out_escape(out, (uint8_t)text.at[0]);
			len = 1;
		} else {
			enum str_utf8 verdict = str_utf8(text, &len);

			if (verdict == STR_UTF8_CUT)
				return text.len;
			if (verdict == STR_UTF8_GOOD)
				buf_add(out, text.at, len);
			else
				buf_text(out, "\xef\xbf\xbd"); // U+FFFD
		}
		text = str_skip(text, len);
	}
	return 0;
}

void json_piece(struct buf *out, const void *bytes, size_t len, struct json_carry *carry)
{
	struct str text = {bytes, len};

	if (len == 0 && carry->len) {
		buf_text(out, "\xef\xbf\xbd"); // it was never completed
		carry->len = 0;
	}
	// One byte at a time until the cut sequence is complete or proves invalid; the byte that
	// broke it may begin the next sequence.
	while (carry->len && text.len) {
		size_t left;

		carry->bytes[carry->len++] = (uint8_t)text.at[0];
		text = str_skip(text, 1);
		left = json_out_pieces(out, (struct str){(char *)carry->bytes, carry->len});
		memmove(carry->bytes, carry->bytes + carry->len - left, left);
		carry->len = (uint8_t)left;
	}
	if (text.len) {
		size_t left = json_out_pieces(out, text);

		memcpy(carry->bytes, text.at + text.len - left, left);
		carry->len = (uint8_t)left;
	}
}

static void json_out_quote(struct buf *out, struct str text)
{
	struct json_carry carry = {0};

	buf_char(out, '"');
	json_piece(out, text.at, text.len, &carry);
	json_piece(out, NULL, 0, &carry);
	buf_char(out, '"');
}

void json_key(struct json_out *out, const char *key)
{
	json_out_separate(out);
	json_out_quote(out->buf, str_of(key));
	buf_char(out->buf, ':');
	out->comma = false;
}

void json_add_str(struct json_out *out, struct str text)
{
	json_out_separate(out);
	json_out_quote(out->buf, text);
}

void json_add_text(struct json_out *out, const char *text)
{
	if (text)
		json_add_str(out, str_of(text));
	else
		json_add_null(out);
}

void json_add_int(struct json_out *out, int64_t value)
{
	char digits[24];
	size_t at = sizeof(digits);
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

	do
		digits[--at] = (char)('0' + left % 10);
	while (left /= 10);
	if (value < 0)
		digits[--at] = '-';
	json_out_separate(out);
	buf_add(out->buf, digits + at, sizeof(digits) - at);
}

// The shorter of two forms that reads back as the same number. JSON has no infinity.
void json_add_double(struct json_out *out, double value)
{
	char text[32];

	if (!isfinite(value)) {
		json_add_null(out);
		return;
	}
	json_out_separate(out);
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	buf_text(out->buf, text);
}

void json_add_bool(struct json_out *out, bool value)
{
	json_out_separate(out);
	buf_text(out->buf, value ? "true" : "false");
}

void json_add_null(struct json_out *out)
{
	json_out_separate(out);
	buf_text(out->buf, "null");
}

void json_add_raw(struct json_out *out, struct str json)
{
	json_out_separate(out);
	buf_str(out->buf, json);
}

void json_put_begin(struct json_out *out, const char *key, char bracket)
{
	json_key(out, key);
	json_begin(out, bracket);
}

void json_put_str(struct json_out *out, const char *key, struct str text)
{
	json_key(out, key);
	json_add_str(out, text);
}

void json_put_text(struct json_out *out, const char *key, const char *text)
{
	json_key(out, key);
	json_add_text(out, text);
}

void json_put_int(struct json_out *out, const char *key, int64_t value)
{
	json_key(out, key);
	json_add_int(out, value);
}

void json_put_time(struct json_out *out, const char *key, int64_t wall_ms)
{
	auto_buf text = BUF_INIT(64);

	clock_iso(clock_bound(wall_ms), &text);
	json_put_str(out, key, buf_view(&text));
}

void json_put_bool(struct json_out *out, const char *key, bool value)
{
	json_key(out, key);
	json_add_bool(out, value);
}
