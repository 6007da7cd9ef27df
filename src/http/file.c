// Bodies that are files. What the inlet has already read goes first; then the socket and the file
// are joined by loop/pump. A chunked body has its framing in between: it is gathered in pieces of
// BATCH and written by a worker.
#include <stdio.h>

#include "base/clock.h"
#include "http/channel.h"
#include "http/inside.h"
#include "http/wired.h"
#include "loop/pump.h"

#define BATCH (256 * 1024)

static fallible send_framed(struct http_conn *conn, int fd, uint64_t offset, uint64_t len)
{
	char *line = conn->papers->chunk;
	int n = snprintf(line, sizeof(conn->papers->chunk), "%llx\r\n", (unsigned long long)len);

	if (conn->chunked)
		TRY(stream_write(&conn->stream, line, (size_t)n, conn->silence_ms));
	TRY(pump_send(&conn->stream, fd, offset, len, conn->silence_ms));
	return conn->chunked ? stream_write(&conn->stream, "\r\n", 2, conn->silence_ms) : OK;
}

fallible wired_send_file(struct http *x, int fd, uint64_t offset, uint64_t len)
{
	struct err *err;

	if (len == 0 || x->conn->no_body)
		return OK;
	TRY(http_pay(x, len));
	err = send_framed(x->conn, fd, offset, len);
	if (err)
		return http_blame(x, err);
	x->bytes_out += len;
	return OK;
}

static void free_batch(char **batch)
{
	free(*batch);
}

// By the inlet, in batches: as long as it has bytes of its own, or framing to take off.
static fallible recv_read(struct http *x, int fd, bool while_buffered, uint64_t max,
			  uint64_t *total)
{
	struct inlet *inlet = &x->conn->papers->inlet;
	on_exit_call(free_batch) char *batch = mem_grow(NULL, BATCH, 1);
	size_t have = 0, n = 1;

	while (n > 0 && !inlet->ended && (!while_buffered || inlet_has_bytes(inlet))) {
		TRY(http_read(x, batch + have, BATCH - have, &n));
		have += n;
		*total += n;
		if (*total > max)
			return http_too_large(max);
		if (have < BATCH && n > 0 && !inlet->ended)
			continue;
		TRY(pump_put(fd, batch, have));
		have = 0;
	}
	return have ? pump_put(fd, batch, have) : OK;
}

static fallible recv_whole(struct http *x, int fd, uint64_t max, uint64_t *total)
{
	struct http_conn *conn = x->conn;
	struct inlet *inlet = &conn->papers->inlet;
	uint64_t left;

	if (inlet->framing == INLET_CHUNKED)
		return recv_read(x, fd, false, max, total);
	if (inlet->left > max)
		return http_too_large(max);
	TRY(http_invite(x));
	if (inlet_has_bytes(inlet))
		TRY(recv_read(x, fd, true, max, total));
	left = inlet->left;
	if (inlet->ended || left == 0)
		return OK;
	TRY(pump_recv(&conn->stream, fd, left, conn->terms->silence_ms));
	inlet->left = 0;
	inlet->ended = true;
	*total += left;
	return OK;
}

fallible wired_recv_file(struct http *x, int fd, uint64_t max, uint64_t *out_len)
{
	uint64_t total = 0;
	struct err *err = recv_whole(x, fd, max, &total);

	if (err)
		return http_blame(x, err);
	*out_len = total;
	return OK;
}
