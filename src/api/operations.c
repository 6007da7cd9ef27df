// Routes for operations, and the pull of an image, which is one. A POST that begins one waits for
// its end, or answers 202 at once, or sends the operation's events.
#include "api/events.h"
#include "api/handlers.h"
#include "api/images.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/sse.h"
#include "gateway/gateway.h"
#include "manager/build_files.h"
#include "manager/build_steps.h"
#include "manager/pull.h"

#define REPLY_MAX (16 << 20)
#define EVENT_MAX (1 << 20)
#define LOG_PIECE 16384
#define PROGRESS_MS 200 // between two events of progress

fallible operations_answer(struct http *x, int status, const struct operation *operation)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	operation_write(&out, operation);
	return http_reply_json(x, status, &body);
}

fallible api_operations_list(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct operation *operation;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t at = 0; operations_next(gateway_of(x)->manager, &at, &operation);)
		if (operations_sees(gateway_who(x), operation))
			operation_write(&out, operation);
	json_end(&out, ']');
	json_put_text(&out, "cursor", NULL);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_operations_get(struct http *x)
{
	struct operation *operation;

	TRY(operations_find(gateway_of(x)->manager, gateway_who(x), x->params[0], &operation));
	return operations_answer(x, 200, operation);
}

fallible api_operations_cancel(struct http *x)
{
	struct operation *operation;

	TRY(access_ask(gateway_who(x), ACCESS_TEMPLATES));
	TRY(operations_find(gateway_of(x)->manager, gateway_who(x), x->params[0], &operation));
	operation_cancel(operation);
	operation->holds++;
	auto_err err = operation_await(operation, CLOCK_NEVER);

	operation_drop(operation);
	if (err && err_kind(err) == ERR_CANCELLED && !operation_has_ended(operation))
		return take_ptr(err);
	return operations_answer(x, 200, operation);
}

// ------------------------------------------------------------------------------------------ events

static fallible operation_send(struct http *x, const char *word, const struct operation *operation,
			       bool whole)
{
	auto_buf text = BUF_INIT(EVENT_MAX), data = BUF_INIT(EVENT_MAX);
	struct json_out out = json_to(&data);

	if (whole)
		operation_write(&out, operation);
	else
		operation_write_progress(&out, operation);
	sse_put(&text, str_of(word), (struct str){0}, buf_view(&data));
	if (!buf_ok(&text) || !buf_ok(&data))
		return err_new(INTERNAL, "internal", "an event did not fit");
	return http_write(x, text.at, text.len);
}

// Events of a build's log, {offset, text}, that were not sent yet. Bytes that are no UTF-8 become
// U+FFFD.
static fallible operation_send_log(struct http *x, const struct operation *operation, char *room,
				   uint64_t *offset, struct json_carry *carry)
{
	for (;;) {
		auto_buf text = BUF_INIT(EVENT_MAX), data = BUF_INIT(EVENT_MAX);
		size_t len = 0;

		TRY(build_log_read(gateway_of(x)->manager, operation, *offset, room, LOG_PIECE,
				   &len));
		if (!len)
			return OK;
		buf_fmt(&data, "{\"offset\":%llu,\"text\":\"", (unsigned long long)*offset);
		json_piece(&data, room, len, carry);
		*offset += len;
		buf_fmt(&data, "\",\"end\":%llu}", (unsigned long long)*offset);
		sse_put(&text, STR("log"), (struct str){0}, buf_view(&data));
		if (!buf_ok(&text) || !buf_ok(&data))
			return err_new(INTERNAL, "internal", "an event did not fit");
		TRY(http_write(x, text.at, text.len));
	}
}

static fallible operation_follow(struct http *x, struct operation *operation)
{
	struct loop *loop = gateway_of(x)->loop;
	char *room = arena_take(x->arena, LOG_PIECE);
	struct json_carry carry = {0};
	uint64_t offset = 0;

	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	for (;;) {
		uint64_t seen = operation->version;
		bool ended = operation_has_ended(operation);

		TRY(operation_send(x, "progress", operation, false));
		if (operation->kind == OPERATION_BUILD)
			TRY(operation_send_log(x, operation, room, &offset, &carry));
		if (ended)
			break;
		TRY(http_while_away(x, HTTP_PROBE_EVENT,
				    task_sleep_until(loop_now(loop) + PROGRESS_MS)));
		if (operation->version == seen && !operation_has_ended(operation))
			TRY(http_while_away(x, HTTP_PROBE_EVENT,
					    condition_wait(&operation->changed, CLOCK_NEVER)));
	}
	TRY(operation_send(x, "end", operation, true));
	return http_end(x);
}

fallible operations_follow(struct http *x, struct operation *operation)
{
	struct err *err;

	operation->holds++;
	err = operation_follow(x, operation);
	operation_drop(operation);
	return err;
}

fallible api_operations_events(struct http *x)
{
	struct operation *operation;

	TRY(operations_find(gateway_of(x)->manager, gateway_who(x), x->params[0], &operation));
	return operations_follow(x, operation);
}

// -------------------------------------------------------------------------------------------- pull

static fallible image_credential_text(const struct json *auth, const char *key, char **out)
{
	struct str text = {0};

	TRY(json_str(json_get(auth, key), key, &text));
	if (text.len > 16384)
		return err_new(INVALID, "bad_field", "'auth.%s' is too long", key);
	if (text.at)
		*out = mem_dup(text.at, text.len);
	return OK;
}

static fallible image_read_auth(const struct json *auth, struct registry_credential *out)
{
	TRY(image_credential_text(auth, "username", &out->username));
	TRY(image_credential_text(auth, "password", &out->password));
	TRY(image_credential_text(auth, "identityToken", &out->identity));
	if (!out->identity && (!out->username || !out->password))
		return err_new(INVALID, "bad_field",
			       "'auth' has username and password, or identityToken");
	return OK;
}

fallible images_read_credential(const struct json *auth, struct registry_credential *out)
{
	static const char *const known[] = {"username", "password", "identityToken", NULL};

	TRY(json_want(auth, "auth", JSON_OBJECT));
	TRY(json_only(auth, known));
	return image_read_auth(auth, out);
}

fallible images_read_login(const struct json *body, struct registry_credential *out,
			   bool *out_shared)
{
	static const char *const known[] = {"username", "password", "identityToken", "shared",
					    NULL};

	TRY(json_want(body, "body", JSON_OBJECT));
	TRY(json_only(body, known));
	TRY(json_bool(json_get(body, "shared"), "shared", out_shared));
	return image_read_auth(body, out);
}

fallible operations_reply(struct http *x, struct operation *operation, bool wait,
			  fallible (*answer)(struct http *x, struct operation *operation))
{
	struct err *err;

	if (!wait) {
		http_set(x, "Location",
			 str_of(arena_fmt(x->arena, "/v1/operations/%s", operation->id)));
		err = operations_answer(x, 202, operation);
	} else if (events_wants_stream(x)) {
		err = operations_follow(x, operation);
	} else {
		err = answer(x, operation);
	}
	operation_drop(operation);
	return err;
}

static fallible image_answer(struct http *x, struct operation *operation)
{
	struct manager *manager = gateway_of(x)->manager;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct pulled_image *image;

	TRY(http_while_away(x, HTTP_PROBE_HEAD, operation_await(operation, CLOCK_NEVER)));
	image = pulled_find(manager, operation->tenant, str_of(operation->name));
	if (!image)
		return err_new(CONFLICT, "template_gone", "the template was removed meanwhile");
	json_begin(&out, '{');
	pulled_put_json(&out, manager, image);
	json_end(&out, '}');
	return http_reply_json(x, operation->made ? 201 : 200, &body);
}

static fallible image_begin(struct http *x, const struct json *json,
			    struct registry_credential *credential, struct operation **out)
{
	static const char *const known[] = {"image", "name", "platform", "auth", "cache", NULL};
	struct pull_ask ask = {0};

	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "image"), "image", &ask.image));
	TRY(json_str(json_get(json, "name"), "name", &ask.name));
	TRY(json_str(json_get(json, "platform"), "platform", &ask.platform));
	TRY(json_bool(json_get(json, "cache"), "cache", &ask.is_cache));
	if (json_get(json, "auth")) {
		TRY(images_read_credential(json_get(json, "auth"), credential));
		ask.credential = credential;
	}
	return pull_begin(gateway_of(x)->manager, gateway_who(x), &ask, out);
}

fallible images_pull(struct http *x, const struct json *json)
{
	on_exit_call(registry_credential_done) struct registry_credential credential = {0};
	struct operation *operation = NULL;
	bool wait = true;

	TRY(gateway_flag(x, "wait", &wait));
	TRY(image_begin(x, json, &credential, &operation));
	return operations_reply(x, operation, wait, image_answer);
}

fallible api_templates_prune(struct http *x)
{
	static const char *const known[] = {"unusedFor", "cache", NULL};
	struct manager *manager = gateway_of(x)->manager;
	const struct who *who = gateway_who(x);
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	uint64_t unused_ms = 0, bytes = 0, cached = 0;
	auto_json json = NULL;
	bool cache = false;
	size_t images = 0;

	TRY(access_ask(who, ACCESS_TEMPLATES));
	TRY(gateway_json(x, &json, NULL));
	if (json) {
		TRY(json_want(json, "body", JSON_OBJECT));
		TRY(json_only(json, known));
		TRY(retention_read_span(json_get(json, "unusedFor"), "unusedFor", &unused_ms));
		TRY(json_bool(json_get(json, "cache"), "cache", &cache));
	}
	// Without a span only what creates have pulled: named images stay.
	TRY(pulled_prune(manager, who->tenant, (int64_t)unused_ms, cache || !unused_ms, &images));
	if (cache) {
		TRY(build_steps_prune(manager, who->tenant, (int64_t)unused_ms, &cached));
		build_caches_prune(manager, who->tenant, (int64_t)unused_ms);
	}
	TRY(pulled_collect(manager, who->role == WHO_OPERATOR ? NULL : who->tenant, 0, &bytes));
	json_begin(&out, '{');
	json_put_int(&out, "templates", (int64_t)images);
	json_put_int(&out, "bytes", (int64_t)(bytes + cached));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}
