// Background processes. A process that names a session runs in a bash of its own that first
// restores the state of the session's shell. So it cannot disturb the session, and has its own
// kill, limits and output. A prewarmed shell saves the start and restores only the difference
// (box/prewarmed_shell.h). A state too large for an argument is sent through stdin, before the
// process's own input. The start is reported when the process has read the whole state, so that it
// survives the daemon; a process that has not read it after FEED_MS is reported as started, too,
// and depends on this daemon until it has.
#include "manager/spawn.h"

#include "base/mem.h"
#include "protocol/shell.h"
#include "protocol/shell_state.h"

// Smaller boxes get no prewarmed shell.
#define PIDS_ENOUGH 32
#define MEMORY_ENOUGH (64u << 20)
#define FEED_MS 10000
#define ARGUMENT_MAX (96 * 1024) // of a script; the kernel's limit is 128 KiB (MAX_ARG_STRLEN)

// The state that a process starts with, besides its request.
struct start_state {
	struct session *session;
	struct manager_exec_spec use;
	struct env_map env;
	struct buf prelude, script, input;
	size_t fed; // bytes of `input` that belong to the state
	struct prewarmed *prewarmed;
	struct buf cue;
	char *cwd;
};

static void start_state_done(struct start_state *start_state)
{
	if (start_state->session)
		session_unref(start_state->session);
	env_map_done(&start_state->env);
	buf_done(&start_state->prelude);
	buf_done(&start_state->script);
	buf_done(&start_state->input);
	if (start_state->prewarmed)
		prewarmed_drop(start_state->prewarmed);
	buf_done(&start_state->cue);
	free(start_state->cwd);
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

// Resolves the working directory against that of the session.
static void start_state_cwd(struct start_state *start_state, const struct manager_exec_spec *run)
{
	const char *place;

	if (!start_state->session) // exec_env_make() knows the box's directory
		return;
	place = session_cwd(start_state->session);
	if (!run->cwd)
		start_state->cwd = mem_str(place);
	else
		start_state->cwd = mem_fmt("%s%s%s", run->cwd[0] == '/' ? "" : place,
					   run->cwd[0] == '/' ? "" : "/", run->cwd);
	start_state->use.cwd = start_state->cwd;
}

// A variable that the session has unset or no longer exports must not come back from the
// environment.
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

// Sends the state through stdin, followed by the process's own input.
static void feed_script(struct start_state *start_state, const struct manager_exec_spec *run,
			const struct spawn *spec)
{
	bool keep = run->stdin_bytes.at || spec->open_stdin;

	start_state->input = BUF_INIT(start_state->script.len + run->stdin_bytes.len + 4096);
	shell_feed(&start_state->input, keep, buf_view(&start_state->script));
	start_state->fed = start_state->input.len;
	if (run->stdin_bytes.at)
		buf_str(&start_state->input, run->stdin_bytes);
	start_state->use.stdin_bytes = buf_view(&start_state->input);
	start_state->use.command = SHELL_READER;
}

// Another user gets only the directory of the session's state. Waits while the session is busy.
static fallible spawn_from_session(struct start_state *start_state,
				   const struct manager_exec_spec *run, const struct spawn *spec)
{
	struct session *session = start_state->session;
	auto_buf whole = BUF_INIT(3 * SESSION_PRELUDE_MAX);

	if (run->user || !run->command) {
		start_state_cwd(start_state, run);
		return OK;
	}
	spawn_add_env(&start_state->env, session_env(session));
	if (run->env)
		env_map_add(&start_state->env, run->env);
	start_state->use.env = &start_state->env;
	start_state->prelude = BUF_INIT(2 * SESSION_PRELUDE_MAX);
	TRY(session_prelude(session, &start_state->prelude), "ask for the state of a session");
	start_state_cwd(start_state, run);
	if (!start_state->prelude.len)
		return OK;
	forget_env(&whole, session_env(session));
	buf_str(&whole, buf_view(&start_state->prelude));
	start_state->script = BUF_INIT(8 * SESSION_PRELUDE_MAX + 8 * strlen(run->command));
	shell_wrap(&start_state->script, buf_view(&whole), run->env,
		   run->cwd ? start_state->cwd : NULL, str_of(run->command));
	if (!buf_ok(&start_state->script) || !buf_ok(&whole))
		return err_new(TOO_LARGE, "command_too_large", "the command is too large");
	if (start_state->script.len > ARGUMENT_MAX)
		feed_script(start_state, run, spec);
	else
		start_state->use.command = start_state->script.at;
	return OK;
}

// Only for a plain command: a directory that cannot be entered must be reported before anything
// runs.
static bool suits_prewarmed(const struct manager_exec_spec *run, const struct spawn *spec)
{
	return run->command && !run->user && !run->cwd && !run->stdin_bytes.at && !spec->open_stdin;
}

// Gives the next prewarmed shell the difference between the session and an unused shell.
static void prewarmed_adjust(struct box *box, const struct shell_state *there)
{
	auto_buf change = BUF_INIT(ARGUMENT_MAX), script = BUF_INIT(ARGUMENT_MAX);
	auto_buf options = BUF_INIT(ARGUMENT_MAX);
	struct shell_state pristine;

	if (!shell_state_read(prewarmed_pristine(box), &pristine) ||
	    !shell_state_change(&pristine, there, &change, &options))
		return;
	shell_rehearsal(&script, there->place, buf_view(&change));
	if (buf_ok(&change) && buf_ok(&script))
		prewarmed_prepare(box, buf_view(&script));
}

// Writes the command, preceded by the changes to the prewarmed shell's state. On failure the
// process is started without a prewarmed shell.
static fallible prewarmed_write_command(struct start_state *start_state, struct box *box,
					const struct manager_exec_spec *run)
{
	size_t max = 2 * SESSION_PRELUDE_MAX + 8 * strlen(run->command);
	auto_buf told = BUF_INIT(SESSION_PRELUDE_MAX);
	auto_buf change = BUF_INIT(max), script = BUF_INIT(max);
	auto_buf options = BUF_INIT(max);
	struct shell_state here, there;
	bool changes;

	TRY(session_state(start_state->session, &told), "ask for the state of a session");
	if (!shell_state_read(buf_view(&told), &there) || !there.stands ||
	    !shell_state_read(prewarmed_state(start_state->prewarmed), &here))
		return OK;
	changes = shell_state_change(&here, &there, &change, &options);
	if (change.len || !changes)
		prewarmed_adjust(box, &there);
	if (!changes)
		return OK;
	buf_str(&change, buf_view(&options));
	for (size_t i = 0; run->env && i < run->env->count; i++)
		shell_export(&script, str_of(run->env->at[i].name), run->env->at[i].value);
	buf_text(&script, "\\builtin eval ");
	shell_quote(&script, str_of(run->command));
	start_state->cue = BUF_INIT(2 * max);
	shell_cue(&start_state->cue, there.place, buf_view(&change), buf_view(&script));
	start_state->cue.failed |= change.failed || script.failed;
	return OK;
}

// As spawn_from_session(), with a prewarmed shell. False: there is none.
static fallible spawn_prewarmed(const struct box_ref *ref, struct start_state *start_state,
				const struct manager_exec_spec *run, const struct spawn *spec,
				bool *out)
{
	const struct limits *limits = &ref->entry->record.limits;

	*out = false;
	if (!suits_prewarmed(run, spec) || limits->pids < PIDS_ENOUGH ||
	    limits->memory < MEMORY_ENOUGH)
		return OK;
	start_state->prewarmed = prewarmed_take(ref->box);
	if (start_state->prewarmed)
		TRY(prewarmed_write_command(start_state, ref->box, run));
	prewarmed_want(ref->box, session_env(start_state->session));
	*out = start_state->cue.len && buf_ok(&start_state->cue) &&
	       prewarmed_waits(start_state->prewarmed);
	return OK;
}

fallible spawn_process(const struct box_ref *ref, const struct manager_exec_spec *run,
		       const struct spawn *spec, struct proc **out)
{
	on_exit_call(start_state_done) struct start_state start_state = {.use = *run};
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
	// A session that does not exist has no state, and is not created for this.
	if (spec->state_of.len)
		start_state.session = session_find(ref->box, spec->state_of);
	if (start_state.session)
		TRY(spawn_prewarmed(ref, &start_state, run, spec, &stands));
	if (stands) {
		proc.prewarmed = &start_state.prewarmed;
		proc.cue = buf_view(&start_state.cue);
	} else if (start_state.session) {
		TRY(spawn_from_session(&start_state, run, spec));
	} else {
		start_state_cwd(&start_state, run);
	}
	exec_env_make(ref, &start_state.use, &exec_env);
	exec_env.spec.open_stdin = spec->open_stdin;
	TRY(box_ref_explain(procs_start(ref->box, &proc, out)));
	if (start_state.fed) { // a process that reads slowly has started all the same
		struct loop *loop = ref->entry->manager->loop;

		err_free(proc_await_input(*out, start_state.fed, loop_now(loop) + FEED_MS));
	}
	return OK;
}
