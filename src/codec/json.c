// The tree is json-c's, and `struct json` is its object under our name. Input that json-c accepts
// too leniently (duplicate members, NULs, huge integers, overflowing numbers) is refused around it:
// json_scan() checks the text before, and a walk over the tree compares counts afterwards. Two of
// json-c's type names clash with functions of ours and are renamed by macros.
#define json_type json_c_type
#define json_bool json_c_bool
#include <json-c/json.h>
#undef json_type
#undef json_bool

#include <errno.h>
#include <limits.h>
#include <math.h>

#include "codec/json.h"
#include "codec/json_scan.h"

static struct json_object *json_inner(const struct json *value)
{
	return (struct json_object *)value;
}

static struct json *json_outer(struct json_object *value)
{
	return (struct json *)value;
}

// Counts members in the whole tree; *finite becomes false at an overflowed number. json_scan()
// bounds the depth of this recursion.
static size_t json_walk(const struct json *value, bool *finite)
{
	struct json_object *object = json_inner(value);
	size_t sum = 0, at = 0;
	struct json *member;
	struct str key;

	switch (json_object_get_type(object)) {
	case json_type_object:
		for (; json_next(value, &at, &key, &member); sum++)
			sum += json_walk(member, finite);
		return sum;
	case json_type_array:
		for (; at < json_object_array_length(object); at++)
			sum += json_walk(json_at(value, at), finite);
		return sum;
	case json_type_double:
		*finite &= isfinite(json_object_get_double(object));
		return 0;
	default:
		return 0;
	}
}

static fallible bad_json(const char *fault)
{
	return err_new(INVALID, "bad_json", "the text is not valid JSON: %s", fault);
}

static fallible json_parse(struct str text, struct json_object **out)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_SCAN_DEPTH + 2);
	struct json_object *root;
	enum json_tokener_error verdict;

	if (!tokener)
		return err_sys(ENOMEM, "make a JSON parser");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, text.at, (int)text.len);
	// A number at the top level has no terminator: the NUL marks the end of the text.
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		root = json_tokener_parse_ex(tokener, "", -1);
	verdict = json_tokener_get_error(tokener);
	// The parser collects each string here: a value of a secret, too.
	if (tokener->pb && tokener->pb->buf)
		explicit_bzero(tokener->pb->buf, (size_t)tokener->pb->size);
	json_tokener_free(tokener);
	if (verdict != json_tokener_success)
		return bad_json(json_tokener_error_desc(verdict));
	*out = root;
	return OK;
}

static fallible read_tree(struct str text, size_t values_max, struct json **out)
{
	struct json_object *object = NULL;
	auto_json root = NULL;
	struct json_scan scan;
	bool finite = true;

	if (text.len > INT_MAX)
		return err_new(TOO_LARGE, "too_large", "the JSON text is too large");
	if (!json_scan(text, &scan))
		return err_new(INVALID, "bad_json", "the text is not valid JSON: %s (at byte %zu)",
			       scan.fault, scan.at);
	if (scan.values > values_max)
		return bad_json("it has too many values");
	TRY(json_parse(scan.value, &object));
	root = json_outer(object);
	if (json_walk(root, &finite) != scan.members)
		return bad_json("an object has two members of one name");
	if (!finite)
		return bad_json("a number is out of range");
	*out = take_ptr(root);
	return OK;
}

fallible json_read(struct str text, struct json **out)
{
	return read_tree(text, JSON_VALUES_MAX, out);
}

fallible json_read_any(struct str text, struct json **out)
{
	return read_tree(text, SIZE_MAX, out);
}

// A tree has one owner, so that nobody has its strings any more.
static void json_wipe(const struct json *value)
{
	struct json_object *object = json_inner(value);
	struct json *member;
	struct str key;
	size_t at = 0;

	switch (json_object_get_type(object)) {
	case json_type_object:
		while (json_next(value, &at, &key, &member))
			json_wipe(member);
		break;
	case json_type_array:
		for (; at < json_object_array_length(object); at++)
			json_wipe(json_at(value, at));
		break;
	case json_type_string:
		explicit_bzero((char *)json_object_get_string(object),
			       (size_t)json_object_get_string_len(object));
		break;
	default:
		break;
	}
}

void json_free(struct json *root)
{
	json_wipe(root);
	json_object_put(json_inner(root));
}

enum json_type json_type(const struct json *value)
{
	switch (json_object_get_type(json_inner(value))) {
	case json_type_boolean:
		return JSON_BOOL;
	case json_type_double:
	case json_type_int:
		return JSON_NUMBER;
	case json_type_string:
		return JSON_STRING;
	case json_type_array:
		return JSON_ARRAY;
	case json_type_object:
		return JSON_OBJECT;
	default:
		return JSON_NULL;
	}
}

struct json *json_get(const struct json *object, const char *key)
{
	struct json_object *member = NULL;

	if (json_type(object) == JSON_OBJECT)
		json_object_object_get_ex(json_inner(object), key, &member);
	return json_outer(member);
}

size_t json_count(const struct json *array_or_object)
{
	switch (json_type(array_or_object)) {
	case JSON_ARRAY:
		return json_object_array_length(json_inner(array_or_object));
	case JSON_OBJECT:
		return (size_t)json_object_object_length(json_inner(array_or_object));
	default:
		return 0;
	}
}

struct json *json_at(const struct json *array, size_t index)
{
	if (json_type(array) != JSON_ARRAY)
		return NULL;
	return json_outer(json_object_array_get_idx(json_inner(array), index));
}

// *at is the last returned entry: an index would make each step a walk from the head.
bool json_next(const struct json *object, size_t *at, struct str *key, struct json **value)
{
	struct lh_entry *entry = (struct lh_entry *)*at;

	if (json_type(object) != JSON_OBJECT)
		return false;
	entry = entry ? lh_entry_next(entry)
		      : lh_table_head(json_object_get_object(json_inner(object)));
	if (!entry)
		return false;
	*at = (size_t)entry;
	*key = str_of(lh_entry_k(entry));
	*value = json_outer((struct json_object *)lh_entry_v(entry));
	return true;
}

static const char *const type_words[] = {
	[JSON_NULL] = "null",	    [JSON_BOOL] = "true or false", [JSON_NUMBER] = "a number",
	[JSON_STRING] = "a string", [JSON_ARRAY] = "an array",	   [JSON_OBJECT] = "an object",
};

fallible json_want(const struct json *value, const char *where, enum json_type type)
{
	if (!value || json_type(value) == type)
		return OK;
	return err_new(INVALID, "bad_field", "'%s' must be %s", where, type_words[type]);
}

fallible json_str(const struct json *value, const char *where, struct str *out)
{
	struct str chars;

	if (!value)
		return OK;
	TRY(json_want(value, where, JSON_STRING));
	chars = json_chars(value);
	if (memchr(chars.at, 0, chars.len))
		return err_new(INVALID, "bad_field", "'%s' must not contain a NUL", where);
	*out = chars;
	return OK;
}

struct str json_chars(const struct json *value)
{
	if (!value || json_type(value) != JSON_STRING)
		return STR("");
	return (struct str){json_object_get_string(json_inner(value)),
			    (size_t)json_object_get_string_len(json_inner(value))};
}

fallible json_u64(const struct json *value, const char *where, uint64_t min, uint64_t max,
		  uint64_t *out)
{
	double number;

	if (!value)
		return OK;
	TRY(json_want(value, where, JSON_NUMBER));
	number = json_object_get_double(json_inner(value)); // exact: integers are within 2^53
	if (number < 0 || number > 0x1p53 || number != (double)(uint64_t)number)
		return err_new(INVALID, "bad_field", "'%s' must be a whole number from 0", where);
	if ((uint64_t)number < min || (uint64_t)number > max)
		return err_new(INVALID, "bad_field", "'%s' must be between %llu and %llu", where,
			       (unsigned long long)min, (unsigned long long)max);
	*out = (uint64_t)number;
	return OK;
}

fallible json_double(const struct json *value, const char *where, double min, double max,
		     double *out)
{
	double number;

	if (!value)
		return OK;
	TRY(json_want(value, where, JSON_NUMBER));
	number = json_object_get_double(json_inner(value));
	if (!(number >= min && number <= max))
		return err_new(INVALID, "bad_field", "'%s' must be between %g and %g", where, min,
			       max);
	*out = number;
	return OK;
}

fallible json_bool(const struct json *value, const char *where, bool *out)
{
	if (!value)
		return OK;
	TRY(json_want(value, where, JSON_BOOL));
	*out = json_object_get_boolean(json_inner(value));
	return OK;
}

static fallible json_unknown(struct str key, const char *const *known)
{
	auto_buf list = BUF_INIT(1024);

	for (; *known; known++)
		buf_fmt(&list, "%s%s", list.len ? ", " : "", *known);
	return err_hint(err_new(INVALID, "unknown_field", "there is no field '%.*s'",
				key.len > 64 ? 64 : (int)key.len, key.at),
			"known fields: %s", list.at ? list.at : "none");
}

fallible json_only(const struct json *object, const char *const *known)
{
	struct json *value;
	struct str key;
	size_t at = 0;

	TRY(json_want(object, "body", JSON_OBJECT));
	while (json_next(object, &at, &key, &value)) {
		const char *const *name = known;

		while (*name && !str_is(key, *name))
			name++;
		if (!*name)
			return json_unknown(key, known);
	}
	return OK;
}

void json_add_value(struct json_out *out, const struct json *value)
{
	int flags = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;

	json_add_raw(out, str_of(json_object_to_json_string_ext(json_inner(value), flags)));
}
