// References to boxes, and the environment of commands started in them. box_ref_begin() wakes a
// frozen or stopped box; box_ref_look() does not. Every begin needs one box_ref_end(): `visits` of
// the entry counts the references that keep a box from being idle.
#include "manager/box_ref.h"

#include "base/mem.h"
#include "base/weak.h"
#include "box/freeze.h"
#include "manager/access.h"
#include "manager/adopt_queue.h"
#include "manager/ca_install.h"
#include "manager/life.h"
#include "manager/network_attach.h"
#include "manager/pause.h"

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SETTLED_MS 30000 // from a start of the daemon until a sandbox is adopted

static void stay(struct entry *entry, struct box_ref *out)
{
	entry->visits++;
	if (entry->box)
		box_set_user(entry->box, entry->record.user);
	*out = (struct box_ref){.entry = entry, .box = entry->box};
}

fallible box_ref_begin(struct manager *manager, const struct who *who, struct str key,
		       struct box_ref *out)
{
	struct entry *entry;
	struct err *err;

	TRY(access_ask(who, ACCESS_USE));
	entry = access_find(manager, who, key);
	if (!entry)
		return life_absent(key);
	entry_ref(entry);
	err = pause_wake(entry);
	if (err) {
		entry_unref(entry);
		return err;
	}
	if (entry->attach_due)
		attach_mend(entry);
	stay(entry, out);
	return OK;
}

fallible box_ref_look(struct manager *manager, const struct who *who, struct str key,
		      struct box_ref *out)
{
	int64_t deadline = loop_now(manager->loop) + SETTLED_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_USE));
	entry = access_find(manager, who, key);
	if (!entry)
		return life_absent(key);
	entry_ref(entry);
	TRY(adopt_await(entry, deadline));
	while (entry->listed && entry->moving && !entry->box)
		TRY(condition_wait(&entry->changed, deadline),
		    "wait for the sandbox to be taken up");
	if (!entry->listed)
		return life_absent(key);
	if (entry->record.state == STATE_STOPPED)
		entry_need_box(entry);
	if (!entry->box)
		return err_new(UNAVAILABLE, "box_starting", "the sandbox is being made");
	stay(take_ptr(entry), out);
	out->looks = true;
	return OK;
}

void box_ref_end(struct box_ref *ref)
{
	struct entry *entry = ref->entry;
	bool looks = ref->looks;

	*ref = (struct box_ref){0};
	if (!entry)
		return;
	entry->visits--;
	if (!looks)
		entry->idle.busy_ms = loop_now(entry->manager->loop);
	entry_unref(entry);
}

// Commands running in all boxes of a tenant.
static uint64_t execs_of(const struct manager *manager, const struct account *account)
{
	uint64_t sum = 0;

	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry->account == account && entry->box)
			sum += box_execs(entry->box);
	}
	return sum;
}

fallible box_ref_admit(const struct box_ref *ref)
{
	struct manager *manager = ref->entry->manager;
	struct account *account = ref->entry->account;
	struct err *err;

	if (account->tenant.quota.execs)
		TRY(account_ask_exec(account, execs_of(manager, account)));
	err = admit_exec(manager->admit, loop_now(manager->loop), box_execs(ref->box));
	if (!table_close_files(manager, err))
		return err;
	err_free(err);
	return admit_exec(manager->admit, loop_now(manager->loop), box_execs(ref->box));
}

static void env_overlay(struct env_map *base, const struct env_map *over)
{
	for (size_t i = 0; over && i < over->count; i++)
		env_map_set(base, str_of(over->at[i].name), str_of(over->at[i].value));
}

static void box_ref_exec_env(struct exec_env *exec_env, const struct record *record,
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
	env_overlay(env_map, &record->env);
	for (size_t i = 0; record->network && i < record->network->secret_count; i++)
		env_map_set(env_map, str_of(record->network->secrets[i].name),
			    str_of(record->network->secrets[i].placeholder));
	env_overlay(env_map, run->env);
	exec_env->env = mem_new((env_map->count + 1) * sizeof(char *));
	for (size_t i = 0; i < env_map->count; i++)
		exec_env->env[i] = mem_fmt("%s=%s", env_map->at[i].name, env_map->at[i].value);
}

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

void exec_env_make(const struct box_ref *ref, const struct manager_exec_spec *run,
		   struct exec_env *out)
{
	const struct record *record = &ref->entry->record;
	const struct limits *limits = &record->limits;

	*out = (struct exec_env){.argv = {run->command, NULL}};
	if (run->cwd && run->cwd[0] != '/')
		out->cwd = mem_fmt("%s/%s", record_workdir(record), run->cwd);
	box_ref_exec_env(out, record, run);
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
		.cpu_ms = weak(CPU_TIME) ? 0 : tighter(run->cpu_ms, limits->cpu_time_ms),
		.wall_ms = tighter(run->wall_ms, limits->wall_time_ms),
		.cpu_milli = limits->cpu_milli,
	};
}

void exec_env_done(struct exec_env *exec_env)
{
	mem_free_list(exec_env->env);
	free(exec_env->cwd);
	env_map_done(&exec_env->env_map);
}

// A box that ended during a command will not come back: do not tell the client to retry.
fallible box_ref_explain(struct err *err)
{
	if (err && err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), "box_lost"))
		return err_hint(err_recast(err, ERR_GONE, "box_lost", "the sandbox is gone"),
				"create another");
	return err;
}
