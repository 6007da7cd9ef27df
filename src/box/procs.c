// The record of a process is created before its command, so that two starts of one id cannot race.
// The record is listed until it is forgotten: by a cleanup, by a new process of its id, or as the
// oldest of too many ended ones. Holders may still read it then.
//
// The label of its tape is written with the first output, or LABEL_MS after the start.
//
// syscalls: getrandom fcntl close
#include "box/procs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/box_file.h"
#include "box/exec_cgroup.h"
#include "box/tape_files.h"
#include "box/unit.h"
#include "codec/text.h"
#include "loop/closer.h"

#define LABEL_MS 20	       // from the start to the label, without output
#define TRIM_MAX 8	       // records dropped at once for their age
#define LABEL_COMMAND_MAX 3000 // bytes of a command line that fit in its exec label

struct procs {
	struct box *box;
	struct link ended; // by end
	uint32_t ended_count;
	size_t ended_text;
	struct tape_files tapes;
};

struct proc {
	struct unit unit;
	struct link ended_link;
	char *command, *session, *error;
	size_t command_len;
	enum proc_status status;
	int pid, exit_code;
	int64_t started_ms, ended_ms; // wall clock
	int64_t ended_at;	      // loop time
	uint64_t wall_ms;
	bool auto_cleanup, has_result;
	bool stopping, forced, orphaned; // orphaned: its session was deleted
	struct exec_result result;
	struct exec *exec; // while it runs
	int last_words;	   // 1 + fd of its dialogue, after its end; 0: none
	struct timer label;
};

const char *proc_status_word(enum proc_status status)
{
	static const char *const words[] = {
#define X(name, word) [PROC_##name] = word,
		PROC_STATUSES(X)
#undef X
	};

	return words[status];
}

void proc_ref(struct proc *proc)
{
	unit_ref(&proc->unit);
}

void proc_unref(struct proc *proc)
{
	unit_unref(&proc->unit);
}

void proc_close_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	closer_drop(&fd);
	proc->last_words = 0;
}

static void proc_free(struct unit *unit)
{
	struct proc *proc = (struct proc *)unit;

	loop_drop_timer(unit->loop, &proc->label);
	proc_close_dialogue(proc);
	free(proc->command);
	free(proc->session);
	free(proc->error);
	unit_done(unit);
}

static void proc_unlist(struct proc *proc)
{
	struct procs *procs = proc->unit.listed ? proc->unit.box->procs : NULL;

	if (procs && proc->ended_at) {
		link_drop(&proc->ended_link);
		procs->ended_count--;
		procs->ended_text -= proc->command_len;
	}
	unit_unlist(&proc->unit);
}

static bool procs_drop_oldest(struct procs *procs)
{
	if (link_empty(&procs->ended))
		return false;
	proc_unlist(link_of(procs->ended.next, struct proc, ended_link));
	return true;
}

bool procs_let_oldest_go(struct box *box)
{
	return box->procs && procs_drop_oldest(box->procs);
}

static void procs_trim(struct procs *procs)
{
	int64_t now = loop_now(procs->box->loop);

	while (procs->ended_count > PROCS_ENDED_MAX || procs->ended_text > PROCS_ENDED_TEXT)
		procs_drop_oldest(procs);
	for (int i = 0; i < TRIM_MAX && !link_empty(&procs->ended); i++) {
		struct proc *oldest = link_of(procs->ended.next, struct proc, ended_link);

		if (now - oldest->ended_at < PROCS_ENDED_MS)
			return;
		proc_unlist(oldest);
	}
}

static struct procs *procs_of(struct box *box)
{
	struct procs *procs = box->procs;

	if (!procs) {
		procs = box->procs = mem_new_of(struct procs);
		procs->box = box;
		link_init(&procs->ended);
		tape_files_init(&procs->tapes, box, 0);
	}
	procs_trim(procs);
	return procs;
}

void procs_free(struct box *box)
{
	struct procs *procs = box->procs;

	if (!procs)
		return;
	units_each (at, box, &proc_kind) {
		struct proc *proc = unit_of(at, struct proc);

		tape_leave(proc->unit.tape);
		proc_unlist(proc);
	}
	tape_files_done(&procs->tapes);
	free(take_ptr(box->procs));
}

static void proc_label_task(void *arg)
{
	struct tape *tape = arg;

	task_shield(true);
	tape_begin(tape);
	tape_unref(tape);
}

static void proc_on_label(struct timer *timer)
{
	struct proc *proc = link_of(timer, struct proc, label);

	tape_ref(proc->unit.tape);
	task_start(proc->unit.loop, "tape.begin", proc_label_task, proc->unit.tape);
}

static enum proc_status procs_judge(const struct proc *proc)
{
	const struct exec_result *result = &proc->result;

	if (proc->orphaned || result->ending == ENDING_BOX_LOST)
		return PROC_ERROR;
	if (proc->stopping || result->ending == ENDING_KILLED_BY_API || proc->exit_code == 143 ||
	    proc->exit_code == 137)
		return PROC_KILLED;
	return proc->exit_code == 0 ? PROC_COMPLETED : PROC_FAILED;
}

static void proc_list_ended(struct proc *proc)
{
	struct procs *procs = proc->unit.listed ? proc->unit.box->procs : NULL;

	proc->ended_ms = clock_steady_ms();
	loop_drop_timer(proc->unit.loop, &proc->label);
	if (procs) {
		proc->ended_at = loop_now(proc->unit.loop);
		link_add(&procs->ended, &proc->ended_link);
		procs->ended_count++;
		procs->ended_text += proc->command_len;
	}
}

static void proc_on_end(void *arg)
{
	struct proc *proc = arg;
	struct exec *exec = take_ptr(proc->exec);
	struct tape_ending ending;

	proc_ref(proc);
	proc->last_words = 1 + exec_take_dialogue(exec).dialogue;
	proc->result = exec->result;
	proc->has_result = true;
	proc->exit_code = proc->result.exit_code;
	if (proc->stopping)
		proc->exit_code = proc->forced ? 137 : 143;
	if (proc->result.ending == ENDING_BOX_LOST)
		proc->error = mem_str("the sandbox was lost");
	else if (proc->orphaned)
		proc->error = mem_str("its session was deleted");
	proc->status = procs_judge(proc);
	proc_list_ended(proc);
	ending = (struct tape_ending){
		.ended_ms = proc->ended_ms,
		.exit_code = proc->exit_code,
		.signal = proc->result.signal,
		.ending = proc->result.ending,
		.status = (uint8_t)proc->status,
		.duration_ms = proc->result.duration_ms,
		.cpu_ms = proc->result.cpu_ms,
		.max_rss = proc->result.max_rss,
		.pid = (uint32_t)proc->pid,
	};
	tape_files_seal(&exec->box->procs->tapes, proc->unit.tape, &ending, exec);
	ending_report(proc->result.ending, exec->box->id);
	condition_signal(&proc->unit.changed);
	tape_files_prepare(&exec->box->procs->tapes);
	exec_unref(exec);
	if (proc->auto_cleanup)
		proc_unlist(proc);
	else if (proc->unit.listed)
		procs_trim(proc->unit.box->procs);
	proc_unref(proc);
}

static fallible proc_check_id(struct str id)
{
	// Words that routes use in the place of {id}.
	static const char *const words[] = {"list", "start", "kill-all", "completed", ".", ".."};
	bool bad = id.len > PROC_ID_MAX || text_has_control(id) || memchr(id.at, '/', id.len);

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		bad |= str_is(id, words[i]);
	if (!bad)
		return OK;
	return err_hint(err_new(INVALID, "bad_process_id", "this cannot be the id of a process"),
			"up to %d bytes without '/' and control characters; not 'list', 'start', "
			"'kill-all' or 'completed'",
			PROC_ID_MAX);
}

static char *procs_make_id(void)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	uint8_t noise[6];
	char tail[7] = {0};

	secret_random(noise, sizeof(noise));
	for (size_t i = 0; i < sizeof(noise); i++)
		tail[i] = digits[noise[i] % 36];
	return mem_fmt("proc_%lld_%s", (long long)clock_wall_ms(), tail);
}

static char *proc_copy_text(struct str text, size_t max)
{
	return text.at ? mem_dup(text.at, text.len < max ? text.len : max) : NULL;
}

// The exec label for the next daemon. False: the command does not fit.
static bool proc_label_of(const struct proc *proc, uint64_t cap, struct exec_label *out)
{
	*out = (struct exec_label){
		.kind = EXEC_LABEL_PROCESS,
		.flags = proc->auto_cleanup ? EXEC_LABEL_AUTO : 0,
		.file = tape_files_number(proc->unit.tape),
		.started_ms = proc->started_ms,
		.cap = cap,
		.id = str_of(proc->unit.id),
		.session = str_of(proc->session),
		.command = {proc->command, proc->command_len},
	};
	return proc->command_len < LABEL_COMMAND_MAX;
}

// `label`: of its tape.
static struct proc *proc_new(struct box *box, const struct tape_label *label)
{
	struct proc *proc = mem_new_of(struct proc);

	unit_init(&proc->unit, &proc_kind, box, label->id);
	proc->session = proc_copy_text(label->session, PROC_ID_MAX * 2);
	proc->command = proc_copy_text(label->command, PROC_COMMAND_MAX);
	proc->command_len = strlen(proc->command);
	proc->exit_code = -1;
	proc->started_ms = label->started_ms;
	proc->wall_ms = label->wall_ms;
	proc->pid = (int)label->pid;
	proc->auto_cleanup = label->auto_cleanup;
	proc->label.due = proc_on_label;
	return proc;
}

static struct proc *procs_add(struct box *box, const struct proc_spec *spec)
{
	struct tape_label label = {
		.session = spec->session,
		.command = spec->command,
		.started_ms = clock_steady_ms(),
		.cap = spec->exec->output_cap,
		.wall_ms = spec->exec->wall_ms,
		.auto_cleanup = spec->auto_cleanup,
	};
	struct proc *proc = NULL;

	do {
		auto_free char *made = spec->id.len ? NULL : procs_make_id();

		if (proc)
			proc_unref(proc);
		label.id = made ? str_of(made) : spec->id;
		proc = proc_new(box, &label);
	} while (!unit_list(&proc->unit));
	label.id = str_of(proc->unit.id);
	label.session = str_of(proc->session);
	label.command = str_of(proc->command);
	proc->unit.tape = tape_files_take(&box->procs->tapes, &label);
	return proc;
}

struct proc *procs_find(struct box *box, struct str id)
{
	return box->procs ? (struct proc *)unit_find(procs_of(box)->box, &proc_kind, id) : NULL;
}

static fallible procs_make_way(struct box *box, struct str id)
{
	auto_proc old = procs_find(box, id);

	if (!old)
		return OK;
	if (!proc_is_over(old))
		return err_hint(err_new(CONFLICT, "process_exists",
					"the process '" STR_FMT "' is running", STR_ARG(id)),
				"choose another processId, or end that process first");
	proc_unlist(old);
	return OK;
}

static void proc_not_started(struct proc *proc, const struct proc_spec *spec, const struct err *err)
{
	proc->status = PROC_ERROR;
	proc->error = mem_str(err_message(err));
	tape_end(proc->unit.tape);
	proc_list_ended(proc);
	condition_signal(&proc->unit.changed);
	if (!spec->keep_error)
		proc_unlist(proc);
}

fallible procs_start(struct box *box, const struct proc_spec *spec, struct proc **out)
{
	struct exec_spec spec_of = *spec->exec;
	struct exec_label label;
	auto_proc proc = NULL;
	struct exec *exec = NULL;
	struct err *err;

	procs_of(box);
	if (spec->id.len) {
		TRY(proc_check_id(spec->id));
		TRY(procs_make_way(box, spec->id));
	}
	proc = procs_add(box, spec);
	spec_of.tape = proc->unit.tape;
	spec_of.label = &label;
	// A command that is too long for the label is on disk before it runs.
	if (!proc_label_of(proc, spec->exec->output_cap, &label))
		tape_begin(proc->unit.tape);
	if (spec->prewarmed)
		err = prewarmed_begin(take_ptr(*spec->prewarmed), &spec_of, spec->cue, &exec);
	else
		err = exec_start(box, &spec_of, &exec);
	if (err) {
		proc_not_started(proc, spec, err);
		return err;
	}
	proc->pid = exec_pid(exec);
	proc->exec = exec;
	proc->status = PROC_RUNNING;
	loop_set_timer(proc->unit.loop, &proc->label, loop_now(proc->unit.loop) + LABEL_MS);
	exec_on_end(exec, proc_on_end, proc);
	*out = take_ptr(proc);
	return OK;
}

void procs_each(struct box *box, void (*each)(struct proc *proc, void *arg), void *arg)
{
	if (box->procs)
		procs_of(box); // drops those that are too old
	units_each (at, box, &proc_kind)
		each(unit_of(at, struct proc), arg);
}

void procs_settle(struct box *box)
{
	if (box->procs)
		tape_files_settle(&procs_of(box)->tapes);
}

uint32_t procs_clean(struct box *box)
{
	uint32_t count = 0;

	// A process without an end record would come back with the next daemon.
	procs_settle(box);
	while (box->procs && procs_drop_oldest(box->procs))
		count++;
	tape_await_removals();
	return count;
}

bool proc_is_over(const struct proc *proc)
{
	return proc->status > PROC_RUNNING;
}

struct proc_view proc_look(const struct proc *proc)
{
	return (struct proc_view){
		.id = proc->unit.id,
		.command = proc->command,
		.session = proc->session,
		.error = proc->error,
		.status = proc->status,
		.pid = proc->pid,
		.started_ms = proc->started_ms,
		.ended_ms = proc->ended_ms,
		.exit_code = proc->exit_code,
		.wall_ms = proc->wall_ms,
		.result = proc->has_result ? &proc->result : NULL,
	};
}

struct tape *proc_tape(const struct proc *proc)
{
	return proc->unit.tape;
}

fallible proc_wait(struct proc *proc, int64_t deadline)
{
	while (!proc_is_over(proc))
		TRY(condition_wait(&proc->unit.changed, deadline), "wait for a process");
	return OK;
}

static fallible proc_err_over(const struct proc *proc)
{
	return err_new(NOT_FOUND, "process_ended", "the process '%s' has ended", proc->unit.id);
}

// A task of its own, so that it continues when the client has gone.
static void procs_stop_task(void *arg)
{
	struct proc *proc = arg;
	struct exec *exec = proc->exec;

	task_shield(true);
	if (exec) {
		exec_ref(exec);
		err_free(exec_stop(exec, proc->forced ? 0 : PROC_GRACE_MS, &proc->forced));
		exec_let_go(exec);
	}
	proc->stopping = false;
	condition_signal(&proc->unit.changed);
	proc_unref(proc);
}

static void procs_begin_stop(struct proc *proc, bool by_force)
{
	if (proc->stopping || proc->status != PROC_RUNNING)
		return;
	proc->stopping = true;
	proc->forced = by_force;
	proc_ref(proc);
	task_start(proc->unit.loop, "proc.stop", procs_stop_task, proc);
}

static fallible proc_await_stop(struct proc *proc)
{
	struct err *err = OK;

	proc_ref(proc);
	while (!err && proc->stopping)
		err = condition_wait(&proc->unit.changed, CLOCK_NEVER);
	proc_unref(proc);
	return err;
}

fallible proc_stop(struct proc *proc)
{
	if (proc->status != PROC_RUNNING && !proc->stopping)
		return proc_err_over(proc);
	procs_begin_stop(proc, false);
	return proc_await_stop(proc);
}

fallible proc_signal(struct proc *proc, int signal)
{
	struct exec *exec = proc->exec;
	struct err *err;

	if (proc->status != PROC_RUNNING)
		return proc_err_over(proc);
	if (signal == SIGKILL) {
		procs_begin_stop(proc, true);
		return proc_await_stop(proc);
	}
	exec_ref(exec);
	err = exec_signal_tree(exec, signal);
	exec_let_go(exec);
	return err;
}

fallible procs_stop_all(struct box *box, uint32_t *out_count)
{
	uint32_t count = 0;

	*out_count = 0;
	units_each (at, box, &proc_kind) {
		struct proc *proc = unit_of(at, struct proc);

		count += proc->status == PROC_RUNNING;
		procs_begin_stop(proc, false);
	}
	for (;;) {
		struct proc *busy = NULL;

		// The list changes during each wait: search again.
		units_each (at, box, &proc_kind) {
			struct proc *proc = unit_of(at, struct proc);

			if (proc->stopping)
				busy = proc;
		}
		if (!busy)
			break;
		TRY(proc_await_stop(busy));
	}
	*out_count = count;
	return OK;
}

void procs_end_session(struct box *box, struct str session)
{
	units_each (at, box, &proc_kind) {
		struct proc *proc = unit_of(at, struct proc);

		if (proc->status != PROC_RUNNING || !str_eq(str_of(proc->session), session))
			continue;
		proc->orphaned = true;
		procs_begin_stop(proc, true);
	}
}

fallible proc_await_input(struct proc *proc, size_t len, int64_t deadline)
{
	struct exec *exec = proc->exec;
	struct err *err;

	if (proc->status != PROC_RUNNING)
		return OK;
	exec_ref(exec);
	err = exec_await_input(exec, len, deadline);
	exec_let_go(exec);
	return err;
}

fallible proc_write(struct proc *proc, struct str bytes, int64_t deadline)
{
	struct exec *exec = proc->exec;
	struct err *err;

	if (proc->status != PROC_RUNNING)
		return proc_err_over(proc);
	exec_ref(exec);
	err = exec_write(exec, bytes.at, bytes.len, deadline);
	exec_let_go(exec);
	return err;
}

fallible proc_close_stdin(struct proc *proc)
{
	if (proc->status != PROC_RUNNING)
		return proc_err_over(proc);
	exec_close_stdin(proc->exec);
	return OK;
}

int proc_dialogue(struct proc *proc)
{
	int fd = proc->last_words - 1;

	if (proc->exec)
		fd = proc->exec->flags & TALK_EXEC_DIALOGUE ? proc->exec->stdio[2] : -1;
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

uint32_t proc_cgroup(const struct proc *proc)
{
	return proc->exec && proc->exec->exec_cgroup ? 1 + proc->exec->exec_cgroup->number : 0;
}

void procs_cgroup_spend(struct box *box, uint32_t exec_cgroup)
{
	if (exec_cgroup && exec_cgroup <= TALK_CGROUPS_MAX)
		box_exec_cgroup_retire(box, exec_cgroup - 1);
}

bool procs_cgroup_is_left(const struct box *box, uint32_t exec_cgroup)
{
	list_each (at, &box->exec_cgroups) {
		const struct box_cgroup *one = link_of(at, struct box_cgroup, all);

		if (1 + one->number == exec_cgroup)
			return one->doubtful && !one->taken;
	}
	return false;
}

// ---------------------------------------------------------------------------------------- adoption
// By the tape in the box's folder and by what pid 1 holds:
//
//	sealed			ended: the tape has everything
//	not sealed, held	running, or its end will come: the tape is appended to
//	no label, held		no output yet: the exec label describes it
//	not sealed, not held	its end was not seen: an error
//	no label, not held	a file prepared for the next process
//
// Of two with the same id the later one stands: a record is replaced before its file is removed.

// The place in `all` by time of start, or in `ended` by time of end: insert before it.
static struct link *procs_place_of(struct link *all, int64_t ms, bool by_end)
{
	struct link *at = all->prev;

	for (; at != all; at = at->prev) {
		const struct proc *proc = by_end ? link_of(at, struct proc, ended_link)
						 : unit_of(at, struct proc);

		if ((by_end ? proc->ended_ms : proc->started_ms) <= ms)
			break;
	}
	return at->next;
}

static void proc_list_adopted(struct proc *proc)
{
	struct box *box = proc->unit.box;
	struct procs *procs = box->procs;

	unit_list(&proc->unit);
	link_drop(&proc->unit.link);
	link_add(procs_place_of(&box->units[UNIT_PROCESS].all, proc->started_ms, false),
		 &proc->unit.link);
	if (proc->ended_ms) {
		link_add(procs_place_of(&procs->ended, proc->ended_ms, true), &proc->ended_link);
		procs->ended_count++;
		procs->ended_text += proc->command_len;
	}
}

static void proc_recover_ended(struct proc *proc, const struct tape_ending *ending)
{
	int64_t age = clock_steady_ms() - ending->ended_ms;

	if (ending->pid)
		proc->pid = (int)ending->pid;
	proc->ended_ms = ending->ended_ms;
	proc->ended_at = loop_now(proc->unit.loop) - (age > 0 ? age : 0);
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
		.stdout_truncated = tape_truncated(proc->unit.tape, TAPE_STDOUT),
		.stderr_truncated = tape_truncated(proc->unit.tape, TAPE_STDERR),
	};
	if (proc->status == PROC_ERROR)
		proc->error = mem_str("the process was lost");
}

static fallible proc_recover_running(struct proc *proc, struct adoptee *held)
{
	int pid = held->talk.held.pid;

	TRY(adoptee_take(held, proc->unit.box, proc->unit.tape, &proc->exec));
	proc->pid = pid;
	proc->status = PROC_RUNNING;
	tape_await_reader(proc->unit.tape);
	loop_set_timer(proc->unit.loop, &proc->label, loop_now(proc->unit.loop));
	return OK;
}

// Ends a process whose end was not seen.
static void proc_recover_lost(struct proc *proc)
{
	struct tape_ending ending = {
		.ended_ms = clock_steady_ms(),
		.exit_code = -1,
		.ending = ENDING_BOX_LOST,
		.status = PROC_ERROR,
	};

	tape_end(proc->unit.tape);
	err_free(tape_seal(proc->unit.tape, &ending)); // on failure the next daemon finds the same
	proc_recover_ended(proc, &ending);
}

// The label is written at once. An earlier failed adoption may have created this file: then that is
// the tape. If the disk takes no label, the tape keeps nothing.
static fallible proc_adopt_new_tape(struct box *box, uint32_t file, const struct adoptee *held,
				    struct tape **out_tape, struct tape_label *out)
{
	const struct exec_label *exec_label = &held->label;
	auto_tape tape = NULL;

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
	tape = unit_new_tape(box, 0, file, out);
	tape_begin(tape);
	if (!tape_is_labelled(tape))
		TRY(unit_open_tape(box, 0, file, out_tape, out));
	if (*out_tape)
		tape_leave(tape);
	else
		*out_tape = take_ptr(tape);
	return OK;
}

// Checks an entry of pid 1, which is hostile. An id is free as soon as its process has ended, so
// pid 1 may hold two of one id: the later one stands, and the other must have ended. *out_goes:
// this entry is the other.
static fallible proc_adopt_check(struct box *box, const struct adoptee *held,
				 const struct tape_label *label, bool *out_goes)
{
	auto_proc other = procs_find(box, label->id);
	bool is_twice = other && other->exec;

	TRY(proc_check_id(label->id));
	*out_goes = is_twice && held->talk.held.ended && other->started_ms >= label->started_ms;
	if (is_twice && !*out_goes && !other->exec->exec_cgroup &&
	    other->started_ms <= label->started_ms) {
		exec_on_end(other->exec, NULL, NULL);
		exec_filed(other->exec);
		exec_unref(take_ptr(other->exec));
		is_twice = false;
	}
	if (is_twice && !*out_goes)
		return err_new(BAD_PEER, "bad_label", "pid 1 holds a process twice");
	return OK;
}

// Unlists an older record of that id. False: this one is the older.
static bool proc_adopt_make_way(struct box *box, const struct tape_label *label, bool held)
{
	auto_proc other = procs_find(box, label->id);

	if (other && !held && (other->exec || other->started_ms > label->started_ms))
		return false;
	if (other)
		proc_unlist(other);
	return true;
}

// Opens the tape, or makes one for a process that pid 1 holds. NULL: there is neither.
static fallible proc_adopt_tape(struct box *box, uint32_t file, const struct adoptee *held,
				struct tape **out, struct tape_label *out_label)
{
	TRY(unit_open_tape(box, 0, file, out, out_label));
	if (*out)
		return OK;
	box_file_remove(box, 0, file); // never written
	return held ? proc_adopt_new_tape(box, file, held, out, out_label) : OK;
}

static fallible proc_adopt(struct adoption *adoption, uint32_t file, struct adoptee *held)
{
	struct box *box = adoption->box;
	struct procs *procs = procs_of(box);
	auto_tape tape = NULL;
	auto_proc proc = NULL;
	struct tape_label label;
	struct tape_ending ending;
	struct err *err = OK;
	bool goes = false;

	if (procs->tapes.files < box->units[UNIT_PROCESS].files)
		procs->tapes.files = box->units[UNIT_PROCESS].files;
	TRY(proc_adopt_tape(box, file, held, &tape, &label));
	if (!tape)
		return OK;
	if (held && !tape_has_ended(tape))
		err = proc_adopt_check(box, held, &label, &goes);
	if (err) {
		tape_leave(tape); // the file stays
		return err;
	}
	if (held && (goes || tape_has_ended(tape))) {
		held->label.kind = EXEC_LABEL_EXEC; // pid 1 only has to forget it
		held = NULL;
	}
	if (goes || !proc_adopt_make_way(box, &label, held))
		return OK;
	proc = proc_new(box, &label);
	proc->unit.tape = take_ptr(tape);
	if (tape_ending_of(proc->unit.tape, &ending))
		proc_recover_ended(proc, &ending);
	else if (!held)
		proc_recover_lost(proc);
	else
		err = proc_recover_running(proc, held);
	if (err)
		tape_leave(proc->unit.tape);
	if (err || (proc->auto_cleanup && !proc->exec))
		return err;
	proc_list_adopted(proc);
	if (proc->exec)
		exec_on_end(proc->exec, proc_on_end, proc);
	return OK;
}

static void proc_abandon(struct unit *unit)
{
	struct proc *proc = (struct proc *)unit;

	tape_leave(unit->tape);
	if (!proc->exec)
		return;
	exec_on_end(proc->exec, NULL, NULL);
	exec_unref(take_ptr(proc->exec));
}

const struct unit_kind proc_kind = {
	.name = "process",
	.type = UNIT_PROCESS,
	.label = EXEC_LABEL_PROCESS,
	.is_recorded = true,
	.outlives_box = true,
	.free = proc_free,
	.adopt = proc_adopt,
	.abandon = proc_abandon,
};
