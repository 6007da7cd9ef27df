// Pools of the caller's tenant. A create claims a member of one (api/boxes.c); manager/pools
// decides who may.
#include "manager/pools.h"

#include "api/handlers.h"
#include "gateway/gateway.h"

#define REPLY_MAX (8 << 20)

static fallible pools_answer(struct http *x, int status, const struct pool *pool)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	pools_put(&out, gateway_of(x)->manager, pool);
	return http_reply_json(x, status, &body);
}

fallible api_pools_set(struct http *x)
{
	const struct pool *pool;
	auto_json json = NULL;
	struct str text;
	bool made;

	TRY(gateway_json(x, &json, &text));
	TRY(pools_set(gateway_of(x)->manager, gateway_who(x), x->params[0], text, &pool, &made));
	return pools_answer(x, made ? 201 : 200, pool);
}

fallible api_pools_list(struct http *x)
{
	struct manager *manager = gateway_of(x)->manager;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct pool *pool;
	size_t at = 0;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	while ((pool = pools_next(manager, gateway_who(x), &at)))
		pools_put(&out, manager, pool);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_pools_get(struct http *x)
{
	const struct pool *pool;

	TRY(pools_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &pool));
	return pools_answer(x, 200, pool);
}

fallible api_pools_delete(struct http *x)
{
	TRY(pools_delete(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
