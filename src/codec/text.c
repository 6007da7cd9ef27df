// Encoders and decoders for short texts. Decoders are strict: malformed input is refused, and
// base64 has exactly one accepted encoding for a content. UTF-8 is checked by RFC 3629: no overlong
// forms, no surrogates.
#include "codec/text.h"

#include <string.h>
#include <time.h>

#include "codec/base64.h"

static const char base64_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void text_base64(struct buf *out, const void *bytes, size_t len)
{
	const uint8_t *in = bytes;
	size_t size = (len + 2) / 3 * 4;
	char *at = size / 4 * 3 >= len ? buf_space(out, size) : NULL;

	if (!at || len == 0)
		return;
	for (; len >= 3; in += 3, len -= 3, at += 4) {
		uint32_t group = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];

		at[0] = base64_digits[group >> 18];
		at[1] = base64_digits[group >> 12 & 63];
		at[2] = base64_digits[group >> 6 & 63];
		at[3] = base64_digits[group & 63];
	}
	if (len > 0) {
		uint32_t group = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0);

		at[0] = base64_digits[group >> 18];
		at[1] = base64_digits[group >> 12 & 63];
		at[2] = len > 1 ? base64_digits[group >> 6 & 63] : '=';
		at[3] = '=';
	}
	buf_grew(out, size);
}

// Strict: the length is a multiple of four, and the bits that padding leaves over are zero, so that
// every content has exactly one encoding.
bool text_unbase64(struct buf *out, struct str text)
{
	struct base64 base64 = {0};

	return text.len % 4 == 0 && base64_feed(&base64, text, out) &&
	       !(base64.bits & ((1u << 2 * base64.pads) - 1)) && base64_end(&base64, out);
}

void text_hex(struct buf *out, const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *in = bytes;
	char *at = len <= SIZE_MAX / 2 ? buf_space(out, 2 * len) : NULL;

	if (!at || len == 0)
		return;
	for (size_t i = 0; i < len; i++) {
		at[2 * i] = digits[in[i] >> 4];
		at[2 * i + 1] = digits[in[i] & 15];
	}
	buf_grew(out, 2 * len);
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool text_percent_next(struct str *rest, char *out)
{
	int high, low;

	if (rest->len == 0)
		return false;
	if (rest->at[0] != '%') {
		*out = rest->at[0];
		*rest = str_skip(*rest, 1);
		return *out != 0;
	}
	if (rest->len < 3)
		return false;
	high = text_hex_digit(rest->at[1]);
	low = text_hex_digit(rest->at[2]);
	if (high < 0 || low < 0 || (high | low) == 0)
		return false;
	*out = (char)(high << 4 | low);
	*rest = str_skip(*rest, 3);
	return true;
}

bool text_unpercent(struct buf *out, struct str text)
{
	char c;

	while (text.len > 0) {
		if (!text_percent_next(&text, &c))
			return false;
		buf_char(out, c);
	}
	return buf_ok(out);
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

void text_percent(struct buf *out, struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (is_unreserved(text.at[i]))
			buf_char(out, text.at[i]);
		else
			buf_fmt(out, "%%%02X", (unsigned char)text.at[i]);
	}
}

bool text_is_utf8(struct str text)
{
	size_t len;

	while (text.len > 0) {
		uint64_t word;

		// Most text is ASCII: eight bytes at a time.
		if (text.len >= 8) {
			memcpy(&word, text.at, 8);
			if (!(word & 0x8080808080808080)) {
				text = str_skip(text, 8);
				continue;
			}
		}
		if (str_utf8(text, &len) != STR_UTF8_GOOD)
			return false;
		text = str_skip(text, len);
	}
	return true;
}

bool text_has_control(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		// C1 controls are U+0080 to U+009F: C2 80 to C2 9F.
		bool c1 = c == 0xc2 && i + 1 < text.len && (unsigned char)text.at[i + 1] < 0xa0;

		if (c < 0x20 || c == 0x7f || c1)
			return true;
	}
	return false;
}

size_t text_utf8_whole(struct str text)
{
	size_t len;

	for (size_t back = 1; back <= 3 && back <= text.len; back++) {
		struct str tail = str_skip(text, text.len - back);

		if (((uint8_t)tail.at[0] & 0xc0) == 0x80)
			continue; // not a lead byte: look further back
		return str_utf8(tail, &len) == STR_UTF8_CUT ? text.len - back : text.len;
	}
	return text.len;
}

// Sets the high bit of each zero byte; a byte after one may be set wrongly.
static uint64_t zero_bytes(uint64_t word)
{
	return (word - 0x0101010101010101) & ~word & 0x8080808080808080;
}

// Whether eight bytes contain one that is not plain.
static bool is_mixed(const uint8_t *at)
{
	uint64_t word, low;

	memcpy(&word, at, 8);
	low = (word - 0x2020202020202020) & ~word & 0x8080808080808080;
	return (word & 0x8080808080808080) | low | zero_bytes(word ^ 0x2222222222222222) |
	       zero_bytes(word ^ 0x5c5c5c5c5c5c5c5c) | zero_bytes(word ^ 0x7f7f7f7f7f7f7f7f);
}

size_t text_plain(const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	size_t i = 0;

	while (i + 8 <= len && !is_mixed(at + i))
		i += 8;
	while (i < len && at[i] >= 0x20 && at[i] < 0x7f && at[i] != '"' && at[i] != '\\')
		i++;
	return i;
}

// Minutes east of UTC of "Z" or "+hh:mm"; false: malformed.
static bool text_read_zone(const char *at, int *out)
{
	struct str text = str_of(at);
	uint64_t hours, minutes;

	*out = 0;
	if (str_is(text, "Z"))
		return true;
	if (text.len != 6 || (*at != '+' && *at != '-') || at[3] != ':' ||
	    !str_to_u64((struct str){at + 1, 2}, 0, 14, &hours) ||
	    !str_to_u64((struct str){at + 4, 2}, 0, 59, &minutes))
		return false;
	*out = (*at == '-' ? -1 : 1) * (int)(hours * 60 + minutes);
	return true;
}

bool text_read_time(struct str text, int64_t *out_wall_ms)
{
	char room[40], *at;
	struct tm tm = {0};
	int64_t ms = 0;
	int zone;

	if (text.len >= sizeof(room) || memchr(text.at, 0, text.len))
		return false;
	memcpy(room, text.at, text.len);
	room[text.len] = 0;
	at = strptime(room, "%Y-%m-%dT%H:%M:%S", &tm);
	if (at && *at == '.') {
		int64_t unit = 100;

		for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
			ms += (*at - '0') * unit;
	}
	if (!at || !text_read_zone(at, &zone))
		return false;
	ms += ((int64_t)timegm(&tm) - zone * 60) * 1000;
	if (ms < 0)
		return false;
	*out_wall_ms = ms;
	return true;
}
