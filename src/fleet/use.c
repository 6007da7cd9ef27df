// The environment of a command: what every command gets, then the box's own, then the request's.
// The limits of a command: the tighter of the request's and the box's.
#include "fleet/use.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fleet/access.h"
#include "fleet/life.h"

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define CWD_DEFAULT "/workspace"

struct use {
	struct entry *entry;
	struct exec *exec;
	uint64_t wall_ms;
};

struct environment {
	struct pairs pairs;
	char **at; // NULL-ended "NAME=value"
};

static void environment_done(struct environment *env)
{
	for (size_t i = 0; env->at && env->at[i]; i++)
		free(env->at[i]);
	free(env->at);
	pairs_done(&env->pairs);
}

static void lay_over(struct pairs *base, const struct pairs *over)
{
	for (size_t i = 0; over && i < over->count; i++)
		pairs_set(base, str_of(over->at[i].name), str_of(over->at[i].value));
}

static void assemble(struct environment *env, const struct record *record,
		     const struct use_spec *spec)
{
	struct pairs *pairs = &env->pairs;
	auto_free char *java = mem_fmt("-XX:MaxRAM=%llu",
				       (unsigned long long)record->limits.memory);

	pairs_set(pairs, STR("PATH"), STR(PATH_DEFAULT));
	if (!spec->user)
		pairs_set(pairs, STR("HOME"), STR("/root"));
	pairs_set(pairs, STR("LANG"), STR("C.UTF-8"));
	// The JVM sizes its heap by the host's memory, which it reads past the cgroup it is in.
	pairs_set(pairs, STR("JAVA_TOOL_OPTIONS"), str_of(java));
	lay_over(pairs, &record->env);
	lay_over(pairs, spec->env);
	env->at = mem_new((pairs->count + 1) * sizeof(char *));
	for (size_t i = 0; i < pairs->count; i++)
		env->at[i] = mem_fmt("%s=%s", pairs->at[i].name, pairs->at[i].value);
}

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static fallible may_execute(const struct entry *entry)
{
	switch (entry->record.state) {
	case STATE_RUNNING:
		return OK;
	case STATE_CREATING:
		return err_new(UNAVAILABLE, "box_starting", "the sandbox is being made");
	case STATE_FAILED:
		return err_hint(err_new(GONE, "box_lost", "the sandbox has failed"),
				"delete it and create another");
	default:
		return err_new(GONE, "box_deleted", "the sandbox is being deleted");
	}
}

// A box that ends under a command will not come back: a client must not be told to try again.
static fallible explain(struct err *err)
{
	if (err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), "box_lost"))
		return err_hint(err_recast(err, ERR_GONE, "box_lost", "the sandbox is gone"),
				"create another");
	return err;
}

fallible use_start(struct fleet *fleet, const struct who *who, struct str key,
		   const struct use_spec *spec, struct use **out)
{
	on_exit_call(environment_done) struct environment env = {0};
	const char *const script[] = {spec->command, NULL};
	auto_entry entry = NULL;
	struct exec *exec = NULL;
	struct err *err;

	TRY(access_ask(who, ACCESS_USE));
	entry = table_find(fleet, key);
	if (!entry)
		return life_absent();
	entry_hold(entry);
	TRY(may_execute(entry));
	TRY(admit_exec(fleet->admit, loop_now(fleet->loop)));
	assemble(&env, &entry->record, spec);

	const struct limits *limits = &entry->record.limits;
	struct exec_spec job = {
		.shell = spec->command != NULL,
		.argv = spec->command ? script : spec->argv,
		.env = (const char *const *)env.at,
		.add_home = spec->user && !pairs_get(&env.pairs, STR("HOME")),
		.cwd = spec->cwd ? spec->cwd : CWD_DEFAULT,
		.user = spec->user ? spec->user : "",
		.stdin_bytes = spec->stdin_bytes,
		.output_cap = limits->output,
		.cpu_ms = tighter(spec->cpu_ms, limits->cpu_time_ms),
		.wall_ms = tighter(spec->wall_ms, limits->wall_time_ms),
		.cpu_milli = limits->cpu_milli,
	};

	err = exec_start(entry->box, &job, &exec);
	if (err)
		return explain(err);
	*out = mem_new_of(struct use);
	(*out)->entry = take_ptr(entry);
	(*out)->exec = exec;
	(*out)->wall_ms = job.wall_ms;
	return OK;
}

void use_drop(struct use *use)
{
	exec_drop(use->exec);
	entry_drop(use->entry);
	free(use);
}

int use_pid(const struct use *use)
{
	return exec_pid(use->exec);
}

uint64_t use_wall_ms(const struct use *use)
{
	return use->wall_ms;
}

struct tape *use_tape(const struct use *use)
{
	return exec_tape(use->exec);
}

static bool is_limit(enum ending ending)
{
	return ending == ENDING_OOM || ending == ENDING_CPU_LIMIT || ending == ENDING_WALL_LIMIT;
}

fallible use_wait(struct use *use, struct exec_result *out)
{
	struct exec_result result;

	TRY(exec_wait(use->exec, CLOCK_NEVER, &result));
	if (is_limit(result.ending))
		log_event(LOG_INFO, "security", "event", "limit_hit", "severity", "low", "sandbox",
			  use->entry->record.id, "limit", ending_word(result.ending), NULL);
	*out = result;
	return OK;
}
