// Volumes of the caller's tenant, as Daytona shows them: those of cove. A client creates one by its
// name alone, so that its size is cove's default.
#include "manager/volumes.h"

#include <stdlib.h>

#include "daytona/create.h"
#include "daytona/handlers.h"
#include "gateway/gateway.h"
#include "manager/create.h"

#define REPLY_MAX (1 << 20)

static void volumes_write(struct json_out *out, const struct volume *volume)
{
	static const char *const states[] = {"creating", "ready", "deleting"};
	char name[FOREIGN_NAME_MAX + 2];

	foreign_name_read(volume->name, volume_is_name, name);
	json_begin(out, '{');
	json_put_text(out, "id", volume->id);
	json_put_text(out, "name", name);
	json_put_text(out, "organizationId", volume->tenant[0] ? volume->tenant : "default");
	json_put_text(out, "state", states[volume->state]);
	json_put_time(out, "createdAt", volume->created_ms);
	json_put_time(out, "updatedAt", volume->created_ms);
	json_put_text(out, "lastUsedAt", NULL);
	json_put_text(out, "errorReason", NULL);
	json_end(out, '}');
}

static fallible volumes_reply(struct http *x, const struct volume *volume)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	volumes_write(&out, volume);
	return http_reply_json(x, 200, &body);
}

fallible daytona_volumes_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free const struct volume **all = NULL;
	size_t count = 0;

	TRY(volumes_all(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '[');
	for (size_t i = 0; i < count; i++)
		volumes_write(&out, all[i]);
	json_end(&out, ']');
	return http_reply_json(x, 200, &body);
}

fallible daytona_volumes_create(struct http *x)
{
	auto_json body = NULL;
	auto_json wanted = NULL;
	auto_buf text = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&text);
	const struct volume *volume;
	char form[FOREIGN_NAME_MAX + 2];
	struct str name = {0};

	TRY(gateway_object(x, &body));
	TRY(json_str(json_get(body, "name"), "name", &name));
	if (!name.len)
		return err_new(INVALID, "bad_field", "'name' is missing");
	TRY(create_name(name, volume_is_name, form));
	json_begin(&out, '{');
	json_put_text(&out, "name", form);
	json_end(&out, '}');
	TRY(json_read(buf_view(&text), &wanted));
	TRY(create_await_start(gateway_of(x)->manager));
	TRY(volumes_create(gateway_of(x)->manager, gateway_who(x), wanted, &volume));
	return volumes_reply(x, volume);
}

// An id, or the form of a name.
static struct str volume_key(const struct http *x)
{
	char form[FOREIGN_NAME_MAX + 2];

	return foreign_name_write(x->params[0], id_is_name, form)
		       ? str_of(arena_fmt(x->arena, "%s", form))
		       : x->params[0];
}

fallible daytona_volumes_get(struct http *x)
{
	const struct volume *volume;

	TRY(volumes_get(gateway_of(x)->manager, gateway_who(x), volume_key(x), &volume));
	return volumes_reply(x, volume);
}

fallible daytona_volumes_delete(struct http *x)
{
	TRY(volumes_delete(gateway_of(x)->manager, gateway_who(x), volume_key(x)));
	return http_reply_empty(x, 200);
}
