#include "inbox/ports.h"

#include "base/clock.h"
#include "door/door.h"
#include "door/escort.h"
#include "fleet/expose.h"
#include "http/relay.h"

#define DIAL_MS 5000
#define LISTED_MAX 1024
#define OURS 3000 // where Cloudflare's own server listens

static fallible inbox_ports_enter(struct http *x, struct visit *visit, struct files *files)
{
	TRY(visit_begin(door_of(x)->fleet, door_who(x), x->params[0], visit));
	*files = (struct files){
		.box = visit->box,
		.user = "",
		.deadline = loop_now(door_of(x)->loop) + DIAL_MS,
	};
	return OK;
}

fallible inbox_ports_list(struct http *x)
{
	struct reach_port *ports = arena_take(x->arena, LISTED_MAX * sizeof(*ports));
	auto_visit visit = {0};
	struct files files;
	auto_buf body = BUF_INIT(256 * 1024);
	struct json_out out = door_success(&body);
	size_t count = 0;

	TRY(inbox_ports_enter(x, &visit, &files));
	TRY(visit_explain(files_ports(&files, ports, LISTED_MAX, &count)));
	json_key(&out, "ports");
	json_begin(&out, '[');
	for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
		const struct portbook_entry *known = portbook_find(&visit.entry->ports,
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
	return door_answer(x, &out);
}

// An error about a port, with the port as it was given in its context.
static fallible inbox_ports_refuse(struct http *x, struct str port, const char *name,
				   const char *reason, struct err *err)
{
	auto_buf context = BUF_INIT(4096);
	struct json_out out = json_to(&context);
	struct fail_detail detail = {0};

	json_begin(&out, '{');
	json_key(&out, "port");
	json_add_raw(&out, port.len && port.len < 64 ? port : STR("null"));
	if (name)
		json_put_text(&out, "portName", name);
	if (reason)
		json_put_text(&out, "reason", reason);
	json_end(&out, '}');
	detail.context = buf_view(&context);
	fail_answer(x, err, &detail);
	return OK;
}

static fallible refuse_number(struct http *x, struct str port, const char *reason)
{
	guard_report(x, "bad_port", "low");
	return inbox_ports_refuse(x, port, NULL, reason,
				  err_new(INVALID, "bad_port", "Invalid port number: %s", reason));
}

// A number, as it is written; "" when it is none.
static struct str inbox_ports_digits(struct http *x, const struct json *value)
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
	struct json_out out = door_success(&body);

	json_put_int(&out, "port", (int64_t)port);
	if (with_url)
		json_put_text(&out, "url",
			      arena_fmt(x->arena, "http://localhost:%u", (unsigned)port));
	return door_answer(x, &out);
}

fallible inbox_ports_expose(struct http *x)
{
	const struct portbook_entry *known;
	struct expose_ask ask = {0};
	struct portbook_entry made;
	auto_visit visit = {0};
	struct files files;
	auto_json json = NULL;
	struct str given;
	uint64_t port;
	bool is_new;

	TRY(door_json(x, &json, NULL));
	TRY(inbox_ports_enter(x, &visit, &files));
	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	TRY(json_str(json_get(json, "name"), "name", &ask.name));
	given = inbox_ports_digits(x, json_get(json, "port"));
	if (!str_to_u64(given, 1, 65535, &port))
		return refuse_number(x, given, "Port must be an integer between 1 and 65535");
	if (port == OURS)
		return refuse_number(x, given, "Port 3000 is reserved");
	known = portbook_find(&visit.entry->ports, (uint16_t)port);
	if (known)
		return inbox_ports_refuse(x, given, known->name, NULL,
					  err_new(CONFLICT, "port_exposed",
						  "Port %u is already exposed", (unsigned)port));
	ask.port = (uint16_t)port;
	TRY(expose_port(visit.entry, &ask, &is_new, &made));
	return answer_port(x, port, true);
}

fallible inbox_ports_exposed(struct http *x)
{
	auto_visit visit = {0};
	struct files files;
	auto_buf body = BUF_INIT(256 * 1024);
	struct json_out out = door_success(&body);
	const struct portbook *book;

	TRY(inbox_ports_enter(x, &visit, &files));
	book = &visit.entry->ports;
	json_key(&out, "ports");
	json_begin(&out, '[');
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
	return door_answer(x, &out);
}

fallible inbox_ports_unexpose(struct http *x)
{
	auto_visit visit = {0};
	struct files files;
	uint64_t port;
	bool was;

	TRY(inbox_ports_enter(x, &visit, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return refuse_number(x, STR(""), "Port must be an integer between 1 and 65535");
	TRY(expose_end(visit.entry, (uint16_t)port, &was));
	if (!was)
		return inbox_ports_refuse(x, str_of(arena_fmt(x->arena, "%u", (unsigned)port)),
					  NULL, NULL,
					  err_new(NOT_FOUND, "port_not_exposed",
						  "Port %u is not exposed", (unsigned)port));
	return answer_port(x, port, false);
}

// Errors of the proxy have a shape of their own.
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

// What stands behind /proxy/PORT in the path, as it was sent.
static struct str rest_of_path(const struct http *x)
{
	struct str rest = x->url.path;
	const char *mark = memmem(rest.at, rest.len, "/proxy/", 7);

	rest = str_skip(rest, (size_t)(mark - rest.at) + 7);
	while (rest.len && rest.at[0] != '/')
		rest = str_skip(rest, 1);
	return rest.len ? rest : STR("/");
}

static fallible inbox_ports_no_listener(struct http *x, const struct visit *visit, uint64_t port)
{
	if (portbook_find(&visit->entry->ports, (uint16_t)port))
		return proxy_fault(x, 502, "Proxy error", "Connection refused", port);
	return proxy_fault(x, 404, "Port not found",
			   arena_fmt(x->arena, "Port %u is not exposed, and nothing listens there",
				     (unsigned)port),
			   port);
}

fallible inbox_ports_proxy(struct http *x)
{
	struct relay_way way = {.loop = door_of(x)->loop, .fd = -1, .path = rest_of_path(x)};
	auto_visit visit = {0};
	struct files files;
	auto_err err = NULL;
	uint64_t port;

	TRY(inbox_ports_enter(x, &visit, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return proxy_fault(x, 404, "Port not found", "Invalid port", 0);
	err = files_dial(&files, (uint16_t)port, &way.fd);
	if (err && err_kind(err) == ERR_BAD_PEER)
		return inbox_ports_no_listener(x, &visit, port);
	if (err)
		return visit_explain(take_ptr(err));
	way.host = str_of(arena_fmt(x->arena, "localhost:%u", (unsigned)port));
	// Who came by the path's credential has an Authorization to spare.
	way.keep_bearer = door_who(x)->role == WHO_BOX;
	way.shares_origin = true;
	way.keep_origin = true;
	auto_escort escort = escort_begin(visit.entry, x);

	err = relay_run(x, &way);
	if (!err || x->reply_begun ||
	    (err_kind(err) != ERR_BAD_PEER && err_kind(err) != ERR_TIMEOUT))
		return take_ptr(err);
	return proxy_fault(x, err_http(err), "Proxy error", err_message(err), port);
}
