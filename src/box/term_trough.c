// The output of a terminal on its way to the disk. A tty forgets what was read from it, and unlike
// a pipe it cannot be moved to a file; a daemon that is killed with bytes in its memory would have
// lost them. So pid 1 has made a pipe for each terminal, the trough, and keeps both ends as well:
//
//	tty --splice--> trough --tee--> ring: whoever is attached sees it at once
//	                   `---splice--> tape, in the background, a little later (tape_draw.c)
//
// Each arrow is one system call that ends with every byte on one side or the other. What is in the
// trough outlives the daemon, as what is on the tape does; the next one finds the screen in the two
// of them together.
//
// A trough holds 16 pieces, however small, so it is emptied after some, or some milliseconds. While
// a worker moves bytes from it to the disk it may hold the pipe's lock: then the terminal is not
// read, for that would wait for the disk too.
//
// The trough is hostile ground, as the terminal is: pid 1 may write to it or read from it. We count
// what we find there.
//
// syscalls: splice tee read pipe2 ioctl close
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "box/pipe.h"
#include "box/term_inner.h"
#include "os/fd.h"

#define CHUNK 65536
#define DIPS_MAX 8     // pieces in the trough
#define FULL 32768     // bytes in it
#define DRAIN_MS 20    // from the first of them to the disk
#define ROUNDS_MAX 256 // for one drain: a pid 1 that fills it again must not keep us

// One thread turns the loop; nothing in it lives between two calls.
static char scratch[CHUNK];

void trough_close(struct term *term)
{
	loop_drop_timer(term->loop, &term->drain);
	fd_drop(&term->trough[0]);
	fd_drop(&term->trough[1]);
}

// Waits for the disk. Nothing else touches the trough meanwhile.
void trough_drain(struct term *term)
{
	char *room = mem_grow(NULL, 1, CHUNK);

	const struct brink_at *at = &term->box->at;

	for (int i = 0; i < ROUNDS_MAX && pipe_held(at, term->trough[0]); i++) {
		size_t len = 0;

		err_free(
			tape_draw(term->tape, TAPE_STDOUT, at, term->trough[0], room, CHUNK, &len));
		if (!len && pipe_take(at, term->trough[0], room, CHUNK) <= 0) // the tape is full
			break;
	}
	term->in_trough = 0;
	term->dips = 0;
	free(room);
}

static void drain_task(void *arg)
{
	struct term *term = arg;

	task_shield(true);
	trough_drain(term);
	term->spilling = false;
	term_watch(term);
	if (term->phase == TERM_LAST_BYTES)
		term_finish(term);
	term_drop(term);
}

void trough_begin_drain(struct term *term)
{
	if (term->spilling || !term->dips)
		return;
	loop_drop_timer(term->loop, &term->drain);
	term->spilling = true;
	term_hold(term);
	task_start(term->loop, "term.drain", drain_task, term);
}

void trough_on_timer(struct timer *timer)
{
	struct term *term = link_of(timer, struct term, drain);

	trough_begin_drain(term);
	term_watch(term);
}

// What was not shown yet of what lies in the trough. Returns how much, in scratch from *at on.
static size_t term_trough_look(struct term *term, size_t *at)
{
	ssize_t n = pipe_peek(&term->box->at, term->trough[0], scratch, CHUNK);

	*at = term->in_trough;
	if (n <= 0 || (size_t)n <= *at)
		return 0;
	term->in_trough = (size_t)n;
	return (size_t)n - *at;
}

ssize_t trough_move(struct term *term)
{
	ssize_t n = splice(term->master.fd, NULL, term->trough[1], NULL, CHUNK, SPLICE_F_NONBLOCK);
	size_t at, len;

	if (n <= 0)
		return n;
	term->dips++;
	len = term_trough_look(term, &at);
	if (len) {
		term_show(term, scratch + at, len);
		bell_ring(&term->more);
	}
	if (term->dips >= DIPS_MAX || term->in_trough >= FULL)
		trough_begin_drain(term);
	else if (!term->drain.at)
		loop_set_timer(term->loop, &term->drain, loop_now(term->loop) + DRAIN_MS);
	return n;
}
