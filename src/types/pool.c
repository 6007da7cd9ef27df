// Reads the terms of a pool. The body is kept whole, so that it is stored and shown as it came: the
// texts of the terms point into it. Limits and environment are checked by the create of a member.
#include "types/pool.h"

#include <string.h>

#define COMMAND_MAX (32 * 1024)
#define ARGV_MAX 256

void pool_terms_done(struct pool_terms *terms)
{
	json_free(terms->body);
	*terms = (struct pool_terms){0};
}

static fallible pool_read_command(const struct json *value, const char *key, struct str *out)
{
	TRY(json_str(value, key, out));
	return out->len && out->len <= COMMAND_MAX
		       ? OK
		       : err_new(INVALID, "bad_field", "'%s' is empty or too long", key);
}

static fallible pool_read_start(const struct json *value, struct pool_terms *out)
{
	if (!value || json_type(value) != JSON_ARRAY)
		return value ? pool_read_command(value, "start", &out->start) : OK;
	if (!json_count(value) || json_count(value) > ARGV_MAX)
		return err_new(INVALID, "bad_field", "'start' has 1 to %d words", ARGV_MAX);
	for (size_t i = 0; i < json_count(value); i++) {
		struct str word = {0};

		TRY(json_str(json_at(value, i), "start", &word));
		if (!word.at || memchr(word.at, 0, word.len))
			return err_new(INVALID, "bad_field", "'start' has a bad word");
	}
	out->start_argv = value;
	return OK;
}

static fallible pool_read_ready(const struct json *value, struct pool_terms *out)
{
	static const char *const known[] = {"port", "file", NULL};

	if (!value || json_type(value) != JSON_OBJECT)
		return value ? pool_read_command(value, "ready", &out->ready) : OK;
	TRY(json_only(value, known));
	if (json_get(value, "port"))
		TRY(json_u64(json_get(value, "port"), "ready.port", 1, UINT16_MAX, &out->port));
	if (json_get(value, "file"))
		TRY(pool_read_command(json_get(value, "file"), "ready.file", &out->file));
	return out->port || out->file.at
		       ? OK
		       : err_new(INVALID, "bad_field", "'ready' is a command, {port} or {file}");
}

fallible pool_terms_read(struct str text, struct pool_terms *out)
{
	static const char *const known[] = {"template", "size",	 "limits", "env",
					    "start",	"ready", NULL};
	auto_pool_terms terms = {0};

	if (text.len > POOL_BODY_MAX)
		return err_new(TOO_LARGE, "body_too_large", "the terms of a pool are too long");
	TRY(json_read(text, &terms.body));
	TRY(json_want(terms.body, "body", JSON_OBJECT));
	TRY(json_only(terms.body, known));
	TRY(json_want(json_get(terms.body, "size"), "size", JSON_NUMBER));
	TRY(json_u64(json_get(terms.body, "size"), "size", 1, POOL_SIZE_MAX, &terms.size));
	TRY(json_str(json_get(terms.body, "template"), "template", &terms.template));
	if (!id_is_template(terms.template))
		return err_hint(err_new(INVALID, "bad_template", "this is not a template's name"),
				"'cove template ls' shows them");
	TRY(pool_read_start(json_get(terms.body, "start"), &terms));
	TRY(pool_read_ready(json_get(terms.body, "ready"), &terms));
	*out = terms;
	terms = (struct pool_terms){0};
	return OK;
}

void pool_terms_put_spec(struct json_out *out, const struct pool_terms *terms)
{
	static const char *const keys[] = {"template", "limits", "env"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *value = json_get(terms->body, keys[i]);

		if (!value)
			continue;
		json_key(out, keys[i]);
		json_add_value(out, value);
	}
}
