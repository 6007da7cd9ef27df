// Outside the long string every byte is copied to `rest`, and only strings, brackets, commas and
// colons are examined. Text that is not JSON may confuse this parser, but then the copied text is
// not JSON either, and json_read() refuses it.
#include "codec/json_flow.h"

#include "codec/text.h"

#define REPLACEMENT 0xfffd // replaces an unpaired surrogate

enum { OUTSIDE, IN_STRING, AFTER_BACKSLASH, IN_LONG };

void json_flow_init(struct json_flow *flow, const char *key, struct buf *rest)
{
	*flow = (struct json_flow){.key = key, .rest = rest};
}

static bool json_flow_refuse(struct json_flow *flow, const char *fault)
{
	flow->fault = fault;
	return false;
}

static void end_string(struct json_flow *flow)
{
	struct str name = str_skip(buf_view(flow->rest), flow->name_at);

	flow->state = OUTSIDE;
	if (!flow->is_key)
		return;
	name.len -= name.len ? 1 : 0; // the quote
	flow->is_long = flow->depth == 1 && str_is(name, flow->key);
	flow->is_key = false;
}

static void begin_string(struct json_flow *flow)
{
	if (flow->is_long && flow->depth == 1 && !flow->is_key && !flow->seen) {
		buf_text(flow->rest, "\"\"");
		flow->seen = true;
		flow->state = IN_LONG;
		return;
	}
	buf_char(flow->rest, '"');
	flow->name_at = flow->rest->len;
	flow->state = IN_STRING;
}

// Structure, byte by byte: this part of a body is short.
static bool json_flow_outside(struct json_flow *flow, char c)
{
	if (c == '"') {
		begin_string(flow);
		return true;
	}
	buf_char(flow->rest, c);
	if (c == '{' || c == '[') {
		flow->depth++;
		flow->is_key = c == '{';
	} else if (c == '}' || c == ']') {
		if (flow->depth == 0)
			return json_flow_refuse(flow, "a closing bracket without an opening one");
		flow->depth--;
		flow->is_key = false;
	} else if (c == ',') {
		// Names are compared at depth 1 only, so the type of deeper containers does not
		// matter.
		flow->is_key = flow->depth == 1;
	}
	if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != ':')
		flow->is_long = false;
	return true;
}

static bool json_flow_in_string(struct json_flow *flow, char c)
{
	buf_char(flow->rest, c);
	if (flow->state == AFTER_BACKSLASH)
		flow->state = IN_STRING;
	else if (c == '\\')
		flow->state = AFTER_BACKSLASH;
	else if (c == '"')
		end_string(flow);
	return true;
}

static void put_point(struct buf *out, uint32_t point)
{
	if (point < 0x80) {
		buf_char(out, (char)point);
	} else if (point < 0x800) {
		buf_char(out, (char)(0xc0 | point >> 6));
		buf_char(out, (char)(0x80 | (point & 63)));
	} else if (point < 0x10000) {
		buf_char(out, (char)(0xe0 | point >> 12));
		buf_char(out, (char)(0x80 | (point >> 6 & 63)));
		buf_char(out, (char)(0x80 | (point & 63)));
	} else {
		buf_char(out, (char)(0xf0 | point >> 18));
		buf_char(out, (char)(0x80 | (point >> 12 & 63)));
		buf_char(out, (char)(0x80 | (point >> 6 & 63)));
		buf_char(out, (char)(0x80 | (point & 63)));
	}
}

// The first half of a surrogate pair was not followed by the second.
static void end_high(struct json_flow *flow, struct buf *out)
{
	if (flow->high)
		put_point(out, REPLACEMENT);
	flow->high = 0;
}

static bool end_unit(struct json_flow *flow, struct buf *out)
{
	uint32_t unit = flow->unit;
	bool is_low = unit >= 0xdc00 && unit <= 0xdfff;

	flow->escape = 0;
	if (flow->high && is_low) {
		put_point(out, 0x10000 + ((uint32_t)(flow->high - 0xd800) << 10) + (unit - 0xdc00));
		flow->high = 0;
		return true;
	}
	end_high(flow, out);
	if (unit >= 0xd800 && unit <= 0xdbff)
		flow->high = (uint16_t)unit;
	else
		put_point(out, is_low ? REPLACEMENT : unit);
	return true;
}

// One character of an escape, the one after the backslash first.
static bool json_flow_escaped(struct json_flow *flow, char c, struct buf *out)
{
	static const char names[] = "\"\\/bfnrt", letters[] = "\"\\/\b\f\n\r\t";
	const char *found = c ? strchr(names, c) : NULL;
	int digit;

	if (flow->escape == 1) {
		if (c == 'u') {
			flow->unit = 0;
			flow->escape = 2;
			return true;
		}
		if (!found)
			return json_flow_refuse(flow, "an unknown escape in a string");
		end_high(flow, out);
		buf_char(out, letters[found - names]);
		flow->escape = 0;
		return true;
	}
	digit = text_hex_digit(c);
	if (digit < 0)
		return json_flow_refuse(flow, "\\u is not followed by four hex digits");
	flow->unit = (uint16_t)(flow->unit << 4 | digit);
	return ++flow->escape < 6 || end_unit(flow, out);
}

// A byte of a multi-byte sequence.
static bool json_flow_multibyte(struct json_flow *flow, char c, struct buf *out)
{
	size_t len;

	flow->cut[flow->cut_len++] = (uint8_t)c;
	switch (str_utf8((struct str){(char *)flow->cut, flow->cut_len}, &len)) {
	case STR_UTF8_CUT:
		return true;
	case STR_UTF8_GOOD:
		buf_add(out, flow->cut, flow->cut_len);
		flow->cut_len = 0;
		return true;
	default:
		return json_flow_refuse(flow, "a string that is not UTF-8");
	}
}

static bool in_long(struct json_flow *flow, struct str *in, struct buf *out)
{
	size_t room = out->ceiling - out->len, len;
	unsigned char c = (unsigned char)in->at[0];

	if (!flow->escape && !flow->cut_len && !flow->high) {
		len = text_plain(in->at, in->len < room ? in->len : room);
		if (len) {
			buf_add(out, in->at, len);
			*in = str_skip(*in, len);
			return true;
		}
	}
	if (flow->high && !flow->escape && c != '\\') {
		end_high(flow, out);
		return true;
	}
	*in = str_skip(*in, 1);
	if (flow->escape)
		return json_flow_escaped(flow, (char)c, out);
	if (c == '\\' && !flow->cut_len) {
		flow->escape = 1;
		return true;
	}
	if (flow->cut_len || c >= 0x80)
		return json_flow_multibyte(flow, (char)c, out);
	if (c == '"') {
		flow->state = OUTSIDE;
		flow->is_long = false;
		return true;
	}
	if (c < 0x20)
		return json_flow_refuse(flow, "a control character in a string");
	buf_char(out, (char)c); // DEL
	return true;
}

enum json_flow_verdict json_flow(struct json_flow *flow, struct str *in, struct buf *out)
{
	while (in->len > 0) {
		bool fine;

		if (flow->fault)
			return JSON_FLOW_BAD;
		if (flow->state == IN_LONG) {
			if (out->ceiling - out->len < 8)
				return JSON_FLOW_FULL;
			fine = in_long(flow, in, out);
		} else {
			char c = in->at[0];

			*in = str_skip(*in, 1);
			fine = flow->state == OUTSIDE ? json_flow_outside(flow, c)
						      : json_flow_in_string(flow, c);
			if (fine && !buf_ok(flow->rest))
				fine = json_flow_refuse(
					flow, "the members beside the content are too large");
		}
		if (!fine)
			return JSON_FLOW_BAD;
	}
	return JSON_FLOW_MORE;
}
