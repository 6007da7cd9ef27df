// Adopts the processes of a previous daemon, by their tapes in the box's folder and by what pid 1
// holds:
//
//	sealed			ended: the tape has everything
//	not sealed, held	running, or its end will come: the tape is appended to
//	no label, held		no output yet: the exec label describes it
//	not sealed, not held	its end was not seen: an error
//	no label, not held	a file prepared for the next process
//
// Of two with the same id the later one stands: a record is replaced before its file is removed.
//
// syscalls: unlinkat
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/adopt_private.h"
#include "box/procs_private.h"
#include "loop/offload.h"

#define FILES_MAX (1u << 30)

static char *copy(struct str text)
{
	return text.at ? mem_dup(text.at, text.len) : NULL;
}

static struct proc *restore(struct procs *procs, struct tape *tape, const struct tape_label *label)
{
	struct proc *proc = mem_new_of(struct proc);

	proc->procs = procs;
	proc->loop = procs->box->loop;
	proc->refs = 1;
	proc->id = copy(label->id);
	proc->session = copy(label->session);
	proc->command = copy(label->command);
	proc->command_len = strlen(proc->command);
	proc->started_ms = label->started_ms;
	proc->wall_ms = label->wall_ms;
	proc->pid = (int)label->pid;
	proc->auto_cleanup = label->auto_cleanup;
	proc->exit_code = -1;
	proc->label.due = proc_on_label;
	proc->tape = tape;
	condition_init(&proc->changed);
	return proc;
}

static struct link *procs_adopt_place_of(struct link *all, int64_t ms, bool by_end)
{
	struct link *at = all->prev;

	for (; at != all; at = at->prev) {
		const struct proc *proc = by_end ? link_of(at, struct proc, ended_link)
						 : link_of(at, struct proc, link);

		if ((by_end ? proc->ended_ms : proc->started_ms) <= ms)
			break;
	}
	return at->next; // insert before this one
}

// Unlists an older record of that id. False: this one is the older.
static bool procs_adopt_make_way(struct procs *procs, const struct tape_label *label, bool held)
{
	struct proc *other = map_get(procs->by_id, label->id);

	if (other && !held && (other->exec || other->started_ms > label->started_ms))
		return false;
	if (other)
		proc_unlist(other);
	return true;
}

static void procs_adopt_list(struct procs *procs, struct proc *proc)
{
	map_put(procs->by_id, str_of(proc->id), proc);
	link_add(procs_adopt_place_of(&procs->all, proc->started_ms, false), &proc->link);
	if (proc->ended_ms) {
		link_add(procs_adopt_place_of(&procs->ended, proc->ended_ms, true),
			 &proc->ended_link);
		procs->ended_count++;
		procs->ended_text += proc->command_len;
	}
}

static void recover_ended(struct proc *proc, const struct tape_ending *ending)
{
	int64_t age = clock_steady_ms() - ending->ended_ms;

	if (ending->pid)
		proc->pid = (int)ending->pid;
	proc->ended_ms = ending->ended_ms;
	proc->ended_at = loop_now(proc->loop) - (age > 0 ? age : 0);
	proc->exit_code = ending->exit_code;
	proc->status = ending->status > PROC_RUNNING && ending->status < PROC_STATUS_COUNT
			       ? (enum proc_status)ending->status
			       : PROC_ERROR;
	proc->has_result = true;
	proc->result = (struct exec_result){
		.ending = ending->ending <= ENDING_BOX_LOST ? (enum ending)ending->ending
							    : ENDING_EXITED,
		.exit_code = ending->exit_code,
		.signal = ending->signal,
		.duration_ms = ending->duration_ms,
		.cpu_ms = ending->cpu_ms,
		.max_rss = ending->max_rss,
		.stdout_truncated = tape_truncated(proc->tape, TAPE_STDOUT),
		.stderr_truncated = tape_truncated(proc->tape, TAPE_STDERR),
	};
	if (proc->status == PROC_ERROR)
		proc->error = mem_str("the process was lost");
}

static fallible recover_running(struct box *box, struct proc *proc, struct adoptee *held)
{
	int pid = held->talk.held.pid;
	struct exec *exec = NULL;

	TRY(adoptee_take(held, box, proc->tape, &exec));
	proc->pid = pid;
	proc->exec = exec;
	proc->status = PROC_RUNNING;
	tape_await_reader(proc->tape);
	loop_set_timer(proc->loop, &proc->label, loop_now(proc->loop));
	return OK;
}

// Ends a process whose end was not seen.
static void recover_lost(struct proc *proc)
{
	struct tape_ending ending = {
		.ended_ms = clock_steady_ms(),
		.exit_code = -1,
		.ending = ENDING_BOX_LOST,
		.status = PROC_ERROR,
	};

	tape_end(proc->tape);
	err_free(tape_seal(proc->tape, &ending)); // on failure the next daemon finds the same
	recover_ended(proc, &ending);
}

struct unlinking {
	int dir;
	const char *name;
};

static void unlink_run(void *arg)
{
	struct unlinking *unlinking = arg;

	unlinkat(unlinking->dir, unlinking->name, 0);
}

// Opens the tape; NULL: none, or never written, and removed.
static fallible procs_adopt_find_tape(struct box *box, const char *name, struct tape **out,
				      struct tape_label *out_label)
{
	struct unlinking unlinking = {box->tapes_dir, name};
	auto_err err = tape_open(box->loop, box->tapes_dir, name, out, out_label);

	if (!err)
		return OK;
	if (err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
		return take_ptr(err);
	offload_run(unlink_run, &unlinking);
	*out = NULL;
	return OK;
}

// The label is written at once. An earlier failed adoption may have created this file: then that is
// the tape. If the disk takes no label, the tape keeps nothing.
static fallible procs_adopt_new_tape(struct box *box, const char *name, const struct adoptee *held,
				     struct tape **out_tape, struct tape_label *out)
{
	const struct exec_label *exec_label = &held->label;
	auto_tape tape = tape_new_named(box->loop, box->tapes_dir, name);

	*out = (struct tape_label){
		.id = exec_label->id,
		.session = exec_label->session,
		.command = exec_label->command,
		.started_ms = exec_label->started_ms,
		.cap = exec_label->cap,
		.wall_ms = exec_label->wall_ms,
		.auto_cleanup = exec_label->flags & EXEC_LABEL_AUTO,
		.pid = (uint32_t)held->talk.held.pid,
		.conn = held->talk.conn,
	};
	tape_set_label(tape, out);
	box->has_folder = true;
	tape_begin(tape);
	if (!tape_is_labelled(tape))
		TRY(procs_adopt_find_tape(box, name, out_tape, out));
	if (*out_tape)
		tape_leave(tape);
	else
		*out_tape = take_ptr(tape);
	return OK;
}

// The record of an ended process that pid 1 still holds is replaced by a later one of its id.
static void proc_let_way(struct proc *proc)
{
	struct exec *exec = take_ptr(proc->exec);

	exec_on_end(exec, NULL, NULL);
	exec_filed(exec);
	exec_unref(exec);
}

// Checks an entry of pid 1, which is hostile. An id is free as soon as its process has ended, so
// pid 1 may hold two of one id: the later one stands, and the other must have ended. *out_goes:
// this entry is the other.
static fallible procs_adopt_check(const struct procs *procs, const struct adoptee *held,
				  const struct tape_label *label, bool *out_goes)
{
	struct proc *other = map_get(procs->by_id, label->id);
	bool is_twice = other && other->exec;

	TRY(proc_check_id(label->id));
	*out_goes = is_twice && held->talk.held.ended && other->started_ms >= label->started_ms;
	if (is_twice && !*out_goes && !other->exec->exec_cgroup &&
	    other->started_ms <= label->started_ms) {
		proc_let_way(other);
		is_twice = false;
	}
	if (held->label.file > FILES_MAX || (is_twice && !*out_goes))
		return err_new(BAD_PEER, "bad_label", "pid 1 holds a process twice");
	return OK;
}

// On an error the file stays.
static fallible leave(struct tape *tape, struct err *err)
{
	if (err)
		tape_leave(tape);
	return err;
}

static void let_go(struct proc *proc)
{
	proc->procs = NULL;
	proc_unref(proc);
}

static fallible procs_adopt_give_up(struct proc *proc, struct err *err)
{
	if (err) {
		tape_leave(proc->tape);
		let_go(proc);
	}
	return err;
}

// Recovers one tape, or one process that pid 1 holds and that has no tape yet.
static fallible procs_adopt_recover(struct adoption *adoption, uint32_t number,
				    struct adoptee *held)
{
	struct box *box = adoption->box;
	struct procs *procs = procs_of(box);
	auto_free char *name = mem_fmt("%s/%u", box->id, number);
	auto_tape tape = NULL;
	struct tape_label label;
	struct tape_ending ending;
	struct proc *proc;
	bool goes = false;

	TRY(procs_adopt_find_tape(box, name, &tape, &label));
	if (!tape && !held)
		return OK;
	if (!tape)
		TRY(procs_adopt_new_tape(box, name, held, &tape, &label));
	if (held && tape_has_ended(tape)) {
		held->label.kind =
			EXEC_LABEL_EXEC; // its end is on record: pid 1 only has to forget it
		held = NULL;
	}
	if (held)
		TRY(leave(tape, procs_adopt_check(procs, held, &label, &goes)));
	if (goes)
		held->label.kind = EXEC_LABEL_EXEC; // pid 1 only has to forget it
	if (goes || !procs_adopt_make_way(procs, &label, held))
		return OK;
	tape_bound(tape, box_tape_budget(box));
	proc = restore(procs, take_ptr(tape), &label);
	if (tape_ending_of(proc->tape, &ending))
		recover_ended(proc, &ending);
	else if (!held)
		recover_lost(proc);
	else
		TRY(procs_adopt_give_up(proc, recover_running(box, proc, held)));
	if (proc->auto_cleanup && !proc->exec) {
		let_go(proc);
		return OK;
	}
	procs_adopt_list(procs, proc);
	if (proc->exec)
		exec_on_end(proc->exec, proc_on_end, proc);
	return OK;
}

// Includes files that are being removed in the background.
static uint32_t highest_file(const struct adoption *adoption)
{
	uint32_t highest = adoption_highest(adoption, 0);

	list_each (at, &adoption->helds) {
		const struct exec_label *exec_label = &link_of(at, struct adoptee, link)->label;

		if (exec_label->kind == EXEC_LABEL_PROCESS && exec_label->file > highest)
			highest = exec_label->file;
	}
	return highest;
}

fallible procs_adopt(struct adoption *adoption)
{
	uint32_t highest = highest_file(adoption);
	struct link *at;

	if (highest)
		procs_of(adoption->box)->tapes.files = highest;
	for (size_t i = 0; i < adoption->name_count; i++) {
		uint32_t number;

		if (adoption_number(adoption->names[i], 0, &number))
			TRY(procs_adopt_recover(
				adoption, number,
				adoption_find(adoption, EXEC_LABEL_PROCESS, number)));
	}
	at = adoption->helds.next;
	while (at != &adoption->helds) {
		struct adoptee *held = link_of(at, struct adoptee, link);

		at = at->next; // a taken entry leaves the list
		if (held->label.kind == EXEC_LABEL_PROCESS)
			TRY(procs_adopt_recover(adoption, held->label.file, held));
	}
	return OK;
}

void procs_abandon(struct box *box)
{
	if (!box->procs)
		return;
	list_each (at, &box->procs->all) {
		struct proc *proc = link_of(at, struct proc, link);

		tape_leave(proc->tape);
		if (!proc->exec)
			continue;
		exec_on_end(proc->exec, NULL, NULL);
		exec_unref(take_ptr(proc->exec));
	}
}
