// Adopts the sessions of a previous daemon. Their state files are in the box's folder; pid 1 holds
// their shells. Whether a shell is idle or runs a command is unknown, so it is sent a command of
// ours: all that it says before the end of that one is ignored, and the answer tells its directory.
//
// A shell that may have read only half of a command (EXEC_LABEL_HALF, protocol/exec_label.h) would
// take ours for the other half. It is killed; the next command gets a new one.
#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/adoption.h"
#include "box/box_file.h"
#include "box/session_private.h"
#include "box/unit.h"

static fallible session_adopt_find_tape(struct session *session)
{
	struct box *box = session->box;
	auto_free char *name = mem_fmt("%s/o%u", box->id, session->state_file);
	struct tape_label label;
	struct tape *tape = NULL;
	auto_err err = tape_open(box->loop, box->tapes_dir, name, &tape, &label);

	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_INVALID))
		return OK; // no output yet
	if (err)
		return take_ptr(err);
	tape_bound(tape, box_tape_budget(box));
	tape_leave(session->tape); // the file of that name is the adopted one
	tape_unref(session->tape);
	session->tape = tape;
	return OK;
}

static void session_adopt_go_on(struct session *session)
{
	struct session_run *run = run_new(session, RUN_ASIDE);
	uint64_t mark;

	session->ready = true;
	session->fresh = false;
	session->turns++;
	secret_random(&mark, sizeof(mark));
	shell_greet_again(&run->words, session->start_cwd, mark);
	// The running command may never end, and its client is gone: the session's time limit
	// applies.
	run->timeout_ms = session->timeout_ms;
	run_queue(run);
	session_run_drop(run);
}

static fallible take_shell(struct session *session, struct adoptee *held)
{
	bool half = held->label.flags & EXEC_LABEL_HALF;
	bool talks = held->talk.held.flags & TALK_EXEC_DIALOGUE;
	uint32_t sender = held->label.sender;
	struct exec *exec = NULL;
	struct bash *shell = NULL;

	TRY(adoptee_take(held, session->box, NULL, &exec));
	if (!talks || half) {
		exec_kill(exec);
		exec_unref(exec);
		return OK;
	}
	TRY(bash_adopt(exec, session->tape, sender, &shell));
	session_attach(session, shell);
	session_adopt_go_on(session);
	return OK;
}

static fallible session_adopt_one(struct adoption *adoption, uint32_t number)
{
	struct box *box = adoption->box;
	struct adoptee *held = adoption_find(adoption, EXEC_LABEL_SESSION, number);
	struct state_file *state_file = NULL;
	auto_session old = NULL;
	auto_session session = NULL;
	struct err *err = state_file_read(box, number, &state_file);

	TRY(err);
	old = state_file ? session_find(box, state_file->id) : NULL;
	if (!state_file ||
	    old) { // the later of two stands: it was created after the other was deleted
		box_file_remove_later(box, 's', number);
		state_file_free(state_file);
		return OK;
	}
	box->units[UNIT_SESSION].files = number - 1; // it keeps its number
	err = session_take(box, state_file->id, &state_file->spec, &session);
	if (!err) {
		buf_str(&session->changes, state_file->changes);
		err = session_adopt_find_tape(session);
	}
	if (!err && held)
		err = take_shell(session, held);
	state_file_free(state_file);
	return err;
}

static bool has_state_file(const struct adoption *adoption, uint32_t wanted)
{
	uint32_t number;

	for (size_t i = 0; i < adoption->name_count; i++)
		if (adoption_number(adoption->names[i], 's', &number) && number == wanted)
			return true;
	return false;
}

fallible sessions_adopt(struct adoption *adoption)
{
	struct box *box = adoption->box;
	auto_free uint32_t *files = adoption_numbers(adoption, 's');
	auto_free uint32_t *tapes = adoption_numbers(adoption, 'o');

	for (const uint32_t *at = files; *at; at++)
		TRY(session_adopt_one(adoption, *at));
	for (const uint32_t *at = tapes; *at; at++)
		if (!has_state_file(adoption, *at))
			box_file_remove_later(box, 'o', *at);
	box->units[UNIT_SESSION].files = files[0] > tapes[0] ? files[0] : tapes[0];
	return OK;
}

const struct unit_kind session_kind = {.type = UNIT_SESSION, .letter = 's', .tape_letter = 'o'};
