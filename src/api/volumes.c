// Volumes of the caller's tenant. A delete answers when the files are gone; manager/volumes decides
// who may.
#include "manager/volumes.h"

#include <stdlib.h>

#include "api/handlers.h"
#include "gateway/gateway.h"
#include "manager/create.h"

#define REPLY_MAX (1 << 20)

static fallible volumes_answer(struct http *x, int status, const struct volume *volume)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	volumes_put(&out, gateway_of(x)->manager, volume);
	return http_reply_json(x, status, &body);
}

fallible api_volumes_create(struct http *x)
{
	const struct volume *volume;
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	TRY(create_await_start(gateway_of(x)->manager));
	TRY(volumes_create(gateway_of(x)->manager, gateway_who(x), json, &volume));
	http_set(x, "Location", str_of(arena_fmt(x->arena, "/v1/volumes/%s", volume->name)));
	return volumes_answer(x, 201, volume);
}

fallible api_volumes_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free const struct volume **all = NULL;
	size_t count = 0;

	TRY(volumes_all(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++)
		volumes_put(&out, gateway_of(x)->manager, all[i]);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_volumes_get(struct http *x)
{
	const struct volume *volume;

	TRY(volumes_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &volume));
	return volumes_answer(x, 200, volume);
}

fallible api_volumes_delete(struct http *x)
{
	TRY(volumes_delete(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
