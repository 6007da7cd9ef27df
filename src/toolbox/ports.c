// Ports of a sandbox: the listening ones, as a file worker finds them; the exposed ones, as
// manager/exposed_ports records them; /proxy/PORT, which relays a request to a port; and readiness.
// Port 3000 is reserved, as with Cloudflare. Nothing is listened on outside the box.
//
// POST /api/port-watch sends an event when a port is ready. The port is probed at the requested
// interval, by TCP connect or HTTP GET. The end of the named process and the client's disconnect
// are events and end the wait at once.
#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "http/body_reader.h"
#include "http/relay.h"
#include "loop/closer.h"
#include "manager/expose.h"
#include "toolbox/handlers.h"

#define DIAL_MS 5000
#define LISTED_MAX 1024
#define RESERVED_PORT 3000 // Cloudflare's own server listens there

static fallible ports_enter(struct http *x, struct box_ref *ref, struct files *files)
{
	TRY(gateway_box(x, ref));
	*files = gateway_files(x, ref, DIAL_MS);
	return OK;
}

fallible toolbox_ports_list(struct http *x)
{
	struct fileop_port *ports = arena_take(x->arena, LISTED_MAX * sizeof(*ports));
	auto_box_ref ref = {0};
	struct files files;
	auto_buf body = BUF_INIT(256 * 1024);
	struct json_out out = gateway_success(&body);
	size_t count = 0;

	TRY(ports_enter(x, &ref, &files));
	TRY(box_ref_explain(files_ports(&files, ports, LISTED_MAX, &count)));
	json_put_begin(&out, "ports", '[');
	for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
		const struct exposed_ports_entry *known = exposed_ports_find(&ref.entry->ports,
									     ports[i].port);

		json_begin(&out, '{');
		json_put_int(&out, "port", ports[i].port);
		json_put_text(&out, "address", ports[i].any ? "any" : "loopback");
		json_put_bool(&out, "exposed", known != NULL);
		if (known && known->name)
			json_put_text(&out, "name", known->name);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_put_int(&out, "count", (int64_t)count);
	return gateway_answer(x, &out);
}

// Answers an error about a port; its context has the port as it was given.
static fallible ports_refuse(struct http *x, struct str port, const char *name, const char *reason,
			     struct err *err)
{
	auto_buf context = BUF_INIT(4096);
	struct json_out out = json_to(&context);
	struct error_response_detail detail = {0};

	json_begin(&out, '{');
	json_key(&out, "port");
	json_add_raw(&out, port.len && port.len < 64 ? port : STR("null"));
	if (name)
		json_put_text(&out, "portName", name);
	if (reason)
		json_put_text(&out, "reason", reason);
	json_end(&out, '}');
	detail.context = buf_view(&context);
	return error_response_answer(x, err, &detail);
}

static fallible refuse_number(struct http *x, struct str port, const char *reason)
{
	authenticate_report(x, "bad_port", "low");
	return ports_refuse(x, port, NULL, reason,
			    err_new(INVALID, "bad_port", "Invalid port number: %s", reason));
}

// A number as it is written; "" if the value is not a number.
static struct str ports_digits(struct http *x, const struct json *value)
{
	double number = 0;

	if (!value || json_type(value) != JSON_NUMBER)
		return STR("");
	err_free(json_double(value, "port", -1e15, 1e15, &number));
	return str_of(arena_fmt(x->arena, "%.15g", number));
}

static fallible answer_port(struct http *x, uint64_t port, bool with_url)
{
	auto_buf body = BUF_INIT(512);
	struct json_out out = gateway_success(&body);

	json_put_int(&out, "port", (int64_t)port);
	if (with_url)
		json_put_text(&out, "url",
			      arena_fmt(x->arena, "http://localhost:%u", (unsigned)port));
	return gateway_answer(x, &out);
}

fallible toolbox_ports_expose(struct http *x)
{
	const struct exposed_ports_entry *known;
	struct expose_ask ask = {0};
	struct exposed_ports_entry made;
	auto_box_ref ref = {0};
	struct files files;
	auto_json json = NULL;
	struct str given;
	uint64_t port;
	bool is_new;

	TRY(gateway_json(x, &json, NULL));
	TRY(ports_enter(x, &ref, &files));
	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	TRY(json_str(json_get(json, "name"), "name", &ask.name));
	given = ports_digits(x, json_get(json, "port"));
	if (!str_to_u64(given, 1, 65535, &port))
		return refuse_number(x, given, "Port must be an integer between 1 and 65535");
	if (port == RESERVED_PORT)
		return refuse_number(x, given, "Port 3000 is reserved");
	known = exposed_ports_find(&ref.entry->ports, (uint16_t)port);
	if (known)
		return ports_refuse(x, given, known->name, NULL,
				    err_new(CONFLICT, "port_exposed", "Port %u is already exposed",
					    (unsigned)port));
	ask.port = (uint16_t)port;
	TRY(expose_port(ref.entry, &ask, &is_new, &made));
	return answer_port(x, port, true);
}

fallible toolbox_ports_exposed(struct http *x)
{
	auto_box_ref ref = {0};
	struct files files;
	auto_buf body = BUF_INIT(256 * 1024);
	struct json_out out = gateway_success(&body);
	const struct exposed_ports *book;

	TRY(ports_enter(x, &ref, &files));
	book = &ref.entry->ports;
	json_put_begin(&out, "ports", '[');
	for (size_t i = 0; i < book->count; i++) {
		json_begin(&out, '{');
		json_put_int(&out, "port", book->at[i].port);
		json_put_text(&out, "url",
			      arena_fmt(x->arena, "http://localhost:%u", book->at[i].port));
		json_put_text(&out, "status", "active");
		if (book->at[i].name)
			json_put_text(&out, "name", book->at[i].name);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

fallible toolbox_ports_unexpose(struct http *x)
{
	auto_box_ref ref = {0};
	struct files files;
	uint64_t port;
	bool was;

	TRY(ports_enter(x, &ref, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return refuse_number(x, STR(""), "Port must be an integer between 1 and 65535");
	TRY(expose_end(ref.entry, (uint16_t)port, &was));
	if (!was)
		return ports_refuse(x, str_of(arena_fmt(x->arena, "%u", (unsigned)port)), NULL,
				    NULL,
				    err_new(NOT_FOUND, "port_not_exposed", "Port %u is not exposed",
					    (unsigned)port));
	return answer_port(x, port, false);
}

// Errors of the proxy have a JSON format of their own.
static fallible proxy_fault(struct http *x, int status, const char *error, const char *message,
			    uint64_t port)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "error", error);
	json_put_text(&out, "message", message);
	json_put_int(&out, "port", (int64_t)port);
	json_put_text(&out, "requestId", x->id);
	json_end(&out, '}');
	return http_reply_json(x, status, &body);
}

// The part of the path after /proxy/PORT, as it was sent.
static struct str rest_of_path(const struct http *x)
{
	struct str rest = x->url.path;
	const char *mark = memmem(rest.at, rest.len, "/proxy/", 7);

	rest = str_skip(rest, (size_t)(mark - rest.at) + 7);
	while (rest.len && rest.at[0] != '/')
		rest = str_skip(rest, 1);
	return rest.len ? rest : STR("/");
}

static fallible ports_no_listener(struct http *x, const struct box_ref *ref, uint64_t port)
{
	if (exposed_ports_find(&ref->entry->ports, (uint16_t)port))
		return proxy_fault(x, 502, "Proxy error", "Connection refused", port);
	return proxy_fault(x, 404, "Port not found",
			   arena_fmt(x->arena, "Port %u is not exposed, and nothing listens there",
				     (unsigned)port),
			   port);
}

fallible toolbox_ports_proxy(struct http *x)
{
	struct relay_options options = {
		.loop = gateway_of(x)->loop, .fd = -1, .path = rest_of_path(x)};
	auto_box_ref ref = {0};
	struct files files;
	auto_err err = NULL;
	uint64_t port;

	TRY(ports_enter(x, &ref, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return proxy_fault(x, 404, "Port not found", "Invalid port", 0);
	err = files_dial(&files, (uint16_t)port, &options.fd);
	if (err && err_kind(err) == ERR_BAD_PEER)
		return ports_no_listener(x, &ref, port);
	if (err)
		return box_ref_explain(take_ptr(err));
	options.host = str_of(arena_fmt(x->arena, "localhost:%u", (unsigned)port));
	// A client that authenticated by the path token sends its Authorization header to the
	// server in the box.
	options.keep_bearer = gateway_who(x)->role == WHO_BOX;
	options.shares_origin = true;
	options.keep_origin = true;
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(ref.entry, x);

	err = relay_run(x, &options);
	if (!err || x->reply_begun ||
	    (err_kind(err) != ERR_BAD_PEER && err_kind(err) != ERR_TIMEOUT))
		return take_ptr(err);
	return proxy_fault(x, err_http(err), "Proxy error", err_message(err), port);
}

// ---------------------------------------------------------------------------- readiness

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
	struct json_out out = gateway_event(&event, type);

	json_put_int(&out, "port", (int64_t)w->port);
	if (key)
		json_put_int(&out, key, number);
	if (error)
		json_put_text(&out, "error", error);
	return gateway_send_event(w->x, &out);
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

static fallible try_http(struct watcher *w, int fd, int64_t deadline, bool *out)
{
	on_exit_call(stream_close) struct stream stream = {.fd = -1};
	auto_err err = NULL;

	w->status = 0;
	TRY(stream_open(&stream, gateway_of(w->x)->loop, fd));
	err = ask_http(w, &stream, deadline);
	if (err && err_kind(err) == ERR_CANCELLED)
		return take_ptr(err);
	*out = w->status >= (int)w->status_min && w->status <= (int)w->status_max;
	return OK;
}

// Probes once. A failure to connect only means that the port is not ready yet.
static fallible ports_watch_probe(struct watcher *w, bool *out)
{
	struct files files = gateway_files(w->x, &w->ref, PROBE_MS);
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
		return try_http(w, take_fd(&fd), files.deadline, out);
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

// Probes once and waits once, during which the client may disconnect.
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
	TRY(gateway_box(x, &w.ref));
	err = ports_watch_read_ask(&w, json);
	if (!err) {
		w.field = "processId";
		err = json_str(json_get(json, "processId"), "processId", &id);
	}
	if (err) {
		return error_response_answer(x, err,
					     &(struct error_response_detail){.field = w.field});
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(w.ref.entry, x);

	if (id.len)
		w.proc = procs_find(w.ref.box, id);
	TRY(gateway_begin_events(x));
	TRY(ports_watch_send(&w, "watching", NULL, 0, NULL));
	if (id.len && !w.proc)
		TRY(ports_watch_send(&w, "error", NULL, 0, "Process not found"));
	else
		TRY(ports_watch_watch(&w));
	return http_end(x);
}
