// Reads and writes of a followed connection. Bytes are counted in the budget before they are sent;
// a body passes unchanged. The end of a stream within a body is an error unless the close ends the
// body.
#include "egress/copy.h"

int64_t egress_copy_soon(const struct follow *follow, int64_t ms)
{
	return loop_now(follow->conn->box->egress->loop) + ms;
}

fallible egress_copy_pass(struct follow *follow, enum budget_way way, const char *bytes, size_t len)
{
	struct half *to = way == BUDGET_OUT ? &follow->up : &follow->in;
	size_t granted = conn_grant(follow->conn, way, len);

	conn_moved(follow->conn, way, granted, 0);
	if (granted)
		TRY(half_write(to, bytes, granted, IDLE_MS));
	if (granted == len)
		return OK;
	follow->spent = budget_reason(way == BUDGET_OUT ? BUDGET_BYTES_OUT : BUDGET_BYTES_IN);
	return err_new(EXHAUSTED, "budget_bytes", "the byte budget is used up");
}

fallible egress_copy_more(struct half *half, struct buf *got, size_t room, int64_t deadline,
			  size_t *out)
{
	size_t most = room > EGRESS_COPY_ROOM ? room : EGRESS_COPY_ROOM;
	size_t size = got->len < most ? most - got->len : 0;
	char *at = size ? buf_space(got, size) : NULL;

	if (!at)
		return err_new(TOO_LARGE, "too_large", "the message is too large to buffer");
	TRY(half_read(half, at, size, deadline, out));
	buf_grew(got, *out);
	return OK;
}

fallible egress_copy_end(const struct half *from, const struct body *body)
{
	if (body->kind == BODY_CLOSE && !(from->tls && tls_stream_is_cut(from->tls)))
		return OK;
	return err_new(BAD_PEER, "cut_body", "the body ended too early");
}

fallible egress_copy_body(struct follow *follow, struct body *body, enum budget_way way)
{
	struct half *from = way == BUDGET_OUT ? &follow->in : &follow->up;
	struct buf *got = way == BUDGET_OUT ? &follow->got_in : &follow->got_up;

	for (;;) {
		bool done = false;
		size_t used = 0, n = 0;

		TRY(body_measure(body, buf_view(got), &used, &done));
		if (used)
			TRY(egress_copy_pass(follow, way, got->at, used));
		buf_drop_front(got, used);
		if (done)
			return OK;
		TRY(egress_copy_more(from, got, 0, egress_copy_soon(follow, IDLE_MS), &n));
		if (!n)
			return egress_copy_end(from, body);
	}
}
