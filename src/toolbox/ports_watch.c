// POST /api/port-watch: an event when a port is ready. The port is probed at the requested
// interval, by TCP connect or HTTP GET. The end of the named process and the client's disconnect
// are events and end the wait at once.
#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "http/body_reader.h"
#include "loop/closer.h"
#include "toolbox/handlers.h"

#define PROBE_MS 5000
#define INTERVAL_MIN 100
#define INTERVAL_MAX 10000
#define PATH_MAX_BYTES 2048

struct watcher {
	struct http *x;
	struct box_ref ref;
	struct proc *proc; // NULL: no process was named
	uint64_t port, status_min, status_max, interval;
	bool http;
	const char *path;
	int status; // HTTP status of the answer that made it ready
	const char *field;
};

static void watcher_done(struct watcher *w)
{
	if (w->proc)
		proc_unref(w->proc);
	box_ref_end(&w->ref);
}

static fallible read_path(struct watcher *w, const struct json *json)
{
	struct str path = STR("/");
	bool bad;

	w->field = "path";
	TRY(json_str(json_get(json, "path"), "path", &path));
	bad = path.len > PATH_MAX_BYTES;
	for (size_t i = 0; i < path.len; i++)
		bad |= path.at[i] <= ' ' || path.at[i] > '~';
	if (bad)
		return err_hint(err_new(INVALID, "bad_field", "'path' is not a valid URL path"),
				"percent-encode all but printable ASCII");
	w->path = arena_fmt(w->x->arena, "%s" STR_FMT, str_starts(path, "/") ? "" : "/",
			    STR_ARG(path));
	return OK;
}

static fallible ports_watch_read_ask(struct watcher *w, const struct json *json)
{
	struct str mode = STR("tcp");
	double interval = 500;

	w->field = "body";
	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	w->field = "port";
	if (!json_get(json, "port"))
		return err_new(INVALID, "bad_field", "'port' is missing");
	TRY(json_u64(json_get(json, "port"), "port", 1, 65535, &w->port));
	w->field = "mode";
	TRY(json_str(json_get(json, "mode"), "mode", &mode));
	w->http = str_is(mode, "http");
	if (!w->http && !str_is(mode, "tcp"))
		return err_new(INVALID, "bad_field", "'mode' must be http or tcp");
	TRY(read_path(w, json));
	w->field = "statusMin";
	TRY(json_u64(json_get(json, "statusMin"), "statusMin", 100, 599, &w->status_min));
	w->field = "statusMax";
	TRY(json_u64(json_get(json, "statusMax"), "statusMax", 100, 599, &w->status_max));
	w->field = "interval";
	TRY(json_double(json_get(json, "interval"), "interval", 0, 1e12, &interval));
	w->interval = interval < INTERVAL_MIN	? INTERVAL_MIN
		      : interval > INTERVAL_MAX ? INTERVAL_MAX
						: (uint64_t)interval;
	w->field = NULL;
	return OK;
}

static fallible ports_watch_send(struct watcher *w, const char *type, const char *key,
				 int64_t number, const char *error)
{
	auto_buf event = BUF_INIT(4096);
	struct json_out out;

	buf_text(&event, "data: ");
	out = json_to(&event);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	json_put_int(&out, "port", (int64_t)w->port);
	if (key)
		json_put_int(&out, key, number);
	if (error)
		json_put_text(&out, "error", error);
	json_end(&out, '}');
	buf_text(&event, "\n\n");
	return http_write(w->x, event.at, event.len);
}

static fallible ask_http(struct watcher *w, struct stream *stream, int64_t deadline)
{
	struct http1_head *head = arena_take(w->x->arena, sizeof(*head));
	on_exit_call(body_reader_done) struct body_reader reader = {.stream = stream};
	enum http1_verdict verdict = HTTP1_MORE;
	const char *text = arena_fmt(w->x->arena,
				     "GET %s HTTP/1.1\r\nHost: localhost:%u\r\n"
				     "User-Agent: cove\r\nAccept: */*\r\n"
				     "Connection: close\r\n\r\n",
				     w->path, (unsigned)w->port);

	TRY(stream_write(stream, text, strlen(text), PROBE_MS));
	TRY(body_reader_head(&reader, http1_reply, deadline, head, &verdict));
	if (verdict == HTTP1_DONE)
		w->status = head->status;
	return OK;
}

static void close_stream(struct stream *stream)
{
	stream_close(stream);
}

static fallible try_http(struct watcher *w, int fd, int64_t deadline, bool *out)
{
	on_exit_call(close_stream) struct stream stream = {.fd = -1};
	auto_err err = NULL;

	w->status = 0;
	TRY(stream_open(&stream, gateway_of(w->x)->loop, fd));
	err = ask_http(w, &stream, deadline);
	if (err && err_kind(err) == ERR_CANCELLED)
		return take_ptr(err);
	*out = w->status >= (int)w->status_min && w->status <= (int)w->status_max;
	return OK;
}

// One probe. A failure to connect only means that the port is not ready yet.
static fallible ports_watch_probe(struct watcher *w, bool *out)
{
	int64_t deadline = loop_now(gateway_of(w->x)->loop) + PROBE_MS;
	struct files files = {.box = w->ref.box, .user = "", .deadline = deadline};
	auto_err err = NULL;
	auto_closer_fd fd = -1;

	*out = false;
	err = files_dial(&files, (uint16_t)w->port, &fd);
	if (err && (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_TIMEOUT ||
		    err_kind(err) == ERR_EXHAUSTED))
		return OK;
	if (err)
		return box_ref_explain(take_ptr(err));
	if (w->http)
		return try_http(w, take_fd(&fd), deadline, out);
	*out = true;
	return OK;
}

// Waits until the next probe is due; *out_over: the process has ended.
static fallible ports_watch_rest(struct watcher *w, bool *out_over)
{
	int64_t until = loop_now(gateway_of(w->x)->loop) + (int64_t)w->interval;
	struct err *err;

	if (!w->proc)
		return task_sleep_until(until);
	err = proc_wait(w->proc, until);
	*out_over = !err;
	if (err && err_kind(err) == ERR_TIMEOUT) {
		err_free(err);
		return OK;
	}
	return err;
}

static fallible tell_exit(struct watcher *w)
{
	struct proc_view view = proc_look(w->proc);

	return ports_watch_send(w, "process_exited", view.exit_code >= 0 ? "exitCode" : NULL,
				view.exit_code, NULL);
}

// One probe and one wait, during which the client may disconnect.
static fallible ports_watch_turn(struct watcher *w, bool *ready, bool *over)
{
	struct err *err;

	TRY(http_away(w->x, HTTP_PROBE_EVENT));
	err = ports_watch_probe(w, ready);
	if (!err && !*ready)
		err = ports_watch_rest(w, over);
	http_back(w->x);
	return err;
}

static fallible ports_watch_watch(struct watcher *w)
{
	bool ready = false, over = w->proc && proc_is_over(w->proc);

	while (!ready && !over) {
		auto_err err = ports_watch_turn(w, &ready, &over);

		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err)
			return ports_watch_send(w, "error", NULL, 0, err_message(err));
	}
	if (ready)
		return ports_watch_send(w, "ready", w->http ? "statusCode" : NULL, w->status, NULL);
	return tell_exit(w);
}

fallible toolbox_ports_watch(struct http *x)
{
	on_exit_call(watcher_done) struct watcher w = {
		.x = x, .status_min = 200, .status_max = 399, .interval = 500};
	auto_json json = NULL;
	struct str id = {0};
	struct err *err;

	TRY(gateway_json(x, &json, NULL));
	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &w.ref));
	err = ports_watch_read_ask(&w, json);
	if (!err) {
		w.field = "processId";
		err = json_str(json_get(json, "processId"), "processId", &id);
	}
	if (err) {
		error_response_answer(x, err, &(struct error_response_detail){.field = w.field});
		return OK;
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(w.ref.entry, x);

	http_be_patient(x);
	http_set(x, "Cache-Control", STR("no-cache"));
	if (id.len)
		w.proc = procs_find(w.ref.box, id);
	TRY(http_begin(x, 200, "text/event-stream"));
	TRY(ports_watch_send(&w, "watching", NULL, 0, NULL));
	if (id.len && !w.proc)
		TRY(ports_watch_send(&w, "error", NULL, 0, "Process not found"));
	else
		TRY(ports_watch_watch(&w));
	return http_end(x);
}
