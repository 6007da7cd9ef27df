// Reads the terms of a pool. The body is kept whole, so that it is stored and shown as it came: the
// texts of the terms point into it. Limits and environment are checked by the create of a member.
#include "types/pool.h"

#include "base/mem.h"
#include "types/launch.h"

void pool_terms_done(struct pool_terms *terms)
{
	json_free(terms->body);
	*terms = (struct pool_terms){0};
}

fallible pool_terms_read(struct str text, struct pool_terms *out)
{
	static const char *const known[] = {"template", "size",	 "limits", "env",
					    "start",	"ready", NULL};
	auto_pool_terms terms = {0};
	auto_free char *launch = NULL;

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
	TRY(launch_take(terms.body, &launch));
	*out = terms;
	terms.body = NULL;
	return OK;
}

void pool_terms_put_spec(struct json_out *out, const struct pool_terms *terms)
{
	static const char *const keys[] = {"template", "limits", "env", "start", "ready"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *value = json_get(terms->body, keys[i]);

		if (!value)
			continue;
		json_key(out, keys[i]);
		json_add_value(out, value);
	}
}
