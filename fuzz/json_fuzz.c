// Any bytes as a document; what is accepted is written again and must be accepted again. The same
// bytes as the content of a string, whole and in pieces, must give one and the same good string.
#include "codec/json.h"

#include "fuzz.h"

static void copy(struct json_out *out, const struct json *value, int depth)
{
	struct json *member;
	struct str key, text = {0};
	double number = 0;
	bool flag = false;
	size_t at = 0;

	MUST(depth <= 32);
	switch (json_type(value)) {
	case JSON_NULL:
		json_add_null(out);
		break;
	case JSON_BOOL:
		err_free(json_bool(value, "", &flag));
		json_add_bool(out, flag);
		break;
	case JSON_NUMBER:
		err_free(json_double(value, "", -1.7e308, 1.7e308, &number));
		// Beyond 2^53 a double may print as an integer that is no longer ours to read.
		json_add_double(out, number > 0x1p53 || number < -0x1p53 ? 0.5 : number + 0.0);
		break;
	case JSON_STRING:
		text = json_chars(value);
		json_add_str(out, text);
		break;
	case JSON_ARRAY:
		json_begin(out, '[');
		for (; at < json_count(value); at++)
			copy(out, json_at(value, at), depth + 1);
		json_end(out, ']');
		break;
	case JSON_OBJECT:
		json_begin(out, '{');
		for (; json_next(value, &at, &key, &member);) {
			json_key(out, key.at);
			copy(out, member, depth + 1);
		}
		json_end(out, '}');
		break;
	}
}

static void again(const struct json *root, struct buf *out)
{
	struct json_out writer = json_to(out);

	copy(&writer, root, 0);
	MUST(buf_ok(out));
}

static void try_document(struct str text)
{
	auto_buf first = BUF_INIT(1 << 24), second = BUF_INIT(1 << 24);
	auto_json root = NULL;
	auto_json copied = NULL;
	auto_err err = json_read(text, &root);
	auto_err twice = NULL;

	if (err) {
		MUST(err_kind(err) == ERR_INVALID);
		return;
	}
	again(root, &first);
	twice = json_read(buf_view(&first), &copied);
	MUST(!twice);
	again(copied, &second);
	MUST(str_eq(buf_view(&first), buf_view(&second)));
}

static void try_string(struct str text)
{
	auto_buf whole = BUF_INIT(1 << 24), pieces = BUF_INIT(1 << 24);
	struct json_out out = json_to(&whole);
	struct json_carry carry = {0};
	auto_json root = NULL;
	auto_err err = NULL;
	size_t step = text.len ? (uint8_t)text.at[0] % 7 + 1 : 1;

	json_add_str(&out, text);
	buf_char(&pieces, '"');
	for (struct str rest = text; rest.len > 0; rest = str_skip(rest, step))
		json_piece(&pieces, rest.at, rest.len < step ? rest.len : step, &carry);
	json_piece(&pieces, NULL, 0, &carry);
	buf_char(&pieces, '"');
	MUST(str_eq(buf_view(&whole), buf_view(&pieces)));
	err = json_read(buf_view(&whole), &root);
	MUST(!err || memchr(text.at, 0, text.len)); // \u0000 is written, but not read
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};

	try_document(text);
	try_string(text);
	return 0;
}
