// Named secrets of the caller's tenant. A value goes in and never comes out; manager/named_secrets
// decides who may.
#include <stdlib.h>

#include "api/handlers.h"
#include "gateway/gateway.h"
#include "manager/named_secrets.h"

#define REPLY_MAX (64u << 20)

static fallible api_secrets_answer(struct http *x, int status, const struct named_secret *secret)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	named_secrets_put(&out, secret);
	return http_reply_json(x, status, &body);
}

fallible api_secrets_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free const struct named_secret **all = NULL;
	size_t count = 0;

	TRY(named_secrets_list(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_key(&out, "items");
	json_begin(&out, '[');
	for (size_t i = 0; i < count; i++)
		named_secrets_put(&out, all[i]);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_secrets_get(struct http *x)
{
	const struct named_secret *secret;

	TRY(named_secrets_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &secret));
	return api_secrets_answer(x, 200, secret);
}

fallible api_secrets_set(struct http *x)
{
	const struct named_secret *secret;
	auto_json json = NULL;
	bool made;

	TRY(gateway_json(x, &json, NULL));
	TRY(named_secrets_set(gateway_of(x)->manager, gateway_who(x), x->params[0], json, &secret,
			      &made));
	return api_secrets_answer(x, made ? 201 : 200, secret);
}

fallible api_secrets_drop(struct http *x)
{
	TRY(named_secrets_drop(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
