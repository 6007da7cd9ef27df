// A terminal is an exec whose first process has a pty of the box as controlling terminal. A client
// that connects to an id that is being started waits for it.
//
// A terminal has ended when its first process has; its remaining output is read until the kernel
// has no more. Background jobs lose the terminal with the end of the session. The id of a shell is
// free at once; the end of a command is kept until a client was told, or for TERM_KEPT_MS.
//
// syscalls: read write ioctl fcntl close splice tee pipe2
#include "box/term.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/box_file.h"
#include "box/pipe.h"
#include "box/unit.h"
#include "codec/text.h"
#include "loop/closer.h"
#include "os/fd.h"

#define TERM_LETTER 't' // of its tape
#define PIECE 2048
#define LAST_READS 64 // reads of the master at the end
#define CHUNK 65536
#define RING_FIRST 4096
#define DIPS_MAX 8     // splices into the spool before it is drained
#define FULL 32768     // bytes in the spool before it is drained
#define DRAIN_MS 20    // from the first splice to the drain
#define ROUNDS_MAX 256 // per drain: pid 1 may refill the spool

enum term_phase { TERM_STARTING, TERM_RUNNING, TERM_LAST_BYTES, TERM_ENDED, TERM_FAILED };

struct term {
	struct unit unit;
	char *shown;
	bool is_command, box_gone;
	enum term_phase phase;
	struct exec *exec;
	struct exec_result result;
	struct watch master;
	uint16_t cols, rows;
	uint32_t attached;
	int64_t started_ms;
	struct timer forget;
	// out
	char *ring;
	size_t ring_size;
	uint64_t written;
	uint64_t cap;
	bool spilling;
	int spool[2]; // pty spool; -1: none
	size_t in_spool;
	int dips; // splices into it, at most
	struct timer drain;
	struct condition more; // also: it runs, it has ended
	// in
	struct buf input;
	struct condition room;
};

static char scratch[CHUNK]; // only the loop's thread is here; no content survives a call

// Reads the last output and ends the terminal.
static void term_finish(struct term *term);

// -------------------------------------------------------------------------------------- the screen
// The master of the pty is read in a callback: bytes go to a ring of the last 256 KiB, which
// attached clients read, and to a tape. Only the disk can slow that down: when the tape has to wait
// for it a task takes over, and the master is not watched meanwhile.
//
// Typed input is written at once, or queued while the program does not read; the queue is bounded.
//
// pid 1 has a copy of the master and could clear O_NONBLOCK. No call on a tty ignores that flag, so
// it is checked before every call, and only a master that is ready is read. A pid 1 that clears it
// in between, and takes the bytes, is caught by box/stall.

static void term_close_master(struct term *term)
{
	loop_unwatch(term->unit.loop, &term->master);
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

static void term_show(struct term *term, const char *bytes, size_t len)
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

static void term_watch(struct term *term)
{
	uint32_t events = (term->spilling ? 0 : EPOLLIN) | (term->input.len ? EPOLLOUT : 0);
	auto_err err = OK;

	if (term->master.fd < 0 || term->master.events == events)
		return;
	if (events)
		err = loop_watch(term->unit.loop, &term->master, events);
	else
		loop_unwatch(term->unit.loop, &term->master);
	if (err)
		term_close_master(term); // no more watches on this host: better closed than silent
}

// ---------------------------------------------------------------------------------------- the disk
// Bytes read from a tty are gone from it, and a tty cannot be spliced to a file: a killed daemon
// would lose the bytes in its memory. So pid 1 has made a pipe for each terminal, the pty spool,
// and keeps both ends too:
//
//	tty --splice--> spool --tee--> ring: attached clients see it at once
//	                  `---splice--> tape, in the background, a little later (tape_write.c)
//
// Each arrow is one system call after which every byte is on one side or the other. Bytes in the
// spool and on the tape outlive the daemon; the next one rebuilds the screen from both.
//
// A pipe holds 16 buffers, however small, so the spool is drained after a few splices or
// milliseconds. A worker that moves bytes to the disk may hold the pipe's lock: the terminal is not
// read meanwhile, since that would wait for the disk.
//
// The spool is hostile, as the terminal is: pid 1 may write to it or read from it. Only bytes that
// are found there count.

static void spool_close(struct term *term)
{
	loop_drop_timer(term->unit.loop, &term->drain);
	fd_drop(&term->spool[0]);
	fd_drop(&term->spool[1]);
}

// Waits for the disk. Nothing else uses the spool meanwhile.
static void spool_drain(struct term *term)
{
	char *room = mem_grow(NULL, 1, CHUNK);

	const struct stall_at *at = &term->unit.box->at;

	for (int i = 0; i < ROUNDS_MAX && pipe_held(at, term->spool[0]); i++) {
		size_t len = 0;

		err_free(tape_pipe(term->unit.tape, TAPE_STDOUT, at, term->spool[0], room, CHUNK,
				   &len));
		if (!len && pipe_take(at, term->spool[0], room, CHUNK) <= 0) // the tape is full
			break;
	}
	term->in_spool = 0;
	term->dips = 0;
	free(room);
}

static void drain_task(void *arg)
{
	struct term *term = arg;

	task_shield(true);
	spool_drain(term);
	term->spilling = false;
	term_watch(term);
	if (term->phase == TERM_LAST_BYTES)
		term_finish(term);
	unit_unref(&term->unit);
}

static void spool_begin_drain(struct term *term)
{
	if (term->spilling || !term->dips)
		return;
	loop_drop_timer(term->unit.loop, &term->drain);
	term->spilling = true;
	unit_ref(&term->unit);
	task_start(term->unit.loop, "term.drain", drain_task, term);
}

static void spool_on_timer(struct timer *timer)
{
	struct term *term = link_of(timer, struct term, drain);

	spool_begin_drain(term);
	term_watch(term);
}

// Copies the bytes of the spool that are not in the ring yet to scratch, from *at on; returns how
// many.
static size_t spool_look(struct term *term, size_t *at)
{
	ssize_t n = pipe_peek(&term->unit.box->at, term->spool[0], scratch, CHUNK);

	*at = term->in_spool;
	if (n <= 0 || (size_t)n <= *at)
		return 0;
	term->in_spool = (size_t)n;
	return (size_t)n - *at;
}

static ssize_t spool_move(struct term *term)
{
	ssize_t n = splice(term->master.fd, NULL, term->spool[1], NULL, CHUNK, SPLICE_F_NONBLOCK);
	size_t at, len;

	if (n <= 0)
		return n;
	term->dips++;
	len = spool_look(term, &at);
	if (len) {
		term_show(term, scratch + at, len);
		condition_signal(&term->more);
	}
	if (term->dips >= DIPS_MAX || term->in_spool >= FULL)
		spool_begin_drain(term);
	else if (!term->drain.at)
		loop_set_timer(term->unit.loop, &term->drain, loop_now(term->unit.loop) + DRAIN_MS);
	return n;
}

struct term_spill {
	struct term *term;
	size_t len;
	char bytes[];
};

static void term_spill_task(void *arg)
{
	struct term_spill *spill = arg;
	struct term *term = spill->term;

	task_shield(true);
	err_free(tape_add(term->unit.tape, TAPE_STDOUT, spill->bytes, spill->len));
	free(spill);
	term->spilling = false;
	term_watch(term);
	if (term->phase == TERM_LAST_BYTES)
		term_finish(term);
	unit_unref(&term->unit);
}

static void term_keep(struct term *term, const char *bytes, size_t len)
{
	struct term_spill *spill;

	term_show(term, bytes, len);
	condition_signal(&term->more);
	if (tape_fits(term->unit.tape, len)) {
		err_free(tape_add(term->unit.tape, TAPE_STDOUT, bytes, len));
		return;
	}
	spill = mem_grow(NULL, 1, sizeof(*spill) + len);
	spill->term = term;
	spill->len = len;
	memcpy(spill->bytes, bytes, len);
	term->spilling = true;
	unit_ref(&term->unit);
	task_start(term->unit.loop, "term.spill", term_spill_task, spill);
}

static bool is_safe(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
}

// Reads some output. False: none now, or closed.
static bool term_move(struct term *term)
{
	ssize_t n = -1;

	if (term->master.fd < 0)
		return false;
	stall_enter(&term->unit.box->at, STALL_LOCK);
	if (is_safe(term->master.fd))
		n = term->spool[0] >= 0 ? spool_move(term) : read(term->master.fd, scratch, CHUNK);
	stall_leave();
	if (n > 0 && term->spool[0] >= 0)
		return true;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) { // EIO: no process has the slave open
		term_close_master(term);
		condition_signal(&term->room);
		return false;
	}
	term_keep(term, scratch, (size_t)n);
	return true;
}

static void term_feed(struct term *term)
{
	ssize_t n = -1;

	stall_enter(&term->unit.box->at, STALL_LOCK);
	if (term->input.len && term->master.fd >= 0 && is_safe(term->master.fd))
		n = write(term->master.fd, term->input.at, term->input.len);
	stall_leave();
	if (n > 0) {
		buf_drop_front(&term->input, (size_t)n);
		condition_signal(&term->room);
	}
}

static void term_on_master(struct watch *watch, uint32_t events)
{
	struct term *term = link_of(watch, struct term, master);

	unit_ref(&term->unit);
	if (events & EPOLLOUT)
		term_feed(term);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !term->spilling)
		term_move(term);
	term_watch(term);
	unit_unref(&term->unit);
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
			TRY(condition_wait(&term->room, deadline), "type");
			continue;
		}
		if (part > len)
			part = len;
		buf_add(&term->input, at, part);
		at += part;
		len -= part;
		term_feed(term);
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

// ---------------------------------------------------------------------------------------- its life

static void term_free(struct unit *unit)
{
	struct term *term = (struct term *)unit;

	term_close_master(term);
	spool_close(term);
	loop_drop_timer(unit->loop, &term->forget);
	exec_unref(term->exec);
	buf_done(&term->input);
	free(term->ring);
	free(term->shown);
	unit_done(unit);
}

void term_ref(struct term *term)
{
	unit_ref(&term->unit);
}

void term_unref(struct term *term)
{
	unit_unref(&term->unit);
}

static void term_unlist(struct term *term)
{
	if (!term->unit.listed)
		return;
	loop_drop_timer(term->unit.loop, &term->forget);
	if (term->exec)
		exec_filed(term->exec);
	unit_unlist(&term->unit);
}

static void term_on_forget(struct timer *timer)
{
	term_unlist(link_of(timer, struct term, forget));
}

static void term_finish(struct term *term)
{
	for (int i = 0; i < LAST_READS && !term->spilling && term_move(term); i++)
		continue;
	spool_begin_drain(term);
	if (term->spilling)
		return; // called again after the drain
	term->phase = TERM_ENDED;
	term_close_master(term);
	tape_end(term->unit.tape);
	condition_signal(&term->more);
	condition_signal(&term->room);
	if (term->is_command && !term->box_gone)
		loop_set_timer(term->unit.loop, &term->forget,
			       loop_now(term->unit.loop) + TERM_KEPT_MS);
	else
		term_unlist(term);
}

static void term_on_end(void *arg)
{
	struct term *term = arg;
	struct box *box = term->unit.box;

	err_free(exec_wait(term->exec, 0, &term->result)); // does not wait
	term->box_gone = !box_is_alive(box) || box->stopping;
	term->phase = TERM_LAST_BYTES;
	if (!term->spilling)
		term_finish(term);
	unit_unref(&term->unit);
}

static bool term_evict(struct unit *unit)
{
	struct term *term = (struct term *)unit;

	if (term->phase == TERM_ENDED)
		term_unlist(term);
	return term->phase == TERM_ENDED;
}

void term_forget(struct term *term)
{
	term_evict(&term->unit);
}

void terms_end(struct box *box)
{
	units_each (at, box, &term_kind)
		term_evict(link_of(at, struct unit, link));
}

static enum unit_use term_use(const struct unit *unit)
{
	const struct term *term = (const struct term *)unit;

	return term->phase == TERM_RUNNING && !term->is_command ? UNIT_IDLE : UNIT_OVER;
}

struct term *term_find(struct box *box, struct str id)
{
	return (struct term *)unit_find(box, &term_kind, id);
}

static struct term *term_new(struct box *box, const struct term_spec *spec, uint64_t cap)
{
	struct term *term = mem_new_of(struct term);
	char made[sizeof("term-") + 16] = "term-";

	if (!spec->id.len)
		secret_hex(made + strlen(made), 8);
	unit_init(&term->unit, &term_kind, box, spec->id.len ? spec->id : str_of(made));
	term->shown = mem_dup(spec->shown.at, spec->shown.len);
	term->is_command = spec->is_command;
	term->cap = cap;
	term->spool[0] = term->spool[1] = -1;
	term->drain.due = spool_on_timer;
	term->master = (struct watch){.fd = -1, .ready = term_on_master};
	term->forget.due = term_on_forget;
	term->input = BUF_INIT(TERM_INPUT_MAX);
	condition_init(&term->more);
	condition_init(&term->room);
	return term;
}

// A named tape if the next daemon can adopt the terminal.
static void term_make_tape(struct term *term)
{
	struct tape_label label = {
		.id = str_of(term->unit.id),
		.command = str_of(term->shown),
		.started_ms = term->started_ms,
		.cap = term->cap,
	};

	term->unit.tape = unit_new_tape(term->unit.box, TERM_LETTER, term->unit.file, &label);
}

// Its exec, master and spool are set.
static void term_run(struct term *term)
{
	term->phase = TERM_RUNNING;
	condition_signal(&term->more);
	unit_ref(&term->unit);
	exec_on_end(term->exec, term_on_end, term);
	term_watch(term); // it may have ended already
}

static fallible term_start(struct term *term, const struct exec_spec *spec)
{
	struct exec_label label = {
		.kind = EXEC_LABEL_TERM,
		.flags = term->is_command ? EXEC_LABEL_COMMAND : 0,
		.file = term->unit.file,
		.started_ms = term->started_ms,
		.cap = term->cap,
		.id = str_of(term->unit.id),
		.command = str_of(term->shown),
	};
	struct exec_spec spec_of = *spec;
	struct err *err;

	spec_of.label = &label;
	err = exec_start(term->unit.box, &spec_of, &term->exec);
	if (err) {
		term->phase = TERM_FAILED;
		condition_signal(&term->more);
		term_unlist(term);
		return err;
	}
	term->master.fd = exec_take_master(term->exec);
	exec_take_spool(term->exec, term->spool);
	term_run(term);
	return OK;
}

static fallible term_await_start(struct term *term)
{
	while (term->phase == TERM_STARTING)
		TRY(condition_wait(&term->more, CLOCK_NEVER), "wait for a terminal");
	if (term->phase == TERM_FAILED)
		return err_new(UNAVAILABLE, "terminal_failed", "the terminal could not be started");
	return OK;
}

fallible term_ask_room(struct box *box)
{
	if (units_have_room(box, &term_kind))
		return OK;
	return err_hint(
		err_new(EXHAUSTED, "too_many_terminals", "the sandbox has %d terminals", TERM_MAX),
		"end some of them: DELETE /api/terminals/{id}");
}

fallible term_open(struct box *box, const struct term_spec *spec, struct term **out, bool *out_new)
{
	auto_term term = spec->id.len ? term_find(box, spec->id) : NULL;

	*out_new = !term;
	if (spec->id.len > TERM_ID_MAX || text_has_control(spec->id))
		return err_new(INVALID, "bad_field",
			       "an id may have %d bytes, none a control character", TERM_ID_MAX);
	if (term) {
		TRY(term_await_start(term));
		*out = take_ptr(term);
		return OK;
	}
	TRY(term_ask_room(box));
	term = term_new(box, spec, spec->exec->output_cap);
	term->cols = spec->exec->cols;
	term->rows = spec->exec->rows;
	term->started_ms = clock_wall_ms();
	term->unit.file = unit_next_file(box, &term_kind);
	term_make_tape(term);
	unit_list(&term->unit);
	TRY(term_start(term, spec->exec));
	*out = take_ptr(term);
	return OK;
}

struct term_view term_view(const struct term *term)
{
	return (struct term_view){
		.id = term->unit.id,
		.shown = term->shown,
		.is_command = term->is_command,
		.has_ended = term->phase >= TERM_LAST_BYTES,
		.pid = term->exec ? exec_pid(term->exec) : 0,
		.cols = term->cols,
		.rows = term->rows,
		.attached = term->attached,
		.started_ms = term->started_ms,
		.bytes = term->written,
	};
}

void term_each(struct box *box, void (*each)(struct term *term, void *arg), void *arg)
{
	units_each (at, box, &term_kind)
		each(unit_of(at, struct term), arg);
}

void term_attach(struct term *term, int step)
{
	term->attached += (uint32_t)step;
}

fallible term_await(struct term *term, uint64_t at, int64_t deadline)
{
	while (term->written <= at && term->phase != TERM_ENDED)
		TRY(condition_wait(&term->more, deadline), "wait for a terminal");
	return OK;
}

struct tape *term_tape(struct term *term)
{
	return term->unit.tape;
}

void term_kill(struct term *term)
{
	if (term->phase == TERM_RUNNING)
		exec_kill(term->exec);
}

bool term_ended(const struct term *term, struct exec_result *out, bool *out_box_gone)
{
	if (term->phase != TERM_ENDED)
		return false;
	*out = term->result;
	*out_box_gone = term->box_gone;
	return true;
}

// ---------------------------------------------------------------------------------------- adoption
// pid 1 holds the master and the pty spool; the tape is on disk. The spool is drained to
// the tape, then the end of the tape is replayed to the ring. A terminal whose output exceeded its
// tape shows the end of the tape and what came since. Tapes of terminals that pid 1 does not hold
// are removed: a shell's id is free with its end.

static fallible term_replay(struct term *term)
{
	uint64_t end = tape_kept(term->unit.tape);
	uint64_t offset = end > TERM_RING ? end - TERM_RING : 0;

	grow_ring(term, (size_t)(end - offset));
	term->written = offset;
	while (offset < end) {
		enum tape_stream stream;
		char room[PIECE];
		size_t got = 0;

		TRY(tape_read(term->unit.tape, &offset, &stream, room, sizeof(room), &got,
			      CLOCK_NEVER));
		if (!got)
			break;
		term_show(term, room, got);
	}
	return OK;
}

static fallible term_take_held(struct term *term, struct adoptee *held)
{
	bool has_spool = held->talk.held.flags & TALK_EXEC_SPOOL;
	struct box *box = term->unit.box;
	struct tape_label label;
	struct winsize size;

	TRY(unit_open_tape(box, TERM_LETTER, term->unit.file, &term->unit.tape, &label));
	if (!term->unit.tape) {
		box_file_remove(box, TERM_LETTER, term->unit.file);
		term_make_tape(term);
	}
	TRY(adoptee_take(held, box, NULL, &term->exec));
	term->master.fd = exec_take_master(term->exec);
	exec_take_spool(term->exec, term->spool);
	if (term->master.fd >= 0 && ioctl(term->master.fd, TIOCGWINSZ, &size) == 0) {
		term->cols = size.ws_col;
		term->rows = size.ws_row;
	}
	if (has_spool)
		spool_drain(term);
	return term_replay(term);
}

static fallible term_adopt(struct adoption *adoption, uint32_t file, struct adoptee *held)
{
	struct box *box = adoption->box;
	struct term_spec spec = {0};
	auto_term term = held ? term_find(box, held->label.id) : NULL;
	struct err *err;

	if (!held) {
		box_file_remove(box, TERM_LETTER, file);
		return OK;
	}
	if (term || !(held->talk.held.flags & TALK_EXEC_PTY))
		return err_new(BAD_PEER, "bad_label", "pid 1 holds an invalid terminal");
	spec.id = held->label.id;
	spec.is_command = held->label.flags & EXEC_LABEL_COMMAND;
	spec.shown = held->label.command;
	term = term_new(box, &spec, held->label.cap);
	term->unit.file = file;
	term->started_ms = held->label.started_ms;
	err = term_take_held(term, held);
	if (err) {
		if (term->unit.tape)
			tape_leave(term->unit.tape);
		return err;
	}
	unit_list(&term->unit);
	term_run(term);
	return OK;
}

static void term_abandon(struct unit *unit)
{
	tape_leave(unit->tape);
}

const struct unit_kind term_kind = {
	.name = "terminal",
	.type = UNIT_TERM,
	.label = EXEC_LABEL_TERM,
	.letter = TERM_LETTER,
	.max = TERM_MAX,
	.use = term_use,
	.evict = term_evict,
	.free = term_free,
	.adopt = term_adopt,
	.abandon = term_abandon,
};
