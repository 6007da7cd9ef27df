// The process of a REPL, its queue and its state file. The phases of the process are a table of
// transitions. A REPL is freed at the end of the loop turn in which the last reference is dropped:
// callbacks of its process may be on the stack.
//
// A state file has a magic, a version, and fields; one of an unknown version is ignored. It is
// written before the process starts, or while it starts, so that the next daemon knows both.
#include "box/repl.h"

#include <stdlib.h>

#include "base/mem.h"
#include "box/box_file.h"
#include "box/exec_message.h"

#define FILE_FIRST 4096
#define FILE_MAX (8u << 20)
#define FILE_ENV_MAX 8192

static const struct {
	enum repl_phase from;
	enum repl_event event;
	enum repl_phase to;
} repl_steps[] = {
	{REPL_DOWN, REPL_START, REPL_STARTING},
	{REPL_DOWN, REPL_TAKEN, REPL_TAKING},
	{REPL_DOWN, REPL_ADOPTED, REPL_READY},
	{REPL_STARTING, REPL_STARTED, REPL_GREETING},
	{REPL_STARTING, REPL_FAILED, REPL_DOWN},
	{REPL_GREETING, REPL_ANSWERED, REPL_READY},
	{REPL_GREETING, REPL_RESTART, REPL_RESTARTING},
	{REPL_GREETING, REPL_LOST, REPL_DOWN},
	{REPL_TAKING, REPL_ANSWERED, REPL_READY},
	{REPL_TAKING, REPL_RESTART, REPL_RESTARTING},
	{REPL_TAKING, REPL_LOST, REPL_DOWN},
	{REPL_READY, REPL_RESTART, REPL_RESTARTING},
	{REPL_READY, REPL_LOST, REPL_DOWN},
	{REPL_RESTARTING, REPL_RESTART_CANCELLED, REPL_READY},
	{REPL_RESTARTING, REPL_LOST, REPL_DOWN},
};

bool repl_step(struct repl *repl, enum repl_event event)
{
	for (size_t i = 0; i < sizeof(repl_steps) / sizeof(*repl_steps); i++)
		if (repl_steps[i].from == repl->phase && repl_steps[i].event == event) {
			repl->phase = repl_steps[i].to;
			return true;
		}
	return false;
}

static const struct repl_kind *repl_kind(const struct repl *repl)
{
	return repl->unit.kind->repl;
}

fallible repl_copy_err(const struct err *err)
{
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

char **repl_copy_env(const char *const *env)
{
	size_t count = 0;
	char **copy;

	while (env[count])
		count++;
	copy = mem_new((count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = mem_str(env[i]);
	return copy;
}

void repl_configure(struct repl *repl, const struct repl_spec *spec, char **env)
{
	mem_free_list(repl->env);
	free(repl->start_cwd);
	free(repl->cwd);
	repl->env = env;
	repl->start_cwd = mem_str(spec->cwd);
	repl->cwd = mem_str(spec->cwd);
	repl->timeout_ms = spec->timeout_ms;
	repl->output_cap = spec->output_cap;
	repl->cpu_milli = spec->cpu_milli;
}

static void repl_free_now(struct deferred *deferred)
{
	struct repl *repl = link_of(deferred, struct repl, free_later);

	if (repl_kind(repl)->free)
		repl_kind(repl)->free(repl);
	if (repl->shell)
		exec_filed(repl->shell->exec);
	bash_drop(repl->shell);
	tape_end(repl->unit.tape);
	err_free(repl->failure);
	mem_free_list(repl->env);
	free(repl->start_cwd);
	free(repl->cwd);
	unit_done(&repl->unit);
}

void repl_free(struct unit *unit)
{
	loop_defer(unit->loop, &((struct repl *)unit)->free_later);
}

void repl_init(struct repl *repl, const struct unit_kind *kind, struct box *box, struct str id)
{
	unit_init(&repl->unit, kind, box, id);
	repl->free_later.run = repl_free_now;
	link_init(&repl->queue);
}

enum unit_use repl_use(const struct unit *unit)
{
	const struct repl *repl = (const struct repl *)unit;

	if (repl->run || repl->waiting || repl->phase == REPL_STARTING)
		return UNIT_BUSY;
	return repl->shell ? UNIT_IDLE : UNIT_OVER;
}

bool repl_is_alive(const struct repl *repl)
{
	return repl->unit.listed && repl->phase != REPL_DOWN;
}

// ---------------------------------------------------------------------------------------- the runs

void repl_run_unref(struct repl_run *run)
{
	if (--run->refs > 0)
		return;
	buf_done(&run->words);
	tape_unref(run->tape);
	err_free(run->failure);
	unit_unref(&run->repl->unit);
	free(run);
}

void repl_run_drop(struct repl_run *run)
{
	run->holders--;
	repl_run_unref(run);
}

static void repl_run_on_limit(struct timer *timer)
{
	struct repl_run *run = link_of(timer, struct repl_run, timer);

	repl_kind(run->repl)->limit(run);
}

void repl_run_limit(struct repl_run *run, int64_t ms)
{
	struct loop *loop = run->repl->unit.loop;

	loop_set_timer(loop, &run->timer, loop_now(loop) + ms);
}

void repl_run_init(struct repl_run *run, struct repl *repl, size_t words_max, struct tape *tape)
{
	unit_ref(&repl->unit);
	run->repl = repl;
	run->refs = 1;
	run->holders = 1;
	run->words = BUF_INIT(words_max);
	run->tape = tape;
	run->timer.due = repl_run_on_limit;
	condition_init(&run->condition);
}

void repl_run_settle(struct repl_run *run)
{
	struct repl *repl = run->repl;

	if (repl->run == run)
		repl->run = NULL;
	loop_drop_timer(repl->unit.loop, &run->timer);
	run->phase = run->phase == RUN_QUEUED ? RUN_SKIPPED : RUN_ENDED;
	if (run->tape)
		tape_end(run->tape);
	condition_signal(&run->condition);
	repl_run_unref(run);
}

static void repl_run_unqueue(struct repl_run *run)
{
	link_drop(&run->link);
	run->repl->waiting--;
}

void repl_pump(struct repl *repl)
{
	const struct repl_kind *kind = repl_kind(repl);

	while (!repl->run && !link_empty(&repl->queue)) {
		struct repl_run *run = link_of(repl->queue.next, struct repl_run, link);
		bool is_wanted = run->holders || run->must_run;

		if (is_wanted && !kind->may_begin(repl, run))
			return;
		repl_run_unqueue(run);
		if (!is_wanted) {
			repl_run_settle(run);
			continue;
		}
		repl->run = run;
		run->phase = RUN_ACTIVE;
		kind->begin(repl, run);
	}
}

void repl_run_queue(struct repl_run *run)
{
	run->refs++;
	run->repl->waiting++;
	link_add(&run->repl->queue, &run->link);
	repl_pump(run->repl);
}

fallible repl_run_wait(struct repl_run *run, int64_t deadline)
{
	while (run->phase < RUN_ENDED)
		TRY(condition_wait(&run->condition, deadline), "wait for the end of a command");
	return run->failure ? repl_copy_err(run->failure) : OK;
}

void repl_fail_all(struct repl *repl, const struct err *err)
{
	while (!link_empty(&repl->queue)) {
		struct repl_run *run = link_of(repl->queue.next, struct repl_run, link);

		repl_run_unqueue(run);
		if (err && !run->must_run)
			run->failure = repl_copy_err(err);
		repl_run_settle(run);
	}
}

// ------------------------------------------------------------------------------------- the process

// Replaces a prewarmed process that ended or cannot be configured. False: it was none.
static bool repl_replace(struct repl *repl)
{
	struct bash *shell = repl->shell;

	if (repl->phase != REPL_TAKING || !repl->unit.listed || !box_is_alive(repl->unit.box))
		return false;
	repl->shell = NULL;
	repl_step(repl, REPL_LOST);
	exec_filed(shell->exec);
	bash_drop(shell);
	repl_start(repl);
	return true;
}

static void repl_on_sent(struct bash *shell)
{
	struct repl_run *run = ((struct repl *)shell->owner)->run;

	if (!run)
		return;
	run->is_sent = true;
	condition_signal(&run->condition);
}

static void repl_on_ended(struct bash *shell)
{
	struct repl *repl = shell->owner;
	const struct repl_kind *kind = repl_kind(repl);

	if (shell->status && repl_replace(repl))
		return;
	if (shell->cwd && strcmp(shell->cwd, repl->cwd) != 0) {
		free(repl->cwd);
		repl->cwd = mem_str(shell->cwd);
	}
	unit_ref(&repl->unit);
	if (repl_step(repl, REPL_ANSWERED)) {
		if (kind->answered)
			kind->answered(repl);
		condition_signal(&repl->unit.changed);
	} else if (repl->run) {
		kind->ended(repl, repl->run);
	}
	repl_pump(repl);
	unit_unref(&repl->unit);
}

static void repl_on_lost(struct bash *shell)
{
	struct repl *repl = shell->owner;
	enum repl_phase was = repl->phase;

	if (repl_replace(repl))
		return;
	unit_ref(&repl->unit);
	repl->shell = NULL;
	repl_step(repl, REPL_LOST);
	repl_kind(repl)->lost(repl, shell, was);
	condition_signal(&repl->unit.changed);
	repl_pump(repl);
	unit_unref(&repl->unit);
}

static void repl_on_spent(struct bash *shell)
{
	struct repl *repl = shell->owner;

	if (repl_kind(repl)->spent)
		repl_kind(repl)->spent(repl);
}

void repl_attach(struct repl *repl, struct bash *shell, enum repl_event event)
{
	shell->owner = repl;
	shell->sent = repl_on_sent;
	shell->ended = repl_on_ended;
	shell->lost = repl_on_lost;
	shell->spent = repl_on_spent;
	repl->shell = shell;
	repl_step(repl, event);
}

static void repl_start_task(void *arg)
{
	struct repl *repl = arg;
	struct bash *shell = NULL;
	struct err *err;

	task_shield(true);
	err = repl_kind(repl)->spawn(repl, &shell);
	if (shell)
		repl_attach(repl, shell, REPL_STARTED);
	if (shell && !repl->unit.listed)
		bash_kill(shell);
	if (err) {
		repl_step(repl, REPL_FAILED);
		err_free(repl->failure);
		repl->failure = err;
		repl_fail_all(repl, err);
	}
	condition_signal(&repl->unit.changed);
	unit_unref(&repl->unit);
}

void repl_start(struct repl *repl)
{
	if (!repl_step(repl, REPL_START))
		return;
	err_free(take_ptr(repl->failure));
	unit_ref(&repl->unit);
	task_start(repl->unit.loop, repl_kind(repl)->start_task, repl_start_task, repl);
}

fallible repl_await_ready(struct repl *repl, void (*start)(struct repl *repl), int64_t deadline)
{
	bool is_alive;

	if (repl->phase == REPL_DOWN)
		err_free(take_ptr(repl->failure));
	while (repl->unit.listed && repl->phase != REPL_READY) {
		if (repl->failure)
			return box_is_alive(repl->unit.box) ? repl_copy_err(repl->failure)
							    : exec_message_box_lost();
		if (repl->phase == REPL_DOWN)
			start(repl);
		TRY(condition_wait(&repl->unit.changed, deadline), "wait for a %s",
		    repl->unit.kind->name);
	}
	if (repl->unit.listed)
		return OK;
	is_alive = box_is_alive(repl->unit.box);
	return is_alive ? repl_kind(repl)->deleted(repl) : exec_message_box_lost();
}

void repl_kill_wait(struct repl *repl)
{
	task_shield(true);
	if (repl->shell)
		bash_kill_wait(repl->shell);
	task_shield(false);
}

// ---------------------------------------------------------------------------------- the state file

static char *repl_file_encode(const struct repl *repl, size_t room, size_t *out_len)
{
	const struct repl_kind *kind = repl_kind(repl);
	char *bytes = mem_new(room);
	uint32_t count = 0;
	struct pack out;

	while (repl->env[count])
		count++;
	pack_init(&out, bytes, room);
	pack_text(&out, str_of(kind->magic));
	pack_u32(&out, kind->version);
	pack_text(&out, str_of(repl->unit.id));
	kind->pack(repl, &out, false);
	pack_text(&out, str_of(repl->start_cwd));
	pack_u64(&out, repl->timeout_ms);
	pack_u64(&out, repl->output_cap);
	pack_u32(&out, repl->cpu_milli);
	kind->pack(repl, &out, true);
	pack_u32(&out, count);
	for (uint32_t i = 0; i < count; i++)
		pack_text(&out, str_of(repl->env[i]));
	if (out.failed && room < FILE_MAX) {
		free(bytes);
		return repl_file_encode(repl, room * 2, out_len);
	}
	*out_len = out.failed ? 0 : out.len;
	return bytes;
}

void repl_file_drop(struct repl *repl)
{
	if (repl->unit.file && !repl->file_busy && !repl->unit.box->abandoned)
		box_file_remove_later(repl->unit.box, repl->unit.kind->letter, repl->unit.file);
}

void repl_file_erase(struct repl *repl)
{
	if (repl->unit.file && !repl->unit.listed)
		box_file_remove(repl->unit.box, repl->unit.kind->letter, repl->unit.file);
}

void repl_file_write(struct repl *repl)
{
	auto_free char *bytes = NULL;
	size_t len;

	if (!repl->unit.file || !repl->unit.listed)
		return;
	bytes = repl_file_encode(repl, FILE_FIRST, &len);
	box_file_write(repl->unit.box, repl->unit.kind->letter, repl->unit.file, bytes, len);
	if (!repl->unit.listed)
		repl_file_drop(repl); // it was deleted during the write
}

static void repl_file_task(void *arg)
{
	struct repl *repl = arg;

	task_shield(true);
	while (repl->file_stale) {
		repl->file_stale = false;
		repl_file_write(repl);
	}
	repl->file_busy = false;
	if (!repl->unit.listed)
		repl_file_drop(repl);
	condition_signal(&repl->unit.changed);
	unit_unref(&repl->unit);
}

void repl_file_touch(struct repl *repl)
{
	if (!repl->unit.file)
		return;
	repl->file_stale = true;
	if (repl->file_busy)
		return;
	repl->file_busy = true;
	unit_ref(&repl->unit);
	task_start(repl->unit.loop, repl_kind(repl)->file_task, repl_file_task, repl);
}

static bool repl_file_decode(const struct repl_kind *kind, struct repl_file *file, size_t len)
{
	struct unpack in;

	unpack_init(&in, file->bytes, len);
	if (!str_is(unpack_text(&in, strlen(kind->magic) + 1), kind->magic))
		return false;
	file->version = unpack_u32(&in);
	file->id = unpack_text(&in, kind->id_max);
	kind->unpack(file, &in, false);
	file->spec.cwd = unpack_text(&in, FILE_MAX).at;
	file->spec.timeout_ms = unpack_u64(&in);
	file->spec.output_cap = unpack_u64(&in);
	file->spec.cpu_milli = unpack_u32(&in);
	kind->unpack(file, &in, true);
	file->env_count = unpack_u32(&in);
	if (in.failed || file->version < 1 || file->version > kind->version ||
	    file->env_count > FILE_ENV_MAX)
		return false;
	file->env = mem_new((file->env_count + 1) * sizeof(*file->env));
	for (uint32_t i = 0; i < file->env_count; i++)
		file->env[i] = unpack_text(&in, FILE_MAX).at;
	file->spec.env = file->env;
	return unpack_end(&in);
}

fallible repl_adopt_file(struct adoption *adoption, const struct unit_kind *kind, uint32_t number,
			 struct repl **out)
{
	struct box *box = adoption->box;
	struct repl_file file = {0};
	struct unit *other = NULL;
	size_t len = 0;
	bool is_known;

	*out = NULL;
	TRY(box_file_read(box, kind->letter, number, &file.bytes, &len));
	is_known = len && repl_file_decode(kind->repl, &file, len);
	if (is_known)
		other = unit_find(box, kind, file.id);
	if (is_known && !other)
		*out = kind->repl->restore(box, &file, number);
	if (other)
		unit_unref(other);
	if (*out)
		unit_unref(&(*out)->unit); // the table has one
	else
		box_file_remove_later(box, kind->letter, number);
	free(file.env);
	free(file.bytes);
	return OK;
}
