// A prewarmed shell is an exec whose command prints its state and reads from stdin what to do.
// While it waits, its output is that state, on a tape of its own. When it is used it gets the tape,
// the limits and the clock of the command; pid 1 sees one process all along.
//
// One is started shortly after prewarmed_want(), so that it takes no CPU time from the process that
// a client waits for, and ends when unused. If anything fails, the process is started with a bash
// of its own.
//
// syscalls: clock_gettime
#include "box/prewarmed_shell.h"

#include "base/clock.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/exec_cgroup.h"
#include "box/exec_message.h"
#include "box/exec_private.h"
#include "protocol/shell_state.h"

#define SOON_MS 3     // from prewarmed_want() to the start
#define KEEP_MS 10000 // idle, then it is ended
#define MAKE_MS 5000  // for the shell to print its state
#define LEAVE_MS 2000 // from the close of stdin to the kill
#define STATE_MAX (64 * 1024)
#define PIECE 2048
#define WRITE_MS 10000
#define BASH_ENV "BASH_ENV="

struct prewarmed {
	struct prewarmed_shells *all; // NULL: it was taken
	struct exec *exec;
	struct buf state;
};

// The prewarmed shells of a box.
struct prewarmed_shells {
	struct box *box;
	struct prewarmed *ready;
	char **env;	     // of the next shell
	struct buf script;   // run by new shells first
	struct buf pristine; // the state of an unchanged shell
	bool making;
	bool over;
	struct timer timer; // starts or ends one
};

void prewarmed_drop(struct prewarmed *prewarmed)
{
	struct exec *exec = prewarmed->exec;

	if (prewarmed->all)
		prewarmed->all->ready = NULL;
	exec_on_end(exec, NULL, NULL);
	exec_filed(exec); // nothing to record
	exec_close_stdin(exec);
	exec_kill_after(exec, LEAVE_MS); // one that was stopped by a signal
	exec_unref(exec);
	buf_done(&prewarmed->state);
	free(prewarmed);
}

static void on_gone(void *arg)
{
	struct prewarmed *prewarmed = arg;

	if (prewarmed->all)
		prewarmed_drop(prewarmed);
}

// Reads until the state is complete.
static fallible prewarmed_read_state(struct prewarmed *prewarmed)
{
	int64_t deadline = loop_now(prewarmed->exec->box->loop) + MAKE_MS;
	uint64_t offset = 0;
	int marks = 0;

	while (marks < SHELL_STATE_MARKS) {
		enum tape_stream stream = TAPE_STDOUT;
		char room[PIECE];
		size_t got;

		TRY(tape_read(exec_tape(prewarmed->exec), &offset, &stream, room, sizeof(room),
			      &got, deadline));
		for (size_t i = 0; stream == TAPE_STDOUT && i < got; i++)
			marks += room[i] == 0;
		if (stream == TAPE_STDOUT)
			buf_add(&prewarmed->state, room, got);
		if (!got || !buf_ok(&prewarmed->state))
			return err_new(UNAVAILABLE, "no_shell", "a shell did not tell its state");
	}
	return OK;
}

static fallible prewarmed_make(struct box *box, const char *const *env, const char *script,
			       struct prewarmed **out)
{
	const char *const argv[] = {"bash", "-c", SHELL_PREWARMED, "bash", script, NULL};
	struct exec_spec spec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.open_stdin = true,
		.output_cap = STATE_MAX,
		.keeps = true,
	};
	auto_prewarmed made = mem_new_of(struct prewarmed);
	struct err *err = exec_start(box, &spec, &made->exec);

	made->state = BUF_INIT(STATE_MAX);
	if (err) {
		free(take_ptr(made));
		return err;
	}
	exec_on_end(made->exec, on_gone, made);
	TRY(prewarmed_read_state(made));
	*out = take_ptr(made);
	return OK;
}

static void prewarmed_make_task(void *arg)
{
	struct prewarmed_shells *all = arg;
	char **env = take_ptr(all->env);
	auto_free char *script = mem_dup(all->script.len ? all->script.at : "", all->script.len);
	struct prewarmed *made = NULL;

	task_shield(true);
	err_free(prewarmed_make(all->box, (const char *const *)env, script,
				&made)); // on failure there is none
	mem_free_list(env);
	all->making = false;
	if (made && (all->over || all->ready || !prewarmed_waits(made))) {
		prewarmed_drop(made);
	} else if (made) {
		if (!*script && !all->pristine.len)
			buf_str(&all->pristine, buf_view(&made->state));
		made->all = all;
		all->ready = made;
		loop_set_timer(all->box->loop, &all->timer, loop_now(all->box->loop) + KEEP_MS);
	}
	box_unref(all->box);
}

static void prewarmed_on_timer(struct timer *timer)
{
	struct prewarmed_shells *all = link_of(timer, struct prewarmed_shells, timer);

	if (all->ready) {
		prewarmed_drop(all->ready);
	} else if (!all->making && all->env && box_is_alive(all->box)) {
		all->making = true;
		box_ref(all->box);
		task_start(all->box->loop, "prewarmed_shell.make", prewarmed_make_task, all);
	}
}

// Without BASH_ENV, which bash would read at its start.
static char **copy_env(const char *const *env)
{
	size_t count = 0, kept = 0;
	char **copy;

	while (env[count])
		count++;
	copy = mem_new((count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		if (strncmp(env[i], BASH_ENV, strlen(BASH_ENV)) != 0)
			copy[kept++] = mem_str(env[i]);
	return copy;
}

static struct prewarmed_shells *all_of(struct box *box)
{
	struct prewarmed_shells *all = box->prewarmed_shells;

	if (!all) {
		all = box->prewarmed_shells = mem_new_of(struct prewarmed_shells);
		all->box = box;
		all->timer.due = prewarmed_on_timer;
		all->script = BUF_INIT(STATE_MAX);
		all->pristine = BUF_INIT(STATE_MAX);
	}
	return all;
}

void prewarmed_want(struct box *box, const char *const *env)
{
	struct prewarmed_shells *all = all_of(box);

	if (all->over || all->ready || all->making || all->env)
		return;
	all->env = copy_env(env);
	loop_set_timer(box->loop, &all->timer, loop_now(box->loop) + SOON_MS);
}

void prewarmed_prepare(struct box *box, struct str script)
{
	struct prewarmed_shells *all = all_of(box);

	buf_clear(&all->script);
	buf_str(&all->script, script);
}

struct str prewarmed_pristine(const struct box *box)
{
	return box->prewarmed_shells ? buf_view(&box->prewarmed_shells->pristine) : STR("");
}

struct prewarmed *prewarmed_take(struct box *box)
{
	struct prewarmed_shells *all = box->prewarmed_shells;
	struct prewarmed *taken = all ? take_ptr(all->ready) : NULL;

	if (!taken)
		return NULL;
	taken->all = NULL;
	loop_drop_timer(box->loop, &all->timer);
	return taken;
}

struct str prewarmed_state(const struct prewarmed *prewarmed)
{
	return buf_view(&prewarmed->state);
}

bool prewarmed_waits(const struct prewarmed *prewarmed)
{
	return prewarmed->exec->state == EXEC_RUNNING && box_is_alive(prewarmed->exec->box);
}

// Makes the exec that command.
static void prewarmed_become(struct exec *exec, const struct exec_spec *spec)
{
	struct loop *loop = exec->box->loop;

	tape_ref(spec->tape);
	pipes_turn(&exec->pipes, spec->tape);
	pipes_freeze(&exec->pipes);
	tape_unref(exec->tape);
	exec->tape = spec->tape;
	tape_started(exec->tape, exec->pid, exec->conn);
	exec->meter_us = box_exec_cgroup_used_us(exec->exec_cgroup);
	exec->oom_kills = box_oom_kills(exec->box);
	exec->begun_us = clock_us();
	exec->wall_ms = spec->wall_ms;
	exec->cpu_ms = spec->cpu_ms;
	exec->taped = true;
	exec_relabel(exec, spec); // before the command is sent
	if (exec->wall_ms)
		loop_set_timer(loop, &exec->timer, loop_now(loop) + (int64_t)exec->wall_ms);
	if (exec->cpu_ms)
		box_exec_cgroup_limit(exec->exec_cgroup, exec->cpu_ms * 1000);
}

fallible prewarmed_begin(struct prewarmed *prewarmed, const struct exec_spec *spec, struct str cue,
			 struct exec **out)
{
	struct exec *exec = prewarmed->exec;
	struct err *err;

	if (!prewarmed_waits(prewarmed)) {
		prewarmed_drop(prewarmed);
		return exec_message_box_lost();
	}
	exec_on_end(exec, NULL, NULL);
	buf_done(&prewarmed->state);
	free(prewarmed);
	prewarmed_become(exec, spec);
	// Only after pid 1 has the label: the next daemon would not recognize the command.
	err = exec_await_label(exec, loop_now(exec->box->loop) + WRITE_MS);
	if (!err)
		err = exec_write(exec, cue.at, cue.len, loop_now(exec->box->loop) + WRITE_MS);
	exec_close_stdin(exec);
	// A shell that dies during the write is a command that died: its end says so.
	if (err && err_kind(err) != ERR_CONFLICT) {
		exec_filed(exec);
		exec_kill(exec);
		exec_unref(exec);
		return err;
	}
	err_free(err);
	*out = exec;
	return OK;
}

uint32_t prewarmed_count(const struct box *box)
{
	return box->prewarmed_shells && box->prewarmed_shells->ready;
}

void prewarmed_freeze(struct box *box)
{
	struct prewarmed_shells *all = box->prewarmed_shells;
	struct exec_result result;
	struct exec *exec;

	if (!all || !all->ready)
		return;
	exec = all->ready->exec;
	exec_ref(exec);
	loop_drop_timer(box->loop, &all->timer);
	prewarmed_drop(all->ready);
	err_free(exec_wait(exec, loop_now(box->loop) + LEAVE_MS, &result));
	exec_let_go(exec);
}

void prewarmed_shells_end(struct box *box)
{
	struct prewarmed_shells *all = box->prewarmed_shells;

	if (!all || all->over)
		return;
	all->over = true;
	loop_drop_timer(box->loop, &all->timer);
	if (all->ready)
		prewarmed_drop(all->ready);
}

void prewarmed_shells_free(struct box *box)
{
	if (!box->prewarmed_shells)
		return;
	mem_free_list(box->prewarmed_shells->env);
	buf_done(&box->prewarmed_shells->script);
	buf_done(&box->prewarmed_shells->pristine);
	free(take_ptr(box->prewarmed_shells));
}
