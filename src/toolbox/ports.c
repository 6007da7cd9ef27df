// Ports of a sandbox: the listening ones, as a file worker finds them; the exposed ones, as
// manager/exposed_ports records them; and /proxy/PORT, which relays a request to a port. Port 3000
// is reserved, as with Cloudflare. Nothing is listened on outside the box.
#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "http/relay.h"
#include "manager/expose.h"
#include "toolbox/handlers.h"

#define DIAL_MS 5000
#define LISTED_MAX 1024
#define RESERVED_PORT 3000 // Cloudflare's own server listens there

static fallible toolbox_ports_enter(struct http *x, struct box_ref *ref, struct files *files)
{
	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], ref));
	*files = (struct files){
		.box = ref->box,
		.user = "",
		.deadline = loop_now(gateway_of(x)->loop) + DIAL_MS,
	};
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

	TRY(toolbox_ports_enter(x, &ref, &files));
	TRY(box_ref_explain(files_ports(&files, ports, LISTED_MAX, &count)));
	json_key(&out, "ports");
	json_begin(&out, '[');
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
static fallible toolbox_ports_refuse(struct http *x, struct str port, const char *name,
				     const char *reason, struct err *err)
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
	error_response_answer(x, err, &detail);
	return OK;
}

static fallible refuse_number(struct http *x, struct str port, const char *reason)
{
	authenticate_report(x, "bad_port", "low");
	return toolbox_ports_refuse(
		x, port, NULL, reason,
		err_new(INVALID, "bad_port", "Invalid port number: %s", reason));
}

// A number as it is written; "" if the value is not a number.
static struct str toolbox_ports_digits(struct http *x, const struct json *value)
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
	TRY(toolbox_ports_enter(x, &ref, &files));
	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	TRY(json_str(json_get(json, "name"), "name", &ask.name));
	given = toolbox_ports_digits(x, json_get(json, "port"));
	if (!str_to_u64(given, 1, 65535, &port))
		return refuse_number(x, given, "Port must be an integer between 1 and 65535");
	if (port == RESERVED_PORT)
		return refuse_number(x, given, "Port 3000 is reserved");
	known = exposed_ports_find(&ref.entry->ports, (uint16_t)port);
	if (known)
		return toolbox_ports_refuse(x, given, known->name, NULL,
					    err_new(CONFLICT, "port_exposed",
						    "Port %u is already exposed", (unsigned)port));
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

	TRY(toolbox_ports_enter(x, &ref, &files));
	book = &ref.entry->ports;
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
	return gateway_answer(x, &out);
}

fallible toolbox_ports_unexpose(struct http *x)
{
	auto_box_ref ref = {0};
	struct files files;
	uint64_t port;
	bool was;

	TRY(toolbox_ports_enter(x, &ref, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return refuse_number(x, STR(""), "Port must be an integer between 1 and 65535");
	TRY(expose_end(ref.entry, (uint16_t)port, &was));
	if (!was)
		return toolbox_ports_refuse(x, str_of(arena_fmt(x->arena, "%u", (unsigned)port)),
					    NULL, NULL,
					    err_new(NOT_FOUND, "port_not_exposed",
						    "Port %u is not exposed", (unsigned)port));
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

static fallible toolbox_ports_no_listener(struct http *x, const struct box_ref *ref, uint64_t port)
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

	TRY(toolbox_ports_enter(x, &ref, &files));
	if (!str_to_u64(x->params[1], 1, 65535, &port))
		return proxy_fault(x, 404, "Port not found", "Invalid port", 0);
	err = files_dial(&files, (uint16_t)port, &options.fd);
	if (err && err_kind(err) == ERR_BAD_PEER)
		return toolbox_ports_no_listener(x, &ref, port);
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
