// The steps of a request: ids, path token, Host and Origin, bearer token, route, fair share,
// handler. Every error ends in error_response_answer(). The token is checked before the client
// learns whether a route exists.
#include "gateway/gateway.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/weak.h"
#include "store/store.h"

#define JSON_BODY_MAX (1 << 20)
#define NAME_MAX_BYTES 128

static bool is_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.at[i]) && !memchr("-_.", text.at[i], 3))
			return false;
	return text.len && text.len <= NAME_MAX_BYTES;
}

// The client's own request id is echoed; ours is in the log and in errors.
static void name_request(struct http *x)
{
	struct str asked = http_field(x, "X-Request-Id");

	x->trace = str_of(arena_dup(x->arena, x->trace.at, x->trace.len));
	http_set(x, "X-Request-Id", is_name(asked) ? asked : str_of(x->id));
	http_set(x, "X-Trace-Id", x->trace);
}

// Until the records are loaded, NOT_FOUND would be wrong: answer UNAVAILABLE.
static fallible ask_known(const struct gateway *gateway, const struct route *route)
{
	if (!gateway->manager->unknown ||
	    (!strstr(route->pattern, "/sandbox") && !strstr(route->pattern, "/toolbox/")))
		return OK;
	TRY(store_ready(gateway->manager->store));
	return err_new(UNAVAILABLE, "starting", "cove is starting; try again in a moment");
}

static void before_answer(struct http *x, void *arg)
{
	audit_log_note(arg, x, NULL);
}

void gateway_begin(struct http *x, const char *target)
{
	if (x->answering == before_answer)
		audit_log_begin(x->answering_arg, x, target);
}

static fallible gateway_handle(struct http *x, const struct route *route)
{
	struct gateway *gateway = gateway_of(x);
	const struct who *who = x->principal;
	struct audit_log_mark mark;
	struct err *err;

	audit_log_look(gateway->audit, x, gateway->manager, who, &mark);
	x->answering = before_answer;
	x->answering_arg = &mark;
	err = route->handle(x);
	x->answering = NULL;
	audit_log_note(&mark, x, err);
	return err;
}

// The operator may use up to 7/8 of the capacity; a tenant at most as much as stays free.
#define OPERATOR_WEIGHT 7

static struct fair_share *share_of(const struct http *x)
{
	const struct who *who = x->principal;
	struct gateway *gateway = gateway_of(x);

	if (!who || !gateway->shares)
		return NULL;
	return shares_of(gateway->shares, str_of(who->tenant),
			 who->tenant[0] ? 1 : OPERATOR_WEIGHT);
}

// Counts the request as running until serve_by() ends it.
static fallible gateway_enter(struct http *x)
{
	struct fair_share *share = share_of(x);
	struct gateway *gateway = gateway_of(x);

	if (!share)
		return OK;
	TRY(fair_share_enter(gateway->shares, share, http_server_room(gateway->server)));
	memory_quota_join(&x->memory_quota, share);
	return OK;
}

static fallible serve_route(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	const struct route *route = NULL;
	auto_err lost = NULL;

	enum path_token token = path_token_take(gateway->path_token_key, gateway->manager, x);

	TRY(authenticate_origin(gateway->auth, x));
	if (token == PATH_TOKEN_NONE)
		x->principal = authenticate_who(gateway->auth, x);
	if (token == PATH_TOKEN_NONE && !x->principal)
		x->principal = path_token_toolbox(gateway->link_key, gateway->manager, x);
	if (token == PATH_TOKEN_NONE && !x->principal)
		x->principal = path_token_file(gateway->link_key, gateway->manager, x);
	if (token == PATH_TOKEN_WRONG)
		return authenticate_fail_path(gateway->auth, x);
	lost = router_find(gateway->routes, x, &route);
	x->route = route;
	if (!x->principal && !(route && route->flags & ROUTE_OPEN))
		return authenticate_fail(gateway->auth, x);
	if (lost)
		return take_ptr(lost);
	TRY(gateway_enter(x));
	TRY(ask_known(gateway, route));
	return gateway_handle(x, route);
}

// A path that path_token_take() did not recognize may still contain a token, by a client's mistake:
// it must not be logged.
static void hide_path_token(char *path)
{
	while ((path = strstr(path, PATH_TOKEN_PREFIX))) {
		path += strlen(PATH_TOKEN_PREFIX);
		memset(path, '-', strspn(path, "0123456789abcdefABCDEF"));
	}
}

// The part of the API that a route belongs to, for the metrics: "toolbox" for what is inside of one
// sandbox, else the first word behind the version.
static void gateway_group(const struct http *x, char room[METRIC_LABEL_MAX])
{
	const char *pattern = x->route ? x->route->pattern : "";
	struct str rest = str_of(pattern), word;

	if (strstr(pattern, "{id}/api/"))
		rest = STR("/v1/toolbox");
	if (str_starts(rest, "/v1/"))
		rest = str_skip(rest, strlen("/v1"));
	rest = str_skip(rest, rest.len ? 1 : 0);
	str_cut(&rest, '/', &word);
	if (!x->route || !word.len)
		word = x->route ? STR("root") : STR("none");
	snprintf(room, METRIC_LABEL_MAX, STR_FMT, STR_ARG(word));
}

static void gateway_count(const struct http *x, int64_t began_us)
{
	char group[METRIC_LABEL_MAX], code[16];

	gateway_group(x, group);
	snprintf(code, sizeof(code), "%d", x->status);
	metric_add(METRIC_HTTP_REQUESTS, group, code, 1);
	if (!x->feed) // a stream lasts as long as its reader likes
		metric_observe(METRIC_HTTP, group, (double)(clock_us() - began_us) / 1e6);
}

static void gateway_note(const struct http *x, int64_t began_us)
{
	bool often = str_is(x->head.method, "GET") ||
		     (x->route && strstr(x->route->pattern, "{id}/api/"));
	bool quiet = x->status < 400 && often;
	enum log_level level = x->status >= 500 ? LOG_WARN : quiet ? LOG_DEBUG : LOG_INFO;
	char status[16], ms[32], method[16], path[128], peer[64], box[64] = "";

	gateway_count(x, began_us);
	if (!log_wants(level))
		return;
	snprintf(status, sizeof(status), "%d", x->status);
	snprintf(ms, sizeof(ms), "%.3f", (double)(clock_us() - began_us) / 1000);
	snprintf(method, sizeof(method), STR_FMT, STR_ARG(x->head.method));
	snprintf(path, sizeof(path), STR_FMT, STR_ARG(x->url.path));
	hide_path_token(path);
	snprintf(peer, sizeof(peer), STR_FMT, STR_ARG(x->peer));
	if (x->route && strstr(x->route->pattern, "/sandboxes/"))
		snprintf(box, sizeof(box), STR_FMT, STR_ARG(x->params[0]));
	hide_path_token(box);
	log_event(level, "request", "request", x->id, "method", method, "path", path, "sandbox",
		  box[0] ? box : NULL, "status", status, "ms", ms, "peer", peer, NULL);
}

// The outer request was already authenticated.
static fallible serve_inner_route(struct http *x)
{
	const struct route *route = NULL;

	memory_quota_join(&x->memory_quota, share_of(x));
	TRY(router_find(gateway_of(x)->routes, x, &route));
	x->route = route;
	TRY(ask_known(gateway_of(x), route));
	return gateway_handle(x, route);
}

// A running request, and the key that authenticated it.
struct running_request {
	struct link link;
	struct task *task;
	const struct http *x;
};

static void on_signed_out(void *arg, const char *session)
{
	struct gateway *gateway = arg;

	list_each (at, &gateway->running) {
		struct running_request *one = link_of(at, struct running_request, link);
		const struct who *who = one->x->principal;

		if (who && !strcmp(who->web, session) && one->task != task_current())
			task_cancel(one->task);
	}
}

static void on_revoked(void *arg, const char *key)
{
	struct gateway *gateway = arg;

	web_sessions_end_key(gateway->web, key);
	list_each (at, &gateway->running) {
		struct running_request *one = link_of(at, struct running_request, link);
		const struct who *who = one->x->principal;

		if (who && !strcmp(who->key, key) && one->task != task_current())
			task_cancel(one->task);
	}
}

void gateway_open(struct gateway *gateway)
{
	link_init(&gateway->running);
	link_init(&gateway->feeds);
	gateway->shares = shares_new();
	authenticate_trust(gateway->auth, gateway->ring, gateway->web);
	web_sessions_on_end(gateway->web, on_signed_out, gateway);
	keyring_on_revoke(gateway->ring, on_revoked, gateway);
}

static void serve_by(struct http *x, route_fn *serve)
{
	struct running_request request = {.task = task_current(), .x = x};
	struct gateway *gateway = gateway_of(x);
	int64_t began_us = clock_us();
	struct err *err;

	name_request(x);
	task_trace(x->trace.at);
	if (gateway->running.next)
		link_add(&gateway->running, &request.link);
	err = serve(x);
	if (gateway->running.next)
		link_drop(&request.link);
	if (err)
		err_free(error_response_answer(x, err, NULL));
	if (serve == serve_route && x->memory_quota.share)
		fair_share_leave(gateway->shares, x->memory_quota.share);
	gateway_note(x, began_us);
	task_trace(NULL);
}

void gateway_serve(struct http *x)
{
	serve_by(x, serve_route);
}

void gateway_inner(struct http *x)
{
	serve_by(x, serve_inner_route);
}

struct in_process_ask gateway_ask(const struct http *x, struct str method, struct str target)
{
	return (struct in_process_ask){
		.loop = gateway_of(x)->loop,
		.serve = gateway_inner,
		.app = x->app,
		.principal = x->principal,
		.peer = x->peer,
		.trace = x->trace,
		.method = method,
		.target = target,
	};
}

void gateway_refuse(struct http *x, struct err *err)
{
	int64_t began_us = clock_us();

	http_set(x, "X-Request-Id", str_of(x->id));
	err_free(error_response_answer(x, err, NULL));
	gateway_note(x, began_us);
}

static bool is_json_type(struct str type)
{
	struct str word = type;

	str_cut(&type, ';', &word);
	return str_eq_nocase(str_trim(word), STR("application/json"));
}

// A cross-site form can be sent without a CORS preflight, but not with this Content-Type.
fallible gateway_want_json(const struct http *x)
{
	if (is_json_type(http_field(x, "Content-Type")))
		return OK;
	return err_hint(err_new(INVALID, "bad_content_type", "the body must be application/json"),
			"send 'Content-Type: application/json'");
}

fallible gateway_json(struct http *x, struct json **out, struct str *out_text)
{
	struct str text = {0};
	struct json *json = NULL;

	TRY(http_body(x, weak(BODY_SIZE) ? SIZE_MAX : JSON_BODY_MAX, &text));
	if (text.len) {
		TRY(gateway_want_json(x));
		TRY(json_read(text, &json));
	}
	*out = json;
	if (out_text)
		*out_text = text;
	return OK;
}

fallible gateway_object(struct http *x, struct json **out)
{
	TRY(gateway_json(x, out, NULL));
	if (!*out)
		return err_new(INVALID, "bad_field", "the body is empty");
	return json_want(*out, "body", JSON_OBJECT);
}

struct json_out gateway_success(struct buf *body)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	json_put_bool(&out, "success", true);
	return out;
}

fallible gateway_answer(struct http *x, struct json_out *out)
{
	gateway_put_now(out);
	json_end(out, '}');
	return http_reply_json(x, 200, out->buf);
}

fallible gateway_box(struct http *x, struct box_ref *out)
{
	return box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], out);
}

fallible gateway_look(struct http *x, struct box_ref *out)
{
	return box_ref_look(gateway_of(x)->manager, gateway_who(x), x->params[0], out);
}

fallible gateway_entry(struct http *x, enum access what, struct entry **out)
{
	struct entry *entry;

	TRY(access_ask(gateway_who(x), what));
	entry = access_find(gateway_of(x)->manager, gateway_who(x), x->params[0]);
	if (!entry || entry->record.state == STATE_DELETING)
		return access_absent(x->params[0]);
	entry_ref(entry);
	*out = entry;
	return OK;
}

struct files gateway_files(const struct http *x, const struct box_ref *ref, int64_t ms)
{
	return (struct files){
		.box = ref->box, .user = "", .deadline = loop_now(gateway_of(x)->loop) + ms};
}

const char *gateway_origin(const struct http *x)
{
	struct str rest = http_field(x, "X-Forwarded-Proto"), proto;

	str_cut(&rest, ',', &proto);
	return arena_fmt(x->arena, "%s://" STR_FMT,
			 str_eq_nocase(str_trim(proto), STR("https")) ? "https" : "http",
			 STR_ARG(http_field(x, "Host")));
}

fallible gateway_flag(struct http *x, const char *key, bool *out)
{
	struct str text = http_query(x, key);

	if (text.at && !str_is(text, "true") && !str_is(text, "false"))
		return err_new(INVALID, "bad_field", "'%s' must be true or false", key);
	if (text.at)
		*out = str_is(text, "true");
	return OK;
}

fallible gateway_begin_events(struct http *x)
{
	http_set(x, "Cache-Control", STR("no-cache"));
	http_be_patient(x);
	return http_begin(x, 200, "text/event-stream");
}

struct json_out gateway_event(struct buf *event, const char *type)
{
	struct json_out out;

	buf_text(event, "data: ");
	out = json_to(event);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	return out;
}

void gateway_event_end(struct json_out *out)
{
	json_end(out, '}');
	buf_text(out->buf, "\n\n");
}

fallible gateway_send_event(struct http *x, struct json_out *out)
{
	struct buf *event = out->buf;
	struct err *err;

	gateway_event_end(out);
	if (!buf_ok(event))
		return err_new(INTERNAL, "internal", "an event did not fit");
	err = http_write(x, event->at, event->len);
	buf_clear(event);
	return err;
}
