#include "door/put.h"

#include "base/mem.h"
#include "wire/http1.h"

#define HEAD_MAX (64 * 1024)
#define PIECE (16 * 1024)

static fallible send(struct tls *tls, const struct put *put, int64_t silence_ms)
{
	auto_buf head = BUF_INIT(HEAD_MAX);

	buf_fmt(&head,
		"PUT " STR_FMT " HTTP/1.1\r\nHost: " STR_FMT "\r\nContent-Length: %llu\r\n"
		"User-Agent: cove\r\nConnection: close\r\n\r\n",
		STR_ARG(put->target), STR_ARG(put->host), (unsigned long long)put->size);
	if (!buf_ok(&head))
		return err_new(TOO_LARGE, "bad_url", "the URL is too long");
	TRY(tls_write(tls, buf_view(&head), silence_ms));
	return tls_send(tls, put->file, put->offset, put->size, silence_ms);
}

// The head of the answer; those that only announce another are passed over.
static fallible receive(struct tls *tls, int64_t silence_ms, int *out_status, struct buf *etag)
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
		TRY(tls_read(tls, room, PIECE, silence_ms, &got));
		if (!got)
			return err_new(BAD_PEER, "peer_gone", "the server has hung up");
		buf_add(&bytes, room, got);
		if (!buf_ok(&bytes))
			return err_new(BAD_PEER, "bad_reply", "the server's answer has no end");
	}
	*out_status = head->status;
	if (http1_field(head, "ETag").at)
		buf_str(etag, http1_field(head, "ETag"));
	return OK;
}

fallible put_send(struct tls *tls, const struct put *put, int64_t silence_ms, int *out_status,
		  struct buf *etag)
{
	auto_err lost = send(tls, put, silence_ms);

	// A server that refuses may say so and hang up before it has heard all.
	if (lost && err_kind(lost) != ERR_BAD_PEER)
		return take_ptr(lost);
	if (lost) {
		auto_err silent = receive(tls, silence_ms, out_status, etag);

		return silent ? take_ptr(lost) : OK;
	}
	return receive(tls, silence_ms, out_status, etag);
}
