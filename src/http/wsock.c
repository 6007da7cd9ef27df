// Frames of one message must not be mixed with those of another: senders take turns. A control
// frame that is due during another's turn is sent by that sender, so that the receiver never waits
// for a peer that waits for us.
//
// A socket ends by close frames of both sides, a protocol violation, a lost or silent peer, or a
// failed write. In each case the receiver gets CLOSED, permanently, and the senders an error.
//
// The stream belongs to the connection, which ends with the task that upgraded it; senders may be
// other tasks. wsock_end() shuts the socket down, which wakes blocked writers, and waits for the
// last sender. The struct itself stays until its last reference is dropped.
//
// syscalls: shutdown
#include "http/wsock.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "http/memory_quota.h"

#define SILENCE_MS 30000
#define PINGS_MAX 4 // without a word of the peer
#define ROOM (16 * 1024)
#define SPREE_MAX (1024 * 1024)
#define LARGE_MS 60000 // time limit of a large message

struct wsock {
	int refs;
	struct stream *stream; // NULL: it has ended
	struct loop *loop;
	struct ws_reader *reader;
	struct link all;
	bool is_server;
	size_t max;
	uint32_t silence_ms, ping_ms;
	// input
	char *room;
	struct str in; // unread bytes in `room`
	struct buf early;
	struct memory_quota memory_quota; // of the incomplete message
	int64_t whole_by;		  // deadline of a large message; CLOCK_NEVER: none
	int64_t heard_ms, next_ping_ms;
	// output
	bool busy;  // a sender has the turn
	bool begun; // and has sent the first frame of its message
	enum wsock_kind kind;
	uint32_t users; // senders, active or waiting for their turn
	struct condition turn, left;
	uint8_t pong[WS_CONTROL_MAX];
	size_t pong_len;
	bool pong_due;
	// the end
	int shut_code; // the code that we are to close with
	char shut_reason[WS_REASON_MAX + 1];
	bool closing; // our close frame was sent
	int64_t close_by;
	bool is_over; // nothing is read or written any more
	int code;     // close code
};

static fallible wsock_gone(void)
{
	return err_new(CANCELLED, "client_gone", "the WebSocket is closed");
}

static void free_wsock(struct wsock *ws)
{
	ws_reader_free(ws->reader);
	memory_quota_drop(&ws->memory_quota);
	buf_done(&ws->early);
	free(ws->room);
	free(ws);
}

void wsock_ref(struct wsock *ws)
{
	ws->refs++;
}

void wsock_unref(struct wsock *ws)
{
	if (ws && --ws->refs == 0)
		free_wsock(ws);
}

// Takes over the bytes that the client sent right after its request.
static void take_early(struct wsock *ws, struct body_reader *body_reader)
{
	ws->early = BUF_INIT(HTTP1_HEAD_MAX);
	body_reader_frame(body_reader, BODY_READER_TO_CLOSE, 0);
	while (body_reader_has_bytes(body_reader)) {
		char *space = buf_space(&ws->early, 4096);
		size_t n = 0;

		if (!space)
			break;
		err_free(body_reader_read(body_reader, space, 4096, 0,
					  &n)); // it has bytes, so it does not wait
		buf_grew(&ws->early, n);
	}
	body_reader_frame(body_reader, BODY_READER_NONE, 0);
	ws->in = buf_view(&ws->early);
}

struct wsock *wsock_new(struct stream *stream, struct body_reader *body_reader, bool is_server,
			const struct wsock_options *options)
{
	struct wsock *ws = mem_new_of(struct wsock);

	ws->refs = 1;
	ws->stream = stream;
	ws->loop = stream->loop;
	ws->is_server = is_server;
	ws->max = options && options->max ? options->max : WSOCK_MAX;
	ws->silence_ms = options && options->silence_ms ? options->silence_ms : SILENCE_MS;
	ws->ping_ms = options && options->ping_ms ? options->ping_ms : WSOCK_PING_MS;
	ws->reader = ws_reader_new(is_server, ws->max);
	ws->code = WS_ABNORMAL;
	ws->whole_by = CLOCK_NEVER;
	ws->heard_ms = loop_now(ws->loop);
	ws->next_ping_ms = ws->heard_ms + ws->ping_ms;
	condition_init(&ws->turn);
	condition_init(&ws->left);
	link_init(&ws->all);
	take_early(ws, body_reader);
	return ws;
}

static void http_wsock_finish(struct wsock *ws, int code)
{
	if (ws->is_over)
		return;
	ws->is_over = true;
	ws->code = code;
	condition_signal(&ws->turn);
}

void wsock_end(struct wsock *ws)
{
	if (!ws->stream)
		return;
	http_wsock_finish(ws, WS_ABNORMAL);
	link_drop(&ws->all);
	if (ws->users)
		shutdown(ws->stream->fd, SHUT_RDWR);
	task_shield(true);
	while (ws->users)
		err_free(condition_wait(&ws->left, CLOCK_NEVER));
	task_shield(false);
	ws->stream = NULL;
}

bool wsock_is_open(const struct wsock *ws)
{
	return ws->stream && !ws->is_over && !ws->closing;
}

static fallible write_masked(struct wsock *ws, const uint8_t *head, size_t head_len,
			     const uint8_t mask[4], struct str body)
{
	char piece[2048];

	TRY(stream_write(ws->stream, head, head_len, ws->silence_ms));
	for (size_t at = 0; at < body.len;) {
		size_t n = body.len - at < sizeof(piece) ? body.len - at : sizeof(piece);

		memcpy(piece, body.at + at, n);
		ws_mask(piece, n, mask, at);
		TRY(stream_write(ws->stream, piece, n, ws->silence_ms));
		at += n;
	}
	return OK;
}

// Called by the sender that has the turn. An incomplete frame makes the socket unusable.
static fallible write_frame(struct wsock *ws, enum ws_opcode opcode, bool is_final, struct str body)
{
	uint8_t head[WS_HEAD_MAX], mask[4];
	struct err *err;

	if (!ws->is_server)
		secret_random(mask, sizeof(mask));
	size_t n = ws_head(head, opcode, is_final, body.len, ws->is_server ? NULL : mask);

	if (ws->is_server) {
		struct iovec parts[2] = {{head, n}, {(void *)body.at, body.len}};

		err = stream_writev(ws->stream, parts, body.len ? 2 : 1, ws->silence_ms);
	} else {
		err = write_masked(ws, head, n, mask, body);
	}
	if (!err)
		return OK;
	http_wsock_finish(ws, WS_ABNORMAL);
	shutdown(ws->stream->fd, SHUT_RDWR); // wakes the receiver
	if (err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_SLOW_CLIENT, "slow_client",
				  "no byte moved on the connection for too long");
	if (err_kind(err) == ERR_BAD_PEER)
		return err_recast(err, ERR_CANCELLED, "client_gone", "the WebSocket is closed");
	return err;
}

static void wsock_leave(struct wsock *ws)
{
	if (--ws->users == 0)
		condition_signal(&ws->left);
}

static fallible take_turn(struct wsock *ws)
{
	struct err *err = OK;

	ws->users++;
	while (!err && ws->busy && !ws->is_over)
		err = condition_wait(&ws->turn, CLOCK_NEVER);
	if (!err && !wsock_is_open(ws))
		err = wsock_gone();
	if (err)
		wsock_leave(ws);
	else
		ws->busy = true;
	return err;
}

// Passes the turn on; a pong that became due meanwhile goes first.
static void give_turn(struct wsock *ws)
{
	while (ws->pong_due && wsock_is_open(ws)) {
		ws->pong_due = false;
		err_free(write_frame(ws, WS_PONG, true,
				     (struct str){(char *)ws->pong, ws->pong_len}));
	}
	ws->busy = ws->begun = false;
	condition_signal(&ws->turn);
	wsock_leave(ws);
}

fallible wsock_send(struct wsock *ws, enum wsock_kind kind, struct str body)
{
	struct err *err;

	TRY(take_turn(ws));
	err = write_frame(ws, kind == WSOCK_TEXT ? WS_TEXT : WS_BINARY, true, body);
	give_turn(ws);
	return err;
}

fallible wsock_begin(struct wsock *ws, enum wsock_kind kind)
{
	TRY(take_turn(ws));
	ws->kind = kind;
	return OK;
}

static enum ws_opcode next_opcode(struct wsock *ws)
{
	if (ws->begun)
		return WS_CONTINUATION;
	ws->begun = true;
	return ws->kind == WSOCK_TEXT ? WS_TEXT : WS_BINARY;
}

fallible wsock_piece(struct wsock *ws, struct str body)
{
	if (ws->is_over)
		return wsock_gone();
	return write_frame(ws, next_opcode(ws), false, body);
}

fallible wsock_finish(struct wsock *ws)
{
	struct err *err = ws->is_over ? wsock_gone()
				      : write_frame(ws, next_opcode(ws), true, STR(""));

	give_turn(ws);
	return err;
}

void wsock_abort(struct wsock *ws)
{
	http_wsock_finish(ws, WS_ABNORMAL);
	shutdown(ws->stream->fd, SHUT_RDWR);
	give_turn(ws);
}

// Pings and pongs do not wait for the turn: the sender that has it sends them.
static void send_control(struct wsock *ws, enum ws_opcode opcode, struct str body)
{
	if (!wsock_is_open(ws))
		return;
	if (ws->busy && opcode == WS_PONG) {
		memcpy(ws->pong, body.at, body.len);
		ws->pong_len = body.len;
		ws->pong_due = true;
	}
	if (ws->busy)
		return;
	ws->busy = true;
	ws->users++;
	err_free(write_frame(ws, opcode, true, body));
	give_turn(ws);
}

static void wake_reader(struct wsock *ws)
{
	if (ws->stream && ws->stream->reader)
		task_wake(ws->stream->reader);
}

void wsock_close(struct wsock *ws, int code, const char *reason)
{
	uint8_t body[WS_CONTROL_MAX];
	size_t len = ws_close_body(body, code, str_of(reason));
	auto_err err = take_turn(ws);

	if (err)
		return;
	ws->code = code;
	ws->close_by = loop_now(ws->loop) + WSOCK_CLOSE_MS;
	if (code == WS_NO_CODE)
		len = 0;
	err_free(write_frame(ws, WS_CLOSE, true, (struct str){(char *)body, len}));
	ws->closing = true;
	give_turn(ws);
	wake_reader(ws);
}

void wsock_shut(struct wsock *ws, int code, const char *reason)
{
	if (ws->shut_code)
		return;
	ws->shut_code = code;
	snprintf(ws->shut_reason, sizeof(ws->shut_reason), "%s", reason);
	wake_reader(ws);
}

void wsock_list(struct wsock *ws, struct link *all)
{
	link_add(all, &ws->all);
}

void wsock_share(struct wsock *ws, struct fair_share *fair_share)
{
	memory_quota_join(&ws->memory_quota, fair_share);
}

void wsock_shut_all(struct link *all, int code, const char *reason)
{
	list_each (at, all)
		wsock_shut(link_of(at, struct wsock, all), code, reason);
}

// Handles one event of the frame parser. True: `out` is filled.
static bool wsock_handle(struct wsock *ws, enum ws_event event, const struct ws_item *item,
			 struct wsock_message *out)
{
	int code;

	switch (event) {
	case WS_MESSAGE:
		if (ws->closing)
			return false;
		*out = (struct wsock_message){item->is_text ? WSOCK_TEXT : WSOCK_BINARY, item->body,
					      0};
		return true;
	case WS_GOT_PING:
		send_control(ws, WS_PONG, item->body);
		return false;
	case WS_GOT_CLOSE:
		// The peer has closed: senders are not waited for.
		code = ws->closing ? ws->code : item->code;
		if (!ws->closing && !ws->busy)
			wsock_close(ws, code, "");
		http_wsock_finish(ws, code);
		ws->code = code;
		*out = (struct wsock_message){WSOCK_CLOSED, item->body, code};
		return true;
	case WS_FAULT:
		wsock_close(ws, item->code, item->fault);
		http_wsock_finish(ws, item->code);
		return false;
	default:
		return false;
	}
}

static int64_t wsock_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

// Charges a large incomplete message to the memory quota and limits its time. False: the socket is
// over.
static bool may_gather(struct wsock *ws)
{
	auto_err err = ws->is_server ? memory_quota_hold(&ws->memory_quota, ws_held(ws->reader))
				     : OK;
	const char *why = "too much is sent to the server at once";

	if (!ws->memory_quota.held)
		ws->whole_by = CLOCK_NEVER;
	else if (ws->whole_by == CLOCK_NEVER)
		ws->whole_by = loop_now(ws->loop) + LARGE_MS;
	if (!err && loop_now(ws->loop) < ws->whole_by)
		return true;
	if (!err)
		why = "the message took too long";
	wsock_close(ws, WS_TRY_LATER, why);
	http_wsock_finish(ws, WS_TRY_LATER);
	return false;
}

// Handles a timeout: the caller's deadline, a ping, or the end of a close.
static fallible on_time(struct wsock *ws, int64_t deadline, struct err *late)
{
	int64_t now = loop_now(ws->loop);

	if (ws->closing && now >= ws->close_by) {
		http_wsock_finish(ws, ws->code);
	} else if (!ws->closing && now >= ws->next_ping_ms) {
		ws->next_ping_ms = now + ws->ping_ms;
		if (now - ws->heard_ms >= PINGS_MAX * (int64_t)ws->ping_ms)
			http_wsock_finish(ws, WS_ABNORMAL);
		else
			send_control(ws, WS_PING, STR(""));
	}
	if (now >= deadline)
		return late;
	err_free(late);
	return OK;
}

// Waits for more bytes, a timeout, or a wake-up by another task.
static fallible wsock_fill(struct wsock *ws, int64_t deadline)
{
	struct stream *stream = ws->stream;
	int64_t due = wsock_sooner(ws->next_ping_ms, ws->whole_by);
	int64_t until = wsock_sooner(deadline, ws->closing ? ws->close_by : due);
	struct err *err = OK;
	bool empty = true;
	size_t n = 0;

	if (stream->spree > SPREE_MAX) {
		stream->spree = 0;
		TRY(task_sleep_until(0));
	}
	if (!ws->room)
		ws->room = mem_grow(NULL, ROOM, 1);
	err = stream_read_now(stream, ws->room, ROOM, &empty, &n);
	if (!err && empty) {
		free(take_ptr(ws->room)); // most sockets are idle most of the time
		err = stream_wait_readable(stream, until);
		if (err && err_kind(err) == ERR_TIMEOUT)
			return on_time(ws, deadline, err);
		if (err && err_kind(err) == ERR_CANCELLED)
			return err;
		err_free(err);
		return OK;
	}
	if (err || n == 0) {
		http_wsock_finish(ws, ws->closing ? ws->code : WS_ABNORMAL);
		err_free(err);
		return OK;
	}
	ws->heard_ms = loop_now(ws->loop);
	ws->in = (struct str){ws->room, n};
	return OK;
}

fallible wsock_recv(struct wsock *ws, int64_t deadline, struct wsock_message *out)
{
	while (!ws->is_over && ws->stream) {
		struct ws_item item;
		enum ws_event event = ws_read(ws->reader, &ws->in, &item);

		if (event != WS_MORE) {
			if (wsock_handle(ws, event, &item, out))
				return OK;
			continue;
		}
		if (ws->early.at)
			buf_done(&ws->early);
		if (!may_gather(ws))
			break;
		if (ws->shut_code && !ws->closing)
			wsock_close(ws, ws->shut_code, ws->shut_reason);
		else
			TRY(wsock_fill(ws, deadline));
	}
	*out = (struct wsock_message){WSOCK_CLOSED, STR(""), ws->code};
	return OK;
}
