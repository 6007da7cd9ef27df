// Output goes to the tape in the callback while the tape needs no disk. Otherwise a task reads and
// writes until the pipes are empty or the tape is full; meanwhile the pipes are not watched, so a
// slow disk slows this command only. Bytes for a named tape are never read into memory first: a
// task splices them to the file (tape_write.c).
//
// Most commands end within milliseconds and their pipes are read then anyway, so pipes are watched
// only after PATIENCE_MS. After the end, bytes that are in the pipes still belong to the command;
// later ones, of background jobs, are dropped. The pipes of a shell go on to the next tape.
//
// syscalls: poll ppoll close
#include "box/pipes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/weak.h"
#include "box/pipe.h"
#include "loop/closer.h"
#include "os/fd.h"

#define CHUNK 65536
#define PATIENCE_MS 2
#define SMALL 1024	// bytes: a smaller read is counted as small
#define SMALL_READS 16	// small reads of a box within SMALL_WITHIN
#define SMALL_WITHIN 25 // ms

// Only the loop's thread is here; no content survives a call.
static char scratch[CHUNK];

static void close_end(struct pipes *pipes, struct pipe_end *end)
{
	if (!end->open)
		return;
	end->open = false;
	loop_unwatch(pipes->loop, &end->watch);
	pipe_close(pipes->at, &end->watch.fd);
	if (end == &pipes->in)
		stall_close(&pipes->last);
}

static enum tape_stream stream_of(const struct pipe_end *end)
{
	return end == &end->pipes->out[TAPE_STDERR] ? TAPE_STDERR : TAPE_STDOUT;
}

// How many of `len` bytes belong to the tape.
static size_t count_due(struct pipe_end *end, size_t len)
{
	if (!end->pipes->settling)
		return len;
	if (len > end->due)
		len = end->due;
	end->due -= len;
	return len;
}

// How much may be read at once. In pipes of a shell, bytes that are not due belong to the next
// tape.
static size_t bite_of(const struct pipe_end *end)
{
	bool bounded = end->pipes->serves_on && end->pipes->settling && end->due < CHUNK;

	return bounded ? end->due : CHUNK;
}

static bool is_paid(const struct pipes *pipes)
{
	return pipes->settling && pipes->out[TAPE_STDOUT].due == 0 &&
	       pipes->out[TAPE_STDERR].due == 0;
}

static void watch_end(struct pipes *pipes, struct pipe_end *end, uint32_t events)
{
	auto_err err = OK;

	if (!end->open)
		return;
	err = loop_watch(pipes->loop, &end->watch, events);
	if (err)
		close_end(pipes,
			  end); // no more watches on this host: better closed than a lost wake-up
}

static void count_late(struct pipe_end *end)
{
	if (end->uncounted)
		end->due = end->open ? pipe_held(end->pipes->at, end->watch.fd) : 0;
	end->uncounted = false;
}

static void pipes_count_read(struct pipes *pipes, size_t len)
{
	struct pipes_pace *pace = pipes->pace;
	int64_t now = loop_now(pipes->loop);

	if (!pace || len >= SMALL)
		return;
	if (now - pace->since_ms >= SMALL_WITHIN)
		*pace = (struct pipes_pace){.since_ms = now};
	pace->count++;
}

// True if the box has used up its small reads: the next read waits until more has accumulated.
static bool must_rest(const struct pipes *pipes)
{
	const struct pipes_pace *pace = pipes->pace;

	return pace && !weak(PACE) && !pipes->settling && pace->count >= SMALL_READS &&
	       loop_now(pipes->loop) - pace->since_ms < SMALL_WITHIN;
}

// The output is not watched until then.
static void pipes_rest(struct pipes *pipes, int64_t until)
{
	for (int i = 0; i < TAPE_STREAMS; i++)
		if (pipes->out[i].open && pipes->out[i].watch.events)
			loop_unwatch(pipes->loop, &pipes->out[i].watch);
	loop_set_timer(pipes->loop, &pipes->patience, until);
}

struct spill {
	struct pipes *pipes;
	struct pipe_end *first; // its bytes are in `room` already
	size_t first_len;
	char room[CHUNK];
};

// True if bytes of this end must be spliced to a named tape, and not read.
static bool is_drawn(const struct pipe_end *end)
{
	const struct pipes *pipes = end->pipes;

	if (!pipes->tape || (pipes->settling && end->due == 0))
		return false;
	return tape_draws(pipes->tape);
}

// True if the pipe has bytes. Otherwise closes it at end of file.
static bool has_some(struct pipes *pipes, struct pipe_end *end)
{
	struct pollfd ready = {.fd = end->watch.fd, .events = POLLIN};

	if (poll(&ready, 1, 0) > 0 && !(ready.revents & POLLIN))
		close_end(pipes, end);
	else if (ready.revents & POLLIN)
		return true;
	end->due = 0;
	return false;
}

static bool draw_some(struct spill *spill, struct pipe_end *end)
{
	struct pipes *pipes = spill->pipes;
	size_t len = 0;

	if (!has_some(pipes, end))
		return false;
	err_free(tape_pipe(pipes->tape, stream_of(end), pipes->at, end->watch.fd, spill->room,
			   pipes->settling && end->due < CHUNK ? end->due : CHUNK, &len));
	count_due(end, len);
	pipes_count_read(pipes, len);
	return true;
}

// Reads one chunk of one end. 0: nothing is there, or the end of file, which closes it.
static size_t pipes_take_some(struct pipe_end *end, char *room, size_t bite)
{
	ssize_t n = pipe_take(end->pipes->at, end->watch.fd, room, bite);

	if (n > 0) {
		pipes_count_read(end->pipes, (size_t)n);
		return (size_t)n;
	}
	if (n == 0 || errno != EAGAIN)
		close_end(end->pipes, end);
	end->due = 0;
	return 0;
}

// Moves one chunk of one end. False: nothing there.
static bool spill_some(struct spill *spill, struct pipe_end *end)
{
	size_t bite = end->open ? bite_of(end) : 0, n;

	if (end->open && is_drawn(end))
		return draw_some(spill, end);
	if (!bite)
		end->due = 0;
	n = bite ? pipes_take_some(end, spill->room, bite) : 0;
	if (!n)
		return false;
	// The disk may be full: the tape then records the truncation.
	err_free(tape_add(spill->pipes->tape, stream_of(end), spill->room, count_due(end, n)));
	return true;
}

// After the end of the command the pipe is mostly at end of file: this read saves a watch.
static void see_end(struct pipes *pipes, struct pipe_end *end)
{
	ssize_t n;

	if (!end->open || !is_paid(pipes) || pipes->serves_on)
		return;
	n = pipe_take(pipes->at, end->watch.fd, scratch, CHUNK);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		close_end(pipes, end);
}

// One buffer is kept for reuse by short commands.
static struct spill *spare;

static void pipes_spill_task(void *arg)
{
	struct spill *spill = arg;
	struct pipes *pipes = spill->pipes;
	bool some = true;

	task_shield(true);
	if (spill->first_len)
		err_free(tape_add(pipes->tape, stream_of(spill->first), spill->room,
				  spill->first_len));
	while (some && !tape_fits(pipes->tape, CHUNK) && !is_paid(pipes) && !must_rest(pipes)) {
		some = false;
		for (int i = 0; i < TAPE_STREAMS; i++) {
			count_late(&pipes->out[i]);
			some |= spill_some(spill, &pipes->out[i]);
		}
	}
	pipes->spilling = false;
	for (int i = 0; i < TAPE_STREAMS; i++) {
		count_late(&pipes->out[i]);
		see_end(pipes, &pipes->out[i]);
		if (!must_rest(pipes))
			watch_end(pipes, &pipes->out[i], EPOLLIN);
	}
	if (must_rest(pipes))
		pipes_rest(pipes, pipes->pace->since_ms + SMALL_WITHIN);
	free(spare);
	spare = spill;
	pipes->moved(pipes);
	pipes->unref(pipes);
}

static void begin_spill(struct pipes *pipes, struct pipe_end *end, const char *bytes, size_t len)
{
	struct spill *spill = take_ptr(spare);

	if (!spill)
		spill = mem_grow(NULL, 1, sizeof(*spill)); // not zeroed: 64 KiB
	spill->pipes = pipes;
	spill->first = end;
	spill->first_len = len;
	if (len)
		memcpy(spill->room, bytes, len);
	pipes->spilling = true;
	for (int i = 0; i < TAPE_STREAMS; i++)
		loop_unwatch(pipes->loop, &pipes->out[i].watch);
	pipes->ref(pipes);
	task_start(pipes->loop, "exec.spill", pipes_spill_task, spill);
}

// Moves one chunk. False: nothing more for now, end of file, or a task has taken over.
static bool pipes_move_some(struct pipe_end *end)
{
	struct pipes *pipes = end->pipes;
	size_t keep, n, bite = bite_of(end);

	if (!bite)
		return false;
	if (is_drawn(end)) {
		if (has_some(pipes, end))
			begin_spill(pipes, end, NULL, 0);
		return false;
	}
	n = pipes_take_some(end, scratch, bite);
	if (!n)
		return false;
	keep = count_due(end, n);
	if (keep == 0)
		return true;
	if (!tape_fits(pipes->tape, keep)) {
		begin_spill(pipes, end, scratch, keep);
		return false;
	}
	err_free(tape_add(pipes->tape, stream_of(end), scratch, keep));
	return true;
}

static void on_output(struct watch *watch, uint32_t events)
{
	struct pipe_end *end = link_of(watch, struct pipe_end, watch);
	struct pipes *pipes = end->pipes;

	(void)events;
	pipes_move_some(end);
	if (!pipes->spilling && must_rest(pipes))
		pipes_rest(pipes, pipes->pace->since_ms + SMALL_WITHIN);
	if (!end->open || pipes->settling)
		pipes->moved(pipes); // may free `pipes`
}

static void pipes_feed(struct pipes *pipes)
{
	while (pipes->input_at < pipes->input_len) {
		ssize_t n = pipe_give(pipes->at, pipes->in.watch.fd, pipes->input + pipes->input_at,
				      pipes->input_len - pipes->input_at);

		if (n < 0 && errno == EAGAIN) {
			watch_end(pipes, &pipes->in, EPOLLOUT);
			condition_signal(&pipes->room); // wakes pipes_await_input()
			return;
		}
		if (n <= 0)
			break; // EPIPE: the command reads no more
		pipes->input_at += (size_t)n;
	}
	free(take_ptr(pipes->input));
	if (pipes->keep_in && pipes->input_at == pipes->input_len)
		loop_unwatch(pipes->loop, &pipes->in.watch);
	else
		close_end(pipes, &pipes->in);
	condition_signal(&pipes->room);
}

static void on_input(struct watch *watch, uint32_t events)
{
	struct pipes *pipes = link_of(watch, struct pipe_end, watch)->pipes;

	(void)events;
	if (pipes->input) {
		pipes_feed(pipes);
		return;
	}
	loop_unwatch(pipes->loop, watch); // pipes_write() watches again when the pipe is full
	condition_signal(&pipes->room);
}

static void on_patience(struct timer *timer)
{
	struct pipes *pipes = link_of(timer, struct pipes, patience);

	for (int i = 0; i < TAPE_STREAMS && !pipes->spilling; i++)
		watch_end(pipes, &pipes->out[i], EPOLLIN);
}

// Records a stdin of which only this daemon has the end: the close at its exit may block
// (box/stall.h).
static void own_in(struct pipes *pipes)
{
	if (pipes->in.open && !pipes->lent && !pipes->last)
		pipes->last = stall_open(pipes->at);
}

fallible pipes_open(struct pipes *pipes, struct loop *loop, struct tape *tape, const int *fds,
		    struct str input)
{
	struct pipe_end *ends[] = {&pipes->out[TAPE_STDOUT], &pipes->out[TAPE_STDERR], &pipes->in};
	bool sound = true;

	pipes->loop = loop;
	pipes->tape = tape;
	condition_init(&pipes->room);
	for (int i = 0; i < (input.at ? 3 : 2); i++) {
		ends[i]->watch = (struct watch){.fd = fds[i],
						.ready = i < 2 ? on_output : on_input};
		ends[i]->pipes = pipes;
		ends[i]->open = true;
		sound &= pipe_fd_is(fds[i], S_IFIFO);
	}
	if (!sound) {
		for (int i = 0; i < (input.at ? 3 : 2); i++) {
			closer_drop(&ends[i]->watch.fd);
			ends[i]->open = false;
		}
		pipes_close(pipes);
		return err_new(BAD_PEER, "bad_pipe", "pid 1 sent something that is no pipe");
	}
	pipes->patience.due = on_patience;
	loop_set_timer(loop, &pipes->patience, loop_now(loop) + PATIENCE_MS);
	if (input.at) {
		pipes->input = mem_dup(input.at, input.len);
		pipes->input_len = input.len;
		pipes_feed(pipes);
		own_in(pipes);
	}
	return OK;
}

bool pipes_settled(const struct pipes *pipes)
{
	return is_paid(pipes) && !pipes->spilling;
}

static void close_in(struct pipes *pipes)
{
	close_end(pipes, &pipes->in);
	free(take_ptr(pipes->input));
	if (pipes->loop)
		condition_signal(&pipes->room);
}

// Mostly the pipe is at end of file; bytes are counted only if there are some.
static void settle_end(struct pipes *pipes, struct pipe_end *end)
{
	if (!end->open)
		return;
	// A splice to the disk holds the pipe's lock, and FIONREAD would wait for it.
	if (pipes->spilling && tape_is_named(pipes->tape)) {
		end->due = SIZE_MAX;
		end->uncounted = true;
		return;
	}
	if (!pipes->spilling) {
		end->due = SIZE_MAX;
		if (!pipes_move_some(end) && !pipes->spilling)
			return;
	}
	end->due = pipe_held(pipes->at, end->watch.fd);
	// One read more than is due: mostly it finds the end of file and saves a loop turn.
	while (end->open && !pipes->spilling && pipes_move_some(end) && end->due > 0)
		continue;
}

bool pipes_settle(struct pipes *pipes)
{
	pipes->settling = true;
	if (pipes->tape)
		tape_hurry(pipes->tape);
	close_in(pipes);
	for (int i = 0; i < TAPE_STREAMS; i++)
		settle_end(pipes, &pipes->out[i]);
	return pipes_settled(pipes);
}

void pipes_turn(struct pipes *pipes, struct tape *tape)
{
	pipes->tape = tape;
	pipes->settling = false;
}

void pipes_freeze(struct pipes *pipes)
{
	pipes_rest(pipes, loop_now(pipes->loop) + PATIENCE_MS);
}

bool pipes_ended(const struct pipes *pipes)
{
	return !pipes->out[TAPE_STDOUT].open && !pipes->out[TAPE_STDERR].open && !pipes->spilling;
}

void pipes_close(struct pipes *pipes)
{
	if (pipes->patience.at)
		loop_drop_timer(pipes->loop, &pipes->patience);
	for (int i = 0; i < TAPE_STREAMS; i++)
		close_end(pipes, &pipes->out[i]);
	close_in(pipes);
}

void pipes_close_in(struct pipes *pipes)
{
	pipes->keep_in = pipes->lent = false;
	if (!pipes->input && !pipes->writing)
		close_in(pipes);
	own_in(pipes);
}

static fallible pipes_write_some(struct pipes *pipes, const char *bytes, size_t len,
				 int64_t deadline)
{
	while (len > 0 && pipes->in.open) {
		ssize_t n = pipe_give(pipes->at, pipes->in.watch.fd, bytes, len);

		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
			continue;
		}
		if (n == 0 || errno != EAGAIN) {
			close_in(pipes);
			break;
		}
		watch_end(pipes, &pipes->in, EPOLLOUT);
		TRY(condition_wait(&pipes->room, deadline), "write to the stdin of a command");
	}
	return len == 0 ? OK
			: err_new(CONFLICT, "stdin_closed", "the command reads no more from stdin");
}

fallible pipes_await_input(struct pipes *pipes, size_t len, int64_t deadline)
{
	while (pipes->in.open && pipes->input && pipes->input_at < len)
		TRY(condition_wait(&pipes->room, deadline), "wait for a command to take its input");
	return OK;
}

fallible pipes_write(struct pipes *pipes, const void *bytes, size_t len, int64_t deadline)
{
	struct err *err;

	while (pipes->in.open && (pipes->input || pipes->writing))
		TRY(condition_wait(&pipes->room, deadline), "write to the stdin of a command");
	if (!pipes->keep_in)
		return err_new(CONFLICT, "stdin_closed", "the stdin of the command is closed");
	pipes->writing = true;
	err = pipes_write_some(pipes, bytes, len, deadline);
	pipes->writing = false;
	if (pipes->in.open)
		loop_unwatch(pipes->loop, &pipes->in.watch);
	if (!pipes->keep_in)
		close_in(pipes);
	condition_signal(&pipes->room);
	return err;
}
