// TLS inspection: TLS ends here on both sides. The box gets a certificate of its own CA; the
// server's certificate is verified as strictly as by any client. Both sides speak only HTTP/1.1.
//
// syscalls: shutdown
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"
#include "egress/authority.h"
#include "egress/follow.h"
#include "loop/offload.h"

#define ROOM (32 * 1024)

struct making {
	const uint8_t *seed;
	const char *id;
	struct authority *made;
};

static void make(void *arg)
{
	struct making *making = arg;

	making->made = authority_new(making->seed, making->id);
}

static fallible find_authority(struct egress_box *box)
{
	struct making making = {.seed = box->egress->seed, .id = box->id};

	if (box->authority)
		return OK;
	offload_run(make, &making);
	if (!making.made)
		return err_sys(0, "make the authority of %s", box->id);
	if (box->authority)
		authority_free(making.made); // another task was faster
	else
		box->authority = making.made;
	return OK;
}

// Both directions of an upgraded connection: a task each.
struct tunnel {
	struct conn *conn;
	struct half in, up;
	struct task *back;
	struct condition done;
};

static fallible inspect_carry(struct tunnel *tunnel, enum budget_way way)
{
	struct half *from = way == BUDGET_OUT ? &tunnel->in : &tunnel->up;
	struct half *to = way == BUDGET_OUT ? &tunnel->up : &tunnel->in;
	auto_free char *room = mem_new(ROOM);

	for (;;) {
		struct loop *loop = tunnel->conn->box->egress->loop;
		size_t n = 0;

		TRY(half_read(from, room, ROOM, loop_now(loop) + IDLE_MS, &n));
		if (!n && tls_stream_is_cut(from->tls))
			return err_new(BAD_PEER, "cut_off", "TLS ended without a close_notify");
		if (!n)
			return tls_stream_end(to->tls, HELLO_MS);
		TRY(conn_spend(tunnel->conn, way, n));
		TRY(half_write(to, room, n, IDLE_MS));
	}
}

// A truncated stream is truncated on the other side, too: no close_notify, and a reset unless it
// was closed.
static void tunnel_failed(struct tunnel *tunnel, const struct err *err)
{
	if (err && strcmp(err_reason(err), "cut_off") != 0)
		conn_abort(tunnel->conn);
	// Ends the task that reads from the client.
	if (err && tunnel->conn->in.fd >= 0)
		shutdown(tunnel->conn->in.fd, SHUT_RD);
}

static void inspect_carry_back(void *arg)
{
	struct tunnel *tunnel = arg;
	auto_err err = inspect_carry(tunnel, BUDGET_IN);

	tunnel_failed(tunnel, err);
	tunnel->back = NULL;
	condition_signal(&tunnel->done);
}

static void tunnel_run(struct conn *conn, struct tls_stream *in, struct tls_stream *up)
{
	auto_free struct tunnel *tunnel = mem_new_of(struct tunnel);
	auto_err err = NULL;

	tunnel->conn = conn;
	tunnel->in = (struct half){&conn->in, in};
	tunnel->up = (struct half){&conn->out, up};
	condition_init(&tunnel->done);
	tunnel->back = task_start(conn->box->egress->loop, "egress.tunnel", inspect_carry_back,
				  tunnel);
	err = inspect_carry(tunnel, BUDGET_OUT);
	tunnel_failed(tunnel, err);
	if (!err && tunnel->back)
		err_free(condition_wait(&tunnel->done,
					loop_now(conn->box->egress->loop) + HELLO_MS));
	if (tunnel->back)
		task_cancel(tunnel->back);
	while (tunnel->back)
		condition_await(&tunnel->done);
}

void inspect_serve(struct conn *conn)
{
	auto_tls_stream in = NULL;
	auto_tls_stream up = NULL;
	struct half half = {.stream = &conn->in};
	bool upgraded = false;
	SSL_CTX *context = NULL;
	auto_err err = find_authority(conn->box);

	if (!err)
		err = authority_context(conn->box->authority, conn->name, &context);
	if (!err)
		err = tls_stream_accept(&conn->in, context, HELLO_MS, &in);
	if (err) {
		// Most often a client that does not trust the box's CA: it sends an alert and
		// closes.
		if (err_kind(err) != ERR_CANCELLED)
			judge_note(conn, "not_inspectable");
		conn_return_place(conn);
		return;
	}
	half.tls = in;
	follow_serve(conn, &half, &upgraded, &up);
	if (upgraded)
		tunnel_run(conn, in, up);
	else if (!conn->cut)
		err_free(tls_stream_end(in, HELLO_MS));
}
