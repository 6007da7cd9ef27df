// Sends one PUT over TLS and reads the head of the reply. The file comes from a box, so it is read
// in a worker thread. The server is untrusted: its head is bounded and parsed by codec/http1, and
// every wait has a time limit.
// syscalls: pread64
#include "gateway/upload_put.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "codec/http1.h"
#include "egress/tls_stream.h"
#include "loop/offload.h"

#define HEAD_MAX (64 * 1024)
#define PIECE (16 * 1024)
#define BODY_PIECE (128 * 1024)

struct piece {
	int file, error;
	uint64_t offset;
	size_t size;
	ssize_t got;
	char *room;
};

static void read_piece(void *arg)
{
	struct piece *piece = arg;

	piece->got = pread(piece->file, piece->room, piece->size, (off_t)piece->offset);
	piece->error = errno;
}

static fallible send_body(struct tls_stream *tls, const struct upload_put *put, int64_t silence_ms)
{
	auto_free char *room = mem_new(BODY_PIECE);
	struct piece piece = {.file = put->file, .room = room};

	for (uint64_t done = 0; done < put->size; done += (uint64_t)piece.got) {
		uint64_t left = put->size - done;

		piece.offset = put->offset + done;
		piece.size = left < BODY_PIECE ? (size_t)left : BODY_PIECE;
		offload_run(read_piece, &piece);
		if (piece.got < 0)
			return err_sys(piece.error, "read the file to upload");
		if (!piece.got)
			return err_new(CONFLICT, "file_changed", "the file became shorter");
		TRY(tls_stream_write(tls, room, (size_t)piece.got, silence_ms));
	}
	return OK;
}

static fallible gateway_upload_put_send(struct tls_stream *tls, const struct upload_put *put,
					int64_t silence_ms)
{
	auto_buf head = BUF_INIT(HEAD_MAX);

	buf_fmt(&head,
		"PUT " STR_FMT " HTTP/1.1\r\nHost: " STR_FMT "\r\nContent-Length: %llu\r\n"
		"User-Agent: cove\r\nConnection: close\r\n\r\n",
		STR_ARG(put->target), STR_ARG(put->host), (unsigned long long)put->size);
	if (!buf_ok(&head))
		return err_new(TOO_LARGE, "bad_url", "the URL is too long");
	TRY(tls_stream_write(tls, head.at, head.len, silence_ms));
	return send_body(tls, put, silence_ms);
}

// Reads the head of the reply, skipping 1xx heads.
static fallible upload_put_receive(struct tls_stream *tls, struct loop *loop, int64_t silence_ms,
				   int *out_status, struct buf *etag)
{
	auto_free struct http1_head *head = mem_new_of(struct http1_head);
	auto_free char *room = mem_new(PIECE);
	auto_buf bytes = BUF_INIT(HEAD_MAX);
	enum http1_verdict verdict = HTTP1_MORE;

	for (;;) {
		size_t got = 0;

		verdict = bytes.len ? http1_reply(buf_view(&bytes), head) : HTTP1_MORE;
		if (verdict == HTTP1_DONE && head->status >= 200)
			break;
		if (verdict == HTTP1_DONE) {
			buf_drop_front(&bytes, head->size);
			continue;
		}
		if (verdict != HTTP1_MORE)
			return err_new(BAD_PEER, "bad_reply", "the server's answer is malformed");
		TRY(tls_stream_read(tls, room, PIECE, loop_now(loop) + silence_ms, &got));
		if (!got)
			return err_new(BAD_PEER, "peer_gone", "the server closed the connection");
		buf_add(&bytes, room, got);
		if (!buf_ok(&bytes))
			return err_new(BAD_PEER, "bad_reply",
				       "the head of the server's answer is too large");
	}
	*out_status = head->status;
	if (http1_field(head, "ETag").at)
		buf_str(etag, http1_field(head, "ETag"));
	return OK;
}

static fallible upload_put_exchange(struct tls_stream *tls, struct loop *loop,
				    const struct upload_put *put, int64_t silence_ms,
				    int *out_status, struct buf *etag)
{
	auto_err lost = gateway_upload_put_send(tls, put, silence_ms);

	// A server that refuses may answer and close before it has read the whole body.
	if (lost && err_kind(lost) != ERR_BAD_PEER)
		return take_ptr(lost);
	if (lost) {
		auto_err silent = upload_put_receive(tls, loop, silence_ms, out_status, etag);

		return silent ? take_ptr(lost) : OK;
	}
	return upload_put_receive(tls, loop, silence_ms, out_status, etag);
}

fallible upload_put_send(struct stream *stream, struct trust *trust, const struct upload_put *put,
			 int64_t silence_ms, int *out_status, struct buf *etag)
{
	auto_tls_stream tls = NULL;

	TRY(tls_stream_connect(stream, trust, put->name, silence_ms, &tls));
	return upload_put_exchange(tls, stream->loop, put, silence_ms, out_status, etag);
}

fallible upload_put_connect(const struct outbound *outbound, struct loop *loop, struct str host,
			    uint16_t port, int64_t deadline, struct stream *out)
{
	return outbound_open(outbound, loop, host, port, deadline, out);
}
