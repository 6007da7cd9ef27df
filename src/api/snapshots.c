// Routes for snapshots and forks of sandboxes; manager/snapshots makes them. A snapshot is shown as
// the template that it is (api/templates.c).
#include "manager/snapshots.h"

#include <stdio.h>

#include "api/box_json.h"
#include "api/handlers.h"
#include "api/template_json.h"
#include "gateway/gateway.h"
#include "manager/manager.h"

#define REPLY_MAX (1 << 20)

fallible api_snapshots_make(struct http *x)
{
	static const char *const known[] = {"name", NULL};
	struct gateway *gateway = gateway_of(x);
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct snapshot snapshot;
	struct str name = {0};
	auto_json json = NULL;

	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(json_only(json, known));
		TRY(json_str(json_get(json, "name"), "name", &name));
	}
	TRY(snapshots_make(gateway->manager, gateway_who(x), x->params[0], name, &snapshot));
	json_begin(&out, '{');
	template_put(&out, &snapshot.template);
	json_key(&out, "frozenMs");
	json_add_double(&out, (double)snapshot.frozen_us / 1000);
	json_end(&out, '}');
	return http_reply_json(x, 201, &body);
}

static fallible read_fork(const struct json *json, struct fork_request *out)
{
	static const char *const known[] = {"count", "name", "env", "labels", "secrets", NULL};
	struct str name = {0};

	if (!json)
		return OK;
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(json_u64(json_get(json, "count"), "count", 1, SNAPSHOTS_FORK_MAX, &out->count));
	TRY(json_str(json_get(json, "name"), "name", &name));
	TRY(json_bool(json_get(json, "secrets"), "secrets", &out->secrets));
	if (name.at && !id_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is not a name for a sandbox"),
				"1 to %d of a-z, 0-9 and -, beginning with no -, and not of the "
				"form of an id",
				ID_NAME_MAX);
	if (name.at && out->count > 1)
		return err_hint(err_new(INVALID, "bad_field", "'name' is for a single fork"),
				"leave 'name' or 'count' out");
	snprintf(out->name, sizeof(out->name), STR_FMT, STR_ARG(name));
	TRY(env_map_read_env(json_get(json, "env"), &out->env));
	return env_map_read_labels(json_get(json, "labels"), &out->labels);
}

static void put_fork(struct http *x, struct json_out *out, const struct fork *fork)
{
	const struct record *record = NULL;
	auto_err gone = fork->err ? OK
				  : manager_get(gateway_of(x)->manager, gateway_who(x),
						str_of(fork->id), &record);
	const struct err *err = fork->err ? fork->err : gone;

	json_begin(out, '{');
	if (err) {
		json_put_begin(out, "error", '{');
		json_put_text(out, "reason", err_reason(err));
		json_put_text(out, "message", err_message(err));
		json_put_text(out, "hint", err_hint_of(err));
		json_end(out, '}');
	} else {
		json_key(out, "sandbox");
		box_write(x, out, record, NULL);
	}
	json_end(out, '}');
}

static fallible forks_answer(struct http *x, const struct fork *forks, uint64_t count)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (uint64_t i = 0; i < count; i++)
		put_fork(x, &out, &forks[i]);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 201, &body);
}

fallible api_snapshots_fork(struct http *x)
{
	struct fork_request request = {.count = 1, .secrets = true};
	struct fork *forks;
	struct create_grant grant;
	auto_json json = NULL;
	struct err *err;

	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_json(x, &json, NULL));
	err = read_fork(json, &request);
	forks = arena_take(x->arena, (request.count + 1) * sizeof(*forks));
	memset(forks, 0, (request.count + 1) * sizeof(*forks));
	if (!err)
		err = snapshots_fork(gateway_of(x)->manager, &grant, x->params[0], &request, forks);
	env_map_done(&request.env);
	env_map_done(&request.labels);
	// With a single one its failure is that of the request.
	if (!err && request.count == 1)
		err = take_ptr(forks[0].err);
	if (!err)
		err = forks_answer(x, forks, request.count);
	for (uint64_t i = 0; i < request.count; i++)
		err_free(forks[i].err);
	return err;
}
