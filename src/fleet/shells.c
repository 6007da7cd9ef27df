#include "fleet/shells.h"

#include "base/log.h"

#define LOCALE "C.UTF-8"

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

// Moves the variables of `env` that `own` names to the front, and returns how many there are.
static uint32_t own_first(char **env, const struct pairs *own)
{
	uint32_t count = 0;

	for (size_t i = 0; own && env[i]; i++) {
		struct str name, value = str_of(env[i]);
		char *entry = env[i];

		str_cut(&value, '=', &name);
		if (!pairs_get(own, name))
			continue;
		env[i] = env[count];
		env[count++] = entry;
	}
	return count;
}

// What a shell starts with: the box's outfit, and a locale that nothing else overrides.
static void shells_dress(const struct visit *visit, const struct shells_spec *spec,
			 struct pairs *pairs, struct outfit *outfit, struct session_spec *out)
{
	struct use_spec use = {.command = "", .env = pairs, .cwd = spec->cwd};

	if (!pairs_get(&visit->entry->record.env, STR("LC_ALL")))
		pairs_set(pairs, STR("LC_ALL"), STR(LOCALE));
	for (size_t i = 0; spec->env && i < spec->env->count; i++)
		pairs_set(pairs, str_of(spec->env->at[i].name), str_of(spec->env->at[i].value));
	outfit_make(visit, &use, outfit);
	*out = (struct session_spec){
		.env = outfit->spec.env,
		.own = own_first(outfit->env, spec->env),
		.cwd = outfit->spec.cwd,
		.timeout_ms = tighter(spec->timeout_ms, visit->entry->record.limits.wall_time_ms),
		.output_cap = outfit->spec.output_cap,
		.cpu_milli = outfit->spec.cpu_milli,
	};
}

fallible shells_create(const struct visit *visit, struct str id, const struct shells_spec *spec,
		       struct session **out)
{
	auto_pairs pairs = {0};
	auto_outfit outfit = {0};
	struct session_spec session;

	TRY(visit_admit(visit));
	shells_dress(visit, spec, &pairs, &outfit, &session);
	return visit_explain(session_create(visit->box, id, &session, out));
}

fallible shells_take(const struct visit *visit, struct str id, struct session **out)
{
	struct shells_spec spec = {0};
	auto_pairs pairs = {0};
	auto_outfit outfit = {0};
	struct session_spec session;

	*out = session_find(visit->box, id);
	if (*out)
		return OK;
	TRY(visit_admit(visit));
	shells_dress(visit, &spec, &pairs, &outfit, &session);
	return visit_explain(session_take(visit->box, id, &session, out));
}

struct session_job shells_job(const struct visit *visit, const struct use_spec *use)
{
	const struct limits *limits = &visit->entry->record.limits;

	return (struct session_job){
		.command = str_of(use->command),
		.cwd = use->cwd,
		.env = use->env,
		.timeout_ms = use->wall_ms ? tighter(use->wall_ms, limits->wall_time_ms) : 0,
		.cpu_ms = tighter(use->cpu_ms, limits->cpu_time_ms),
	};
}

void shells_report(const struct visit *visit, const struct session_result *result)
{
	if (result->ending == ENDING_OOM || result->ending == ENDING_CPU_LIMIT ||
	    result->ending == ENDING_WALL_LIMIT)
		log_event_of(visit->entry->record.id, LOG_INFO, "security", "event", "limit_hit",
			     "severity", "low", "sandbox", visit->entry->record.id, "limit",
			     ending_word(result->ending), NULL);
}

void shells_tell_env(struct box *box, const struct pairs *env, const struct json *object)
{
	struct json *value = NULL;
	struct str name;

	for (size_t at = 0; object && json_next(object, &at, &name, &value);)
		session_offer_env(box, name, pairs_get(env, name));
}

fallible shells_change_env(const struct visit *visit, const struct json *object)
{
	struct record *record = &visit->entry->record;
	auto_pairs env = {0};
	struct pairs old;

	for (size_t i = 0; i < record->env.count; i++)
		pairs_set(&env, str_of(record->env.at[i].name), str_of(record->env.at[i].value));
	TRY(pairs_change_env(object, &env));
	old = record->env;
	record->env = env;
	env = old;
	visit->entry->fleet->changes++;
	shells_tell_env(visit->box, &record->env, object);
	sessions_settle(visit->box);
	return entry_keep_now(visit->entry);
}
