// An understudy is an exec like any other, whose command is to say how it stands and to read what
// to do from its stdin. While it waits its output is its state, on a tape of its own; when it is
// told to begin it gets the tape, the limits and the clock of the command that it is from then on.
// pid 1 sees one process from first to last.
//
// One is made a moment after it was wanted, so that it takes no CPU time from the process that
// somebody waits for, and leaves when it was not used for a while. Whatever goes wrong with one,
// the process is started the other way: by a bash of its own.
//
// syscalls: clock_gettime
#include "box/understudy.h"

#include "base/clock.h"
#include "base/mem.h"
#include "box/exec_inner.h"
#include "box/leaf.h"
#include "box/word.h"
#include "model/shell_state.h"

#define SOON_MS 3     // from the wish to the making
#define KEEP_MS 10000 // at rest
#define MAKE_MS 5000  // until it has told its state
#define LEAVE_MS 2000 // then it is killed
#define STATE_MAX (64 * 1024)
#define PIECE 2048
#define WRITE_MS 10000
#define BASH_ENV "BASH_ENV="

struct understudy {
	struct understudies *all; // NULL: it is somebody's
	struct exec *exec;
	struct buf state;
};

// Of a box.
struct understudies {
	struct box *box;
	struct understudy *ready;
	char **env;	     // of the next one
	struct buf script;   // what they do first
	struct buf pristine; // the state of one that did nothing
	bool making;
	bool over;
	struct timer timer; // to make one, or to let it go
};

void understudy_drop(struct understudy *understudy)
{
	struct exec *exec = understudy->exec;

	if (understudy->all)
		understudy->all->ready = NULL;
	exec_on_end(exec, NULL, NULL);
	exec_filed(exec); // there is nothing to remember
	if (exec->phase == EXEC_RUNNING) {
		exec_close_stdin(exec);
		exec->stage = STAGE_TERMED; // for one that somebody has stopped
		loop_set_timer(exec->box->loop, &exec->timer, loop_now(exec->box->loop) + LEAVE_MS);
	}
	exec_drop(exec);
	buf_done(&understudy->state);
	free(understudy);
}

static void on_gone(void *arg)
{
	struct understudy *understudy = arg;

	if (understudy->all)
		understudy_drop(understudy);
}

// Until all of it is there.
static fallible understudy_read_state(struct understudy *understudy)
{
	int64_t deadline = loop_now(understudy->exec->box->loop) + MAKE_MS;
	uint64_t offset = 0;
	int marks = 0;

	while (marks < SHELL_STATE_MARKS) {
		enum tape_stream stream = TAPE_STDOUT;
		char room[PIECE];
		size_t got;

		TRY(tape_read(exec_tape(understudy->exec), &offset, &stream, room, sizeof(room),
			      &got, deadline));
		for (size_t i = 0; stream == TAPE_STDOUT && i < got; i++)
			marks += room[i] == 0;
		if (stream == TAPE_STDOUT)
			buf_add(&understudy->state, room, got);
		if (!got || !buf_ok(&understudy->state))
			return err_new(UNAVAILABLE, "no_shell", "a shell did not tell its state");
	}
	return OK;
}

static fallible understudy_make(struct box *box, const char *const *env, const char *script,
				struct understudy **out)
{
	const char *const argv[] = {"bash", "-c", SHELL_UNDERSTUDY, "bash", script, NULL};
	struct exec_spec spec = {
		.argv = argv,
		.env = env,
		.cwd = "/",
		.user = "",
		.open_stdin = true,
		.output_cap = STATE_MAX,
		.keeps = true,
	};
	auto_understudy made = mem_new_of(struct understudy);
	struct err *err = exec_start(box, &spec, &made->exec);

	made->state = BUF_INIT(STATE_MAX);
	if (err) {
		free(take_ptr(made));
		return err;
	}
	exec_on_end(made->exec, on_gone, made);
	TRY(understudy_read_state(made));
	*out = take_ptr(made);
	return OK;
}

static void understudy_make_task(void *arg)
{
	struct understudies *all = arg;
	char **env = take_ptr(all->env);
	auto_free char *script = mem_dup(all->script.len ? all->script.at : "", all->script.len);
	struct understudy *made = NULL;

	task_shield(true);
	err_free(understudy_make(all->box, (const char *const *)env, script,
				 &made)); // then there is none
	mem_free_list(env);
	all->making = false;
	if (made && (all->over || all->ready || !understudy_waits(made))) {
		understudy_drop(made);
	} else if (made) {
		if (!*script && !all->pristine.len)
			buf_str(&all->pristine, buf_view(&made->state));
		made->all = all;
		all->ready = made;
		loop_set_timer(all->box->loop, &all->timer, loop_now(all->box->loop) + KEEP_MS);
	}
	box_drop(all->box);
}

static void understudy_on_timer(struct timer *timer)
{
	struct understudies *all = link_of(timer, struct understudies, timer);

	if (all->ready) {
		understudy_drop(all->ready);
	} else if (!all->making && all->env && box_is_alive(all->box)) {
		all->making = true;
		box_hold(all->box);
		task_start(all->box->loop, "understudy.make", understudy_make_task, all);
	}
}

// Nothing that it would read at its start.
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

static struct understudies *all_of(struct box *box)
{
	struct understudies *all = box->understudies;

	if (!all) {
		all = box->understudies = mem_new_of(struct understudies);
		all->box = box;
		all->timer.due = understudy_on_timer;
		all->script = BUF_INIT(STATE_MAX);
		all->pristine = BUF_INIT(STATE_MAX);
	}
	return all;
}

void understudy_want(struct box *box, const char *const *env)
{
	struct understudies *all = all_of(box);

	if (all->over || all->ready || all->making || all->env)
		return;
	all->env = copy_env(env);
	loop_set_timer(box->loop, &all->timer, loop_now(box->loop) + SOON_MS);
}

void understudy_rehearse(struct box *box, struct str script)
{
	struct understudies *all = all_of(box);

	buf_clear(&all->script);
	buf_str(&all->script, script);
}

struct str understudy_pristine(const struct box *box)
{
	return box->understudies ? buf_view(&box->understudies->pristine) : STR("");
}

struct understudy *understudy_take(struct box *box)
{
	struct understudies *all = box->understudies;
	struct understudy *taken = all ? take_ptr(all->ready) : NULL;

	if (!taken)
		return NULL;
	taken->all = NULL;
	loop_drop_timer(box->loop, &all->timer);
	return taken;
}

struct str understudy_state(const struct understudy *understudy)
{
	return buf_view(&understudy->state);
}

bool understudy_waits(const struct understudy *understudy)
{
	return understudy->exec->phase == EXEC_RUNNING && understudy->exec->stage == STAGE_LIMIT &&
	       box_is_alive(understudy->exec->box);
}

// From now on it is that command.
static void understudy_become(struct exec *exec, const struct exec_spec *spec)
{
	struct loop *loop = exec->box->loop;

	tape_hold(spec->tape);
	pipes_turn(&exec->pipes, spec->tape);
	pipes_rest(&exec->pipes);
	tape_drop(exec->tape);
	exec->tape = spec->tape;
	tape_started(exec->tape, exec->pid, exec->conv);
	exec->meter_us = box_leaf_used_us(exec->leaf);
	exec->oom_kills = box_oom_kills(exec->box);
	exec->begun_us = clock_us();
	exec->wall_ms = spec->wall_ms;
	exec->cpu_ms = spec->cpu_ms;
	exec->taped = true;
	exec_retag(exec, spec); // before it is told what to do
	if (exec->wall_ms)
		loop_set_timer(loop, &exec->timer, loop_now(loop) + (int64_t)exec->wall_ms);
	if (exec->cpu_ms)
		box_leaf_limit(exec->leaf, exec->cpu_ms * 1000);
}

fallible understudy_begin(struct understudy *understudy, const struct exec_spec *spec,
			  struct str cue, struct exec **out)
{
	struct exec *exec = understudy->exec;
	struct err *err;

	if (!understudy_waits(understudy)) {
		understudy_drop(understudy);
		return word_box_lost();
	}
	exec_on_end(exec, NULL, NULL);
	buf_done(&understudy->state);
	free(understudy);
	understudy_become(exec, spec);
	// Not before pid 1 has its tag: the next daemon would not know it for what it is.
	err = exec_await_tag(exec, loop_now(exec->box->loop) + WRITE_MS);
	if (!err)
		err = exec_write(exec, cue.at, cue.len, loop_now(exec->box->loop) + WRITE_MS);
	exec_close_stdin(exec);
	// One that dies while it is told is a command that died: its end says so.
	if (err && err_kind(err) != ERR_CONFLICT) {
		exec_filed(exec);
		exec_kill(exec);
		exec_drop(exec);
		return err;
	}
	err_free(err);
	*out = exec;
	return OK;
}

uint32_t understudy_count(const struct box *box)
{
	return box->understudies && box->understudies->ready;
}

void understudies_rest(struct box *box)
{
	struct understudies *all = box->understudies;
	struct exec_result result;
	struct exec *exec;

	if (!all || !all->ready)
		return;
	exec = all->ready->exec;
	exec_hold(exec);
	loop_drop_timer(box->loop, &all->timer);
	understudy_drop(all->ready);
	err_free(exec_wait(exec, loop_now(box->loop) + LEAVE_MS, &result));
	exec_let_go(exec);
}

void understudies_end(struct box *box)
{
	struct understudies *all = box->understudies;

	if (!all || all->over)
		return;
	all->over = true;
	loop_drop_timer(box->loop, &all->timer);
	if (all->ready)
		understudy_drop(all->ready);
}

void understudies_free(struct box *box)
{
	if (!box->understudies)
		return;
	mem_free_list(box->understudies->env);
	buf_done(&box->understudies->script);
	buf_done(&box->understudies->pristine);
	free(take_ptr(box->understudies));
}
