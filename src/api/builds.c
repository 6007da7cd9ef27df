// Routes for builds: their contexts, and the build, which is an operation. POST waits for its end,
// or answers 202 at once, or sends its events.
#include "manager/builds.h"

#include "api/events.h"
#include "api/handlers.h"
#include "api/images.h"
#include "api/template_json.h"
#include "gateway/gateway.h"
#include "loop/closer.h"
#include "manager/build_files.h"
#include "manager/build_mounts.h"
#include "types/dockerfile.h"
#include "types/launch.h"

#define REPLY_MAX (1 << 20)

// ---------------------------------------------------------------------------------------- contexts

static void upload_drop(struct build_upload **upload)
{
	build_context_abort(*upload);
}

static fallible blob_answer(struct http *x, int status, uint64_t bytes)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_str(&out, "digest", x->params[0]);
	json_put_int(&out, "bytes", (int64_t)bytes);
	json_end(&out, '}');
	return http_reply_json(x, status, &body);
}

fallible api_blobs_put(struct http *x)
{
	on_exit_call(upload_drop) struct build_upload *upload = NULL;
	uint64_t bytes = 0;

	TRY(build_context_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &upload));
	TRY(http_recv_file(x, build_upload_fd(upload), build_upload_max(upload), &bytes));
	TRY(build_context_end(take_ptr(upload)));
	return blob_answer(x, 201, bytes);
}

fallible api_blobs_get(struct http *x)
{
	uint64_t bytes = 0;
	auto_closer_fd fd = -1;

	TRY(access_ask(gateway_who(x), ACCESS_TEMPLATES));
	TRY(build_context_open(gateway_of(x)->manager, gateway_who(x)->tenant, x->params[0], &fd,
			       &bytes));
	return blob_answer(x, 200, bytes);
}

// ------------------------------------------------------------------------------------------- build

static fallible build_dup(const struct json *value, struct json **out)
{
	auto_buf text = BUF_INIT(REPLY_MAX);
	struct json_out json = json_to(&text);

	if (!value)
		return OK;
	json_add_value(&json, value);
	return json_read(buf_view(&text), out);
}

static fallible build_read_plan(const struct json *json, struct build_ask *out)
{
	struct str dockerfile = {0}, target = {0};

	TRY(build_plan_read_args(json_get(json, "args"), &out->plan.args));
	TRY(json_str(json_get(json, "dockerfile"), "dockerfile", &dockerfile));
	TRY(json_str(json_get(json, "target"), "target", &target));
	if (dockerfile.at && (json_get(json, "from") || json_get(json, "steps")))
		return err_hint(err_new(INVALID, "bad_plan", "there are a Dockerfile and steps"),
				"send one of them");
	TRY(dockerfile.at ? dockerfile_read(dockerfile, &out->plan)
			  : build_plan_read(json, &out->plan));
	return target.len ? build_plan_choose(&out->plan, target) : OK;
}

// {id: value}: files of RUN --mount=type=secret.
static fallible build_read_secrets(const struct json *object, struct env_map *out)
{
	struct json *value;
	struct str id;

	if (!object)
		return OK;
	TRY(json_want(object, "secrets", JSON_OBJECT));
	if (json_count(object) > BUILD_SECRETS_MAX)
		return err_new(INVALID, "bad_field", "'secrets' has more than %d names",
			       BUILD_SECRETS_MAX);
	for (size_t at = 0; json_next(object, &at, &id, &value);) {
		struct str text = {0};

		TRY(json_str(value, "secrets", &text));
		if (!id.len || memchr(id.at, '/', id.len) || !text.at ||
		    text.len > BUILD_SECRET_BYTES || memchr(text.at, 0, text.len))
			return err_new(INVALID, "bad_field",
				       "'secrets' are names with up to %d bytes of text each",
				       BUILD_SECRET_BYTES);
		env_map_set(out, id, text);
	}
	return OK;
}

static fallible build_read(const struct json *json, struct build_ask *out)
{
	static const char *const known[] = {
		"name",	      "dockerfile", "context", "args",	  "target", "from",    "steps",
		"stages",     "expand",	    "line",    "globals", "limits", "network", "pull",
		"keepFailed", "noCache",    "secrets", "start",	  "ready",  NULL};

	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "name"), "name", &out->name));
	TRY(json_str(json_get(json, "context"), "context", &out->context));
	TRY(json_bool(json_get(json, "pull"), "pull", &out->pull));
	TRY(json_bool(json_get(json, "keepFailed"), "keepFailed", &out->keep_failed));
	TRY(json_bool(json_get(json, "noCache"), "noCache", &out->no_cache));
	if (!out->name.len)
		return err_new(INVALID, "bad_field", "'name' is missing");
	TRY(launch_take(json, &out->launch));
	TRY(build_read_secrets(json_get(json, "secrets"), &out->secrets));
	TRY(build_dup(json_get(json, "limits"), &out->limits));
	TRY(build_dup(json_get(json, "network"), &out->network));
	return build_read_plan(json, out);
}

static fallible build_answer(struct http *x, struct operation *operation)
{
	struct template template;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	TRY(http_while_away(x, HTTP_PROBE_HEAD, operation_await(operation, CLOCK_NEVER)));
	TRY(templates_get(gateway_of(x)->manager, gateway_who(x), str_of(operation->name),
			  &template));
	json_begin(&out, '{');
	template_put(&out, &template);
	json_end(&out, '}');
	return http_reply_json(x, 201, &body);
}

fallible api_builds_make(struct http *x)
{
	on_exit_call(build_ask_done) struct build_ask ask = {0};
	struct operation *operation = NULL;
	struct create_grant grant;
	auto_json json = NULL;
	bool wait = true;

	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_flag(x, "wait", &wait));
	TRY(gateway_json(x, &json, NULL));
	TRY(build_read(json, &ask));
	TRY(builds_begin(gateway_of(x)->manager, &grant, &ask, &operation));
	return operations_reply(x, operation, wait, build_answer);
}
