// Adapter from requests to box/context: fills in environment, directory, user and limits of the
// box, asks for admission, and logs a limit that ended a cell.
#include "manager/contexts.h"

#include "manager/warm.h"

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

fallible contexts_create(const struct box_ref *ref, const struct contexts_spec *spec,
			 struct context **out)
{
	struct manager_exec_spec run = {.command = "", .env = spec->env, .cwd = spec->cwd};
	auto_exec_env exec_env = {0};
	struct context_spec made;

	TRY(box_ref_admit(ref));
	exec_env_make(ref, &run, &exec_env);
	made = (struct context_spec){
		.language = spec->language,
		.env = exec_env.spec.env,
		.cwd = exec_env.spec.cwd,
		.output_cap = exec_env.spec.output_cap,
		.cpu_milli = exec_env.spec.cpu_milli,
		.timeout_ms = tighter(spec->timeout_ms, ref->entry->record.limits.wall_time_ms),
		.is_default = spec->is_default,
	};
	TRY(box_ref_explain(context_create(ref->box, &made, out)));
	warm_next(ref, spec->language);
	return OK;
}

fallible contexts_default(const struct box_ref *ref, enum context_language language,
			  struct context **out)
{
	struct contexts_spec spec = {.language = language, .is_default = true};
	struct context *context = context_default(ref->box, language);

	if (!context)
		return contexts_create(ref, &spec, out);
	*out = context;
	return OK;
}

fallible contexts_restart(const struct box_ref *ref, struct context *context)
{
	TRY(box_ref_explain(context_restart(context)));
	warm_next(ref, context_view(context).language);
	return OK;
}

fallible contexts_run(const struct box_ref *ref, struct context *context, struct str code,
		      uint64_t timeout_ms, struct context_run **out)
{
	uint64_t limit = ref->entry->record.limits.wall_time_ms;

	return box_ref_explain(
		context_run(context, code, timeout_ms ? tighter(timeout_ms, limit) : 0, out));
}

void contexts_report(const struct box_ref *ref, const struct context_result *result)
{
	enum ending ending = result->timed_out ? ENDING_WALL_LIMIT : result->exec.ending;

	if (result->timed_out || (result->end == CONTEXT_DIED && ending == ENDING_OOM))
		ending_report(ending, ref->entry->record.id);
}
