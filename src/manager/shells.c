// Adapter from requests to box/session: fills in environment, directory, user and limits of the
// box, and logs a limit that ended a command. A change of the box's environment reaches running
// shells before their next command.
#include "manager/shells.h"

#define LOCALE "C.UTF-8"

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

// Moves the variables of `env` that `own` names to the front, and returns how many there are.
static uint32_t own_first(char **env, const struct env_map *own)
{
	uint32_t count = 0;

	for (size_t i = 0; own && env[i]; i++) {
		struct str name, value = str_of(env[i]);
		char *entry = env[i];

		str_cut(&value, '=', &name);
		if (!env_map_get(own, name))
			continue;
		env[i] = env[count];
		env[count++] = entry;
	}
	return count;
}

// The environment of a shell: the box's, and a locale as default.
static void shells_exec_env(const struct box_ref *ref, const struct shells_spec *spec,
			    struct env_map *env_map, struct exec_env *exec_env,
			    struct session_spec *out)
{
	struct manager_exec_spec run = {.command = "", .env = env_map, .cwd = spec->cwd};

	if (!env_map_get(&ref->entry->record.env, STR("LC_ALL")))
		env_map_set(env_map, STR("LC_ALL"), STR(LOCALE));
	for (size_t i = 0; spec->env && i < spec->env->count; i++)
		env_map_set(env_map, str_of(spec->env->at[i].name), str_of(spec->env->at[i].value));
	exec_env_make(ref, &run, exec_env);
	*out = (struct session_spec){
		.env = exec_env->spec.env,
		.own = own_first(exec_env->env, spec->env),
		.cwd = exec_env->spec.cwd,
		.timeout_ms = tighter(spec->timeout_ms, ref->entry->record.limits.wall_time_ms),
		.output_cap = exec_env->spec.output_cap,
		.cpu_milli = exec_env->spec.cpu_milli,
	};
}

fallible shells_create(const struct box_ref *ref, struct str id, const struct shells_spec *spec,
		       struct session **out)
{
	auto_pairs env_map = {0};
	auto_exec_env exec_env = {0};
	struct session_spec session;

	TRY(box_ref_admit(ref));
	shells_exec_env(ref, spec, &env_map, &exec_env, &session);
	return box_ref_explain(session_create(ref->box, id, &session, out));
}

fallible shells_take(const struct box_ref *ref, struct str id, struct session **out)
{
	struct shells_spec spec = {0};
	auto_pairs env_map = {0};
	auto_exec_env exec_env = {0};
	struct session_spec session;

	*out = session_find(ref->box, id);
	if (*out)
		return OK;
	TRY(box_ref_admit(ref));
	shells_exec_env(ref, &spec, &env_map, &exec_env, &session);
	return box_ref_explain(session_take(ref->box, id, &session, out));
}

struct session_job shells_job(const struct box_ref *ref, const struct manager_exec_spec *run)
{
	const struct limits *limits = &ref->entry->record.limits;

	return (struct session_job){
		.command = str_of(run->command),
		.cwd = run->cwd,
		.env = run->env,
		.timeout_ms = run->wall_ms ? tighter(run->wall_ms, limits->wall_time_ms) : 0,
		.cpu_ms = tighter(run->cpu_ms, limits->cpu_time_ms),
	};
}

void shells_report(const struct box_ref *ref, const struct session_result *result)
{
	ending_report(result->ending, ref->entry->record.id);
}

void shells_tell_env(struct box *box, const struct env_map *env, const struct json *object)
{
	struct json *value = NULL;
	struct str name;

	for (size_t at = 0; object && json_next(object, &at, &name, &value);)
		session_offer_env(box, name, env_map_get(env, name));
}

fallible shells_change_env(const struct box_ref *ref, const struct json *object)
{
	struct record *record = &ref->entry->record;
	auto_pairs env = {0};
	struct env_map old;

	for (size_t i = 0; i < record->env.count; i++)
		env_map_set(&env, str_of(record->env.at[i].name), str_of(record->env.at[i].value));
	TRY(env_map_change_env(object, &env));
	old = record->env;
	record->env = env;
	env = old;
	ref->entry->manager->changes++;
	shells_tell_env(ref->box, &record->env, object);
	sessions_settle(ref->box);
	return entry_keep_now(ref->entry);
}
