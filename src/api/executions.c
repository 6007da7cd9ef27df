// Executions over HTTP: make, wait, follow, drive, cancel, repeat, delete. The answer to a create
// is the durable record; with ?wait= it is held until the end. A repeated Idempotency-Key gets the
// execution that was made under it, as it is now.
#include "api/executions.h"

#include <stdio.h>

#include "api/events.h"
#include "api/handlers.h"
#include "codec/sse.h"
#include "execution/execution.h"
#include "gateway/gateway.h"
#include "types/job.h"
#include "types/timers.h"

#define REPLY_MAX (8u << 20)
#define PAGE_REPLY_MAX (16u << 20)
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define WAIT_MAX_S 600
#define WAIT_MAX_MS (WAIT_MAX_S * 1000)
#define CLEAN_MS 2000 // that an answer at the end waits for the sandbox to be gone
#define EVENT_MAX 4096
#define REASON_MAX 1024
#define RESULT_MAX (256u << 10)

fallible executions_of(struct http *x, struct executions **out)
{
	*out = gateway_of(x)->executions;
	return *out ? OK : err_new(UNAVAILABLE, "state_unwritable", "the state cannot be read");
}

// Logs, artifacts and the record itself: `read` is for the record.
static fallible executions_find(struct http *x, struct executions **all, struct execution **out)
{
	auto_buf probe = BUF_INIT(REPLY_MAX);
	struct json_out json = json_to(&probe);

	TRY(executions_of(x, all));
	*out = executions_live(*all, gateway_who(x), x->params[0]);
	return *out ? OK : executions_write(*all, gateway_who(x), x->params[0], &json);
}

static fallible executions_reply(struct http *x, int status, struct str id)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct executions *all;

	TRY(executions_of(x, &all));
	TRY(executions_write(all, gateway_who(x), id, &out));
	return http_reply_json(x, status, &body);
}

// False: the time has passed first.
static fallible executions_await(struct http *x, struct execution *execution,
				 enum execution_until until, int64_t deadline, bool *out_reached)
{
	struct err *err = http_while_away(x, HTTP_PROBE_HEAD,
					  execution_wait(execution, until, deadline));

	*out_reached = !err;
	if (err && err_kind(err) == ERR_TIMEOUT) {
		err_free(err);
		return OK;
	}
	TRY(err);
	if (until == UNTIL_DONE)
		execution_await_gone(execution, loop_now(gateway_of(x)->loop) + CLEAN_MS);
	return OK;
}

static fallible executions_answer(struct http *x, struct execution *execution, int64_t wait_ms)
{
	struct str id = str_of(arena_fmt(x->arena, "%s", execution_id(execution)));
	int64_t now = loop_now(gateway_of(x)->loop);
	bool reached = false;

	http_set(x, "Location", str_of(arena_fmt(x->arena, "/v1/executions/%s", id.at)));
	if (wait_ms)
		TRY(executions_await(x, execution, UNTIL_DONE, now + wait_ms, &reached));
	return executions_reply(x, reached ? 200 : 202, id);
}

// -------------------------------------------------------------------------------- create

// The owner of an idempotency key.
static const char *executions_whose(const struct http *x)
{
	const char *tenant = gateway_who(x)->tenant;
	long long since = manager_tenant_since(gateway_of(x)->manager, tenant);

	return since ? arena_fmt(x->arena, "%s@%lld", tenant, since) : tenant;
}

// A request that was made before a restart, and not answered then, is answered now.
static fallible executions_replayed(struct http *x, struct idempotency *idempotency,
				    int64_t wait_ms)
{
	const char *made = idempotency_made(idempotency);
	struct str body = idempotency_body(idempotency);
	struct str id = str_of(made ? arena_fmt(x->arena, "%s", made)
				    : arena_dup(x->arena, body.at, body.len));
	struct executions *all;
	auto_execution live = NULL;

	TRY(executions_of(x, &all));
	if (made)
		idempotency_keep(idempotency, 202, STR(""), id);
	http_set(x, "Idempotency-Replayed", STR("true"));
	live = executions_live(all, gateway_who(x), id);
	if (live)
		return executions_answer(x, live, wait_ms);
	http_set(x, "Location",
		 str_of(arena_fmt(x->arena, "/v1/executions/" STR_FMT, STR_ARG(id))));
	return executions_reply(x, wait_ms ? 200 : 202, id);
}

typedef fallible executions_make(struct http *x, const struct create_grant *grant, struct str body,
				 const char *mark, struct execution **out);

// Makes one, or finds the one that was made under the key.
static fallible executions_make_once(struct http *x, struct str body, executions_make *make,
				     int64_t wait_ms)
{
	struct gateway *gateway = gateway_of(x);
	struct str key = http_field(x, "Idempotency-Key");
	auto_idempotency idempotency = NULL;
	auto_execution execution = NULL;
	struct create_grant grant;
	uint8_t hash[SECRET_HASH];
	char mark[IDEMPOTENCY_MARK] = "";
	bool first = true;

	TRY(access_create(gateway_who(x), &grant));
	if (key.at) {
		auto_buf all = BUF_INIT(JOB_BODY_MAX + 8192);

		buf_str(&all, x->url.path);
		buf_str(&all, body);
		secret_sha256(all.at ? all.at : "", all.len, hash);
		TRY(idempotency_claim_of(gateway->idempotency_keys, executions_whose(x), key, hash,
					 &idempotency, &first));
		if (!first)
			return executions_replayed(x, idempotency, wait_ms);
		idempotency_mark(idempotency, mark);
	}
	TRY(make(x, &grant, body, mark, &execution));
	if (idempotency) {
		idempotency_keep(idempotency, 202, STR(""), str_of(execution_id(execution)));
		TRY(manager_flush(gateway->manager));
	}
	return executions_answer(x, execution, wait_ms);
}

static fallible executions_read_wait(struct http *x, int64_t *out)
{
	struct str text = http_query(x, "wait");
	uint64_t seconds = 0;

	if (text.at && !str_to_u64(text, 0, WAIT_MAX_S, &seconds))
		return err_new(INVALID, "bad_field", "'wait' must be within 0 and %d seconds",
			       WAIT_MAX_S);
	*out = (int64_t)seconds * 1000;
	return OK;
}

static fallible executions_make_new(struct http *x, const struct create_grant *grant,
				    struct str body, const char *mark, struct execution **out)
{
	struct execution_origin origin = {.mark = mark,
					  .must = str_is(x->url.path, "/api/agents/execute")};
	struct executions *all;

	TRY(executions_of(x, &all));
	return executions_create(all, grant, body, &origin, out);
}

static fallible executions_body(struct http *x, struct str *out)
{
	TRY(gateway_want_json(x));
	return http_body(x, JOB_BODY_MAX, out);
}

fallible api_executions_create(struct http *x)
{
	int64_t wait_ms = 0;
	struct str body;

	TRY(executions_read_wait(x, &wait_ms));
	TRY(executions_body(x, &body));
	return executions_make_once(x, body, executions_make_new, wait_ms);
}

// The bounds of queue and wall time end the wait.
fallible api_executions_execute(struct http *x)
{
	struct str body;

	TRY(executions_body(x, &body));
	return executions_make_once(x, body, executions_make_new, INT32_MAX);
}

static fallible executions_make_again(struct http *x, const struct create_grant *grant,
				      struct str body, const char *mark, struct execution **out)
{
	struct executions *all;

	(void)body;
	TRY(executions_of(x, &all));
	return executions_again(all, grant, x->params[0], str_ends(x->url.path, "/replay"), mark,
				out);
}

fallible api_executions_again(struct http *x)
{
	int64_t wait_ms = 0;

	TRY(executions_read_wait(x, &wait_ms));
	return executions_make_once(x, STR(""), executions_make_again, wait_ms);
}

// --------------------------------------------------------------------------------- shown

fallible api_executions_suggest(struct http *x)
{
	auto_buf body = BUF_INIT(16384);
	struct json_out out = json_to(&body);
	struct executions *all;

	TRY(executions_of(x, &all));
	TRY(executions_suggest(all, gateway_who(x), x->params[0], &out));
	return http_reply_json(x, 200, &body);
}

fallible api_executions_get(struct http *x)
{
	return executions_reply(x, 200, x->params[0]);
}

fallible api_executions_list(struct http *x)
{
	auto_buf body = BUF_INIT(PAGE_REPLY_MAX);
	struct json_out out = json_to(&body);
	struct executions_filter filter = {
		.state = http_query(x, "state"),
		.agent_type = http_query(x, "agentType"),
		.profile = http_query(x, "profile"),
		.task = http_query(x, "taskId"),
		.label = http_query(x, "label"),
		.cursor = http_query(x, "cursor"),
	};
	struct str limit = http_query(x, "limit");
	struct executions *all;
	uint64_t max = PAGE_DEFAULT;

	TRY(executions_of(x, &all));
	if (limit.at && !str_to_u64(limit, 1, PAGE_MAX, &max))
		return err_new(INVALID, "bad_field", "'limit' must be within 1 and %d", PAGE_MAX);
	filter.max = max;
	TRY(executions_write_page(all, gateway_who(x), &filter, &out));
	return http_reply_json(x, 200, &body);
}

fallible api_executions_wait(struct http *x)
{
	static const char *const words[] = {"ready", "running", "done"};
	struct str word = http_query(x, "for"), timeout = http_query(x, "timeoutMs");
	enum execution_until until = UNTIL_DONE;
	uint64_t wait_ms = WAIT_MAX_MS;
	auto_execution execution = NULL;
	struct executions *all;
	bool reached = true, known = !word.at;

	for (int i = 0; word.at && i < 3; i++) {
		if (!str_is(word, words[i]))
			continue;
		until = (enum execution_until)i;
		known = true;
	}
	if (!known)
		return err_new(INVALID, "bad_field", "'for' must be ready, running or done");
	if (timeout.at && !str_to_u64(timeout, 0, WAIT_MAX_MS, &wait_ms))
		return err_new(INVALID, "bad_field", "'timeoutMs' must be within 0 and %d",
			       WAIT_MAX_MS);
	TRY(access_ask(gateway_who(x), ACCESS_READ));
	TRY(executions_find(x, &all, &execution));
	if (execution)
		TRY(executions_await(x, execution, until,
				     loop_now(gateway_of(x)->loop) + (int64_t)wait_ms, &reached));
	return executions_reply(x, reached ? 200 : 202, x->params[0]);
}

// -------------------------------------------------------------------------------- events

static bool executions_put_event(struct buf *text, const struct execution *execution,
				 uint64_t *after)
{
	auto_buf line = BUF_INIT(EVENT_MAX);
	struct json_out out = json_to(&line);
	struct execution_event event;
	char id[24];

	if (!execution_next_event(execution, *after, &event, &out))
		return false;
	snprintf(id, sizeof(id), "%llu", (unsigned long long)event.id);
	sse_put(text, str_of(event.type), str_of(id), buf_view(&line));
	*after = event.id;
	return true;
}

static fallible executions_stream(struct http *x, struct execution *execution, uint64_t after)
{
	bool more = true;

	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	for (;;) {
		auto_buf text = BUF_INIT(REPLY_MAX);

		TRY(http_while_away(x, HTTP_PROBE_EVENT,
				    execution_await_event(execution, after, &more)));
		if (!more)
			return http_end(x);
		while (executions_put_event(&text, execution, &after))
			;
		TRY(http_write(x, text.at, text.len));
	}
}

static fallible executions_events_page(struct http *x, struct execution *execution, uint64_t after)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct execution_event event = {0};

	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	while (execution_next_event(execution, after, &event, &out))
		after = event.id;
	json_end(&out, ']');
	json_put_int(&out, "last", (int64_t)after);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_executions_events(struct http *x)
{
	struct str from = http_query(x, "after");
	auto_execution execution = NULL;
	struct executions *all;
	uint64_t after = 0;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	if (!from.at)
		from = http_field(x, "Last-Event-ID");
	if (from.len && !str_to_u64(from, 0, INT32_MAX, &after))
		return err_new(INVALID, "bad_field", "'after' is not a number");
	TRY(executions_of(x, &all));
	TRY(executions_open_any(all, gateway_who(x), x->params[0], &execution));
	return events_wants_stream(x) ? executions_stream(x, execution, after)
				      : executions_events_page(x, execution, after);
}

// -------------------------------------------------------------------------------- driven

static fallible executions_driven(struct http *x, struct execution **out)
{
	struct executions *all;

	TRY(access_ask(gateway_who(x), ACCESS_USE));
	TRY(executions_find(x, &all, out));
	return *out ? OK : err_new(CONFLICT, "ended", "the execution has ended");
}

fallible api_executions_cancel(struct http *x)
{
	auto_execution execution = NULL;

	TRY(executions_driven(x, &execution));
	TRY(execution_cancel(execution));
	return executions_reply(x, 200, x->params[0]);
}

fallible api_executions_complete(struct http *x)
{
	static const char *const known[] = {"result", NULL};
	auto_buf result = BUF_INIT(RESULT_MAX);
	struct json_out out = json_to(&result);
	auto_execution execution = NULL;
	auto_json json = NULL;

	TRY(executions_driven(x, &execution));
	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(json_only(json, known));
	}
	if (json && json_get(json, "result"))
		json_add_value(&out, json_get(json, "result"));
	if (!buf_ok(&result))
		return err_hint(err_new(TOO_LARGE, "result_too_large",
					"'result' is larger than %u bytes", RESULT_MAX),
				"write it to a file, and name that in artifacts.paths");
	TRY(execution_complete(execution, buf_view(&result)));
	return executions_reply(x, 200, x->params[0]);
}

fallible api_executions_fail(struct http *x)
{
	static const char *const known[] = {"reason", NULL};
	struct str reason = STR("");
	auto_execution execution = NULL;
	auto_json json = NULL;

	TRY(executions_driven(x, &execution));
	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(json_only(json, known));
		TRY(json_str(json_get(json, "reason"), "reason", &reason));
	}
	if (reason.len > REASON_MAX)
		return err_new(INVALID, "bad_field", "'reason' is longer than %d bytes",
			       REASON_MAX);
	TRY(execution_fail(execution, reason));
	return executions_reply(x, 200, x->params[0]);
}

// The request is passed to the sandbox's own route.
fallible api_executions_exec(struct http *x)
{
	const struct route *route = NULL;
	auto_execution execution = NULL;

	TRY(executions_driven(x, &execution));
	TRY(execution_enter(execution));
	if (!execution_box(execution))
		return err_new(CONFLICT, "ended", "the execution has ended");
	x->url.path = str_of(
		arena_fmt(x->arena, "/v1/sandboxes/%s/api/execute", execution_box(execution)));
	TRY(router_find(gateway_of(x)->routes, x, &route));
	return route->handle(x);
}

fallible api_executions_delete(struct http *x)
{
	struct executions *all;

	TRY(access_ask(gateway_who(x), ACCESS_MAKE));
	TRY(executions_of(x, &all));
	TRY(executions_delete(all, gateway_who(x), x->params[0]));
	return http_reply_empty(x, 204);
}
