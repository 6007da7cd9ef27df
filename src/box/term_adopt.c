// Adopts the terminals of a previous daemon. pid 1 holds the master and the pty spool; the tape is
// on disk. The spool is drained to the tape, then the end of the tape is replayed to the ring. A
// terminal whose output exceeded its tape shows the end of the tape and what came since.
//
// Tapes of terminals that pid 1 does not hold are removed: a shell's id is free with its end.
//
// syscalls: ioctl unlinkat
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/adopt_private.h"
#include "box/term_private.h"
#include "loop/offload.h"

#define PIECE 2048
#define FILES_MAX (1u << 30)

struct unlinking {
	int dir;
	const char *name;
};

static void unlink_run(void *arg)
{
	struct unlinking *unlinking = arg;

	unlinkat(unlinking->dir, unlinking->name, 0);
}

static void remove_file(struct box *box, const char *name)
{
	struct unlinking unlinking = {box->tapes_dir, name};

	offload_run(unlink_run, &unlinking);
}

static fallible term_adopt_find_tape(struct term *term)
{
	auto_free char *name = mem_fmt("%s/t%u", term->box->id, term->file);
	struct tape_label label;
	auto_err err = tape_open(term->loop, term->box->tapes_dir, name, &term->tape, &label);

	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return take_ptr(err);
	if (!term->tape) {
		remove_file(term->box, name);
		term_make_tape(term);
	} else {
		tape_bound(term->tape, box_tape_budget(term->box));
	}
	return OK;
}

static fallible term_adopt_replay(struct term *term)
{
	uint64_t end = tape_kept(term->tape);
	uint64_t offset = end > TERM_RING ? end - TERM_RING : 0;

	term_open_ring(term, offset, end);
	while (offset < end) {
		enum tape_stream stream;
		char room[PIECE];
		size_t got = 0;

		TRY(tape_read(term->tape, &offset, &stream, room, sizeof(room), &got, CLOCK_NEVER));
		if (!got)
			break;
		term_show(term, room, got);
	}
	return OK;
}

static void term_adopt_measure(struct term *term)
{
	struct winsize size;

	if (term->master.fd < 0 || ioctl(term->master.fd, TIOCGWINSZ, &size) != 0)
		return;
	term->cols = size.ws_col;
	term->rows = size.ws_row;
}

static fallible term_adopt_take_up(struct term *term, struct adoptee *held)
{
	bool has_spool = held->talk.held.flags & TALK_EXEC_SPOOL;

	TRY(term_adopt_find_tape(term));
	TRY(adoptee_take(held, term->box, NULL, &term->exec));
	term->master.fd = exec_take_master(term->exec);
	exec_take_spool(term->exec, term->spool);
	term_adopt_measure(term);
	if (has_spool)
		spool_drain(term);
	return term_adopt_replay(term);
}

static fallible term_adopt_one(struct adoption *adoption, struct adoptee *held)
{
	struct box *box = adoption->box;
	struct exec_label exec_label = held->label;
	struct term_spec spec = {
		.id = exec_label.id,
		.is_command = exec_label.flags & EXEC_LABEL_COMMAND,
		.shown = exec_label.command,
	};
	auto_term term = term_find(box, exec_label.id);
	struct err *err;

	if (term || exec_label.file < 1 || exec_label.file > FILES_MAX ||
	    !(held->talk.held.flags & TALK_EXEC_PTY))
		return err_new(BAD_PEER, "bad_label", "pid 1 holds an invalid terminal");
	term = term_make(box, &spec, exec_label.cap);
	term->file = exec_label.file;
	if (box->term_tapes < exec_label.file)
		box->term_tapes = exec_label.file;
	term->started_ms = exec_label.started_ms;
	err = term_adopt_take_up(term, held);
	if (err) {
		if (term->tape)
			tape_leave(term->tape);
		return err;
	}
	term_list(term);
	term_run(term);
	return OK;
}

fallible terms_adopt(struct adoption *adoption)
{
	struct box *box = adoption->box;
	struct link *at = adoption->helds.next;

	box->term_tapes = adoption_highest(adoption, 't');
	for (size_t i = 0; i < adoption->name_count; i++) {
		auto_free char *name = mem_fmt("%s/%s", box->id, adoption->names[i]);
		uint32_t number;

		if (adoption_number(adoption->names[i], 't', &number) &&
		    !adoption_find(adoption, EXEC_LABEL_TERM, number))
			remove_file(box, name);
	}
	while (at != &adoption->helds) {
		struct adoptee *held = link_of(at, struct adoptee, link);

		at = at->next;
		if (held->label.kind == EXEC_LABEL_TERM)
			TRY(term_adopt_one(adoption, held));
	}
	return OK;
}

void terms_abandon(struct box *box)
{
	if (!box->terms)
		return;
	list_each (at, &box->terms->all)
		tape_leave(link_of(at, struct term, link)->tape);
}
