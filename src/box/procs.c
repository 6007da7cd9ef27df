// The record of a process is created before its command, so that two starts of one id cannot race.
// The record is listed until it is forgotten: by a cleanup, by a new process of its id, or as the
// oldest of too many ended ones. Holders may still read it then.
//
// The label of its tape is written with the first output, or LABEL_MS after the start. References:
// the list, each holder, a task that stops it.
//
// syscalls: getrandom
#include "box/procs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/secret.h"
#include "box/procs_private.h"
#include "codec/text.h"

#define LABEL_MS 20 // from the start to the label, without output
#define TRIM_MAX 8  // records dropped at once for their age

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
	proc->refs++;
}

void proc_unref(struct proc *proc)
{
	if (--proc->refs > 0)
		return;
	loop_drop_timer(proc->loop, &proc->label);
	proc_close_dialogue(proc);
	tape_unref(proc->tape);
	free(proc->id);
	free(proc->command);
	free(proc->session);
	free(proc->error);
	free(proc);
}

void proc_unlist(struct proc *proc)
{
	struct procs *procs = proc->procs;

	if (!procs)
		return;
	proc->procs = NULL;
	map_take(procs->by_id, str_of(proc->id));
	link_drop(&proc->link);
	if (proc->ended_at) {
		link_drop(&proc->ended_link);
		procs->ended_count--;
		procs->ended_text -= proc->command_len;
	}
	proc_unref(proc);
}

static bool let_oldest_go(struct procs *procs)
{
	if (link_empty(&procs->ended))
		return false;
	proc_unlist(link_of(procs->ended.next, struct proc, ended_link));
	return true;
}

bool procs_let_oldest_go(struct box *box)
{
	return box->procs && let_oldest_go(box->procs);
}

static void procs_trim(struct procs *procs)
{
	int64_t now = loop_now(procs->box->loop);

	while (procs->ended_count > PROCS_ENDED_MAX || procs->ended_text > PROCS_ENDED_TEXT)
		let_oldest_go(procs);
	for (int i = 0; i < TRIM_MAX && !link_empty(&procs->ended); i++) {
		struct proc *oldest = link_of(procs->ended.next, struct proc, ended_link);

		if (now - oldest->ended_at < PROCS_ENDED_MS)
			return;
		proc_unlist(oldest);
	}
}

struct procs *procs_of(struct box *box)
{
	struct procs *procs = box->procs;

	if (!procs) {
		procs = box->procs = mem_new_of(struct procs);
		procs->box = box;
		procs->by_id = map_new();
		link_init(&procs->all);
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
	list_each (at, &procs->all) {
		struct proc *proc = link_of(at, struct proc, link);

		tape_leave(proc->tape);
		proc_unlist(proc);
	}
	tape_files_done(&procs->tapes);
	map_free(procs->by_id);
	free(procs);
	box->procs = NULL;
}

static void label_task(void *arg)
{
	struct tape *tape = arg;

	task_shield(true);
	tape_begin(tape);
	tape_unref(tape);
}

void proc_on_label(struct timer *timer)
{
	struct proc *proc = link_of(timer, struct proc, label);

	tape_ref(proc->tape);
	task_start(proc->loop, "tape.begin", label_task, proc->tape);
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

static void list_ended(struct proc *proc)
{
	struct procs *procs = proc->procs;

	proc->ended_ms = clock_steady_ms();
	loop_drop_timer(proc->loop, &proc->label);
	if (procs) {
		proc->ended_at = loop_now(proc->loop);
		link_add(&procs->ended, &proc->ended_link);
		procs->ended_count++;
		procs->ended_text += proc->command_len;
	}
}

void proc_on_end(void *arg)
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
	list_ended(proc);
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
	tape_files_seal(&exec->box->procs->tapes, proc->tape, &ending, exec);
	ending_report(proc->result.ending, exec->box->id);
	condition_signal(&proc->changed);
	tape_files_prepare(&exec->box->procs->tapes);
	exec_unref(exec);
	if (proc->auto_cleanup)
		proc_unlist(proc);
	else if (proc->procs)
		procs_trim(proc->procs);
	proc_unref(proc);
}

fallible proc_check_id(struct str id)
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

static char *copy_text(struct str text, size_t max)
{
	return text.at ? mem_dup(text.at, text.len < max ? text.len : max) : NULL;
}

static struct tape *procs_make_tape(struct procs *procs, const struct proc *proc, uint64_t cap)
{
	struct tape_label label = {
		.id = str_of(proc->id),
		.session = str_of(proc->session),
		.command = str_of(proc->command),
		.started_ms = proc->started_ms,
		.cap = cap,
		.wall_ms = proc->wall_ms,
		.auto_cleanup = proc->auto_cleanup,
	};

	return tape_files_take(&procs->tapes, &label);
}

// The exec label for the next daemon. False: the command does not fit.
static bool label_of(const struct proc *proc, uint64_t cap, struct exec_label *out)
{
	*out = (struct exec_label){
		.kind = EXEC_LABEL_PROCESS,
		.flags = proc->auto_cleanup ? EXEC_LABEL_AUTO : 0,
		.file = tape_files_number(proc->tape),
		.started_ms = proc->started_ms,
		.cap = cap,
		.id = str_of(proc->id),
		.session = str_of(proc->session),
		.command = {proc->command, proc->command_len},
	};
	return proc->command_len < PROC_LABEL_COMMAND;
}

static struct proc *procs_add(struct procs *procs, const struct proc_spec *spec)
{
	struct proc *proc = mem_new_of(struct proc);

	proc->procs = procs;
	proc->loop = procs->box->loop;
	proc->refs = 1;
	proc->id = spec->id.len ? mem_dup(spec->id.at, spec->id.len) : procs_make_id();
	while (!map_put(procs->by_id, str_of(proc->id), proc)) {
		free(proc->id);
		proc->id = procs_make_id();
	}
	proc->session = copy_text(spec->session, PROC_ID_MAX * 2);
	proc->command = copy_text(spec->command, PROC_COMMAND_MAX);
	proc->command_len = strlen(proc->command);
	proc->status = PROC_STARTING;
	proc->exit_code = -1;
	proc->started_ms = clock_steady_ms();
	proc->wall_ms = spec->exec->wall_ms;
	proc->auto_cleanup = spec->auto_cleanup;
	proc->label.due = proc_on_label;
	proc->tape = procs_make_tape(procs, proc, spec->exec->output_cap);
	condition_init(&proc->changed);
	link_add(&procs->all, &proc->link);
	return proc;
}

static fallible procs_make_way(struct procs *procs, struct str id)
{
	struct proc *old = map_get(procs->by_id, id);

	if (!old)
		return OK;
	if (!proc_is_over(old))
		return err_hint(err_new(CONFLICT, "process_exists",
					"the process '" STR_FMT "' is running", STR_ARG(id)),
				"choose another processId, or end that process first");
	proc_unlist(old);
	return OK;
}

static void not_started(struct proc *proc, const struct proc_spec *spec, const struct err *err)
{
	proc->status = PROC_ERROR;
	proc->error = mem_str(err_message(err));
	tape_end(proc->tape);
	list_ended(proc);
	condition_signal(&proc->changed);
	if (!spec->keep_error)
		proc_unlist(proc);
}

fallible procs_start(struct box *box, const struct proc_spec *spec, struct proc **out)
{
	struct procs *procs = procs_of(box);
	struct exec_spec spec_of = *spec->exec;
	struct exec_label label;
	auto_proc proc = NULL;
	struct exec *exec = NULL;
	struct err *err;

	if (spec->id.len) {
		TRY(proc_check_id(spec->id));
		TRY(procs_make_way(procs, spec->id));
	}
	proc = procs_add(procs, spec);
	proc_ref(proc);
	spec_of.tape = proc->tape;
	spec_of.label = &label;
	// A command that is too long for the label is on disk before it runs.
	if (!label_of(proc, spec->exec->output_cap, &label))
		tape_begin(proc->tape);
	if (spec->prewarmed)
		err = prewarmed_begin(take_ptr(*spec->prewarmed), &spec_of, spec->cue, &exec);
	else
		err = exec_start(box, &spec_of, &exec);
	if (err) {
		not_started(proc, spec, err);
		return err;
	}
	proc->pid = exec_pid(exec);
	proc->exec = exec;
	proc->status = PROC_RUNNING;
	loop_set_timer(proc->loop, &proc->label, loop_now(proc->loop) + LABEL_MS);
	exec_on_end(exec, proc_on_end, proc);
	*out = take_ptr(proc);
	return OK;
}

struct proc *procs_find(struct box *box, struct str id)
{
	struct proc *proc = box->procs ? map_get(procs_of(box)->by_id, id) : NULL;

	if (proc)
		proc_ref(proc);
	return proc;
}

void procs_each(struct box *box, void (*each)(struct proc *proc, void *arg), void *arg)
{
	if (!box->procs)
		return;
	list_each (at, &procs_of(box)->all)
		each(link_of(at, struct proc, link), arg);
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
	while (box->procs && let_oldest_go(box->procs))
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
		.id = proc->id,
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
	return proc->tape;
}

fallible proc_wait(struct proc *proc, int64_t deadline)
{
	while (!proc_is_over(proc))
		TRY(condition_wait(&proc->changed, deadline), "wait for a process");
	return OK;
}

static fallible is_over(const struct proc *proc)
{
	return err_new(NOT_FOUND, "process_ended", "the process '%s' has ended", proc->id);
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
	condition_signal(&proc->changed);
	proc_unref(proc);
}

static void procs_begin_stop(struct proc *proc, bool by_force)
{
	if (proc->stopping || proc->status != PROC_RUNNING)
		return;
	proc->stopping = true;
	proc->forced = by_force;
	proc_ref(proc);
	task_start(proc->loop, "proc.stop", procs_stop_task, proc);
}

static fallible await_stop(struct proc *proc)
{
	struct err *err = OK;

	proc_ref(proc);
	while (!err && proc->stopping)
		err = condition_wait(&proc->changed, CLOCK_NEVER);
	proc_unref(proc);
	return err;
}

fallible proc_stop(struct proc *proc)
{
	if (proc->status != PROC_RUNNING && !proc->stopping)
		return is_over(proc);
	procs_begin_stop(proc, false);
	return await_stop(proc);
}

fallible proc_signal(struct proc *proc, int signal)
{
	struct exec *exec = proc->exec;
	struct err *err;

	if (proc->status != PROC_RUNNING)
		return is_over(proc);
	if (signal == SIGKILL) {
		procs_begin_stop(proc, true);
		return await_stop(proc);
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
	if (!box->procs)
		return OK;
	list_each (at, &box->procs->all) {
		struct proc *proc = link_of(at, struct proc, link);

		count += proc->status == PROC_RUNNING;
		procs_begin_stop(proc, false);
	}
	for (;;) {
		struct proc *busy = NULL;

		// The list changes during each wait: search again.
		list_each (at, &box->procs->all) {
			struct proc *proc = link_of(at, struct proc, link);

			if (proc->stopping)
				busy = proc;
		}
		if (!busy)
			break;
		TRY(await_stop(busy));
	}
	*out_count = count;
	return OK;
}

void procs_end_session(struct box *box, struct str session)
{
	if (!box->procs)
		return;
	list_each (at, &box->procs->all) {
		struct proc *proc = link_of(at, struct proc, link);

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
		return is_over(proc);
	exec_ref(exec);
	err = exec_write(exec, bytes.at, bytes.len, deadline);
	exec_let_go(exec);
	return err;
}

fallible proc_close_stdin(struct proc *proc)
{
	if (proc->status != PROC_RUNNING)
		return is_over(proc);
	exec_close_stdin(proc->exec);
	return OK;
}
