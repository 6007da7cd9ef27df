#include "fleet/contexts.h"

#include "base/log.h"
#include "fleet/warm.h"

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

fallible contexts_create(const struct visit *visit, const struct contexts_spec *spec,
			 struct context **out)
{
	struct use_spec use = {.command = "", .env = spec->env, .cwd = spec->cwd};
	auto_outfit outfit = {0};
	struct context_spec made;

	TRY(visit_admit(visit));
	outfit_make(visit, &use, &outfit);
	made = (struct context_spec){
		.language = spec->language,
		.env = outfit.spec.env,
		.cwd = outfit.spec.cwd,
		.output_cap = outfit.spec.output_cap,
		.cpu_milli = outfit.spec.cpu_milli,
		.timeout_ms = tighter(spec->timeout_ms, visit->entry->record.limits.wall_time_ms),
		.is_default = spec->is_default,
	};
	TRY(visit_explain(context_create(visit->box, &made, out)));
	warm_next(visit, spec->language);
	return OK;
}

fallible contexts_default(const struct visit *visit, enum context_language language,
			  struct context **out)
{
	struct contexts_spec spec = {.language = language, .is_default = true};
	struct context *context = context_default(visit->box, language);

	if (!context)
		return contexts_create(visit, &spec, out);
	*out = context;
	return OK;
}

fallible contexts_restart(const struct visit *visit, struct context *context)
{
	TRY(visit_explain(context_restart(context)));
	warm_next(visit, context_view(context).language);
	return OK;
}

fallible contexts_run(const struct visit *visit, struct context *context, struct str code,
		      uint64_t timeout_ms, struct context_run **out)
{
	uint64_t limit = visit->entry->record.limits.wall_time_ms;

	return visit_explain(
		context_run(context, code, timeout_ms ? tighter(timeout_ms, limit) : 0, out));
}

void contexts_report(const struct visit *visit, const struct context_result *result)
{
	enum ending ending = result->timed_out ? ENDING_WALL_LIMIT : result->exec.ending;

	if (result->timed_out || (result->end == CONTEXT_DIED && ending == ENDING_OOM))
		log_event_of(visit->entry->record.id, LOG_INFO, "security", "event", "limit_hit",
			     "severity", "low", "sandbox", visit->entry->record.id, "limit",
			     ending_word(ending), NULL);
}
