// Routes of the bridge for sandboxes, sessions and terminals: each is forwarded to the route of the
// sandbox, and its answer is rewritten in the bridge's format. Mounts and tunnels are refused with
// 501 after the same checks of the request as upstream's.
#include "cloudflare/forward.h"
#include "cloudflare/handlers.h"
#include "codec/text.h"

#define REPLY_MAX (64 * 1024)

struct reply {
	struct bridge_forward forward;
	struct buf body;
};

static void reply_done(struct reply *reply)
{
	bridge_forward_done(&reply->forward);
	buf_done(&reply->body);
}

static fallible sandbox_collect(void *arg, struct str bytes)
{
	buf_str(&((struct reply *)arg)->body, bytes);
	return OK;
}

static const struct in_process_calls collecting = {.bytes = sandbox_collect};

fallible cloudflare_sandbox_new(struct http *x)
{
	char id[PATH_ID_LEN + 1];

	path_new_id(id);
	return http_reply(x, 200, NULL, str_of(arena_fmt(x->arena, "{\"id\":\"%s\"}", id)));
}

// An id that is valid by its characters, but cannot be the name of a sandbox.
static bool is_unusable_id(const struct http *x)
{
	return path_is_base32(x->params[0]) && !path_is_id(x->params[0]);
}

fallible cloudflare_sandbox_end(struct http *x)
{
	auto_err err = NULL;
	bool forced = false;

	if (is_unusable_id(x))
		return http_reply_empty(x, 204);
	TRY(gateway_flag(x, "force", &forced));
	TRY(named_box_check(x));
	err = life_delete(gateway_of(x)->manager, gateway_who(x), x->params[0],
			  LIFE_WAITS | (forced ? LIFE_FORCED : 0));
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	return http_reply_empty(x, 204);
}

fallible cloudflare_sandbox_running(struct http *x)
{
	const struct record *record = NULL;
	auto_err err = NULL;
	bool running;

	if (!is_unusable_id(x)) {
		TRY(named_box_check(x));
		err = manager_get(gateway_of(x)->manager, gateway_who(x), x->params[0], &record);
	}
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return take_ptr(err);
	running = record && record->state == STATE_RUNNING;
	return http_reply(x, 200, NULL,
			  running ? STR("{\"running\":true}") : STR("{\"running\":false}"));
}

// The body is read leniently, as upstream does: a missing or malformed one means all defaults.
static fallible sandbox_write_session(struct http *x, struct buf *out)
{
	struct json_out json = json_to(out);
	struct str text = {0}, id = {0}, cwd = {0};
	const struct json *env;
	auto_json body = NULL;
	auto_pairs pairs = {0};

	TRY(http_body(x, 0, &text));
	if (text.len)
		err_free(json_read(text, &body));
	if (body && json_type(body) != JSON_OBJECT)
		return err_new(INVALID, "invalid_request", "the body must be an object");
	TRY(json_str(json_get(body, "id"), "id", &id));
	TRY(json_str(json_get(body, "cwd"), "cwd", &cwd));
	env = json_get(body, "env");
	TRY(env_map_read_env(env, &pairs));
	if (id.at && !path_is_session(id))
		return err_new(INVALID, "invalid_request", "Invalid session ID format");
	if (cwd.len)
		TRY(named_box_path(x, "cwd", cwd, &cwd));
	json_begin(&json, '{');
	if (id.at)
		json_put_str(&json, "id", id);
	if (cwd.len)
		json_put_str(&json, "cwd", cwd);
	if (env) {
		json_key(&json, "env");
		env_map_write(&json, &pairs);
	}
	json_end(&json, '}');
	return OK;
}

static fallible answer_id(struct http *x, const struct reply *reply)
{
	auto_json made = NULL;
	struct str id = {0};
	auto_buf body = BUF_INIT(1024);
	struct json_out out = json_to(&body);

	TRY(json_read(buf_view(&reply->body), &made));
	TRY(json_str(json_get(made, "id"), "id", &id));
	json_begin(&out, '{');
	json_put_str(&out, "id", id);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible cloudflare_sandbox_session(struct http *x)
{
	on_exit_call(reply_done) struct reply reply = {.forward = {.x = x},
						       .body = BUF_INIT(REPLY_MAX)};
	auto_buf ask = BUF_INIT(256 * 1024);
	char id[ID_BOX_LEN + 1];

	TRY(named_box_check(x));
	TRY(sandbox_write_session(x, &ask));
	TRY(named_box_enter(x, id));
	TRY(bridge_forward_ask(&reply.forward, "POST",
			       named_box_target(x, id, "/api/session/create"), NULL, buf_view(&ask),
			       &collecting));
	if (reply.forward.fault.len)
		return bridge_forward_fault(&reply.forward, "session_error",
					    "session create failed");
	return answer_id(x, &reply);
}

fallible cloudflare_sandbox_session_end(struct http *x)
{
	on_exit_call(reply_done) struct reply reply = {.forward = {.x = x},
						       .body = BUF_INIT(REPLY_MAX)};
	char id[ID_BOX_LEN + 1];
	const char *ask;

	if (!path_is_session(x->params[1]))
		return err_new(INVALID, "invalid_request", "Invalid session ID format");
	ask = arena_fmt(x->arena, "{\"sessionId\":\"" STR_FMT "\"}", STR_ARG(x->params[1]));
	TRY(named_box_enter(x, id));
	TRY(bridge_forward_ask(&reply.forward, "POST",
			       named_box_target(x, id, "/api/session/delete"), NULL, str_of(ask),
			       &collecting));
	if (reply.forward.fault.len)
		return bridge_forward_fault(&reply.forward, "session_error",
					    "session delete failed");
	return http_reply_json(x, 200, &reply.body);
}

static void sandbox_put_query(struct http *x, struct buf *out, const char *key)
{
	struct str value = http_query(x, key);

	if (!value.at)
		return;
	buf_fmt(out, "&%s=", key);
	text_percent(out, value);
}

// The request is passed to the terminal's own route, with its connection.
fallible cloudflare_sandbox_pty(struct http *x)
{
	auto_buf query = BUF_INIT(4096);
	const struct route *route = NULL;
	struct str session = {0};
	char id[ID_BOX_LEN + 1];

	TRY(named_box_check(x));
	if (!x->head.upgrade)
		return err_new(INVALID, "invalid_request", "WebSocket upgrade required");
	TRY(named_box_session(x, &session));
	buf_fmt(&query, "sessionId=" STR_FMT, STR_ARG(session.len ? session : STR("default")));
	sandbox_put_query(x, &query, "cols");
	sandbox_put_query(x, &query, "rows");
	sandbox_put_query(x, &query, "shell");
	TRY(named_box_enter(x, id));
	x->url.path = str_of(named_box_target(x, id, "/ws/pty"));
	x->url.query = (struct str){arena_dup(x->arena, query.at, query.len), query.len};
	TRY(router_find(gateway_of(x)->routes, x, &route));
	return route->handle(x);
}

static fallible need_mount_path(struct http *x)
{
	auto_json body = NULL;
	struct str path = {0};

	TRY(named_box_check(x));
	TRY(gateway_json(x, &body, NULL));
	if (body && json_type(body) == JSON_OBJECT)
		TRY(json_str(json_get(body, "mountPath"), "mountPath", &path));
	if (!path.len || path.at[0] != '/')
		return err_new(INVALID, "invalid_request", "mountPath must be an absolute path");
	return OK;
}

fallible cloudflare_sandbox_mount(struct http *x)
{
	TRY(need_mount_path(x));
	return err_hint(err_new(NOT_OFFERED, "not_offered", "cove mounts no buckets"),
			"copy the files: PUT …/file/PATH, or POST …/hydrate with a tar");
}

fallible cloudflare_sandbox_unmount(struct http *x)
{
	TRY(need_mount_path(x));
	return err_hint(err_new(NOT_OFFERED, "not_offered", "cove mounts no buckets"),
			"there is nothing to unmount");
}

fallible cloudflare_sandbox_tunnel(struct http *x)
{
	uint64_t port;

	TRY(named_box_check(x));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return err_new(INVALID, "invalid_request", "Invalid port");
	return err_hint(err_new(NOT_OFFERED, "not_offered", "cove opens no tunnels"),
			"reach the port at /v1/sandboxes/" STR_FMT "/proxy/%u/",
			STR_ARG(x->params[0]), (unsigned)port);
}
