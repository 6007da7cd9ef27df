// Parses and writes capnweb messages on top of codec/json. Input is untrusted: kinds, ids, counts
// and nesting are checked before use. A value that has no plain JSON form is refused where one is
// needed.
#include "codec/rpc.h"

#include <math.h>

#include "base/clock.h"
#include "codec/base64.h"
#include "codec/text.h"

#define BASE64_MAX (32u << 20)

static fallible rpc_bad(const char *fault)
{
	return err_new(INVALID, "bad_rpc", "the message is malformed: %s", fault);
}

static bool is_array(const struct json *json)
{
	return json && json_type(json) == JSON_ARRAY;
}

static bool read_str(const struct json *json, struct str *out)
{
	if (!json || json_type(json) != JSON_STRING)
		return false;
	*out = json_chars(json);
	return true;
}

static bool codec_rpc_read_number(const struct json *json, double *out)
{
	auto_err err = NULL;

	if (!json || json_type(json) != JSON_NUMBER)
		return false;
	err = json_double(json, "", -0x1p60, 0x1p60, out);
	return !err;
}

static bool codec_rpc_read_id(const struct json *json, int64_t *out)
{
	double number = 0;

	if (!codec_rpc_read_number(json, &number) || number != floor(number) ||
	    fabs(number) > (double)RPC_ID_MAX)
		return false;
	*out = (int64_t)number;
	return true;
}

static const struct {
	const char *word;
	enum rpc_kind kind;
	size_t least; // minimum number of elements
	bool id, value;
} kinds[] = {
	{"push", RPC_PUSH, 2, false, true},	  {"pull", RPC_PULL, 2, true, false},
	{"resolve", RPC_RESOLVE, 3, true, true},  {"reject", RPC_REJECT, 3, true, true},
	{"release", RPC_RELEASE, 3, true, false}, {"pipe", RPC_PIPE, 1, false, false},
	{"stream", RPC_STREAM, 2, false, true},	  {"abort", RPC_ABORT, 2, false, true},
};

fallible rpc_read(const struct json *root, struct rpc_message *out)
{
	struct rpc_message message = {0};
	struct str word = {0};
	int64_t count = 0;
	size_t i = 0;

	if (!is_array(root) || !read_str(json_at(root, 0), &word))
		return rpc_bad("it is not an array that begins with a word");
	while (i < sizeof(kinds) / sizeof(*kinds) && !str_is(word, kinds[i].word))
		i++;
	if (i == sizeof(kinds) / sizeof(*kinds))
		return rpc_bad("its kind is not known");
	if (json_count(root) < kinds[i].least)
		return rpc_bad("it is too short");
	message.kind = kinds[i].kind;
	if (kinds[i].id && !codec_rpc_read_id(json_at(root, 1), &message.id))
		return rpc_bad("its id is not a valid number");
	if (kinds[i].value)
		message.value = json_at(root, kinds[i].id ? 2 : 1);
	if (message.kind == RPC_RELEASE) {
		if (!codec_rpc_read_id(json_at(root, 2), &count) || count < 0)
			return rpc_bad("its count is not a valid number");
		message.count = (uint64_t)count;
	}
	*out = message;
	return OK;
}

static const struct {
	const char *word;
	enum rpc_type type;
} types[] = {
	{"undefined", RPC_UNDEFINED}, {"date", RPC_DATE},	  {"bytes", RPC_BYTES},
	{"error", RPC_ERROR},	      {"bigint", RPC_NUMBER},	  {"inf", RPC_NUMBER},
	{"-inf", RPC_NUMBER},	      {"nan", RPC_NUMBER},	  {"export", RPC_EXPORT},
	{"promise", RPC_PROMISE},     {"import", RPC_IMPORT},	  {"pipeline", RPC_PIPELINE},
	{"readable", RPC_READABLE},   {"writable", RPC_WRITABLE}, {"headers", RPC_OTHER},
	{"request", RPC_OTHER},	      {"response", RPC_OTHER},	  {"blob", RPC_OTHER},
	{"remap", RPC_OTHER},
};

static bool is_path(const struct json *path)
{
	if (!is_array(path))
		return false;
	for (size_t i = 0; i < json_count(path); i++) {
		const struct json *part = json_at(path, i);

		if (!part || (json_type(part) != JSON_STRING && json_type(part) != JSON_NUMBER))
			return false;
	}
	return true;
}

static fallible read_pipeline(const struct json *json, struct rpc_value *value)
{
	size_t count = json_count(json);

	if (count > 2) {
		value->path = json_at(json, 2);
		if (!is_path(value->path))
			return rpc_bad("a path is not an array of names");
	}
	if (count > 3) {
		value->args = json_at(json, 3);
		if (!is_array(value->args))
			return rpc_bad("arguments are not an array");
	}
	return count > 4 ? rpc_bad("a pipeline is too long") : OK;
}

static fallible read_special(const struct json *json, struct rpc_value *value)
{
	const struct json *first = json_at(json, 1);
	struct str word = {0};
	double number;

	switch (value->type) {
	case RPC_DATE:
		value->plain = first;
		return !first || codec_rpc_read_number(first, &number)
			       ? OK
			       : rpc_bad("a date is not a number");
	case RPC_BYTES:
		return read_str(first, &value->text) ? OK : rpc_bad("bytes are not base64");
	case RPC_ERROR:
		value->details = json_at(json, 4);
		if (value->details && json_type(value->details) != JSON_OBJECT)
			return rpc_bad("the details of an error are not an object");
		if (!read_str(first, &word) || !read_str(json_at(json, 2), &value->text))
			return rpc_bad("an error has no name or no message");
		return OK;
	case RPC_EXPORT:
	case RPC_PROMISE:
	case RPC_READABLE:
	case RPC_WRITABLE:
		return codec_rpc_read_id(first, &value->id)
			       ? OK
			       : rpc_bad("an id is not a valid number");
	case RPC_IMPORT:
	case RPC_PIPELINE:
		if (!codec_rpc_read_id(first, &value->id))
			return rpc_bad("an id is not a valid number");
		return read_pipeline(json, value);
	default:
		return OK;
	}
}

fallible rpc_value(const struct json *json, struct rpc_value *out)
{
	struct rpc_value value = {.type = RPC_PLAIN, .plain = json};
	struct str word = {0};

	if (!is_array(json)) {
		*out = value;
		return OK;
	}
	if (json_count(json) == 1 && is_array(json_at(json, 0))) {
		*out = (struct rpc_value){.type = RPC_ARRAY, .plain = json_at(json, 0)};
		return OK;
	}
	if (!read_str(json_at(json, 0), &word))
		return rpc_bad("an array is neither doubled nor special");
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (!str_is(word, types[i].word))
			continue;
		value = (struct rpc_value){.type = types[i].type, .text = word};
		TRY(read_special(json, &value));
		*out = value;
		return OK;
	}
	return rpc_bad("a special value is not known");
}

static void codec_rpc_put_number(const struct json *json, struct json_out *out)
{
	double number = 0;

	// Past 2^53 a number is not exact, and our own reader would refuse it.
	if (!codec_rpc_read_number(json, &number) || fabs(number) > 0x1p53)
		json_add_null(out);
	else if (number == floor(number))
		json_add_int(out, (int64_t)number);
	else
		json_add_double(out, number);
}

fallible rpc_plain_members(const struct json *object, struct json_out *out)
{
	struct json *member;
	struct str key;
	size_t at = 0;

	while (json_next(object, &at, &key, &member)) {
		struct rpc_value value = {0};

		TRY(rpc_value(member, &value));
		if (value.type == RPC_UNDEFINED)
			continue;
		json_key(out, key.at);
		TRY(rpc_plain(member, out));
	}
	return OK;
}

static fallible put_scalar(const struct json *json, struct json_out *out)
{
	bool flag = false;

	switch (json ? json_type(json) : JSON_NULL) {
	case JSON_BOOL:
		err_free(json_bool(json, "", &flag));
		json_add_bool(out, flag);
		break;
	case JSON_NUMBER:
		codec_rpc_put_number(json, out);
		break;
	case JSON_STRING:
		json_add_str(out, json_chars(json));
		break;
	case JSON_OBJECT:
		json_begin(out, '{');
		TRY(rpc_plain_members(json, out));
		json_end(out, '}');
		break;
	default:
		json_add_null(out);
	}
	return OK;
}

static void put_date(const struct json *json, struct json_out *out)
{
	auto_buf text = BUF_INIT(64);
	double ms = 0;

	if (!codec_rpc_read_number(json, &ms) || fabs(ms) > 8.64e15 || ms < 0) {
		json_add_null(out);
		return;
	}
	clock_iso((int64_t)ms, &text);
	json_add_str(out, buf_view(&text));
}

fallible rpc_plain(const struct json *json, struct json_out *out)
{
	struct rpc_value value;

	TRY(rpc_value(json, &value));
	switch (value.type) {
	case RPC_PLAIN:
		return put_scalar(value.plain, out);
	case RPC_ARRAY:
		json_begin(out, '[');
		for (size_t i = 0; i < json_count(value.plain); i++)
			TRY(rpc_plain(json_at(value.plain, i), out));
		json_end(out, ']');
		return OK;
	case RPC_DATE:
		put_date(value.plain, out);
		return OK;
	case RPC_BYTES:
	case RPC_ERROR:
		json_add_str(out, value.text);
		return OK;
	case RPC_UNDEFINED:
	case RPC_NUMBER:
		json_add_null(out);
		return OK;
	default:
		return err_hint(err_new(INVALID, "bad_rpc", "this argument must be a plain value"),
				"functions, streams and stubs go where the method expects them");
	}
}

// capnweb omits the padding.
bool rpc_bytes(struct str text, struct buf *out)
{
	struct base64 base64 = {0};

	return text.len <= BASE64_MAX && base64_feed(&base64, text, out) &&
	       base64_end(&base64, out);
}

void rpc_wrap(struct rpc_wrapper *wrapper, struct buf *out, struct str json)
{
	size_t from = 0;

	for (size_t i = 0; i < json.len; i++) {
		char c = json.at[i];

		if (wrapper->escaped) {
			wrapper->escaped = false;
		} else if (wrapper->quoted && c == '\\') {
			wrapper->escaped = true;
		} else if (c == '"') {
			wrapper->quoted = !wrapper->quoted;
		} else if (!wrapper->quoted && (c == '[' || c == ']')) {
			buf_add(out, json.at + from, i - from);
			buf_char(out, c);
			from = i;
		}
	}
	buf_add(out, json.at + from, json.len - from);
}

void rpc_put(struct json_out *out, const struct json *json)
{
	struct json *member;
	struct str key;
	size_t at = 0;

	switch (json ? json_type(json) : JSON_NULL) {
	case JSON_ARRAY:
		json_begin(out, '[');
		json_begin(out, '[');
		for (; at < json_count(json); at++)
			rpc_put(out, json_at(json, at));
		json_end(out, ']');
		json_end(out, ']');
		break;
	case JSON_OBJECT:
		json_begin(out, '{');
		while (json_next(json, &at, &key, &member)) {
			json_key(out, key.at);
			rpc_put(out, member);
		}
		json_end(out, '}');
		break;
	default:
		err_free(put_scalar(json, out));
	}
}

void rpc_put_bytes(struct json_out *out, const void *bytes, size_t len)
{
	json_begin(out, '[');
	json_add_text(out, "bytes");
	buf_text(out->buf, ",\"");
	text_base64(out->buf, bytes, len);
	while (buf_ok(out->buf) && out->buf->len && out->buf->at[out->buf->len - 1] == '=')
		out->buf->at[--out->buf->len] = 0;
	buf_char(out->buf, '"');
	json_end(out, ']');
}
