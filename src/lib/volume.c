// Volumes of the tenant: made and deleted. A sandbox has one by the field `volumes` of its spec,
// and cove_items() at /v1/volumes lists them.
#include "base/mem.h"
#include "codec/json.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"
#include "lib/private.h"

#define VOLUME_BODY_MAX 4096

enum cove_kind cove_volume_create(struct cove *cove, const char *name, uint64_t size_mb,
				  struct cove_error *error)
{
	auto_buf body = BUF_INIT(VOLUME_BODY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "name", name);
	if (size_mb)
		json_put_int(&out, "sizeMB", (int64_t)size_mb);
	json_end(&out, '}');
	return private_call(cove, http_call_text(cove, "POST", "/v1/volumes", NULL, &body, NULL),
			    error);
}

enum cove_kind cove_volume_delete(struct cove *cove, const char *name, struct cove_error *error)
{
	auto_buf path = BUF_INIT(1024);

	buf_text(&path, "/v1/volumes/");
	text_percent(&path, str_of(name));
	return private_call(cove, http_call_text(cove, "DELETE", path.at, NULL, NULL, NULL), error);
}
