// The sandbox of an execution: its spec from request and profile, the steps of a start, its
// command, its counters, its end. Calls to the manager use the identity of the execution's tenant.
// A sandbox is known by the id that the record names before it is made; it belongs to one attempt.
//
// syscalls: write fallocate
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/faults.h"
#include "base/log.h"
#include "base/mem.h"
#include "execution/private.h"
#include "loop/offload.h"
#include "manager/box_ref.h"
#include "manager/life.h"
#include "manager/named_secrets.h"
#include "manager/network_attach.h"
#include "manager/pull.h"
#include "manager/sampler.h"
#include "manager/volumes.h"
#include "types/timers.h"

#define CONTEXT_PATH "/tmp/cove-context.json"
#define QUIET_MS 10000
#define REACH_MS 120000 // that results wait for a sandbox that is not adopted yet
#define REACH_AGAIN_MS 1000
#define DESCRIBE_MS 30000 // that a create waits for the registry
#define NETWORK_MAX (4u << 20)
#define LARGE_MAX 2 // starts that hold a large request in memory
#define PROBE_PATH "/workspace/.cove-probe"
#define PROBE_LEAST FILEOP_SMALL // a disk without room for so much is full …
#define PROBE_PART 64		 // … and this part of its limit, which drivers hold back

// The tenant, with all rights of one: the request was authorised when it came.
struct who sandbox_who(const struct execution *execution)
{
	struct who who = WHO_COVE;

	who.role = WHO_TENANT;
	snprintf(who.tenant, sizeof(who.tenant), "%s", execution->tenant);
	return who;
}

static struct manager *sandbox_manager(const struct execution *execution)
{
	return execution->all->options.manager;
}

static const char *sandbox_name(const struct execution *execution)
{
	return execution->attempts[execution->attempt_count - 1].box;
}

static struct str sandbox_id(const struct execution *execution)
{
	return str_of(sandbox_name(execution));
}

static struct entry *sandbox_entry(const struct execution *execution)
{
	struct who who = sandbox_who(execution);

	return access_find(sandbox_manager(execution), &who, sandbox_id(execution));
}

static fallible sandbox_ref(const struct execution *execution, struct box_ref *out)
{
	struct who who = sandbox_who(execution);

	return box_ref_begin(sandbox_manager(execution), &who, sandbox_id(execution), out);
}

// ------------------------------------------------------------------------------ its spec

static void sandbox_put_list(struct json_out *out, const char *key, char *const *list)
{
	json_put_begin(out, key, '[');
	for (; list && *list; list++)
		json_add_text(out, *list);
	json_end(out, ']');
}

// Requests are counted where they can be seen: allowed names are inspected unless the request says
// which.
static fallible sandbox_inspect(struct policy *policy, uint64_t requests)
{
	auto_buf text = BUF_INIT(NETWORK_MAX);
	struct json_out out = json_to(&text);
	auto_json json = NULL;
	auto_policy seen = POLICY_INIT(POLICY_ALLOW);

	if (!requests || policy->inspect_count)
		return OK;
	json_begin(&out, '{');
	json_put_begin(&out, "inspect", '[');
	for (size_t i = 0; i < policy->allow_count && i < POLICY_INSPECT_MAX; i++) {
		const struct policy_host *host = &policy->allow[i];

		auto_free char *name = mem_fmt("%s%s", host->is_suffix ? "*." : "", host->name);

		if (!host->is_literal)
			json_add_text(&out, name);
	}
	json_end(&out, ']');
	json_end(&out, '}');
	TRY(json_read_any(buf_view(&text), &json));
	TRY(policy_read(json, POLICY_ALLOW, &seen));
	policy->inspect = take_ptr(seen.inspect);
	policy->inspect_count = seen.inspect_count;
	seen.inspect_count = 0;
	return OK;
}

static fallible sandbox_policy(const struct job *request, const struct profile *profile,
			       const struct profile_limits *limits, struct spec *spec)
{
	auto_buf text = BUF_INIT(NETWORK_MAX), names = BUF_INIT(NETWORK_MAX);
	struct json_out out = json_to(&text), list = json_to(&names);
	auto_json network = NULL;
	auto_json secrets = NULL;
	auto_policy policy = POLICY_INIT(POLICY_ALLOW);

	json_begin(&out, '{');
	sandbox_put_list(&out, "allow", profile ? profile->allow : NULL);
	json_end(&out, '}');
	json_begin(&list, '[');
	for (char **name = profile ? profile->secrets : NULL; name && *name; name++)
		json_add_text(&list, *name);
	json_end(&list, ']');
	TRY(json_read(buf_view(&text), &network));
	TRY(json_read(buf_view(&names), &secrets));
	TRY(policy_read(request->network ? request->network : network, POLICY_ALLOW, &policy));
	TRY(policy_add_named(secrets, &policy));
	TRY(policy_add_named(request->secrets, &policy));
	TRY(policy_inherit(&policy, NULL));
	if (limits->network_requests < policy.budgets.requests)
		policy.budgets.requests = limits->network_requests;
	TRY(sandbox_inspect(&policy, policy.budgets.requests != BUDGET_NONE));
	spec->mode_said = true; // else it would get the default of sandboxes
	spec->network = policy_new(&policy);
	return OK;
}

static uint64_t sandbox_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static fallible sandbox_spec(const struct execution *execution, const struct job *request,
			     const struct profile *profile, struct spec *out)
{
	const struct spec_bounds *bounds = manager_bounds(sandbox_manager(execution));
	const struct profile_limits *limits = &execution->limits;

	TRY(spec_read(NULL, bounds, out));
	if (execution->want.image)
		out->image = mem_str(execution->want.image);
	else if (request->template.at)
		snprintf(out->template, sizeof(out->template), STR_FMT, STR_ARG(request->template));
	else if (profile && profile->template[0])
		snprintf(out->template, sizeof(out->template), "%s", profile->template);
	out->pull = execution->want.pull;
	out->image_allowed = execution->want.is_pinned;
	out->limits.memory = sandbox_least(limits->memory, bounds->memory_max);
	out->limits.cpu_milli = sandbox_least(limits->cpu_milli, bounds->cpu_milli_max);
	out->limits.pids = limits->pids;
	out->limits.disk = limits->storage;
	out->ephemeral = true;
	out->retention.keep_alive = true;
	env_map_add(&out->labels, &request->labels);
	env_map_add(&out->env, &request->env);
	volume_mounts_copy(&request->volumes, &out->volumes);
	return sandbox_policy(request, profile, limits, out);
}

fallible sandbox_check(struct execution *execution, const struct who *who,
		       const struct job *request, const struct profile *profile)
{
	struct manager *manager = sandbox_manager(execution);
	struct template template;
	bool is_there = false;
	auto_spec spec = {0};

	TRY(sandbox_spec(execution, request, profile, &spec));
	snprintf(spec.tenant, sizeof(spec.tenant), "%s", who->tenant);
	TRY(named_secrets_fill(manager, who->tenant, spec.network));
	TRY(volumes_fill(manager, who->tenant, &spec.volumes));
	if (request->network && ask_host(manager->ask))
		TRY(attach_fit(manager, accounts_get(&manager->accounts, who->tenant), &spec));
	if (spec.image) {
		TRY(pull_ahead(manager, who, &execution->want,
			       loop_now(manager->loop) + DESCRIBE_MS, &is_there));
		if (is_there)
			execution_set_pull(execution, PULL_THERE);
		return OK;
	}
	templates_default(manager, who, spec.template);
	if (!strcmp(spec.template, "host"))
		return templates_resolve(manager, who, spec.template);
	return templates_get(manager, who, str_of(spec.template), &template);
}

// Its tenant was allowed to have it when the request came.
fallible sandbox_pull(struct execution *execution, int64_t deadline)
{
	struct who who = sandbox_who(execution);

	if (execution->by_operator)
		who.role = WHO_OPERATOR;
	return pull_wanted(sandbox_manager(execution), &who, &execution->want, deadline);
}

// ------------------------------------------------------------------------- steps of a start

struct start {
	struct execution *execution;
	struct job request;
	struct arena *arena;
	struct box_ref ref;
	bool is_large; // counted in large
};

static const struct profile *sandbox_profile(const struct execution *execution)
{
	return profiles_find(&execution->all->profiles, str_of(execution->profile));
}

// A list of a profile: a reload of the configuration frees it during a wait.
static const char **sandbox_copy_list(struct arena *arena, char *const *list)
{
	const char **copy;
	size_t count = 0;

	while (list && list[count])
		count++;
	if (!count)
		return NULL;
	copy = arena_take(arena, (count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = arena_fmt(arena, "%s", list[i]);
	return copy;
}

static bool sandbox_may_connect(struct manager *manager, const char *tenant)
{
	const struct order_host *host = ask_last_host(manager->ask);
	const struct account *account = accounts_get(&manager->accounts, tenant);

	return manager->egress && host && strcmp(host->net, "none") != 0 &&
	       tenant_network(&account->tenant) != POLICY_OFF;
}

// The record of the execution names its sandbox: whatever a crash leaves of it is removed.
static fallible sandbox_await_stored(void *arg)
{
	return execution_await_stored(arg);
}

// A tenant without a network has executions without one, if they ask for none.
static fallible sandbox_make(struct start *start)
{
	struct execution *execution = start->execution;
	const struct profile *profile = sandbox_profile(execution);
	struct manager *manager = sandbox_manager(execution);
	struct who who = sandbox_who(execution);
	struct create_grant grant = {&who, sandbox_await_stored, execution};
	auto_spec spec = {0};
	const struct record *record;
	bool made;

	TRY(sandbox_spec(execution, &start->request, profile, &spec));
	if (!start->request.network && !sandbox_may_connect(manager, who.tenant)) {
		policy_free(spec.network);
		spec.network = policy_new(&POLICY_INIT(POLICY_OFF));
	}
	snprintf(spec.id, sizeof(spec.id), "%s", sandbox_name(execution));
	env_map_set(&spec.labels, STR("cove/execution"), str_of(execution->id));
	env_map_set(&spec.labels, STR("cove/type"), str_of(execution->profile));
	env_map_set(&spec.env, STR("COVE_EXECUTION"), str_of(execution->id));
	if (execution->task_id)
		env_map_set(&spec.env, STR("COVE_TASK_ID"), str_of(execution->task_id));
	if (execution->agent_type)
		env_map_set(&spec.env, STR("COVE_AGENT_TYPE"), str_of(execution->agent_type));
	if (start->request.context.at)
		env_map_set(&spec.env, STR("COVE_CONTEXT"), STR(CONTEXT_PATH));
	return create_box(manager, &grant, &spec, CREATE_NEW, &record, &made);
}

static fallible start_provision(struct start *start)
{
	struct execution *execution = start->execution;
	int64_t until = loop_now(execution->all->loop) + lease_deadline(&execution->lease) -
			clock_steady_ms();

	TRY(faults_meet_until(FAULT_LAUNCH, execution->id, until), "start in time");
	if (!sandbox_entry(execution) && execution->want.image)
		TRY(sandbox_pull(execution, until), "pull its image");
	if (!sandbox_entry(execution))
		TRY(sandbox_make(start), "make the sandbox");
	return sandbox_ref(execution, &start->ref);
}

static struct files start_files(const struct start *start)
{
	return (struct files){
		.box = start->ref.box,
		.user = start->ref.entry->record.user,
		.deadline = loop_now(start->execution->all->loop) + timer_ms(TIMER_WORKSPACE),
	};
}

// Fails with capacity_unknown, which is no failure of the attempt, unless the sandbox has gone.
static fallible start_measure(struct start *start, struct files_space *out)
{
	struct executions *all = start->execution->all;
	struct files files = start_files(start);
	struct err *err = faults_meet_until(FAULT_CAPACITY, start->execution->id,
					    loop_now(all->loop) + timer_ms(TIMER_CAPACITY));

	if (!err)
		err = files_space(&files, "/workspace", out);
	if (!err || err_kind(err) == ERR_GONE || err_kind(err) == ERR_NOT_FOUND ||
	    err_kind(err) == ERR_NO_SPACE)
		return err;
	return err_recast(err, ERR_UNAVAILABLE, "capacity_unknown",
			  "the free space of the sandbox cannot be measured");
}

// What the request brings must fit. One that brings nothing needs no file worker.
static fallible start_check_disk(struct start *start)
{
	uint64_t bytes = start->request.context.len;
	struct files_space space = {0};

	for (size_t i = 0; i < start->request.file_count; i++)
		bytes += start->request.files[i].bytes.len;
	if (!bytes)
		return OK;
	TRY(start_measure(start, &space));
	if (space.free >= bytes)
		return OK;
	return err_new(NO_SPACE, "files_too_large", "the files do not fit on the disk");
}

struct write_out {
	int fd;
	struct str bytes;
	int errnum;
};

static void write_out_run(void *arg)
{
	struct write_out *job = arg;

	while (job->bytes.len && !job->errnum) {
		ssize_t got = write(job->fd, job->bytes.at, job->bytes.len);

		if (got < 0 && errno != EINTR)
			job->errnum = errno;
		else if (got > 0)
			job->bytes = str_skip(job->bytes, (size_t)got);
	}
}

static fallible start_write(const struct files *files, const char *path, uint32_t mode,
			    struct str bytes)
{
	struct files_upload *upload = NULL;
	struct write_out job = {.bytes = bytes};
	struct fileop_stat stat;

	if (bytes.len <= FILEOP_SMALL)
		return files_write(files, path, FILEOP_PARENTS, mode, bytes.len ? bytes : STR(""));
	TRY(files_begin(files, path, FILEOP_PARENTS, mode, &upload));
	job.fd = files_upload_fd(upload);
	offload_run(write_out_run, &job);
	if (job.errnum) {
		files_abort(upload);
		if (job.errnum == ENOSPC || job.errnum == EDQUOT)
			return err_new(NO_SPACE, "files_too_large",
				       "the files do not fit on the disk");
		return err_sys(job.errnum, "write a file of the request");
	}
	return files_commit(upload, files->deadline, &stat);
}

// pid 1 has made /workspace. Without context and files no file worker is started.
static fallible start_make_workspace(struct start *start)
{
	struct files files = start_files(start);
	const struct job *request = &start->request;

	if (request->context.at)
		TRY(start_write(&files, CONTEXT_PATH, 0600, request->context), "write the context");
	for (size_t i = 0; i < request->file_count; i++)
		TRY(start_write(&files, request->files[i].path, request->files[i].mode,
				request->files[i].bytes),
		    "write a file of the request");
	return OK;
}

static fallible start_admit(struct start *start)
{
	return box_ref_admit(&start->ref);
}

static const struct {
	const char *word;
	fallible (*run)(struct start *start);
} start_steps[] = {
	{"sandbox_provision", start_provision},
	{"disk_check", start_check_disk},
	{"workspace_setup", start_make_workspace},
	{"runner_start", start_admit},
};

// A large request takes several times its size while it is written: few at a time.
static fallible start_take_turn(struct start *start)
{
	struct executions *all = start->execution->all;
	int64_t until = loop_now(all->loop) + lease_deadline(&start->execution->lease) -
			clock_steady_ms();

	if (start->execution->request.at)
		return OK;
	while (all->large >= LARGE_MAX)
		TRY(condition_wait(&all->large_left, until), "wait for other large requests");
	all->large++;
	start->is_large = true;
	return OK;
}

static fallible start_run(struct start *start)
{
	struct execution *execution = start->execution;
	uint64_t generation = execution->lease.generation;
	struct str text;

	TRY(start_take_turn(start));
	if (!execution->request.at)
		TRY(execution_await_stored(execution));
	TRY(execution_request(execution, start->arena, &text));
	TRY(execution_read_job(text, true, &start->request));
	for (size_t i = 0; i < sizeof(start_steps) / sizeof(*start_steps); i++) {
		// A late step does nothing: the attempt was given up meanwhile.
		if (execution->lease.state != LEASE_STARTING ||
		    execution->lease.generation != generation)
			return err_new(CANCELLED, "late", "the start was given up");
		execution_note_step(execution, start_steps[i].word);
		TRY(start_steps[i].run(start));
	}
	return OK;
}

fallible sandbox_launch(struct execution *execution)
{
	struct start start = {.execution = execution, .arena = arena_new()};
	struct err *err = start_run(&start);

	box_ref_end(&start.ref);
	job_done(&start.request);
	arena_free(start.arena);
	if (start.is_large) {
		execution->all->large--;
		condition_signal(&execution->all->large_left);
	}
	return err;
}

// ---------------------------------------------------------------------------- its command

// The values of its secrets are masked in its log from now on.
static void sandbox_hide(const struct execution *execution, const struct box_ref *ref)
{
	struct results_attempt attempt = {execution->tenant, execution->id,
					  execution->attempt_count};

	if (execution->all->options.results)
		results_hide(execution->all->options.results, &attempt, ref->entry->record.network);
}

fallible sandbox_find_proc(const struct execution *execution, struct proc **out)
{
	struct who who = sandbox_who(execution);
	auto_box_ref ref = {0};

	TRY(box_ref_look(sandbox_manager(execution), &who, sandbox_id(execution), &ref));
	sandbox_hide(execution, &ref);
	*out = procs_find(ref.box, STR(EXECUTION_PROC));
	return OK;
}

static fallible sandbox_start(struct execution *execution, const struct job *request)
{
	const struct profile *profile = sandbox_profile(execution);
	auto_box_ref ref = {0};
	auto_exec_env exec_env = {0};
	auto_free char *shown = NULL;
	struct manager_exec_spec run = {.stdin_bytes = request->stdin_bytes};
	struct proc_spec proc = {.id = STR(EXECUTION_PROC)};

	if (request->command.at)
		run.command = arena_dup(request->arena, request->command.at, request->command.len);
	else if (request->argv)
		run.argv = request->argv;
	else
		run.argv = sandbox_copy_list(request->arena, profile ? profile->argv : NULL);
	if (!run.command && !run.argv)
		return err_new(NOT_FOUND, "no_command", "the profile has no command any more");
	if (request->cwd.at)
		run.cwd = arena_dup(request->arena, request->cwd.at, request->cwd.len);
	TRY(sandbox_ref(execution, &ref));
	exec_env_make(&ref, &run, &exec_env);
	exec_env.spec.cpu_ms = exec_tighter(exec_env.spec.cpu_ms, execution->limits.cpu_time_ms);
	exec_env.spec.wall_ms = 0; // the execution has its own, which outlives the daemon
	shown = mem_str(run.command ? run.command : run.argv[0]);
	proc.command = str_of(shown);
	proc.exec = &exec_env.spec;
	sandbox_hide(execution, &ref);
	TRY(box_ref_explain(procs_start(ref.box, &proc, &execution->proc)));
	if (request->stdin_bytes.at)
		err_free(proc_await_input(execution->proc, request->stdin_bytes.len,
					  loop_now(execution->all->loop) + QUIET_MS));
	return OK;
}

fallible sandbox_begin(struct execution *execution)
{
	auto_arena arena = arena_new();
	auto_job request = {0};
	struct str text;

	TRY(execution_request(execution, arena, &text));
	TRY(execution_read_job(text, false, &request));
	return sandbox_start(execution, &request);
}

void sandbox_quiet(struct execution *execution)
{
	struct proc *proc = execution->proc;

	if (!proc || proc_is_over(proc))
		return;
	err_free(proc_signal(proc, SIGKILL));
	err_free(proc_wait(proc, loop_now(execution->all->loop) + QUIET_MS));
}

// ------------------------------------------------------------------------------ counters

void sandbox_measure(struct execution *execution)
{
	struct execution_usage *usage = &execution->usage;
	struct who who = sandbox_who(execution);
	struct order_usage used;
	struct attach_view net;
	auto_err err = OK;

	usage_ask(sandbox_manager(execution), sandbox_name(execution), &used);
	if (used.cpu_us != ORDER_USAGE_UNKNOWN && used.cpu_us / 1000 > usage->cpu_ms)
		usage->cpu_ms = used.cpu_us / 1000;
	if (used.memory != ORDER_USAGE_UNKNOWN && used.memory > usage->memory_peak)
		usage->memory_peak = used.memory;
	if (used.disk != ORDER_USAGE_UNKNOWN)
		usage->storage = used.disk;
	if (execution->proc && proc_is_over(execution->proc)) {
		const struct exec_result *result = proc_look(execution->proc).result;

		if (result && result->max_rss > usage->memory_peak)
			usage->memory_peak = result->max_rss;
		if (result && result->cpu_ms > usage->cpu_ms)
			usage->cpu_ms = result->cpu_ms;
	}
	err = attach_look(sandbox_manager(execution), &who, sandbox_id(execution), &net);
	if (!err) {
		usage->network_requests = net.counts.requests;
		usage->bytes_in = net.counts.bytes_in;
		usage->bytes_out = net.counts.bytes_out;
		usage->is_opaque = net.counts.opaque;
	}
	execution->measured = true;
}

void sandbox_sample(const struct execution *execution)
{
	struct entry *entry = sandbox_entry(execution);

	if (entry)
		sampler_before_end(entry);
}

// The sandbox is of this attempt alone, so each kill was one of the attempt.
bool sandbox_met_oom(const struct execution *execution)
{
	const struct entry *entry = execution->attempt_count ? sandbox_entry(execution) : NULL;

	return entry && entry->box && box_oom_kills(entry->box) > 0;
}

bool sandbox_was_refused(const struct execution *execution)
{
	struct who who = sandbox_who(execution);
	struct attach_view net;
	auto_err err = attach_look(sandbox_manager(execution), &who, sandbox_id(execution), &net);

	return !err && net.counts.denied &&
	       net.counts.requests >= execution->limits.network_requests;
}

struct probe {
	int fd;
	uint64_t bytes;
	int errnum;
};

static void probe_run(void *arg)
{
	struct probe *probe = arg;

	if (fallocate(probe->fd, 0, 0, (off_t)probe->bytes))
		probe->errnum = errno;
}

// By trying: what statfs reports of a shared pool says nothing about the quota of one sandbox. A
// driver may have granted a sandbox at its limit a little more since its command failed.
bool sandbox_is_full(const struct execution *execution)
{
	struct probe probe = {.bytes = PROBE_LEAST + execution->limits.storage / PROBE_PART};
	struct files_upload *upload = NULL;
	auto_box_ref ref = {0};
	auto_err err = sandbox_ref(execution, &ref);
	struct files files;

	if (err)
		return false;
	files = (struct files){
		.box = ref.box,
		.user = "",
		.deadline = loop_now(execution->all->loop) + timer_ms(TIMER_CAPACITY),
	};
	err = files_begin(&files, PROBE_PATH, 0, 0600, &upload);
	if (err)
		return err_kind(err) == ERR_NO_SPACE;
	probe.fd = files_upload_fd(upload);
	offload_run(probe_run, &probe);
	files_abort(upload);
	return probe.errnum == ENOSPC || probe.errnum == EDQUOT;
}

// ------------------------------------------------------------------------------- its end

enum lease_seen sandbox_observe(struct execution *execution, char why[LEASE_ERROR_MAX])
{
	const struct manager *manager = sandbox_manager(execution);
	struct entry *entry;
	auto_err err = faults_meet_until(FAULT_OBSERVE, execution->id,
					 loop_now(execution->all->loop) +
						 timer_ms(TIMER_INSPECTION));

	if (!err && (!manager->settled || manager->unknown))
		err = err_new(UNAVAILABLE, "starting", "cove is still finding out what there is");
	if (err) {
		snprintf(why, LEASE_ERROR_MAX, "%s", err_message(err));
		return LEASE_SEES_FAILED;
	}
	entry = execution->attempt_count ? sandbox_entry(execution) : NULL;
	if (!entry)
		return LEASE_SEES_NOTHING;
	snprintf(why, LEASE_ERROR_MAX, "the sandbox is still there");
	switch (entry->record.state) {
	case STATE_RUNNING:
	case STATE_PAUSED:
	case STATE_FROZEN:
	case STATE_CREATING:
		return entry->ending || entry->destroying ? LEASE_SEES_OTHER : LEASE_SEES_MATCH;
	default:
		return LEASE_SEES_OTHER; // its processes are gone, or going
	}
}

fallible sandbox_remove(struct execution *execution)
{
	struct who who = sandbox_who(execution);
	struct err *err = life_delete_owned(sandbox_manager(execution), &who,
					    sandbox_id(execution));

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

// ------------------------------------------------------------------------------- results

static uint64_t sandbox_artifacts_max(const struct job *request, const struct execution *execution)
{
	return request->artifact_bytes && request->artifact_bytes < execution->limits.storage
		       ? request->artifact_bytes
		       : execution->limits.storage;
}

static void sandbox_take_results(struct execution *execution, const struct results_found *found)
{
	const struct store_result *result = &found->result;

	free(execution->last_output);
	execution->last_output = found->last.len ? mem_dup(found->last.at, found->last.len) : NULL;
	for (size_t i = 0; i < found->last.len; i++)
		if (!execution->last_output[i])
			execution->last_output[i] = '?'; // it is a text from here on
	execution->artifacts.count = result->files;
	execution->artifacts.bytes = result->bytes;
	execution->artifacts.partial = result->partial;
	free(execution->artifacts.missing);
	execution->artifacts.missing = mem_str(
		result->missing && result->missing[0] ? result->missing : "[]");
}

// A sandbox that is there, and cannot be reached yet, is waited for: its files are not missing.
static fallible sandbox_reach(struct execution *execution, struct box_ref *out)
{
	struct loop *loop = execution->all->loop;
	int64_t end = loop_now(loop) + REACH_MS;
	struct who who = sandbox_who(execution);
	char why[LEASE_ERROR_MAX] = "";

	for (;;) {
		struct err *err = faults_meet_until(FAULT_PROBE, execution->id, end);
		enum lease_seen seen;

		if (!err)
			err = box_ref_look(sandbox_manager(execution), &who, sandbox_id(execution),
					   out);
		seen = err ? sandbox_observe(execution, why) : LEASE_SEES_MATCH;

		if (!err || loop_now(loop) >= end ||
		    (seen != LEASE_SEES_MATCH && seen != LEASE_SEES_FAILED))
			return err;
		err_free(err);
		err_free(task_sleep_until(loop_now(loop) + REACH_AGAIN_MS));
	}
}

fallible sandbox_collect(struct execution *execution, struct arena *arena,
			 struct results_found *out)
{
	struct results *results = execution->all->options.results;
	struct results_attempt attempt = {execution->tenant, execution->id,
					  execution->attempt_count};
	const struct profile *profile;
	auto_job request = {0};
	auto_box_ref ref = {0};
	struct results_spec spec = {0};
	char why[LEASE_ERROR_MAX] = "";
	struct str text;
	auto_err err = OK;

	if (!results)
		return OK;
	TRY(execution_request(execution, arena, &text));
	TRY(execution_read_job(text, false, &request));
	spec.globs = request.globs;
	profile = sandbox_profile(execution);
	if (!spec.globs && profile)
		spec.globs = sandbox_copy_list(arena, profile->artifacts);
	spec.max_bytes = sandbox_artifacts_max(&request, execution);
	err = sandbox_reach(execution, &ref);
	if (err && sandbox_observe(execution, why) == LEASE_SEES_MATCH)
		return take_ptr(err); // unknown is not missing
	if (!err) {
		spec.user = ref.entry->record.user;
		spec.base = request.cwd.at && request.cwd.at[0] == '/'
				    ? arena_dup(arena, request.cwd.at, request.cwd.len)
				    : record_workdir(&ref.entry->record);
		sandbox_hide(execution, &ref);
	}
	TRY(results_collect(results, &attempt,
			    !err && ref.entry->record.state == STATE_RUNNING ? ref.box : NULL,
			    execution->proc ? proc_tape(execution->proc) : NULL, &spec, arena, out),
	    "keep the results");
	sandbox_take_results(execution, out);
	return OK;
}

void sandbox_settle(struct execution *execution, const struct results_found *found, bool is_kept)
{
	struct results_attempt attempt = {execution->tenant, execution->id,
					  execution->attempt_count};

	results_settle(execution->all->options.results, &attempt, found, is_kept);
}
