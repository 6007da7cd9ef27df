// One task for each direction: read, write, repeat. The end of one direction is passed on by
// shutdown(SHUT_WR); a failure ends both. The second task uses the stack of the first, which waits
// for it.
//
// syscalls: shutdown
#include "http/tunnel.h"

#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/mem.h"
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

fallible tunnel_run(struct loop *loop, struct body_reader *one, struct body_reader *other,
		    int64_t idle_ms)
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
