// Creates, lists and revokes keys; reads, sets and deletes tenants. manager/keyring decides who
// may. A new key's secret is in the answer to its creation and nowhere else. A tenant with
// sandboxes, running imports or agent sessions cannot be deleted.
#include <stdlib.h>

#include "agent/session.h"
#include "api/handlers.h"
#include "execution/execution.h"
#include "gateway/gateway.h"
#include "manager/access.h"

#define REPLY_MAX (64u << 20)

static struct keyring *ring_of(const struct http *x)
{
	return gateway_of(x)->ring;
}

fallible api_keys_make(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	char secret[KEY_TEXT_LEN + 1];
	auto_json json = NULL;
	struct key key;
	struct err *err;

	TRY(gateway_json(x, &json, NULL));
	TRY(keyring_make(ring_of(x), gateway_who(x), json, &key, secret));
	json_begin(&out, '{');
	key_put(&out, &key);
	json_put_text(&out, "key", secret);
	json_end(&out, '}');
	secret_wipe(secret, sizeof(secret));
	http_set(x, "Location", str_of(arena_fmt(x->arena, "/v1/keys/%s", key.id)));
	http_set(x, "Cache-Control", STR("no-store"));
	err = http_reply_json(x, 201, &body);
	secret_wipe(body.at, body.len);
	return err;
}

fallible api_keys_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free struct key *all = NULL;
	size_t count = 0;

	TRY(keyring_all(ring_of(x), gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++) {
		json_begin(&out, '{');
		key_put(&out, &all[i]);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_keys_revoke(struct http *x)
{
	TRY(keyring_revoke(ring_of(x), gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}

static fallible keys_answer(struct http *x, int status, const struct account *account)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	account_put(&out, account);
	json_end(&out, '}');
	return http_reply_json(x, status, &body);
}

fallible api_tenants_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_free const struct account **all = NULL;
	size_t count = 0;

	TRY(keyring_tenants(ring_of(x), gateway_who(x), &all, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++) {
		json_begin(&out, '{');
		account_put(&out, all[i]);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_tenants_get(struct http *x)
{
	const struct account *account;

	TRY(keyring_tenant(ring_of(x), gateway_who(x), x->params[0], &account));
	return keys_answer(x, 200, account);
}

fallible api_tenants_set(struct http *x)
{
	const struct account *account;
	auto_json json = NULL;
	bool made;

	TRY(gateway_json(x, &json, NULL));
	// Counted requests of an earlier tenant of that name are written before the new one's.
	audit_log_flush(gateway_of(x)->audit);
	TRY(keyring_set_tenant(ring_of(x), gateway_who(x), x->params[0], json, &account, &made));
	return keys_answer(x, made ? 201 : 200, account);
}

// A new tenant of the same name must not inherit agent sessions.
static fallible ask_no_sessions(struct http *x)
{
	const struct agent_sessions *agents = gateway_of(x)->agents;
	const struct account *account;
	size_t count;

	TRY(keyring_tenant(ring_of(x), gateway_who(x), x->params[0], &account));
	count = agents ? agents_owned(agents, account->tenant.name) : 0;
	if (!count)
		return OK;
	return err_hint(
		err_new(CONFLICT, "tenant_in_use", "the tenant has %zu agent sessions", count),
		"delete them first");
}

static fallible tenants_drop_executions(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	const struct account *account;
	char name[WHO_TENANT_MAX + 1];

	TRY(keyring_tenant(ring_of(x), gateway_who(x), x->params[0], &account));
	memcpy(name, account->tenant.name, sizeof(name));
	return gateway->executions ? executions_drop_tenant(gateway->executions, name) : OK;
}

fallible api_tenants_drop(struct http *x)
{
	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	TRY(ask_no_sessions(x));
	TRY(tenants_drop_executions(x));
	TRY(keyring_drop_tenant(ring_of(x), gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
