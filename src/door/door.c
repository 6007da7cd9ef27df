// The walk of a request: its name, its place (Host, Origin), its sender
// (bearer), its route, its handler; and whatever fails on the way ends in fail_answer(). The bearer
// is asked before the client learns whether a route exists.
#include "door/door.h"

#include <ctype.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/weak.h"
#include "store/store.h"

#define JSON_BODY_MAX (1 << 20)
#define NAME_MAX_BYTES 128

static bool door_is_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.at[i]) && !memchr("-_.", text.at[i], 3))
			return false;
	return text.len && text.len <= NAME_MAX_BYTES;
}

// The client's own name for the request is repeated to it; ours is in the log and in errors.
static void name_request(struct http *x)
{
	struct str asked = http_field(x, "X-Request-Id");

	x->trace = str_of(arena_dup(x->arena, x->trace.at, x->trace.len));
	http_set(x, "X-Request-Id", door_is_name(asked) ? asked : str_of(x->id));
	http_set(x, "X-Trace-Id", x->trace);
}

// While it is not known what sandboxes there are, "there is none" would be a lie.
static fallible ask_known(const struct door *door, const struct route *route)
{
	if (!door->fleet->unknown || !strstr(route->pattern, "/sandbox"))
		return OK;
	TRY(store_ready(door->fleet->store));
	return err_new(UNAVAILABLE, "starting", "cove is starting; try again in a moment");
}

static void before_answer(struct http *x, void *arg)
{
	ledger_note(arg, x, NULL);
}

void door_begin(struct http *x, const char *target)
{
	if (x->answering == before_answer)
		ledger_begin(x->answering_arg, x, target);
}

static fallible door_handle(struct http *x, const struct route *route)
{
	struct door *door = door_of(x);
	const struct who *who = x->guest;
	struct ledger_mark mark;
	struct err *err;

	ledger_look(door->ledger, x, door->fleet, who, &mark);
	x->answering = before_answer;
	x->answering_arg = &mark;
	err = route->handle(x);
	x->answering = NULL;
	ledger_note(&mark, x, err);
	return err;
}

// The operator has most of it, if need be; a tenant as much as it leaves.
#define OPERATOR_WEIGHT 7

static struct share *door_share_of(const struct http *x)
{
	const struct who *who = x->guest;
	struct door *door = door_of(x);

	if (!who || !door->shares)
		return NULL;
	return shares_of(door->shares, str_of(who->tenant), who->tenant[0] ? 1 : OPERATOR_WEIGHT);
}

// It is under way until serve_by() has done with it.
static fallible door_enter(struct http *x)
{
	struct share *share = door_share_of(x);
	struct door *door = door_of(x);

	if (!share)
		return OK;
	TRY(share_enter(door->shares, share, http_server_room(door->server)));
	hoard_join(&x->hoard, share);
	return OK;
}

static fallible door_walk(struct http *x)
{
	struct door *door = door_of(x);
	const struct route *route = NULL;
	auto_err lost = NULL;

	enum pass pass = pass_take(door->pass_key, door->fleet, x);

	TRY(guard_place(door->guard, x));
	if (pass == PASS_NONE)
		x->guest = guard_who(door->guard, x);
	if (pass == PASS_WRONG)
		return guard_strike_path(door->guard, x);
	lost = router_find(door->routes, x, &route);
	x->route = route;
	if (!x->guest && !(route && route->flags & ROUTE_OPEN))
		return guard_strike(door->guard, x);
	if (lost)
		return take_ptr(lost);
	TRY(door_enter(x));
	TRY(ask_known(door, route));
	return door_handle(x, route);
}

// A path that pass_take() did not know for one of its own may hold the credential all the same, by
// the slip of a client: it is not to be read in a log.
static void hide_pass(char *path)
{
	while ((path = strstr(path, PASS_PREFIX))) {
		path += strlen(PASS_PREFIX);
		memset(path, '-', strspn(path, "0123456789abcdefABCDEF"));
	}
}

static void door_note(const struct http *x, int64_t began_us)
{
	bool often = str_is(x->head.method, "GET") ||
		     (x->route && strstr(x->route->pattern, "{id}/api/"));
	bool quiet = x->status < 400 && often;
	enum log_level level = x->status >= 500 ? LOG_WARN : quiet ? LOG_DEBUG : LOG_INFO;
	char status[16], ms[32], method[16], path[128], peer[64], box[64] = "";

	if (!log_wants(level))
		return;
	snprintf(status, sizeof(status), "%d", x->status);
	snprintf(ms, sizeof(ms), "%.3f", (double)(clock_us() - began_us) / 1000);
	snprintf(method, sizeof(method), STR_FMT, STR_ARG(x->head.method));
	snprintf(path, sizeof(path), STR_FMT, STR_ARG(x->url.path));
	hide_pass(path);
	snprintf(peer, sizeof(peer), STR_FMT, STR_ARG(x->peer));
	if (x->route && strstr(x->route->pattern, "/sandboxes/"))
		snprintf(box, sizeof(box), STR_FMT, STR_ARG(x->params[0]));
	hide_pass(box);
	log_event(level, "request", "request", x->id, "method", method, "path", path, "sandbox",
		  box[0] ? box : NULL, "status", status, "ms", ms, "peer", peer, NULL);
}

// Whoever carries the request has been asked for place and bearer.
static fallible walk_inside(struct http *x)
{
	const struct route *route = NULL;

	hoard_join(&x->hoard, door_share_of(x));
	TRY(router_find(door_of(x)->routes, x, &route));
	x->route = route;
	TRY(ask_known(door_of(x), route));
	return door_handle(x, route);
}

// A request under way, and the key that let it in.
struct presence {
	struct link link;
	struct task *task;
	const struct http *x;
};

static void on_revoked(void *arg, const char *key)
{
	struct door *door = arg;

	list_each (at, &door->present) {
		struct presence *one = link_of(at, struct presence, link);
		const struct who *who = one->x->guest;

		if (who && !strcmp(who->key, key) && one->task != task_current())
			task_cancel(one->task);
	}
}

void door_open(struct door *door)
{
	link_init(&door->present);
	door->shares = shares_new();
	guard_trust(door->guard, door->ring);
	keyring_on_revoke(door->ring, on_revoked, door);
}

static void serve_by(struct http *x, route_fn *way_in)
{
	struct presence here = {.task = task_current(), .x = x};
	struct door *door = door_of(x);
	int64_t began_us = clock_us();
	struct err *err;

	name_request(x);
	task_trace(x->trace.at);
	if (door->present.next)
		link_add(&door->present, &here.link);
	err = way_in(x);
	if (door->present.next)
		link_drop(&here.link);
	if (err)
		fail_answer(x, err, NULL);
	if (way_in == door_walk && x->hoard.share)
		share_leave(door->shares, x->hoard.share);
	door_note(x, began_us);
	task_trace(NULL);
}

void door_serve(struct http *x)
{
	serve_by(x, door_walk);
}

void door_inner(struct http *x)
{
	serve_by(x, walk_inside);
}

struct inner_ask door_ask(const struct http *x, struct str method, struct str target)
{
	return (struct inner_ask){
		.loop = door_of(x)->loop,
		.serve = door_inner,
		.house = x->house,
		.guest = x->guest,
		.peer = x->peer,
		.trace = x->trace,
		.method = method,
		.target = target,
	};
}

void door_refuse(struct http *x, struct err *err)
{
	int64_t began_us = clock_us();

	http_set(x, "X-Request-Id", str_of(x->id));
	fail_answer(x, err, NULL);
	door_note(x, began_us);
}

static bool is_json_type(struct str type)
{
	struct str word = type;

	str_cut(&type, ';', &word);
	return str_eq_nocase(str_trim(word), STR("application/json"));
}

// A form of another site can be sent without asking us first, but not with this type.
fallible door_want_json(const struct http *x)
{
	if (is_json_type(http_field(x, "Content-Type")))
		return OK;
	return err_hint(err_new(INVALID, "bad_content_type", "the body must be application/json"),
			"send 'Content-Type: application/json'");
}

fallible door_json(struct http *x, struct json **out, struct str *out_text)
{
	struct str text = {0};
	struct json *json = NULL;

	TRY(http_body(x, weak(BODY_SIZE) ? SIZE_MAX : JSON_BODY_MAX, &text));
	if (text.len) {
		TRY(door_want_json(x));
		TRY(json_read(text, &json));
	}
	*out = json;
	if (out_text)
		*out_text = text;
	return OK;
}

struct json_out door_success(struct buf *body)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	json_put_bool(&out, "success", true);
	return out;
}

fallible door_answer(struct http *x, struct json_out *out)
{
	door_put_now(out);
	json_end(out, '}');
	return http_reply_json(x, 200, out->buf);
}
