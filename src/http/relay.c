// Relays one request and its reply. Then the connection to the server is closed, or given back to a
// caller that keeps it: only if the reply was read to its end by its framing and no extra byte has
// arrived, so that nothing of one request can leak into another. The server is untrusted: its head
// is parsed by the same strict grammar as ours, and its framing is made anew. A WebSocket is copied
// by two tasks, one for each direction: the end of one is passed on by shutdown(SHUT_WR).
//
// A large body is sent by a separate task while the reply may already arrive, because a server may
// answer as it reads. If the client's body is cut, the request to the server is cut too.
//
// syscalls: shutdown
#include "http/relay.h"

#include <stdio.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
#include "http/body_reader.h"
#include "http/channel.h"
#include "http/relay_head.h"
#include "http/transport.h"
#include "loop/task.h"

#define PIECE (32 * 1024)
#define SLICE_MS 15000 // interval at which a silent direction checks whether it should end
#define HALF_MS 30000  // of silence, when one side has ended
#define WRITE_MS (5 * 60 * 1000)

struct tunnel {
	struct loop *loop;
	struct body_reader *ends[2];
	int64_t idle_ms, moved_ms;
	int ended; // number of directions
	bool broken;
	struct task *back; // NULL: ended
	struct condition over;
};

static bool is_dead(const struct tunnel *tunnel)
{
	int64_t limit = tunnel->ended && HALF_MS < tunnel->idle_ms ? HALF_MS : tunnel->idle_ms;

	return tunnel->broken || loop_now(tunnel->loop) - tunnel->moved_ms >= limit;
}

// Copies one end to the other until it ends.
static fallible tunnel_copy(struct tunnel *tunnel, int from)
{
	struct body_reader *in = tunnel->ends[from];
	struct stream *out = tunnel->ends[!from]->stream;
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	int64_t slice = tunnel->idle_ms < SLICE_MS ? tunnel->idle_ms : SLICE_MS;
	size_t n = 1;

	while (n) {
		struct err *err = body_reader_read(in, room, PIECE, slice, &n);

		if (err && err_kind(err) == ERR_TIMEOUT && !is_dead(tunnel)) {
			err_free(err);
			continue;
		}
		TRY(err);
		tunnel->moved_ms = loop_now(tunnel->loop);
		TRY(stream_write(out, room, n, WRITE_MS));
		tunnel->moved_ms = loop_now(tunnel->loop);
	}
	return OK;
}

static void tunnel_half(struct tunnel *tunnel, int from, bool failed)
{
	tunnel->ended++;
	if (!failed) {
		shutdown(tunnel->ends[!from]->stream->fd, SHUT_WR);
		return;
	}
	// Both ends are shut down, so that both tasks notice.
	tunnel->broken = true;
	for (int i = 0; i < 2; i++)
		shutdown(tunnel->ends[i]->stream->fd, SHUT_RDWR);
}

static void tunnel_run_back(void *arg)
{
	struct tunnel *tunnel = arg;
	auto_err err = tunnel_copy(tunnel, 1);

	tunnel_half(tunnel, 1, err != NULL);
	tunnel->back = NULL;
	condition_signal(&tunnel->over);
}

// Each end is a body_reader: its buffered bytes go first. Returns when both sides have ended, one
// has ended and the other is silent, one was lost, or no byte moved for `idle_ms`. A slow reader
// slows its writer: only the bytes in flight are held. CANCELLED.
static fallible tunnel_copy_both(struct loop *loop, struct body_reader *one,
				 struct body_reader *other, int64_t idle_ms)
{
	struct tunnel tunnel = {
		.loop = loop,
		.ends = {one, other},
		.idle_ms = idle_ms,
		.moved_ms = loop_now(loop),
	};
	struct err *err;

	condition_init(&tunnel.over);
	body_reader_next(one);
	body_reader_next(other);
	body_reader_frame(one, BODY_READER_TO_CLOSE, 0);
	body_reader_frame(other, BODY_READER_TO_CLOSE, 0);
	tunnel.back = task_start(loop, "tunnel", tunnel_run_back, &tunnel);
	err = tunnel_copy(&tunnel, 0);
	tunnel_half(&tunnel, 0, err != NULL);
	while (!err && tunnel.back) // the other direction has its own time limits
		err = condition_wait(&tunnel.over, CLOCK_NEVER);
	if (tunnel.back)
		task_cancel(tunnel.back);
	while (tunnel.back)
		condition_await(&tunnel.over);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_free(err); // a normal end: both peers have been closed
	return OK;
}

#define HEAD_MAX (64 * 1024)
#define HEAD_USUAL 960 // with the end of a string malloc() has it in its cache
#define SILENCE_MS 60000
#define HINTS_MAX 16 // 1xx heads before the answer

struct relay {
	struct http *x;
	const struct relay_options *options;
	struct relay_conn *conn; // the caller's, or closed at the end
	struct stream *stream;	 // of the connection, as the next two
	struct body_reader *body_reader;
	struct http1_head *head;
	struct task *upload;	   // sends the body; NULL: none, or done
	struct condition uploaded; // signalled when it is done
	struct err *failed;	   // reading the client's body failed
	int64_t idle_ms;
	bool upgrade;
};

void relay_conn_close(struct relay_conn *conn)
{
	stream_close(&conn->stream);
	body_reader_done(&conn->body_reader);
}

static void relay_end(struct relay *relay)
{
	if (!relay->options->conn)
		relay_conn_close(relay->conn);
	err_free(relay->failed);
}

static fallible send_piece(struct relay *relay, const char *at, size_t len)
{
	char line[24];
	int n = snprintf(line, sizeof(line), "%zx\r\n", len);
	struct iovec parts[] = {
		{line, (size_t)n},
		{(void *)at, len},
		{(void *)"\r\n", 2},
	};

	if (!relay->x->head.chunked)
		return stream_write(relay->stream, at, len, SILENCE_MS);
	return stream_writev(relay->stream, parts, 3, SILENCE_MS);
}

// *out_ours: reading the client's body failed, not the server.
static fallible relay_upload(struct relay *relay, bool *out_ours)
{
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	size_t n = 1;

	for (;;) {
		*out_ours = true;
		TRY(http_read(relay->x, room, PIECE, &n));
		*out_ours = false;
		if (!n)
			break;
		TRY(send_piece(relay, room, n));
	}
	return relay->x->head.chunked ? stream_write(relay->stream, "0\r\n\r\n", 5, SILENCE_MS)
				      : OK;
}

static void relay_upload_task(void *arg)
{
	struct relay *relay = arg;
	bool ours = false;
	struct err *err = relay_upload(relay, &ours);

	// A server that stopped reading may still have answered.
	if (err && ours && err_kind(err) != ERR_CANCELLED) {
		relay->failed = take_ptr(err);
		shutdown(relay->stream->fd, SHUT_RDWR);
	}
	err_free(err);
	relay->upload = NULL;
	condition_signal(&relay->uploaded);
}

// Ends the upload task: it must not outlive this request.
static void relay_upload_end(struct relay *relay)
{
	if (relay->upload)
		task_cancel(relay->upload);
	while (relay->upload)
		condition_await(&relay->uploaded);
}

static fallible begin_body(struct relay *relay)
{
	struct http *x = relay->x;

	if (!x->head.chunked && !x->body_left)
		return OK;
	if (x->conn)
		TRY(http_invite(x));
	relay->upload = task_start(relay->options->loop, "relay.upload", relay_upload_task, relay);
	return OK;
}

static fallible no_reply(const char *words)
{
	return err_new(BAD_PEER, "no_reply", "%s", words);
}

static fallible relay_read_head(struct relay *relay)
{
	int64_t patience = relay->options->reply_ms ? relay->options->reply_ms : RELAY_REPLY_MS;
	int64_t deadline = loop_now(relay->options->loop) + patience;
	enum http1_verdict verdict = HTTP1_MORE;
	struct err *err = stream_wait_readable(relay->stream, deadline);
	int hints = 0;

	do {
		if (!err)
			err = body_reader_head(relay->body_reader, http1_reply, deadline,
					       relay->head, &verdict);
		if (err && err_kind(err) == ERR_TIMEOUT)
			return err_recast(err, ERR_TIMEOUT, "no_reply",
					  "the server did not answer in time");
		TRY(err);
		if (verdict == HTTP1_MORE)
			return no_reply("the server closed the connection without an answer");
		if (verdict != HTTP1_DONE || ++hints > HINTS_MAX)
			return err_new(BAD_PEER, "bad_reply",
				       "the server's answer is not HTTP/1.1");
	} while (relay->head->status < 200 && relay->head->status != 101);
	if (relay->head->status == 101 && !relay->upgrade)
		return err_new(BAD_PEER, "bad_reply", "the server switched protocols unasked");
	return OK;
}

// A server may wait for the whole body: its time limit restarts when the body has been sent.
static fallible await_head(struct relay *relay)
{
	struct err *err;

	TRY(http_away(relay->x, HTTP_PROBE_HEAD));
	while (relay->upload && !relay->stream->readable && !relay->stream->hung_up) {
		err = stream_wait_readable(relay->stream,
					   loop_now(relay->options->loop) + SILENCE_MS);
		if (err && err_kind(err) != ERR_TIMEOUT) {
			http_back(relay->x);
			return err;
		}
		err_free(err);
	}
	err = relay_read_head(relay);
	http_back(relay->x);
	return err;
}

// A reply that arrived in one piece is sent in one packet, so that its reader wakes up once.
static fallible begin_reply(struct relay *relay)
{
	struct http *x = relay->x;
	const struct http1_head *head = relay->head;
	struct str type = http1_field(head, "Content-Type"), body;
	const char *words = type.at ? arena_dup(x->arena, type.at, type.len) : NULL;

	TRY(relay_head_reply(x, relay->options, head, false));
	if (!words && relay->options->shares_origin)
		words = "application/octet-stream"; // prevents sniffing
	if (head->status == 204 || head->status == 304)
		return http_reply_empty(x, head->status);
	if (body_reader_whole(relay->body_reader, &body))
		return http_reply_as(x, head->status, words, body);
	return http_begin_as(x, head->status, words,
			     head->has_length ? head->length : TRANSPORT_UNSIZED);
}

static fallible pass_body(struct relay *relay)
{
	struct http *x = relay->x;
	auto_free char *room = mem_grow(NULL, PIECE, 1);
	size_t n = 1;

	while (n) {
		struct err *err;

		TRY(http_away(x, STR("")));
		err = body_reader_read(relay->body_reader, room, PIECE, relay->idle_ms, &n);
		http_back(x);
		TRY(err, "read the server's body");
		TRY(http_write(x, room, n));
	}
	return http_end(x);
}

// Passes on the server's 101 with its fields, then copies bytes both ways.
static fallible switch_over(struct relay *relay)
{
	struct http *x = relay->x;
	struct http_conn *conn = x->conn;
	auto_buf out = BUF_INIT(HEAD_MAX);
	struct str protocol = http1_field(relay->head, "Upgrade");

	if (!str_eq_nocase(protocol, STR("websocket")))
		return err_new(BAD_PEER, "bad_reply", "the server switched to another protocol");
	TRY(relay_head_reply(x, relay->options, relay->head, true));
	buf_text(&out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		       "Connection: Upgrade\r\n");
	buf_str(&out, buf_view(x->extra));
	buf_text(&out, "\r\n");
	if (!buf_ok(&out) || !buf_ok(x->extra))
		return err_new(BAD_PEER, "bad_reply", "the server's head is too large");
	http_answering(x);
	x->reply_begun = x->reply_ended = x->feed = true;
	x->status = 101;
	conn->close_after = true;
	TRY(stream_write(&conn->stream, out.at, out.len, conn->silence_ms));
	return tunnel_copy_both(relay->options->loop, &conn->buffers->body_reader,
				relay->body_reader, relay->idle_ms);
}

static fallible relay_talk(struct relay *relay)
{
	auto_buf head = BUF_INIT(HEAD_MAX);

	buf_space(&head, HEAD_USUAL); // grows once
	TRY(relay_head_request(relay->x, relay->options, relay->upgrade, &head));
	TRY(stream_write(relay->stream, head.at, head.len, SILENCE_MS));
	TRY(begin_body(relay));
	TRY(await_head(relay));
	if (relay->head->status == 101)
		return switch_over(relay);
	body_reader_frame_reply(relay->body_reader, relay->head,
				str_is(relay->x->head.method, "HEAD"));
	TRY(begin_reply(relay));
	return relay->x->reply_ended ? OK : pass_body(relay);
}

// Whether the exchange is complete on both sides and the server keeps the connection open.
static bool relay_may_keep(const struct relay *relay)
{
	return relay->x->reply_ended && relay->head->status != 101 && relay->head->keep_alive &&
	       relay->head->minor == 1 && relay->body_reader->framing != BODY_READER_TO_CLOSE &&
	       relay->body_reader->ended && !body_reader_has_bytes(relay->body_reader) &&
	       !relay->stream->hung_up && !relay->upload && !relay->failed;
}

// The server closed a reused connection while the request was in flight.
static bool relay_is_stale(const struct relay *relay, const struct err *err)
{
	return relay->options->is_reused && !relay->x->reply_begun &&
	       err_kind(err) == ERR_BAD_PEER &&
	       (!strcmp(err_reason(err), "no_reply") || !strcmp(err_reason(err), "peer_gone"));
}

fallible relay_run(struct http *x, const struct relay_options *options)
{
	struct relay_conn *conn = options->conn ? options->conn
						: arena_take(x->arena, sizeof(*conn));
	on_exit_call(relay_end) struct relay relay = {
		.x = x,
		.options = options,
		.conn = conn,
		.stream = &conn->stream,
		.body_reader = &conn->body_reader,
		.head = &conn->head,
		.idle_ms = options->idle_ms ? options->idle_ms : RELAY_IDLE_MS,
		.upgrade = relay_head_is_upgrade(x),
	};
	struct err *err;

	if (!options->conn)
		TRY(stream_open(&conn->stream, options->loop, options->fd));
	// CONNECT and TRACE concern the connection, not the server.
	if (str_is(x->head.method, "CONNECT") || str_is(x->head.method, "TRACE"))
		return err_new(BAD_METHOD, "method_not_passed", "this method is not passed on");
	condition_init(&relay.uploaded);
	conn->body_reader.stream = &conn->stream;
	http_be_patient(x);
	err = relay_talk(&relay);
	if (options->conn)
		*options->is_kept = !err && relay_may_keep(&relay);
	if (options->conn && *options->is_kept)
		body_reader_reset(&conn->body_reader);
	relay_upload_end(&relay);
	if (err && relay_is_stale(&relay, err))
		return err_recast(err, ERR_BAD_PEER, "stale", "the server closed the connection");
	if (err && x->conn)
		x->conn->close_after = true; // the state of its input is unknown
	if (err && relay.failed && err_kind(err) != ERR_CANCELLED) {
		err_free(err);
		return take_ptr(relay.failed);
	}
	return err;
}
