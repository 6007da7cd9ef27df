// An exchange on a connection. The head of the reply is built in one buffer and sent with the body
// in one write; it announces whether the connection stays open. A reply that fails midway cannot be
// replaced: the connection is closed, and a chunked body without its last chunk tells the client
// that it was cut. For a file body, buffered bytes go first; then loop/pump copies.
//
// A handler that waits for a command would not notice that its client is gone. The stream reports
// every hang-up; a probe finds out what it means, see http.h. A client that vanished silently is
// found by TCP keep-alive, which connections inherit from the listener.
//
// Proxies close silent connections: a reply that is a stream of events gets an empty one after each
// span of silence, whatever its handler waits for. A timer runs with the reply, and does nothing
// within an event or a write.
//
// syscalls: sendto getsockopt shutdown
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "http/channel.h"
#include "http/http.h"
#include "http/transport.h"
#include "loop/pump.h"

#define PATIENCE_MS (15 * 60 * 1000)

static uint32_t quiet_ms = 15000;

void http_keepalive(uint32_t ms)
{
	quiet_ms = ms;
}

static void socket_transport_be_patient(struct http *x)
{
	x->conn->silence_ms = PATIENCE_MS;
}

// False: the peer is gone, or the connection is unusable.
static bool send_now(struct http_conn *conn, struct str probe)
{
	char room[64];
	int len = conn->chunked ? snprintf(room, sizeof(room), "%zx\r\n" STR_FMT "\r\n", probe.len,
					   STR_ARG(probe))
				: snprintf(room, sizeof(room), STR_FMT, STR_ARG(probe));
	ssize_t sent;

	sent = send(conn->stream.fd, room, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	// A full send buffer: the data in it will be answered by RST just as well. A part of a
	// probe would corrupt the reply.
	return sent == len || (sent < 0 && errno == EAGAIN);
}

static bool send_probe(struct http_conn *conn, struct str probe)
{
	if (conn->probed || !probe.len)
		return true;
	conn->probed = true;
	return send_now(conn, probe);
}

static bool is_gone(struct http_conn *conn, struct str probe)
{
	const struct stream *stream = &conn->stream;
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (stream->fd < 0 || stream->reset)
		return true;
	if (!stream->hung_up)
		return false;
	if (!send_probe(conn, probe))
		return true;
	// The RST may already have arrived without the loop having reported it.
	return getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
	       info.tcpi_state == TCP_CLOSE;
}

static struct str peer_allowed(const struct http *x, struct str probe)
{
	return x->head.minor == 0 ? STR("") : probe;
}

static void peer_on_hangup(struct stream *stream)
{
	struct http_conn *conn = link_of(stream, struct http_conn, stream);

	if (conn->absent && is_gone(conn, conn->probe))
		task_cancel(conn->absent);
}

static fallible socket_transport_away(struct http *x, struct str probe)
{
	struct http_conn *conn = x->conn;

	conn->probe = peer_allowed(x, probe);
	if (is_gone(conn, conn->probe)) {
		conn->close_after = true;
		return err_new(CANCELLED, "client_gone", "the client closed the connection");
	}
	conn->stream.on_hangup = peer_on_hangup;
	conn->absent = task_current();
	return OK;
}

static void socket_transport_back(struct http *x)
{
	x->conn->absent = NULL;
}

// ------------------------------------------------------------------------------- silence

// What a silent stream is sent, by its type, and the bytes at the end of each of its events: only
// there it means nothing to a reader.
static const struct http_keepalive {
	const char *type;
	struct str bytes, end;
} keepalives[] = {
	{"text/event-stream", {":\n\n", 3}, {"\n\n", 2}},
	{"application/x-ndjson", {"\n", 1}, {"\n", 1}},
};

static bool is_between_events(const struct http_conn *conn)
{
	struct str end = conn->keepalive->end;

	return memcmp(conn->sent + sizeof(conn->sent) - end.len, end.at, end.len) == 0;
}

static void on_quiet(struct timer *timer)
{
	struct http_conn *conn = link_of(timer, struct http_conn, quiet);
	int64_t now = loop_now(conn->stream.loop), due = conn->sent_at + quiet_ms;

	if (now >= due) {
		due = now + quiet_ms;
		if (is_between_events(conn) && !send_now(conn, conn->keepalive->bytes)) {
			shutdown(conn->stream.fd, SHUT_RDWR); // the next write fails
			if (conn->absent)
				task_cancel(conn->absent);
			return;
		}
	}
	loop_set_timer(conn->stream.loop, timer, due);
}

static void socket_transport_keep_alive(struct http *x, const char *type)
{
	struct http_conn *conn = x->conn;

	for (size_t i = 0; i < sizeof(keepalives) / sizeof(*keepalives) && !conn->no_body; i++) {
		if (strcmp(type, keepalives[i].type) != 0)
			continue;
		conn->keepalive = &keepalives[i];
		conn->quiet.due = on_quiet;
		conn->sent_at = loop_now(conn->stream.loop);
		memcpy(conn->sent, "\n\n", sizeof(conn->sent)); // nothing has been sent yet
		loop_set_timer(conn->stream.loop, &conn->quiet, conn->sent_at + quiet_ms);
	}
}

// Around each write of a body: in between, and after an error, the place is not between events.
static void sending(struct http_conn *conn)
{
	memset(conn->sent, 0, sizeof(conn->sent));
}

static void has_sent(struct http *x, struct str bytes)
{
	struct http_conn *conn = x->conn;

	x->bytes_out += bytes.len;
	if (!conn->keepalive || !bytes.len)
		return;
	conn->sent_at = loop_now(conn->stream.loop);
	conn->sent[0] = bytes.len > 1 ? bytes.at[bytes.len - 2] : 0;
	conn->sent[1] = bytes.at[bytes.len - 1];
}

// The kernel's tcp_info, which is longer than glibc's.
struct taken {
	struct tcp_info info;
	uint64_t pacing_rate, pacing_rate_max, acked;
};

uint64_t http_taken(struct http *x)
{
	struct taken taken = {0};
	socklen_t len = sizeof(taken);

	if (x->conn && !getsockopt(x->conn->stream.fd, IPPROTO_TCP, TCP_INFO, &taken, &len) &&
	    len == sizeof(taken))
		return taken.acked;
	return x->bytes_out;
}

static bool socket_transport_is_gone(struct http *x, struct str probe)
{
	return is_gone(x->conn, peer_allowed(x, probe));
}

#define DRAIN_MAX (64 * 1024)
#define BATCH (256 * 1024)

// A slow or absent peer gets its own error kind: it is not our failure.
static fallible socket_transport_blame(struct http *x, struct err *err)
{
	x->conn->close_after = true;
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_SLOW_CLIENT, "slow_client",
				  "no byte moved on the connection for too long");
	return err;
}

// The client sent "Expect: 100-continue": reading the body invites it.
fallible http_invite(struct http *x)
{
	static const char words[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_conn *conn = x->conn;

	if (!conn->continue_due)
		return OK;
	conn->continue_due = false;
	if (x->reply_begun)
		return OK;
	return stream_write(&conn->stream, words, sizeof(words) - 1, conn->terms->silence_ms);
}

static fallible socket_transport_read(struct http *x, void *room, size_t size, size_t *out)
{
	struct http_conn *conn = x->conn;
	struct err *err = http_invite(x);

	if (!err)
		err = body_reader_read(&conn->buffers->body_reader, room, size,
				       conn->terms->silence_ms, out);
	return err ? socket_transport_blame(x, err) : OK;
}

// Formatted once a second.
static const char *socket_transport_date(struct http_terms *terms)
{
	auto_buf text = BUF_INIT(64);
	int64_t wall;

	if (loop_now(terms->loop) < terms->date_until)
		return terms->date;
	wall = clock_wall_ms();
	clock_http(wall, &text);
	if (!buf_ok(&text))
		return terms->date; // a second too old
	snprintf(terms->date, sizeof(terms->date), "%s", text.at);
	terms->date_until = loop_now(terms->loop) + 1000 - wall % 1000;
	return terms->date;
}

static void socket_transport_put_number(struct buf *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	buf_add(out, digits + at, sizeof(digits) - at);
}

static bool wants_close(const struct http *x)
{
	const struct http_conn *conn = x->conn;
	const struct body_reader *body_reader = &conn->buffers->body_reader;

	if (conn->close_after || conn->terms->draining || !x->head.keep_alive)
		return true;
	// A short unread body is skipped after the reply. A body that the client has not begun to
	// send may come or not: only closing the connection is unambiguous.
	return !body_reader->ended && (conn->continue_due || body_reader->left > DRAIN_MAX);
}

enum framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_TO_CLOSE };

static fallible socket_transport_put_head(struct http *x, const char *type, enum framing framing,
					  uint64_t length)
{
	struct http_conn *conn = x->conn;
	struct buf *out = &conn->buffers->head, *extra = &conn->buffers->extra;

	conn->no_body = transport_is_bodyless(x->status) || str_is(x->head.method, "HEAD");
	conn->close_after = framing == FRAMING_TO_CLOSE || wants_close(x);
	buf_clear(out);
	buf_add(out, "HTTP/1.1 ", 9);
	socket_transport_put_number(out, (uint64_t)x->status);
	buf_char(out, ' ');
	buf_text(out, http1_status_text(x->status));
	buf_add(out, "\r\nDate: ", 8);
	buf_text(out, socket_transport_date(conn->terms));
	if (type) {
		buf_text(out, "\r\nContent-Type: ");
		buf_text(out, type);
	}
	if (framing == FRAMING_LENGTH) {
		buf_text(out, "\r\nContent-Length: ");
		socket_transport_put_number(out, length);
	} else if (framing == FRAMING_CHUNKED) {
		buf_text(out, "\r\nTransfer-Encoding: chunked");
	}
	if (conn->close_after)
		buf_text(out, "\r\nConnection: close");
	else if (x->head.minor == 0)
		buf_text(out, "\r\nConnection: keep-alive");
	buf_add(out, "\r\n", 2);
	if (buf_ok(extra))
		buf_str(out, buf_view(extra));
	buf_add(out, "\r\n", 2);
	if (buf_ok(out))
		return OK;
	conn->close_after = true; // an incomplete head would be wrong: the client gets none
	return err_hint(err_new(UNAVAILABLE, "no_memory", "there is no memory for this"),
			"try again in a moment");
}

static fallible socket_transport_reply(struct http *x, const char *type, struct str body)
{
	struct http_conn *conn = x->conn;
	struct iovec parts[2];
	struct err *err;

	TRY(socket_transport_put_head(
		x, type, transport_is_bodyless(x->status) ? FRAMING_NONE : FRAMING_LENGTH,
		body.len));
	if (conn->no_body)
		body.len = 0;
	parts[0] = (struct iovec){conn->buffers->head.at, conn->buffers->head.len};
	parts[1] = (struct iovec){(void *)body.at, body.len};
	err = stream_writev(&conn->stream, parts, body.len ? 2 : 1, conn->silence_ms);
	if (err)
		return socket_transport_blame(x, err);
	x->bytes_out += body.len;
	return OK;
}

static enum framing framing_of(const struct http *x, uint64_t length)
{
	if (transport_is_bodyless(x->status))
		return FRAMING_NONE;
	if (length != TRANSPORT_UNSIZED)
		return FRAMING_LENGTH;
	return x->head.minor == 0 ? FRAMING_TO_CLOSE : FRAMING_CHUNKED;
}

static fallible socket_transport_begin(struct http *x, const char *type, uint64_t length)
{
	struct http_conn *conn = x->conn;
	enum framing framing = framing_of(x, length);
	struct err *err;

	conn->chunked = framing == FRAMING_CHUNKED;
	TRY(socket_transport_put_head(x, type, framing, length));
	conn->sized = framing == FRAMING_LENGTH && !conn->no_body;
	conn->due = length;
	err = stream_write(&conn->stream, conn->buffers->head.at, conn->buffers->head.len,
			   conn->silence_ms);
	return err ? socket_transport_blame(x, err) : OK;
}

// More bytes than announced would be read as the next reply.
static fallible socket_transport_pay(struct http *x, uint64_t len)
{
	struct http_conn *conn = x->conn;

	if (!conn->sized)
		return OK;
	if (conn->due < len)
		return socket_transport_blame(
			x, err_new(INTERNAL, "internal", "a reply longer than announced"));
	conn->due -= len;
	return OK;
}

// Writes a chunk with text before and after it.
static fallible write_chunk(struct http *x, struct str before, struct str bytes, struct str behind)
{
	struct http_conn *conn = x->conn;
	char *size_line = conn->buffers->chunk;
	int n = snprintf(size_line, sizeof(conn->buffers->chunk), "%zx\r\n", bytes.len);
	struct iovec parts[] = {
		{(void *)before.at, before.len},
		{size_line, (size_t)n},
		{(void *)bytes.at, bytes.len},
		{(void *)behind.at, behind.len},
	};

	return before.len ? stream_writev(&conn->stream, parts, 4, conn->silence_ms)
			  : stream_writev(&conn->stream, parts + 1, 3, conn->silence_ms);
}

static fallible socket_transport_write(struct http *x, const void *bytes, size_t len)
{
	struct http_conn *conn = x->conn;
	struct err *err;

	if (len == 0 || conn->no_body)
		return OK;
	TRY(socket_transport_pay(x, len));
	sending(conn);
	if (conn->chunked) {
		err = write_chunk(x, STR(""), (struct str){bytes, len}, STR("\r\n"));
	} else {
		err = stream_write(&conn->stream, bytes, len, conn->silence_ms);
	}
	if (err)
		return socket_transport_blame(x, err);
	has_sent(x, (struct str){bytes, len});
	return OK;
}

static fallible socket_transport_end(struct http *x)
{
	struct http_conn *conn = x->conn;
	struct err *err = OK;

	sending(conn);
	if (conn->sized && conn->due)
		return socket_transport_blame(
			x, err_new(INTERNAL, "internal", "a reply shorter than announced"));
	if (conn->chunked && !conn->no_body)
		err = stream_write(&conn->stream, "0\r\n\r\n", 5, conn->silence_ms);
	return err ? socket_transport_blame(x, err) : OK;
}

static fallible socket_transport_begin_with(struct http *x, const char *type, struct str bytes)
{
	struct http_conn *conn = x->conn;
	enum framing framing = framing_of(x, TRANSPORT_UNSIZED);
	struct err *err;

	if (framing != FRAMING_CHUNKED || !bytes.len || str_is(x->head.method, "HEAD")) {
		TRY(socket_transport_begin(x, type, TRANSPORT_UNSIZED));
		return socket_transport_write(x, bytes.at, bytes.len);
	}
	conn->chunked = true;
	conn->sized = false;
	TRY(socket_transport_put_head(x, type, framing, TRANSPORT_UNSIZED));
	err = write_chunk(x, buf_view(&conn->buffers->head), bytes, STR("\r\n"));
	if (err)
		return socket_transport_blame(x, err);
	x->bytes_out += bytes.len;
	return OK;
}

static fallible socket_transport_end_with(struct http *x, struct str bytes)
{
	struct err *err;

	sending(x->conn);
	if (!x->conn->chunked || x->conn->no_body || !bytes.len) {
		TRY(socket_transport_write(x, bytes.at, bytes.len));
		return socket_transport_end(x);
	}
	err = write_chunk(x, STR(""), bytes, STR("\r\n0\r\n\r\n"));
	if (err)
		return socket_transport_blame(x, err);
	x->bytes_out += bytes.len;
	return OK;
}

static fallible send_framed(struct http_conn *conn, int fd, uint64_t offset, uint64_t len)
{
	char *line = conn->buffers->chunk;
	int n = snprintf(line, sizeof(conn->buffers->chunk), "%llx\r\n", (unsigned long long)len);

	if (conn->chunked)
		TRY(stream_write(&conn->stream, line, (size_t)n, conn->silence_ms));
	TRY(pump_send(&conn->stream, fd, offset, len, conn->silence_ms));
	return conn->chunked ? stream_write(&conn->stream, "\r\n", 2, conn->silence_ms) : OK;
}

static fallible socket_transport_send_file(struct http *x, int fd, uint64_t offset, uint64_t len)
{
	struct err *err;

	if (len == 0 || x->conn->no_body)
		return OK;
	TRY(socket_transport_pay(x, len));
	err = send_framed(x->conn, fd, offset, len);
	if (err)
		return socket_transport_blame(x, err);
	x->bytes_out += len;
	return OK;
}

static void free_batch(char **batch)
{
	free(*batch);
}

// Through the body reader, in batches: while it has buffered bytes, or chunk framing to remove.
static fallible recv_read(struct http *x, int fd, bool while_buffered, uint64_t max,
			  uint64_t *total)
{
	struct body_reader *body_reader = &x->conn->buffers->body_reader;
	on_exit_call(free_batch) char *batch = mem_grow(NULL, BATCH, 1);
	size_t have = 0, n = 1;

	while (n > 0 && !body_reader->ended &&
	       (!while_buffered || body_reader_has_bytes(body_reader))) {
		TRY(http_read(x, batch + have, BATCH - have, &n));
		have += n;
		*total += n;
		if (*total > max)
			return http_too_large(max);
		if (have < BATCH && n > 0 && !body_reader->ended)
			continue;
		TRY(pump_put(fd, batch, have));
		have = 0;
	}
	return have ? pump_put(fd, batch, have) : OK;
}

static fallible recv_whole(struct http *x, int fd, uint64_t max, uint64_t *total)
{
	struct http_conn *conn = x->conn;
	struct body_reader *body_reader = &conn->buffers->body_reader;
	uint64_t left;

	if (body_reader->framing == BODY_READER_CHUNKED)
		return recv_read(x, fd, false, max, total);
	if (body_reader->left > max)
		return http_too_large(max);
	TRY(http_invite(x));
	if (body_reader_has_bytes(body_reader))
		TRY(recv_read(x, fd, true, max, total));
	left = body_reader->left;
	if (body_reader->ended || left == 0)
		return OK;
	TRY(pump_recv(&conn->stream, fd, left, conn->terms->silence_ms));
	body_reader->left = 0;
	body_reader->ended = true;
	*total += left;
	return OK;
}

static fallible socket_transport_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len)
{
	uint64_t total = 0;
	struct err *err = recv_whole(x, fd, max, &total);

	if (err)
		return socket_transport_blame(x, err);
	*out_len = total;
	return OK;
}

const struct http_transport socket_transport_way = {
	.read = socket_transport_read,
	.reply = socket_transport_reply,
	.begin = socket_transport_begin,
	.write = socket_transport_write,
	.end = socket_transport_end,
	.begin_with = socket_transport_begin_with,
	.end_with = socket_transport_end_with,
	.send_file = socket_transport_send_file,
	.recv_file = socket_transport_recv_file,
	.be_patient = socket_transport_be_patient,
	.away = socket_transport_away,
	.back = socket_transport_back,
	.keep_alive = socket_transport_keep_alive,
	.is_gone = socket_transport_is_gone,
};
