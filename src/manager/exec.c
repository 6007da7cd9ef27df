// Commands, shell sessions and interpreters of a box, for requests: fills in environment,
// directory, user and limits of the box, asks for admission, and reports a limit that ended a
// command or cell. Dropping a manager_exec does not end its command. A change of the box's
// environment reaches running shells before their next command. Prewarming is skipped without error
// when the box or the host is short of memory or pids.
#include "manager/exec.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"
#include "manager/ca_install.h"

#define GATHER 2048 // of the task's stack
#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
uint64_t exec_tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static void exec_env_fill(struct exec_env *exec_env, const struct record *record,
			  const struct manager_exec_spec *run)
{
	struct env_map *env_map = &exec_env->env_map;
	auto_free char *java = mem_fmt("-XX:MaxRAM=%llu",
				       (unsigned long long)record->limits.memory);

	env_map_set(env_map, STR("PATH"), STR(PATH_DEFAULT));
	if (!run->user && !record->user[0])
		env_map_set(env_map, STR("HOME"), STR("/root"));
	env_map_set(env_map, STR("LANG"), STR("C.UTF-8"));
	// The JVM sizes its heap by the host's memory, which it reads past its cgroup.
	env_map_set(env_map, STR("JAVA_TOOL_OPTIONS"), str_of(java));
	if (record->network && policy_sees(record->network))
		ca_install_set_env(env_map);
	env_map_add(env_map, &record->env);
	for (size_t i = 0; record->network && i < record->network->secret_count; i++) {
		const struct policy_secret *secret = &record->network->secrets[i];

		env_map_set(env_map, str_of(secret->name),
			    str_of(weak(PLACEHOLDER) ? secret->value : secret->placeholder));
	}
	if (run->env)
		env_map_add(env_map, run->env);
	exec_env->env = mem_new((env_map->count + 1) * sizeof(char *));
	for (size_t i = 0; i < env_map->count; i++)
		exec_env->env[i] = mem_fmt("%s=%s", env_map->at[i].name, env_map->at[i].value);
}

void exec_env_make(const struct box_ref *ref, const struct manager_exec_spec *run,
		   struct exec_env *out)
{
	const struct record *record = &ref->entry->record;
	const struct limits *limits = &record->limits;

	*out = (struct exec_env){.argv = {run->command, NULL}};
	if (run->cwd && run->cwd[0] != '/')
		out->cwd = mem_fmt("%s/%s", record_workdir(record), run->cwd);
	exec_env_fill(out, record, run);
	out->spec = (struct exec_spec){
		.shell = run->command != NULL,
		.argv = run->command ? out->argv : run->argv,
		.env = (const char *const *)out->env,
		.add_home = run->user && !env_map_get(&out->env_map, STR("HOME")),
		.cwd = out->cwd	  ? out->cwd
		       : run->cwd ? run->cwd
				  : record_workdir(record),
		.user = run->user ? run->user : "",
		.stdin_bytes = run->stdin_bytes,
		.output_cap = weak(OUTPUT) ? INT64_MAX : limits->output,
		.cpu_ms = weak(CPU_TIME) ? 0 : exec_tighter(run->cpu_ms, limits->cpu_time_ms),
		.wall_ms = exec_tighter(run->wall_ms, limits->wall_time_ms),
		.cpu_milli = limits->cpu_milli,
	};
}

void exec_env_done(struct exec_env *exec_env)
{
	mem_free_list(exec_env->env);
	free(exec_env->cwd);
	env_map_done(&exec_env->env_map);
}

// --------------------------------------------------------------------------------------- commands

struct manager_exec {
	struct box_ref ref;
	struct exec *exec;
	uint64_t wall_ms;
};

fallible manager_exec_start(struct manager *manager, const struct who *who, struct str key,
			    const struct manager_exec_spec *spec, struct manager_exec **out)
{
	auto_box_ref ref = {0};
	auto_exec_env exec_env = {0};
	struct exec *exec = NULL;
	struct err *err;

	TRY(box_ref_begin(manager, who, key, &ref));
	TRY(box_ref_admit(&ref));
	exec_env_make(&ref, spec, &exec_env);
	err = exec_start(ref.box, &exec_env.spec, &exec);
	if (err)
		return box_ref_explain(err);
	*out = mem_new_of(struct manager_exec);
	(*out)->ref = ref;
	ref = (struct box_ref){0};
	(*out)->exec = exec;
	(*out)->wall_ms = exec_env.spec.wall_ms;
	return OK;
}

void manager_exec_drop(struct manager_exec *run)
{
	exec_unref(run->exec);
	box_ref_end(&run->ref);
	free(run);
}

int manager_exec_pid(const struct manager_exec *run)
{
	return exec_pid(run->exec);
}

struct entry *manager_exec_entry(const struct manager_exec *run)
{
	return run->ref.entry;
}

uint64_t manager_exec_wall_ms(const struct manager_exec *run)
{
	return run->wall_ms;
}

struct tape *manager_exec_tape(const struct manager_exec *run)
{
	return exec_tape(run->exec);
}

fallible manager_exec_wait(struct manager_exec *run, struct exec_result *out)
{
	struct exec_result result;

	TRY(exec_wait(run->exec, CLOCK_NEVER, &result));
	ending_report(result.ending, run->ref.entry->record.id);
	*out = result;
	return OK;
}

fallible manager_exec_gather(struct manager_exec *run, struct buf *out, struct buf *err)
{
	struct tape *tape = exec_tape(run->exec);
	uint64_t offset = 0;
	char room[GATHER];
	size_t got = 1;

	while (got) {
		enum tape_stream stream = TAPE_STDOUT;
		struct buf *to;
		size_t left;

		TRY(tape_read(tape, &offset, &stream, room, sizeof(room), &got, CLOCK_NEVER));
		to = stream == TAPE_STDOUT ? out : err;
		left = to->ceiling - to->len;
		buf_add(to, room, got < left ? got : left);
	}
	return OK;
}

// --------------------------------------------------------------------------------- shell sessions

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
		env_map_set(env_map, STR("LC_ALL"), STR("C.UTF-8"));
	if (spec->env)
		env_map_add(env_map, spec->env);
	exec_env_make(ref, &run, exec_env);
	*out = (struct session_spec){
		.env = exec_env->spec.env,
		.own = own_first(exec_env->env, spec->env),
		.cwd = exec_env->spec.cwd,
		.timeout_ms = exec_tighter(spec->timeout_ms,
					   ref->entry->record.limits.wall_time_ms),
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
		.timeout_ms = run->wall_ms ? exec_tighter(run->wall_ms, limits->wall_time_ms) : 0,
		.cpu_ms = exec_tighter(run->cpu_ms, limits->cpu_time_ms),
	};
}

void shells_report(const struct box_ref *ref, const struct session_result *result)
{
	ending_report(result->ending, ref->entry->record.id);
}

void shells_set_env(struct box *box, const struct env_map *env, const struct json *object)
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

	env_map_add(&env, &record->env);
	TRY(env_map_change_env(object, &env));
	old = record->env;
	record->env = env;
	env = old;
	ref->entry->manager->changes++;
	shells_set_env(ref->box, &record->env, object);
	sessions_settle(ref->box);
	return entry_keep_now(ref->entry);
}
