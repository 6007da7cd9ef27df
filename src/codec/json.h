// Strict reading of untrusted JSON: depth 32, UTF-8 checked, no duplicate keys, no NUL in names,
// integers within +-2^53, nothing after the value. json-c parses, and we check what it accepts too
// leniently. And an append-only writer that can only produce valid JSON.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct json; // a value inside a tree; borrowed from its root

#define JSON_VALUES_MAX 65536 // each costs about a hundred bytes of tree, and time

// INVALID bad_json with a message that says where. The caller owns *out.
fallible json_read(struct str text, struct json **out);
// As json_read() without limit on the number of values: for answers of a trusted server.
fallible json_read_any(struct str text, struct json **out);
void json_free(struct json *root);
static inline void auto_json_(struct json **root)
{
	json_free(*root);
}
#define auto_json on_exit_call(auto_json_) struct json *

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum json_type json_type(const struct json *value);

// Members and elements; NULL when absent (a member that is null is absent too).
struct json *json_get(const struct json *object, const char *key);
size_t json_count(const struct json *array_or_object);
struct json *json_at(const struct json *array, size_t index);
// Iterates over an object's members: start with *at = 0.
bool json_next(const struct json *object, size_t *at, struct str *key, struct json **value);

// Typed getters. `where` names the field in the error (INVALID bad_field). *out is unchanged when
// `value` is NULL: set the default first. A string with a NUL is refused, because it may become a C
// string. json_chars() returns any string as it is, and an empty one for other types.
fallible json_str(const struct json *value, const char *where, struct str *out);
struct str json_chars(const struct json *value);
fallible json_u64(const struct json *value, const char *where, uint64_t min, uint64_t max,
		  uint64_t *out);
fallible json_double(const struct json *value, const char *where, double min, double max,
		     double *out);
fallible json_bool(const struct json *value, const char *where, bool *out);
fallible json_want(const struct json *value, const char *where, enum json_type type);
// Rejects members that are not in the list (NULL-terminated): INVALID unknown_field, the hint lists
// the known ones.
fallible json_only(const struct json *object, const char *const *known);

// The writer. It sets commas; begin and end must balance.
struct json_out {
	struct buf *buf;
	bool comma;
};
struct json_out json_to(struct buf *buf);
void json_begin(struct json_out *out, char bracket);	    // '{' or '['
void json_end(struct json_out *out, char bracket);	    // '}' or ']'
void json_key(struct json_out *out, const char *key);	    // then one value
void json_add_str(struct json_out *out, struct str text);   // bad UTF-8 becomes U+FFFD
void json_add_text(struct json_out *out, const char *text); // NULL: null
void json_add_int(struct json_out *out, int64_t value);
void json_add_double(struct json_out *out, double value);
void json_add_bool(struct json_out *out, bool value);
void json_add_null(struct json_out *out);
void json_add_raw(struct json_out *out, struct str json);	     // an already encoded value
void json_add_value(struct json_out *out, const struct json *value); // a parsed value
// Key and value in one call.
void json_put_begin(struct json_out *out, const char *key, char bracket); // json_end() closes it
void json_put_str(struct json_out *out, const char *key, struct str text);
void json_put_text(struct json_out *out, const char *key, const char *text);
void json_put_int(struct json_out *out, const char *key, int64_t value);
void json_put_bool(struct json_out *out, const char *key, bool value);
void json_put_time(struct json_out *out, const char *key, int64_t wall_ms); // ISO 8601, UTC
// Writes the inside of a string literal, escaped, without quotes: for strings written in pieces. An
// incomplete UTF-8 sequence at the end is kept in `carry` (zeroed at first) for the next call;
// flush with len 0.
struct json_carry {
	uint8_t bytes[4];
	uint8_t len;
};
void json_piece(struct buf *out, const void *bytes, size_t len, struct json_carry *carry);
