// The life of one connection after accept: its place within the limits, the bytes that it may move,
// the splice between two sockets once it is judged, and its end, which is recorded. The box object
// lives until its last connection is gone.
#include "base/mem.h"
#include "egress/authority.h"
#include "egress/private.h"

#define STEP_MS 10 // between two checks for a place

void egress_box_drop(struct egress_box *box)
{
	if (--box->holders)
		return;
	judge_close_rest(box); // the last connection may have been denied after the box was freed
	policy_done(&box->policy);
	names_free(box->names);
	authority_free(box->authority);
	secrets_free(box->secrets);
	free(box->id);
	free(box->tenant);
	free(box);
}

void conn_end(struct conn *conn)
{
	struct egress_box *box = conn->box;
	struct egress *egress = box->egress;

	stream_close(&conn->in);
	stream_close(&conn->out);
	judge_close_verdict(conn, NULL);
	if (conn->place == PLACE_HELD || conn->place == PLACE_CONNECTED)
		budget_close(&box->budget);
	link_drop(&conn->link);
	box->count--;
	free(conn);
	egress_box_drop(box);
	if (!--egress->count)
		condition_signal(&egress->empty);
}

void conn_abort(struct conn *conn)
{
	conn->in.aborted = conn->out.aborted = true;
}

void conn_stop(struct conn *conn)
{
	if (conn->task)
		task_cancel(conn->task);
	else if (conn->splice)
		egress_splice_stop(conn->splice);
}

uint64_t conn_grant(struct conn *conn, enum budget_way way, uint64_t want)
{
	return budget_take(&conn->box->budget, way, want);
}

void conn_moved(struct conn *conn, enum budget_way way, uint64_t bytes, uint64_t unused)
{
	struct verdict *verdict = conn->verdict;

	if (unused)
		budget_give_back(&conn->box->budget, way, unused);
	if (verdict && way == BUDGET_OUT)
		verdict->bytes_out += bytes;
	else if (verdict)
		verdict->bytes_in += bytes;
}

fallible conn_spend(struct conn *conn, enum budget_way way, uint64_t bytes)
{
	uint64_t granted = conn_grant(conn, way, bytes);

	if (granted == bytes) {
		conn_moved(conn, way, bytes, 0);
		return OK;
	}
	conn_moved(conn, way, 0, granted);
	return err_new(EXHAUSTED, "budget_bytes", "%s",
		       budget_words(way == BUDGET_OUT ? BUDGET_BYTES_OUT : BUDGET_BYTES_IN));
}

bool conn_may_wait(enum budget_verdict verdict)
{
	return verdict == BUDGET_RATE || verdict == BUDGET_OPEN;
}

// When to check again: as soon as the rate allows one more. A closing connection does not signal,
// so open connections are polled.
int64_t conn_wait_ms(struct egress_box *box, enum budget_verdict verdict)
{
	int64_t ms = verdict == BUDGET_RATE
			     ? budget_rate_ms(&box->budget, loop_now(box->egress->loop))
			     : STEP_MS;

	return ms < 1 ? 1 : ms > WAIT_MS ? WAIT_MS : ms;
}

fallible conn_await(struct egress_box *box, enum budget_verdict *out)
{
	struct loop *loop = box->egress->loop;
	int64_t until_ms = loop_now(loop) + WAIT_MS;

	for (;;) {
		int64_t now = loop_now(loop);

		*out = budget_open(&box->budget, false, now);
		if (!conn_may_wait(*out) || now >= until_ms)
			return OK;
		now += conn_wait_ms(box, *out);
		TRY(task_sleep_until(now < until_ms ? now : until_ms));
	}
}

static uint64_t on_grant(void *arg, enum egress_splice_way way, uint64_t want)
{
	return conn_grant(arg, way == EGRESS_SPLICE_OUT ? BUDGET_OUT : BUDGET_IN, want);
}

static void on_moved(void *arg, enum egress_splice_way way, uint64_t bytes, uint64_t unused)
{
	conn_moved(arg, way == EGRESS_SPLICE_OUT ? BUDGET_OUT : BUDGET_IN, bytes, unused);
}

static void conn_on_ended(void *arg, enum egress_splice_end end)
{
	static const char *const reasons[] = {[EGRESS_SPLICE_RESET] = "reset",
					      [EGRESS_SPLICE_IDLE] = "idle",
					      [EGRESS_SPLICE_STOPPED] = "stopped"};
	struct conn *conn = arg;

	conn->splice = NULL;
	if (end == EGRESS_SPLICE_SPENT)
		judge_spent(conn);
	else
		judge_close_verdict(conn, reasons[end]);
	conn_end(conn);
}

static const struct egress_splice_table carrying = {
	.grant = on_grant, .moved = on_moved, .ended = conn_on_ended};

static int conn_release(struct stream *stream)
{
	int fd = stream->fd;

	loop_unwatch(stream->loop, &stream->watch);
	stream->fd = -1;
	return fd;
}

fallible conn_copy(struct conn *conn)
{
	conn->task = NULL;
	return egress_splice_start(conn->box->egress->loop, conn_release(&conn->in),
				   conn_release(&conn->out), IDLE_MS, &carrying, conn,
				   &conn->splice);
}
