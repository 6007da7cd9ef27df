// A process that names a session starts where that session stands, but beside it: a bash of its own
// that first restores what the session's shell tells of its state. So it cannot disturb the
// session, and its kill, its limits and its output are its own. Where an understudy waits it need
// not even start, and restores only what differs (box/prewarmed_shell.h). A state that is too large
// for an argument comes by its stdin, before what it is to read there itself. The start is told
// when the process has all of the state, so that it runs whatever happens to the daemon; a process
// that has not read it after FEED_MS is told as started, too, and depends on this daemon until it
// has.
#include "manager/spawn.h"

#include "base/mem.h"
#include "protocol/shell.h"
#include "protocol/shell_state.h"

// Boxes that are smaller keep what an understudy would take.
#define PIDS_ENOUGH 32
#define MEMORY_ENOUGH (64u << 20)
#define FEED_MS 10000
#define ARGUMENT_MAX (96 * 1024) // of a script; the kernel takes 128 KiB

// What a process starts with, beside what it was asked to.
struct stance {
	struct session *session;
	struct manager_exec_spec use;
	struct env_map env;
	struct buf prelude, script, input;
	size_t fed; // bytes of `input` that are the state
	struct prewarmed *prewarmed;
	struct buf cue;
	char *cwd;
};

static void stance_done(struct stance *stance)
{
	if (stance->session)
		session_unref(stance->session);
	env_map_done(&stance->env);
	buf_done(&stance->prelude);
	buf_done(&stance->script);
	buf_done(&stance->input);
	if (stance->prewarmed)
		prewarmed_drop(stance->prewarmed);
	buf_done(&stance->cue);
	free(stance->cwd);
}

static void spawn_add_env(struct env_map *env, const char *const *from)
{
	for (; from && *from; from++) {
		struct str value = str_of(*from), name;

		str_cut(&value, '=', &name);
		if (strcmp(*from, SHELL_FIRST_ENV) != 0)
			env_map_set(env, name, value);
	}
}

// Where the session stands now, and what is relative to that.
static void stand_at(struct stance *stance, const struct manager_exec_spec *run)
{
	const char *place;

	if (!stance->session) // exec_env_make() knows where the box begins
		return;
	place = session_cwd(stance->session);
	if (!run->cwd)
		stance->cwd = mem_str(place);
	else
		stance->cwd = mem_fmt("%s%s%s", run->cwd[0] == '/' ? "" : place,
				      run->cwd[0] == '/' ? "" : "/", run->cwd);
	stance->use.cwd = stance->cwd;
}

// What the session has unset, or exports no more, is not to come back by the environment.
static void forget_env(struct buf *out, const char *const *env)
{
	buf_text(out, "\\builtin unset -v");
	for (; env && *env; env++) {
		struct str value = str_of(*env), name;

		str_cut(&value, '=', &name);
		buf_fmt(out, " " STR_FMT, STR_ARG(name));
	}
	buf_char(out, '\n');
}

// By its stdin, and then what was to be there.
static void feed_script(struct stance *stance, const struct manager_exec_spec *run,
			const struct spawn *spec)
{
	bool keep = run->stdin_bytes.at || spec->open_stdin;

	stance->input = BUF_INIT(stance->script.len + run->stdin_bytes.len + 4096);
	shell_feed(&stance->input, keep, buf_view(&stance->script));
	stance->fed = stance->input.len;
	if (run->stdin_bytes.at)
		buf_str(&stance->input, run->stdin_bytes);
	stance->use.stdin_bytes = buf_view(&stance->input);
	stance->use.command = SHELL_READER;
}

// Another user has no part in a session's state but its place. Waits while the session is busy.
static fallible spawn_stand_with(struct stance *stance, const struct manager_exec_spec *run,
				 const struct spawn *spec)
{
	struct session *session = stance->session;
	auto_buf whole = BUF_INIT(3 * SESSION_PRELUDE_MAX);

	if (run->user || !run->command) {
		stand_at(stance, run);
		return OK;
	}
	spawn_add_env(&stance->env, session_env(session));
	for (size_t i = 0; run->env && i < run->env->count; i++)
		env_map_set(&stance->env, str_of(run->env->at[i].name),
			    str_of(run->env->at[i].value));
	stance->use.env = &stance->env;
	stance->prelude = BUF_INIT(2 * SESSION_PRELUDE_MAX);
	TRY(session_prelude(session, &stance->prelude), "ask for the state of a session");
	stand_at(stance, run);
	if (!stance->prelude.len)
		return OK;
	forget_env(&whole, session_env(session));
	buf_str(&whole, buf_view(&stance->prelude));
	stance->script = BUF_INIT(8 * SESSION_PRELUDE_MAX + 8 * strlen(run->command));
	shell_wrap(&stance->script, buf_view(&whole), run->env, run->cwd ? stance->cwd : NULL,
		   str_of(run->command));
	if (!buf_ok(&stance->script) || !buf_ok(&whole))
		return err_new(TOO_LARGE, "command_too_large", "the command is too large");
	if (stance->script.len > ARGUMENT_MAX)
		feed_script(stance, run, spec);
	else
		stance->use.command = stance->script.at;
	return OK;
}

// Only a plain command: a directory that cannot be entered is told before anything runs.
static bool suits_prewarmed(const struct manager_exec_spec *run, const struct spawn *spec)
{
	return run->command && !run->user && !run->cwd && !run->stdin_bytes.at && !spec->open_stdin;
}

// The next one shall have less to change: by how much one that has done nothing differs.
static void rehearse(struct box *box, const struct shell_state *there)
{
	auto_buf change = BUF_INIT(ARGUMENT_MAX), script = BUF_INIT(ARGUMENT_MAX);
	auto_buf options = BUF_INIT(ARGUMENT_MAX);
	struct shell_state pristine;

	if (!shell_state_read(prewarmed_pristine(box), &pristine) ||
	    !shell_state_change(&pristine, there, &change, &options))
		return;
	shell_rehearsal(&script, there->place, buf_view(&change));
	if (buf_ok(&change) && buf_ok(&script))
		prewarmed_rehearse(box, buf_view(&script));
}

// The command, behind what the understudy has to change. Without a cue it is done the other way.
static fallible write_cue(struct stance *stance, struct box *box,
			  const struct manager_exec_spec *run)
{
	size_t max = 2 * SESSION_PRELUDE_MAX + 8 * strlen(run->command);
	auto_buf told = BUF_INIT(SESSION_PRELUDE_MAX);
	auto_buf change = BUF_INIT(max), script = BUF_INIT(max);
	auto_buf options = BUF_INIT(max);
	struct shell_state here, there;
	bool changes;

	TRY(session_state(stance->session, &told), "ask for the state of a session");
	if (!shell_state_read(buf_view(&told), &there) || !there.stands ||
	    !shell_state_read(prewarmed_state(stance->prewarmed), &here))
		return OK;
	changes = shell_state_change(&here, &there, &change, &options);
	if (change.len || !changes)
		rehearse(box, &there);
	if (!changes)
		return OK;
	buf_str(&change, buf_view(&options));
	for (size_t i = 0; run->env && i < run->env->count; i++)
		shell_export(&script, str_of(run->env->at[i].name), run->env->at[i].value);
	buf_text(&script, "\\builtin eval ");
	shell_quote(&script, str_of(run->command));
	stance->cue = BUF_INIT(2 * max);
	shell_cue(&stance->cue, there.place, buf_view(&change), buf_view(&script));
	stance->cue.failed |= change.failed || script.failed;
	return OK;
}

// As spawn_stand_with(), by an understudy. False: there is none.
static fallible stand_in(const struct box_ref *ref, struct stance *stance,
			 const struct manager_exec_spec *run, const struct spawn *spec, bool *out)
{
	const struct limits *limits = &ref->entry->record.limits;

	*out = false;
	if (!suits_prewarmed(run, spec) || limits->pids < PIDS_ENOUGH ||
	    limits->memory < MEMORY_ENOUGH)
		return OK;
	stance->prewarmed = prewarmed_take(ref->box);
	if (stance->prewarmed)
		TRY(write_cue(stance, ref->box, run));
	prewarmed_want(ref->box, session_env(stance->session));
	*out = stance->cue.len && buf_ok(&stance->cue) && prewarmed_waits(stance->prewarmed);
	return OK;
}

fallible spawn_process(const struct box_ref *ref, const struct manager_exec_spec *run,
		       const struct spawn *spec, struct proc **out)
{
	on_exit_call(stance_done) struct stance stance = {.use = *run};
	auto_exec_env exec_env = {0};
	struct proc_spec proc = {
		.id = spec->id,
		.session = spec->session,
		.command = spec->shown,
		.auto_cleanup = spec->auto_cleanup,
		.keep_error = spec->keep_error,
		.exec = &exec_env.spec,
	};
	bool stands = false;

	TRY(box_ref_admit(ref));
	// One that is not there has no state yet, and need not be made for this.
	if (spec->seat.len)
		stance.session = session_find(ref->box, spec->seat);
	if (stance.session)
		TRY(stand_in(ref, &stance, run, spec, &stands));
	if (stands) {
		proc.prewarmed = &stance.prewarmed;
		proc.cue = buf_view(&stance.cue);
	} else if (stance.session) {
		TRY(spawn_stand_with(&stance, run, spec));
	} else {
		stand_at(&stance, run);
	}
	exec_env_make(ref, &stance.use, &exec_env);
	exec_env.spec.open_stdin = spec->open_stdin;
	TRY(box_ref_explain(procs_start(ref->box, &proc, out)));
	if (stance.fed) { // a process that is slow to read has begun all the same
		struct loop *loop = ref->entry->manager->loop;

		err_free(proc_await_input(*out, stance.fed, loop_now(loop) + FEED_MS));
	}
	return OK;
}
