// A process that names a session starts where that session stands, but beside it: a bash of its own
// that first restores what the session's shell tells of its state. So it cannot disturb the
// session, and its kill, its limits and its output are its own.
#include "fleet/spawn.h"

#include "base/mem.h"
#include "model/shell.h"

// What a process starts with, beside what it was asked to.
struct stance {
	struct session *session;
	struct use_spec use;
	struct pairs env;
	struct buf prelude, script;
	char *cwd;
};

static void stance_done(struct stance *stance)
{
	if (stance->session)
		session_drop(stance->session);
	pairs_done(&stance->env);
	buf_done(&stance->prelude);
	buf_done(&stance->script);
	free(stance->cwd);
}

static void add_env(struct pairs *env, const char *const *from)
{
	for (; from && *from; from++) {
		struct str value = str_of(*from), name;

		str_cut(&value, '=', &name);
		if (strcmp(*from, SHELL_FIRST_ENV) != 0)
			pairs_set(env, name, value);
	}
}

// Where the session stands now, or would stand, and what is relative to that.
static void stand_at(struct stance *stance, const struct use_spec *use)
{
	const char *place = stance->session ? session_cwd(stance->session) : "/workspace";

	if (!use->cwd)
		stance->cwd = mem_str(place);
	else
		stance->cwd = mem_fmt("%s%s%s", use->cwd[0] == '/' ? "" : place,
				      use->cwd[0] == '/' ? "" : "/", use->cwd);
	stance->use.cwd = stance->cwd;
}

// Another user has no part in a session's state but its place. Waits while the session is busy.
static fallible stand_with(struct stance *stance, const struct use_spec *use)
{
	struct session *session = stance->session;

	if (use->user || !use->command) {
		stand_at(stance, use);
		return OK;
	}
	add_env(&stance->env, session_env(session));
	for (size_t i = 0; use->env && i < use->env->count; i++)
		pairs_set(&stance->env, str_of(use->env->at[i].name),
			  str_of(use->env->at[i].value));
	stance->use.env = &stance->env;
	stance->prelude = BUF_INIT(SESSION_PRELUDE_MAX);
	TRY(session_prelude(session, &stance->prelude), "ask for the state of a session");
	stand_at(stance, use);
	if (!stance->prelude.len)
		return OK;
	stance->script = BUF_INIT(2 * SESSION_PRELUDE_MAX + 8 * strlen(use->command));
	shell_wrap(&stance->script, buf_view(&stance->prelude), use->env,
		   use->cwd ? stance->cwd : NULL, str_of(use->command));
	if (!buf_ok(&stance->script))
		return err_new(TOO_LARGE, "command_too_large", "the command is too large");
	stance->use.command = stance->script.at;
	return OK;
}

fallible spawn_process(const struct visit *visit, const struct use_spec *use,
		       const struct spawn *spec, struct proc **out)
{
	struct fleet *fleet = visit->entry->fleet;
	on_exit_call(stance_done) struct stance stance = {.use = *use};
	auto_outfit outfit = {0};
	struct proc_spec proc = {
		.id = spec->id,
		.session = spec->session,
		.command = spec->shown,
		.auto_cleanup = spec->auto_cleanup,
		.keep_error = spec->keep_error,
		.exec = &outfit.spec,
	};

	TRY(admit_exec(fleet->admit, loop_now(fleet->loop), box_execs(visit->box)));
	// One that is not there has no state yet, and need not be made for this.
	if (spec->seat.len)
		stance.session = session_find(visit->box, spec->seat);
	if (stance.session)
		TRY(stand_with(&stance, use));
	else
		stand_at(&stance, use);
	outfit_make(visit, &stance.use, &outfit);
	outfit.spec.open_stdin = spec->open_stdin;
	return visit_explain(procs_start(visit->box, &proc, out));
}
