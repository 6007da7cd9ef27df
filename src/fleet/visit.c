#include "fleet/visit.h"

#include "base/mem.h"
#include "base/weak.h"
#include "box/rest.h"
#include "fleet/access.h"
#include "fleet/adopt_queue.h"
#include "fleet/life.h"
#include "fleet/pause.h"
#include "fleet/trust.h"
#include "fleet/ways.h"

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define SETTLED_MS 30000 // from a start to a sandbox that is taken up

static void stay(struct entry *entry, struct visit *out)
{
	entry->visits++;
	if (entry->box)
		box_set_user(entry->box, entry->record.user);
	*out = (struct visit){.entry = entry, .box = entry->box};
}

fallible visit_begin(struct fleet *fleet, const struct who *who, struct str key, struct visit *out)
{
	struct entry *entry;
	struct err *err;

	TRY(access_ask(who, ACCESS_USE));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	entry_hold(entry);
	err = pause_wake(entry);
	if (err) {
		entry_drop(entry);
		return err;
	}
	if (entry->way_due)
		way_mend(entry);
	stay(entry, out);
	return OK;
}

fallible visit_look(struct fleet *fleet, const struct who *who, struct str key, struct visit *out)
{
	int64_t deadline = loop_now(fleet->loop) + SETTLED_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_USE));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	entry_hold(entry);
	TRY(adopt_await(entry, deadline));
	while (entry->listed && entry->moving && !entry->box)
		TRY(bell_wait(&entry->changed, deadline), "wait for the sandbox to be taken up");
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

void visit_end(struct visit *visit)
{
	struct entry *entry = visit->entry;
	bool looks = visit->looks;

	*visit = (struct visit){0};
	if (!entry)
		return;
	entry->visits--;
	if (!looks)
		entry->idle.busy_ms = loop_now(entry->fleet->loop);
	entry_drop(entry);
}

// Commands that run in all boxes of a tenant.
static uint64_t execs_of(const struct fleet *fleet, const struct account *account)
{
	uint64_t sum = 0;

	list_each (at, &fleet->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry->account == account && entry->box)
			sum += box_execs(entry->box);
	}
	return sum;
}

fallible visit_admit(const struct visit *visit)
{
	struct fleet *fleet = visit->entry->fleet;
	struct account *account = visit->entry->account;
	struct err *err;

	if (account->tenant.quota.execs)
		TRY(account_ask_exec(account, execs_of(fleet, account)));
	err = admit_exec(fleet->admit, loop_now(fleet->loop), box_execs(visit->box));
	if (!table_rest_files(fleet, err))
		return err;
	err_free(err);
	return admit_exec(fleet->admit, loop_now(fleet->loop), box_execs(visit->box));
}

static void lay_over(struct pairs *base, const struct pairs *over)
{
	for (size_t i = 0; over && i < over->count; i++)
		pairs_set(base, str_of(over->at[i].name), str_of(over->at[i].value));
}

static void visit_dress(struct outfit *outfit, const struct record *record,
			const struct use_spec *use)
{
	struct pairs *pairs = &outfit->pairs;
	auto_free char *java = mem_fmt("-XX:MaxRAM=%llu",
				       (unsigned long long)record->limits.memory);

	pairs_set(pairs, STR("PATH"), STR(PATH_DEFAULT));
	if (!use->user && !record->user[0])
		pairs_set(pairs, STR("HOME"), STR("/root"));
	pairs_set(pairs, STR("LANG"), STR("C.UTF-8"));
	// The JVM sizes its heap by the host's memory, which it reads past the cgroup it is in.
	pairs_set(pairs, STR("JAVA_TOOL_OPTIONS"), str_of(java));
	if (record->network && policy_sees(record->network))
		trust_set_env(pairs);
	lay_over(pairs, &record->env);
	for (size_t i = 0; record->network && i < record->network->secret_count; i++)
		pairs_set(pairs, str_of(record->network->secrets[i].name),
			  str_of(record->network->secrets[i].placeholder));
	lay_over(pairs, use->env);
	outfit->env = mem_new((pairs->count + 1) * sizeof(char *));
	for (size_t i = 0; i < pairs->count; i++)
		outfit->env[i] = mem_fmt("%s=%s", pairs->at[i].name, pairs->at[i].value);
}

static uint64_t tighter(uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

void outfit_make(const struct visit *visit, const struct use_spec *use, struct outfit *out)
{
	const struct record *record = &visit->entry->record;
	const struct limits *limits = &record->limits;

	*out = (struct outfit){.argv = {use->command, NULL}};
	if (use->cwd && use->cwd[0] != '/')
		out->cwd = mem_fmt("%s/%s", record_workdir(record), use->cwd);
	visit_dress(out, record, use);
	out->spec = (struct exec_spec){
		.shell = use->command != NULL,
		.argv = use->command ? out->argv : use->argv,
		.env = (const char *const *)out->env,
		.add_home = use->user && !pairs_get(&out->pairs, STR("HOME")),
		.cwd = out->cwd	  ? out->cwd
		       : use->cwd ? use->cwd
				  : record_workdir(record),
		.user = use->user ? use->user : "",
		.stdin_bytes = use->stdin_bytes,
		.output_cap = weak(OUTPUT) ? INT64_MAX : limits->output,
		.cpu_ms = weak(CPU_TIME) ? 0 : tighter(use->cpu_ms, limits->cpu_time_ms),
		.wall_ms = tighter(use->wall_ms, limits->wall_time_ms),
		.cpu_milli = limits->cpu_milli,
	};
}

void outfit_done(struct outfit *outfit)
{
	mem_free_list(outfit->env);
	free(outfit->cwd);
	pairs_done(&outfit->pairs);
}

// A box that ends under a command will not come back: a client must not be told to try again.
fallible visit_explain(struct err *err)
{
	if (err && err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), "box_lost"))
		return err_hint(err_recast(err, ERR_GONE, "box_lost", "the sandbox is gone"),
				"create another");
	return err;
}
