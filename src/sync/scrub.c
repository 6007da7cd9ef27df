// Empties the fields of JSON secrets that would let a sandbox renew the host's tokens. A field is
// kept, since programs that read the file expect it. The text is of the user's own file;
// json_read() bounds its depth. Text that is no JSON is passed on unchanged, unless it looks like
// JSON and names such a field: then nothing is known of it, and it is refused.
#include "sync/scrub.h"

#include <string.h>

#include "base/mem.h"
#include "codec/json.h"

static bool scrub_is_named(struct str key)
{
	const struct str word = STR("refresh");

	for (size_t i = 0; i + word.len <= key.len; i++)
		if (str_eq_nocase((struct str){key.at + i, word.len}, word))
			return true;
	return false;
}

static bool scrub_looks_like_json(struct str text)
{
	while (text.len && memchr(" \t\r\n\xef\xbb\xbf", *text.at, 7)) // and a byte order mark
		text = str_skip(text, 1);
	return text.len && (*text.at == '{' || *text.at == '[');
}

static void scrub_value(struct json_out *out, const struct json *value, bool empty)
{
	struct str key;
	struct json *member;

	switch (json_type(value)) {
	case JSON_OBJECT:
		json_begin(out, '{');
		for (size_t at = 0; json_next(value, &at, &key, &member);) {
			auto_free char *name = mem_dup(key.at, key.len);

			json_key(out, name);
			scrub_value(out, member, empty || scrub_is_named(key));
		}
		json_end(out, '}');
		break;
	case JSON_ARRAY:
		json_begin(out, '[');
		for (size_t i = 0; i < json_count(value); i++)
			scrub_value(out, json_at(value, i), empty);
		json_end(out, ']');
		break;
	case JSON_STRING:
		json_add_str(out, empty ? STR("") : json_chars(value));
		break;
	case JSON_NUMBER:
		if (empty)
			json_add_int(out, 0);
		else
			json_add_value(out, value);
		break;
	case JSON_BOOL:
		if (empty)
			json_add_bool(out, false);
		else
			json_add_value(out, value);
		break;
	case JSON_NULL:
		json_add_null(out);
	}
}

fallible scrub_secret(struct str text, bool is_json, struct buf *out)
{
	bool looks_so = scrub_looks_like_json(text);
	auto_json root = NULL;
	struct err *err = OK;

	if (is_json || looks_so)
		err = json_read(text, &root);
	if (err && (is_json || scrub_is_named(text))) {
		err_free(err);
		return err_hint(err_new(INVALID, "bad_secret", "the secret cannot be read as JSON"),
				"fields that contain 'refresh' are emptied before it is sent");
	}
	err_free(err);
	if (root) {
		struct json_out json = json_to(out);

		scrub_value(&json, root, false);
	} else {
		buf_add(out, text.at, text.len);
	}
	return OK;
}
