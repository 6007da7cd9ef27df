// Credentials of the caller's tenant at registries. A secret goes in and never comes out;
// manager/registry_logins decides who may.
#include <stdlib.h>

#include "api/handlers.h"
#include "api/images.h"
#include "gateway/gateway.h"
#include "manager/registry_logins.h"

#define REPLY_MAX (1 << 20)

static fallible registries_answer(struct http *x, int status, const struct registry_login *login)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	registry_logins_put(&out, login);
	return http_reply_json(x, status, &body);
}

fallible api_registries_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free const struct registry_login **all = NULL;
	size_t count = 0;

	TRY(registry_logins_list(gateway_of(x)->manager, gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++)
		registry_logins_put(&out, all[i]);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_registries_get(struct http *x)
{
	const struct registry_login *login;

	TRY(registry_logins_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &login));
	return registries_answer(x, 200, login);
}

fallible api_registries_set(struct http *x)
{
	on_exit_call(registry_credential_done) struct registry_credential credential = {0};
	const struct registry_login *login;
	auto_json json = NULL;
	bool made, shared = false;

	TRY(gateway_json(x, &json, NULL));
	TRY(images_read_login(json, &credential, &shared));
	TRY(registry_logins_set(gateway_of(x)->manager, gateway_who(x), x->params[0], &credential,
				shared, &login, &made));
	return registries_answer(x, made ? 201 : 200, login);
}

fallible api_registries_drop(struct http *x)
{
	TRY(registry_logins_drop(gateway_of(x)->manager, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
