// Secrets of the tenant: set and removed. The value is in the request alone: the body is wiped
// afterwards, and no answer has it.
#include "base/secret.h"

#include "base/mem.h"
#include "codec/json.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/private.h"

#define SECRET_BODY_MAX (256 * 1024)

static char *secret_path(const char *name)
{
	auto_buf path = BUF_INIT(1024);

	buf_text(&path, "/v1/secrets/");
	text_percent(&path, str_of(name));
	return mem_dup(path.at, path.len);
}

static void secret_put(struct json_out *out, const struct cove_secret_spec *spec)
{
	json_begin(out, '{');
	if (spec->value)
		json_put_text(out, "value", spec->value);
	fields_names(out, "hosts", spec->hosts);
	if (spec->header) {
		json_key(out, "header");
		json_begin(out, '{');
		json_put_text(out, "name", spec->header);
		if (spec->format)
			json_put_text(out, "format", spec->format);
		json_end(out, '}');
	}
	if (spec->query)
		json_put_text(out, "query", spec->query);
	if (spec->expires_at)
		json_put_text(out, "expiresAt", spec->expires_at);
	json_end(out, '}');
}

enum cove_kind cove_secret_set(struct cove *cove, const char *name,
			       const struct cove_secret_spec *spec, struct cove_error *error)
{
	auto_secret_buf body = BUF_SECRET(SECRET_BODY_MAX);
	auto_free char *path = secret_path(name);
	struct json_out out = json_to(&body);

	secret_put(&out, spec);
	return private_call(cove, http_call_text(cove, "PUT", path, NULL, &body, NULL), error);
}

enum cove_kind cove_secret_remove(struct cove *cove, const char *name, struct cove_error *error)
{
	auto_free char *path = secret_path(name);

	return private_call(cove, http_call_text(cove, "DELETE", path, NULL, NULL, NULL), error);
}
