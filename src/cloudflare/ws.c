// Receives JSON text frames in the format of Cloudflare's SDK. The body of a request may be tens of
// megabytes: it is cut out of the message unparsed and passed to the in-process exchange; only the
// members around it are parsed.
#include "base/clock.h"
#include "base/mem.h"
#include "cloudflare/handlers.h"
#include "cloudflare/ws_mux.h"
#include "codec/json_part.h"
#include "codec/json_scan.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "http/upgrade.h"
#include "loop/offload.h"
#include "manager/box_ref.h"

#define MESSAGE_MAX (64u << 20)
#define AROUND_MAX (64 * 1024) // a message without its body
#define LARGE (256 * 1024)

static fallible ws_bad(struct ws_mux *mux, struct str id, const char *why)
{
	return ws_mux_error(mux, id, "INVALID_REQUEST", why, 400);
}

static struct str cloudflare_ws_word(const struct json *json, const char *key)
{
	struct str text = {NULL, 0};
	auto_err err = json_str(json_get(json, key), key, &text);

	return err ? (struct str){NULL, 0} : text;
}

static bool cloudflare_ws_is_method(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < 'A' || text.at[i] > 'Z')
			return false;
	return text.len && text.len <= 16;
}

static fallible take_request(struct ws_mux *mux, const struct json *json, struct str body)
{
	struct ws_mux_request request = {
		.id = cloudflare_ws_word(json, "id"),
		.method = cloudflare_ws_word(json, "method"),
		.path = cloudflare_ws_word(json, "path"),
		.headers = json_get(json, "headers"),
		.body = str_is(body, "null") ? (struct str){NULL, 0} : body,
	};
	auto_err err = OK;

	if (!request.id.at)
		return ws_bad(mux, request.id, "a request needs an 'id'");
	if (!cloudflare_ws_is_method(request.method) || !request.path.len ||
	    request.path.at[0] != '/')
		return ws_bad(mux, request.id, "a request needs a 'method' and a 'path'");
	if (request.headers && json_type(request.headers) != JSON_OBJECT)
		return ws_bad(mux, request.id, "'headers' must be an object");
	err = ws_mux_ask(mux, &request);
	if (!err)
		return OK;
	if (err_kind(err) == ERR_EXHAUSTED)
		return ws_mux_error(mux, request.id, "RESOURCE_BUSY", err_message(err), 429);
	return ws_bad(mux, request.id, err_message(err));
}

struct look {
	struct str text;
	bool is_json, has_parts;
	struct buf around;
	struct str body;
};

static void look_done(struct look *look)
{
	buf_done(&look->around);
}

static void look_run(void *arg)
{
	struct look *look = arg;
	struct json_scan scan;

	look->is_json = json_scan(look->text, &scan);
	look->has_parts = look->is_json &&
			  json_part(scan.value, "body", &look->around, &look->body) &&
			  buf_ok(&look->around);
}

static fallible take_message(struct ws_mux *mux, const struct wsock_message *message)
{
	on_exit_call(look_done) struct look look = {.text = message->body,
						    .around = BUF_INIT(AROUND_MAX)};
	auto_json json = NULL;
	auto_err err = OK;
	struct str type;

	// A large message is scanned in a worker thread, so that the loop serves others meanwhile.
	if (message->kind == WSOCK_TEXT && message->body.len > LARGE)
		offload_run(look_run, &look);
	else if (message->kind == WSOCK_TEXT)
		look_run(&look);
	if (!look.is_json)
		return ws_mux_error(mux, (struct str){NULL, 0}, "PARSE_ERROR",
				    "the message is not JSON", 400);
	if (!look.has_parts)
		return ws_bad(mux, (struct str){NULL, 0}, "the message is not a request");
	err = json_read(buf_view(&look.around), &json);
	if (err)
		return ws_mux_error(mux, (struct str){NULL, 0}, "PARSE_ERROR", err_message(err),
				    400);
	type = cloudflare_ws_word(json, "type");
	if (str_is(type, "request"))
		return take_request(mux, json, look.body);
	if (!str_is(type, "cancel"))
		return ws_bad(mux, cloudflare_ws_word(json, "id"), "the message is not a request");
	ws_mux_cancel(mux, cloudflare_ws_word(json, "id"));
	return OK;
}

static fallible cloudflare_ws_listen_to(struct ws_mux *mux, struct wsock *ws)
{
	for (;;) {
		struct wsock_message message;

		TRY(wsock_recv(ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		TRY(take_message(mux, &message));
	}
}

static fallible cloudflare_ws_talk(struct http *x, struct wsock *ws, void *arg)
{
	auto_buf prefix = BUF_INIT(1024);
	struct ws_mux *mux;
	struct err *err;

	(void)arg;
	buf_text(&prefix, "/v1/sandboxes/");
	text_percent(&prefix, x->params[0]);
	mux = ws_mux_new(x, ws, buf_view(&prefix));
	err = cloudflare_ws_listen_to(mux, ws);
	ws_mux_end(mux);
	return err;
}

fallible cloudflare_ws(struct http *x)
{
	struct wsock_options options = {.max = MESSAGE_MAX};

	TRY(upgrade_check(x));
	{
		auto_box_ref ref = {0};

		TRY(gateway_box(x, &ref));
	}
	return upgrade_run(x, &options, cloudflare_ws_talk, NULL);
}
