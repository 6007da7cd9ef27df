#include "egress/moving.h"

int64_t moving_soon(const struct follow *follow, int64_t ms)
{
	return loop_now(follow->conn->box->egress->loop) + ms;
}

fallible moving_pass(struct follow *follow, enum budget_way way, const char *bytes, size_t len)
{
	struct leg *to = way == BUDGET_OUT ? &follow->up : &follow->in;
	size_t granted = conn_grant(follow->conn, way, len);

	conn_moved(follow->conn, way, granted, 0);
	if (granted)
		TRY(leg_write(to, bytes, granted, IDLE_MS));
	if (granted == len)
		return OK;
	follow->spent = budget_reason(way == BUDGET_OUT ? BUDGET_BYTES_OUT : BUDGET_BYTES_IN);
	return err_new(EXHAUSTED, "budget_bytes", "a budget of bytes is used up");
}

fallible moving_more(struct leg *leg, struct buf *got, size_t room, int64_t deadline, size_t *out)
{
	size_t most = room > MOVING_ROOM ? room : MOVING_ROOM;
	size_t size = got->len < most ? most - got->len : 0;
	char *at = size ? buf_space(got, size) : NULL;

	if (!at)
		return err_new(TOO_LARGE, "too_large", "that is more than one reads at once");
	TRY(leg_read(leg, at, size, deadline, out));
	buf_grew(got, *out);
	return OK;
}

fallible moving_end(const struct leg *from, const struct body *body)
{
	if (body->kind == BODY_CLOSE && !(from->sealed && sealed_is_cut(from->sealed)))
		return OK;
	return err_new(BAD_PEER, "cut_body", "a body ended too early");
}

fallible moving_body(struct follow *follow, struct body *body, enum budget_way way)
{
	struct leg *from = way == BUDGET_OUT ? &follow->in : &follow->up;
	struct buf *got = way == BUDGET_OUT ? &follow->got_in : &follow->got_up;

	for (;;) {
		bool done = false;
		size_t used = 0, n = 0;

		TRY(body_measure(body, buf_view(got), &used, &done));
		if (used)
			TRY(moving_pass(follow, way, got->at, used));
		buf_drop_front(got, used);
		if (done)
			return OK;
		TRY(moving_more(from, got, 0, moving_soon(follow, IDLE_MS), &n));
		if (!n)
			return moving_end(from, body);
	}
}
