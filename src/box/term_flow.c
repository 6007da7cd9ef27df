// The bytes of a terminal. The master of the pty is read in a callback: bytes go to a ring of the
// last 256 KiB, which those who are attached read, and to a tape. Nobody but the disk can slow that
// down. When the tape has to wait for the disk a task takes over, and meanwhile the watch rests.
//
// What is typed is written at once, or queued when the program does not read; the queue is bounded.
//
// pid 1 has a copy of the master and could clear O_NONBLOCK. The kernel has no call for ttys that
// ignores that flag, so it is looked at before every call, and only a master that is ready is read.
// One that clears it between the two, and takes what was there, is found out by box/brink.
//
// syscalls: read write ioctl fcntl close
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/term_inner.h"
#include "loop/closer.h"
#include "os/fd.h"

#define CHUNK 65536
#define RING_FIRST 4096

static char scratch[CHUNK]; // one thread turns the loop; nothing in it lives between two calls

void term_close_master(struct term *term)
{
	loop_unwatch(term->loop, &term->master);
	closer_drop(&term->master.fd);
}

static void grow_ring(struct term *term, size_t need)
{
	size_t size = term->ring_size ? term->ring_size : RING_FIRST;

	while (size < need && size < TERM_RING)
		size *= 2;
	if (size == term->ring_size)
		return;
	term->ring = mem_grow(term->ring, size, 1); // nothing has wrapped around yet
	term->ring_size = size;
}

void term_show(struct term *term, const char *bytes, size_t len)
{
	if (term->ring_size < TERM_RING)
		grow_ring(term, (size_t)term->written + len);
	while (len > 0) {
		size_t at = term->written % term->ring_size, part = term->ring_size - at;

		if (part > len)
			part = len;
		memcpy(term->ring + at, bytes, part);
		term->written += part;
		bytes += part;
		len -= part;
	}
}

void term_open_ring(struct term *term, uint64_t from, uint64_t to)
{
	grow_ring(term, (size_t)(to - from));
	term->written = from;
}

void term_watch(struct term *term)
{
	uint32_t events = (term->spilling ? 0 : EPOLLIN) | (term->input.len ? EPOLLOUT : 0);
	auto_err err = OK;

	if (term->master.fd < 0 || term->master.events == events)
		return;
	if (events)
		err = loop_watch(term->loop, &term->master, events);
	else
		loop_unwatch(term->loop, &term->master);
	if (err)
		term_close_master(term); // no more watches on this host: better than a silent one
}

struct term_spill {
	struct term *term;
	size_t len;
	char bytes[];
};

static void term_flow_spill_task(void *arg)
{
	struct term_spill *spill = arg;
	struct term *term = spill->term;

	task_shield(true);
	err_free(tape_add(term->tape, TAPE_STDOUT, spill->bytes, spill->len));
	free(spill);
	term->spilling = false;
	term_watch(term);
	if (term->phase == TERM_LAST_BYTES)
		term_finish(term);
	term_drop(term);
}

static void term_flow_keep(struct term *term, const char *bytes, size_t len)
{
	struct term_spill *spill;

	term_show(term, bytes, len);
	bell_ring(&term->more);
	if (tape_fits(term->tape, len)) {
		err_free(tape_add(term->tape, TAPE_STDOUT, bytes, len));
		return;
	}
	spill = mem_grow(NULL, 1, sizeof(*spill) + len);
	spill->term = term;
	spill->len = len;
	memcpy(spill->bytes, bytes, len);
	term->spilling = true;
	term_hold(term);
	task_start(term->loop, "term.spill", term_flow_spill_task, spill);
}

static bool is_safe(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

// Some output. False: there is none now, or never will be.
bool term_move(struct term *term)
{
	ssize_t n = -1;

	if (term->master.fd < 0)
		return false;
	brink_enter(&term->box->at, BRINK_LOCK);
	if (is_safe(term->master.fd))
		n = term->trough[0] >= 0 ? trough_move(term)
					 : read(term->master.fd, scratch, CHUNK);
	brink_leave();
	if (n > 0 && term->trough[0] >= 0)
		return true;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) { // EIO: nobody has the other side open
		term_close_master(term);
		bell_ring(&term->room);
		return false;
	}
	term_flow_keep(term, scratch, (size_t)n);
	return true;
}

static void term_flow_feed(struct term *term)
{
	ssize_t n = -1;

	brink_enter(&term->box->at, BRINK_LOCK);
	if (term->input.len && term->master.fd >= 0 && is_safe(term->master.fd))
		n = write(term->master.fd, term->input.at, term->input.len);
	brink_leave();
	if (n > 0) {
		buf_drop_front(&term->input, (size_t)n);
		bell_ring(&term->room);
	}
}

void term_on_master(struct watch *watch, uint32_t events)
{
	struct term *term = link_of(watch, struct term, master);

	term_hold(term);
	if (events & EPOLLOUT)
		term_flow_feed(term);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !term->spilling)
		term_move(term);
	term_watch(term);
	term_drop(term);
}

uint64_t term_kept(const struct term *term)
{
	return term->written > term->ring_size ? term->written - term->ring_size : 0;
}

size_t term_read(const struct term *term, uint64_t *at, char *room, size_t size,
		 uint64_t *out_skipped)
{
	uint64_t first = term_kept(term);
	size_t done = 0;

	*out_skipped = *at < first ? first - *at : 0;
	*at += *out_skipped;
	while (done < size && *at < term->written) {
		size_t from = *at % term->ring_size, part = term->ring_size - from;

		if (part > term->written - *at)
			part = (size_t)(term->written - *at);
		if (part > size - done)
			part = size - done;
		memcpy(room + done, term->ring + from, part);
		done += part;
		*at += part;
	}
	return done;
}

fallible term_type(struct term *term, const void *bytes, size_t len, int64_t deadline)
{
	const char *at = bytes;

	while (len > 0) {
		size_t part = TERM_INPUT_MAX - term->input.len;

		if (term->master.fd < 0 || term->phase != TERM_RUNNING)
			return err_new(CONFLICT, "terminal_ended", "the terminal has ended");
		if (part == 0) {
			TRY(bell_wait(&term->room, deadline), "type");
			continue;
		}
		if (part > len)
			part = len;
		buf_add(&term->input, at, part);
		at += part;
		len -= part;
		term_flow_feed(term);
		term_watch(term);
	}
	return OK;
}

fallible term_resize(struct term *term, uint64_t cols, uint64_t rows)
{
	struct winsize size = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

	if (cols < 1 || rows < 1 || cols > TERM_SIDE_MAX || rows > TERM_SIDE_MAX)
		return err_new(INVALID, "bad_size", "a terminal has 1 to %d columns and rows",
			       TERM_SIDE_MAX);
	term->cols = (uint16_t)cols;
	term->rows = (uint16_t)rows;
	if (term->master.fd >= 0 && ioctl(term->master.fd, TIOCSWINSZ, &size) != 0)
		return err_sys(errno, "set the size of a terminal");
	return OK;
}
