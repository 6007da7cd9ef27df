// Checks the headers of RFC 6455, answers 101 and runs the handler's dialogue on the socket.
// Afterwards the closing handshake is done here, with a time limit, and the connection is closed:
// it never returns to HTTP.
#include "http/upgrade.h"

#include "base/clock.h"
#include "http/channel.h"

#define HEAD_MAX (16 * 1024)

static fallible upgrade_malformed(const char *why)
{
	return err_new(INVALID, "bad_upgrade", "the request for a WebSocket is malformed: %s", why);
}

fallible upgrade_check(struct http *x)
{
	struct str version = http_field(x, "Sec-WebSocket-Version");

	// An in-process exchange has no connection to upgrade.
	if (!x->conn || !x->head.upgrade ||
	    !http_has_token(http_field(x, "Upgrade"), STR("websocket")))
		return err_hint(
			err_new(NOT_FOUND, "no_route", "The requested endpoint was not found"),
			"this path is for WebSockets: connect with ws://");
	if (x->head.minor == 0)
		return upgrade_malformed("it needs HTTP/1.1");
	if (x->head.chunked || x->body_left > 0)
		return upgrade_malformed("it must have no body");
	if (!str_is(version, "13")) {
		http_set(x, "Sec-WebSocket-Version", STR("13"));
		return err_hint(err_new(UPGRADE, "bad_version",
					"this version of the WebSocket protocol is not supported"),
				"send 'Sec-WebSocket-Version: 13'");
	}
	if (!ws_is_key(http_field(x, "Sec-WebSocket-Key")))
		return upgrade_malformed("Sec-WebSocket-Key must be 16 bytes in base64");
	return OK;
}

static fallible upgrade_agree(struct http *x, bool more_follows)
{
	struct http_conn *conn = x->conn;
	struct err *err;
	struct buf *head = &conn->buffers->head;
	char accept[WS_ACCEPT_LEN + 1];

	if (x->reply_begun)
		return err_new(INTERNAL, "replied_twice", "the request was already answered");
	ws_accept(http_field(x, "Sec-WebSocket-Key"), accept);
	buf_clear(head);
	buf_fmt(head,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Accept: %s\r\n",
		accept);
	if (http_has_token(http_field(x, "Sec-WebSocket-Protocol"), STR(UPGRADE_PROTOCOL)))
		buf_text(head, "Sec-WebSocket-Protocol: " UPGRADE_PROTOCOL "\r\n");
	if (buf_ok(x->extra))
		buf_str(head, buf_view(x->extra));
	buf_text(head, "\r\n");
	x->reply_begun = x->reply_ended = true;
	x->status = 101;
	conn->close_after = true;
	http_answering(x);
	if (!buf_ok(head))
		return err_new(UNAVAILABLE, "no_memory", "there is no memory for this");
	conn->stream.more_follows = more_follows;
	err = stream_write(&conn->stream, head->at, head->len, conn->silence_ms);
	conn->stream.more_follows = false;
	return err;
}

// Discards input until both sides have sent a close frame.
static void upgrade_part(struct wsock *ws)
{
	struct wsock_message message = {.kind = WSOCK_TEXT};
	auto_err err = OK;

	wsock_close(ws, WS_NORMAL, "");
	while (!err && message.kind != WSOCK_CLOSED)
		err = wsock_recv(ws, CLOCK_NEVER, &message);
}

fallible upgrade_run(struct http *x, const struct wsock_options *options, upgrade_fn *talk,
		     void *arg)
{
	struct http_conn *conn = x->conn;
	struct wsock_options mine = options ? *options : (struct wsock_options){0};
	struct wsock *ws;
	struct err *err;

	TRY(upgrade_check(x));
	TRY(upgrade_agree(x, mine.speaks_first));
	if (!mine.silence_ms)
		mine.silence_ms = conn->terms->silence_ms;
	ws = wsock_new(&conn->stream, &conn->buffers->body_reader, true, &mine);
	wsock_list(ws, &conn->terms->sockets);
	wsock_share(ws, x->memory_quota.share);
	if (conn->terms->draining)
		wsock_shut(ws, WS_GOING_AWAY, "the server is going away");
	err = talk(x, ws, arg);
	if (!err)
		upgrade_part(ws);
	wsock_end(ws);
	wsock_unref(ws);
	return err;
}
