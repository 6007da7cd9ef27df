// Exposing a port does not start the sandbox. A running sandbox is asked which of its ports have a
// listener; for others only the exposed ports are listed.
#include <stdio.h>

#include "api/handlers.h"
#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "gateway/gateway.h"
#include "http/upgrade.h"
#include "http/wspipe.h"
#include "loop/closer.h"
#include "manager/expose.h"
#include "types/retention.h"

#define ASK_MS 5000
#define LISTED_MAX 1024

static fallible ports_read(struct http *x, uint16_t *out)
{
	uint64_t port;

	if (!str_to_u64(x->params[1], 1, 65535, &port)) {
		authenticate_report(x, "bad_port", "low");
		return err_new(INVALID, "bad_port", "a port is a number from 1 to 65535");
	}
	*out = (uint16_t)port;
	return OK;
}

static void put_urls(struct json_out *out, const struct gateway *gateway, const struct entry *entry,
		     uint16_t port, const char *token)
{
	auto_buf host = BUF_INIT(512), path = BUF_INIT(512);
	const char *id = entry->record.short_id;
	bool has_host = urls_host(&gateway->urls, id, port, token, &host);
	bool has_path = urls_path(&gateway->urls, id, port, token, &path);

	// Without a preview domain, the path form is the URL.
	json_put_text(out, "url", has_host ? host.at : has_path ? path.at : NULL);
	json_put_text(out, "pathUrl", has_path ? path.at : NULL);
}

static void ports_put_end(struct json_out *out, int64_t ends_ms)
{
	if (ends_ms)
		json_put_time(out, "expiresAt", clock_bound(ends_ms));
	else
		json_put_text(out, "expiresAt", NULL);
}

// Writes the members of an object. `port` is a copy; its name belongs to the table of exposed
// ports.
static void put_exposed(struct json_out *out, const struct gateway *gateway,
			const struct entry *entry, const struct exposed_ports_entry *port)
{
	json_put_text(out, "name", port->name);
	json_put_text(out, "token", port->token);
	put_urls(out, gateway, entry, port->port, port->token);
	ports_put_end(out, port->ends_ms);
}

static fallible ports_read_ask(struct http *x, const struct json *json, struct expose_ask *out)
{
	static const char *const known[] = {"port", "name", "token", "expiresIn", NULL};
	uint64_t port = 0, span = 0;
	auto_err err = NULL;

	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	TRY(json_only(json, known));
	err = json_u64(json_get(json, "port"), "port", 1, 65535, &port);
	if (err || !port) {
		authenticate_report(x, "bad_port", "low");
		return err ? take_ptr(err) : err_new(INVALID, "bad_field", "'port' is missing");
	}
	out->port = (uint16_t)port;
	TRY(json_str(json_get(json, "name"), "name", &out->name));
	TRY(json_str(json_get(json, "token"), "token", &out->token));
	TRY(retention_read_span(json_get(json, "expiresIn"), "expiresIn", &span));
	out->ends_ms = span ? clock_steady_ms() + (int64_t)span : EXPOSE_AS_BEFORE;
	return OK;
}

fallible api_ports_expose(struct http *x)
{
	struct expose_ask ask = {0};
	struct exposed_ports_entry made;
	auto_buf body = BUF_INIT(8192);
	struct json_out out = json_to(&body);
	const struct exposed_ports_entry *now;
	auto_entry entry = NULL;
	auto_json json = NULL;
	bool is_new = false;

	TRY(gateway_json(x, &json, NULL));
	TRY(ports_read_ask(x, json, &ask));
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	TRY(expose_port(entry, &ask, &is_new, &made));
	now = exposed_ports_find(&entry->ports, ask.port);
	made.name = now ? now->name : NULL;
	json_begin(&out, '{');
	json_put_int(&out, "port", made.port);
	put_exposed(&out, gateway_of(x), entry, &made);
	json_end(&out, '}');
	return http_reply_json(x, is_new ? 201 : 200, &body);
}

// Listening ports of a running sandbox; none are known of others.
static fallible ask_listening(struct http *x, const struct entry *entry, struct fileop_port *ports,
			      size_t *out)
{
	auto_box_ref ref = {0};
	struct files files;
	size_t count = 0;

	*out = 0;
	if (entry->record.state != STATE_RUNNING || entry->moving)
		return OK;
	TRY(gateway_box(x, &ref));
	files = gateway_files(x, &ref, ASK_MS);
	TRY(box_ref_explain(files_ports(&files, ports, LISTED_MAX, &count)));
	*out = count < LISTED_MAX ? count : LISTED_MAX;
	return OK;
}

// Merges the two lists, which are sorted by number.
static void ports_put_all(struct json_out *out, const struct gateway *gateway,
			  const struct entry *entry, const struct fileop_port *heard, size_t count)
{
	const struct exposed_ports *book = &entry->ports;

	for (size_t i = 0, j = 0; i < book->count || j < count;) {
		bool known = i < book->count && (j == count || book->at[i].port <= heard[j].port);
		bool listens = j < count && (i == book->count || heard[j].port <= book->at[i].port);

		json_begin(out, '{');
		json_put_int(out, "port", known ? book->at[i].port : heard[j].port);
		json_put_bool(out, "exposed", known);
		json_put_bool(out, "listening", listens);
		json_put_text(out, "address", !listens ? NULL : heard[j].any ? "any" : "loopback");
		if (known)
			put_exposed(out, gateway, entry, &book->at[i]);
		json_end(out, '}');
		i += known;
		j += listens;
	}
}

fallible api_ports_list(struct http *x)
{
	struct fileop_port *heard = arena_take(x->arena, LISTED_MAX * sizeof(*heard));
	auto_buf body = BUF_INIT(2 << 20);
	struct json_out out = json_to(&body);
	auto_entry entry = NULL;
	size_t count = 0;

	TRY(gateway_entry(x, ACCESS_USE, &entry));
	TRY(ask_listening(x, entry, heard, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	ports_put_all(&out, gateway_of(x), entry, heard, count);
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_ports_unexpose(struct http *x)
{
	auto_entry entry = NULL;
	uint16_t port = 0;
	bool was;

	TRY(ports_read(x, &port));
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	TRY(expose_end(entry, port, &was));
	return http_reply_empty(x, 204);
}

static fallible read_span(const struct json *json, int64_t *out_ends)
{
	static const char *const known[] = {"expiresIn", NULL};
	uint64_t span = 0;

	if (!json || json_type(json) != JSON_OBJECT)
		return err_new(INVALID, "bad_field", "the body must be an object");
	TRY(json_only(json, known));
	TRY(retention_read_span(json_get(json, "expiresIn"), "expiresIn", &span));
	if (!span)
		return err_hint(err_new(INVALID, "bad_field", "'expiresIn' is missing"),
				"seconds as a number, or \"30s\", \"10m\", \"1h\"");
	*out_ends = clock_steady_ms() + (int64_t)span;
	return OK;
}

// A link ends with the token that it was signed with, or at its own expiry.
fallible api_ports_link(struct http *x)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	const struct exposed_ports_entry *known;
	char link[PREVIEW_TOKEN_LINK_LEN + 1];
	auto_entry entry = NULL;
	auto_json json = NULL;
	struct preview_token preview_token;
	int64_t ends_ms = 0;
	uint16_t port = 0;

	TRY(gateway_json(x, &json, NULL));
	TRY(ports_read(x, &port));
	TRY(read_span(json, &ends_ms));
	TRY(gateway_entry(x, ACCESS_USE, &entry));
	known = exposed_ports_find(&entry->ports, port);
	if (!known)
		return err_hint(
			err_new(NOT_FOUND, "port_not_exposed", "Port %u is not exposed", port),
			"POST to …/ports first");
	preview_token = (struct preview_token){entry->record.id, port, known->token,
					       known->ends_ms};
	preview_token_sign(gateway_of(x)->link_key, &preview_token, ends_ms, link);
	json_begin(&out, '{');
	json_put_int(&out, "port", port);
	json_put_text(&out, "token", link);
	put_urls(&out, gateway_of(x), entry, port, link);
	ports_put_end(&out, ends_ms);
	json_end(&out, '}');
	return http_reply_json(x, 201, &body);
}

static fallible ports_talk(struct http *x, struct wsock *ws, void *arg)
{
	return wspipe_run(gateway_of(x)->loop, ws, arg);
}

// For any protocol. The port is connected before the upgrade, so that a closed port is an HTTP
// error.
fallible api_ports_tcp(struct http *x)
{
	on_exit_call(stream_close) struct stream stream = {.fd = -1};
	struct wsock_options options = WSPIPE_OPTIONS;
	auto_box_ref ref = {0};
	struct files files;
	auto_closer_fd fd = -1;
	uint16_t port = 0;

	TRY(ports_read(x, &port));
	TRY(upgrade_check(x));
	TRY(gateway_box(x, &ref));
	files = gateway_files(x, &ref, ASK_MS);
	TRY(box_ref_explain(files_dial(&files, port, &fd)));
	TRY(stream_open(&stream, gateway_of(x)->loop, take_fd(&fd)));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(ref.entry, x);

	x->feed = true;
	return upgrade_run(x, &options, ports_talk, &stream);
}
