// The backend on this host's sandboxes. Every call to the manager uses the identity of the
// session's tenant, with all rights of one: whatever sandbox id a session has, it never reaches
// another tenant's sandbox. Observing never wakes: a sandbox that is not running proves absence; a
// frozen one, or one that is changing its state, proves nothing.
//
// syscalls: fcntl close
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/discover.h"
#include "agent/local_backend_private.h"
#include "base/mem.h"
#include "manager/access.h"
#include "types/timers.h"

#define SWEEPS 3

// ------------------------------------------------------------------------- the sandbox

static fallible make_box(const struct local *local, const struct backend_site *at)
{
	struct who who = local_who(at);
	auto_spec spec = {0};
	const struct record *record;
	bool made;

	TRY(spec_read(NULL, manager_bounds(local->options.manager), &spec));
	snprintf(spec.id, sizeof(spec.id), "%s", at->sandbox);
	if (local->options.template[0])
		snprintf(spec.template, sizeof(spec.template), "%s", local->options.template);
	spec.limits = local->options.classes[at->class];
	env_map_set(&spec.labels, STR("cove/class"), str_of(owner_class_word(at->class)));
	spec.retention.sleep_after_ms = (uint64_t)timer_ms(TIMER_IDLE);
	return create_box(local->options.manager, &who, &spec, CREATE_NEW, &record, &made);
}

// Two sessions of one owner may start at the same time: wait for the other's create.
static fallible agent_local_settle(const struct local *local, const struct backend_site *at)
{
	struct loop *loop = local->options.manager->loop;
	int64_t deadline = loop_now(loop) + timer_ms(TIMER_WORKSPACE);
	struct entry *entry;

	while ((entry = local_entry(local, at))) {
		enum state state = entry->record.state;
		struct err *err;

		if (state != STATE_CREATING && state != STATE_DELETING)
			return OK;
		entry_ref(entry);
		err = condition_wait(&entry->changed, deadline);
		entry_unref(entry);
		TRY(err, "wait for the sandbox");
	}
	return OK;
}

static fallible provision(void *arg, const struct backend_site *at, bool *out_cold)
{
	const struct local *local = arg;
	struct who who = local_who(at);
	auto_box_ref box_ref_ = {0};
	struct entry *entry;

	TRY(agent_local_settle(local, at));
	entry = local_entry(local, at);
	if (entry && entry->record.state == STATE_FAILED && entry->record.ephemeral) {
		TRY(life_delete(local->options.manager, &who, str_of(at->sandbox), true),
		    "remove a failed sandbox");
		entry = NULL;
	}
	*out_cold = !entry;
	if (!entry) {
		struct err *err = make_box(local, at);

		if (err && err_kind(err) == ERR_CONFLICT) { // another create was faster
			err_free(err);
			err = agent_local_settle(local, at);
		}
		TRY(err);
	}
	return local_box_ref(local, at, &box_ref_); // wakes it
}

static fallible make_directory(const struct files *files, const char *above, const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", above, name);

	return files_mkdir(files, path, true, 0755);
}

static fallible agent_local_prepare(void *arg, const struct backend_site *at)
{
	const struct local *local = arg;
	auto_box_ref box_ref_ = {0};
	struct files files;

	TRY(local_box_ref(local, at, &box_ref_));
	files = local_files(&box_ref_, TIMER_WORKSPACE);
	TRY(make_directory(&files, WORKSPACE, at->directory));
	return make_directory(&files, HOMES, at->directory);
}

// Terminals of the session end with the session.
static fallible agent_local_end_terminal(const struct box_ref *ref, const char *id,
					 int64_t deadline)
{
	auto_term term = term_find(ref->box, str_of(id));
	struct exec_result result;
	bool box_gone;

	if (!term)
		return OK;
	term_kill(term);
	while (!term_ended(term, &result, &box_gone))
		TRY(term_await(term, UINT64_MAX, deadline), "end the terminal of a session");
	term_told(term);
	return OK;
}

static fallible agent_local_forget(void *arg, const struct backend_site *at, enum backend_end end)
{
	const struct local *local = arg;
	struct who who = local_who(at);
	auto_box_ref box_ref_ = {0};
	struct files files;
	struct err *err;

	if (!local_entry(local, at))
		return OK;
	if (end == BACKEND_END_SANDBOX)
		err = life_delete(local->options.manager, &who, str_of(at->sandbox), true);
	else
		err = local_box_ref(local, at, &box_ref_);
	// An absent sandbox needs no removal; a failed one is removed by its owner.
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_GONE)) {
		err_free(err);
		return OK;
	}
	if (err || end == BACKEND_END_SANDBOX)
		return err;
	files = local_files(&box_ref_, TIMER_WORKSPACE);
	TRY(agent_local_end_terminal(&box_ref_, at->directory, files.deadline));
	TRY(local_remove(&files, WORKSPACE, at->directory));
	return local_remove(&files, HOMES, at->directory);
}

static void agent_local_keep_alive(void *arg, const struct backend_site *at)
{
	const struct local *local = arg;
	struct entry *entry = local_entry(local, at);

	if (entry)
		entry->idle.busy_ms = loop_now(local->options.manager->loop);
}

// -------------------------------------------------------------------------- the runner

static void mark(struct env_map *env, const struct backend_site *at,
		 const struct backend_launch *what)
{
	char generation[24], workspace[ID_BOX_LEN + 16], home[ID_BOX_LEN + 16], fd[12];
	char beat[24];

	snprintf(generation, sizeof(generation), "%llu", (unsigned long long)what->generation);
	snprintf(workspace, sizeof(workspace), WORKSPACE "/%s", at->directory);
	snprintf(home, sizeof(home), HOMES "/%s", at->directory);
	snprintf(fd, sizeof(fd), "%d", TALK_DIALOGUE_FD);
	snprintf(beat, sizeof(beat), "%lld", (long long)timer_ms(TIMER_HEARTBEAT));
	for (size_t i = 0; what->env && i < what->env->count; i++)
		env_map_set(env, str_of(what->env->at[i].name), str_of(what->env->at[i].value));
	env_map_set(env, STR("HOME"), str_of(home));
	env_map_set(env, STR("COVE_WORKSPACE"), str_of(workspace));
	env_map_set(env, STR("COVE_RUNNER_FD"), str_of(fd));
	env_map_set(env, STR("COVE_HEARTBEAT_MS"), str_of(beat));
	env_map_set(env, STR(DISCOVER_SESSION), str_of(at->session));
	env_map_set(env, STR(DISCOVER_DIRECTORY), str_of(at->directory));
	env_map_set(env, STR(DISCOVER_INSTANCE), str_of(what->instance));
	env_map_set(env, STR(DISCOVER_GENERATION), str_of(generation));
}

static fallible agent_local_start(const struct box_ref *ref, const struct backend_site *at,
				  const struct backend_launch *what, struct proc **out)
{
	auto_pairs env = {0};
	auto_exec_env exec_env = {0};
	auto_free char *cwd = mem_fmt(WORKSPACE "/%s", at->directory);
	auto_free char *name = local_proc_name(what->instance);
	struct manager_exec_spec run = {.argv = what->argv, .env = &env, .cwd = cwd};
	struct proc_spec proc = {
		.id = str_of(name),
		.command = str_of(what->argv[0]),
		.exec = &exec_env.spec,
	};

	mark(&env, at, what);
	TRY(box_ref_admit(ref));
	exec_env_make(ref, &run, &exec_env);
	exec_env.spec.dialogue = true;
	exec_env.spec.mark = what->instance;
	exec_env.spec.wall_ms = exec_env.spec.cpu_ms =
		0; // limits of a single command do not apply to a runner
	return box_ref_explain(procs_start(ref->box, &proc, out));
}

// Fingerprint of the program: another file of that name is another version.
static uint64_t program_of(const struct box_ref *ref, const char *path)
{
	struct files files = local_files(ref, TIMER_INSPECTION);
	struct fileop_stat stat;
	auto_err err = path[0] == '/' ? files_stat(&files, path, true, &stat) : OK;

	if (err || path[0] != '/')
		return 0;
	return (stat.inode * 31 + stat.size * 7 + (uint64_t)stat.mtime_us) & ((1ull << 52) - 1);
}

static fallible agent_local_launch(void *arg, const struct backend_site *at,
				   const struct backend_launch *what, struct lease_place *out_place,
				   int *out_fd)
{
	const struct local *local = arg;
	struct lease_place place = {0};
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	auto_err err = OK;
	int fd;

	TRY(local_box_ref(local, at, &box_ref_));
	TRY(agent_local_start(&box_ref_, at, what, &proc));
	snprintf(place.sandbox, sizeof(place.sandbox), "%s", at->sandbox);
	snprintf(place.boot, sizeof(place.boot), "%s", local->options.boot);
	place.exec_cgroup = proc_cgroup(proc);
	place.pid = proc_look(proc).pid;
	err = discover_start(&box_ref_, place.pid, &place.start);
	if (err)
		place.pid = 0; // found by its marks instead
	place.program = program_of(&box_ref_, what->argv[0]);
	fd = proc_dialogue(proc);
	if (fd < 0)
		return err_new(UNAVAILABLE, "no_dialogue", "the runner exited at once");
	*out_place = place;
	*out_fd = fd;
	return OK;
}

static fallible agent_local_attach(void *arg, const struct backend_site *at,
				   const struct lease *lease, int *out_fd)
{
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	int fd;

	TRY(local_find_proc(arg, at, lease, &box_ref_, &proc));
	fd = proc_dialogue(proc);
	if (fd < 0)
		return local_no_runner();
	*out_fd = fd;
	return OK;
}

static fallible agent_local_dial(void *arg, const struct backend_site *at, uint16_t port,
				 int *out_fd)
{
	auto_box_ref box_ref_ = {0};
	struct files files;

	TRY(local_box_ref(arg, at, &box_ref_));
	files = local_files(&box_ref_, TIMER_GRACE);
	return files_dial(&files, port, out_fd);
}

static bool lives(void *arg, const struct backend_site *at, const struct lease *lease)
{
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(arg, at, lease, &box_ref_, &proc);

	return !err && !proc_is_over(proc);
}

static void unknown(struct backend_view *out, const char *why)
{
	*out = (struct backend_view){.failed = true};
	snprintf(out->why, sizeof(out->why), "%s", why);
}

// For a frozen sandbox: what the daemon knows of the process without asking inside.
static void look_from_outside(const struct local *local, const struct backend_site *at,
			      const struct lease *lease, struct backend_view *out)
{
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(local, at, lease, &box_ref_, &proc);

	if (err || proc_is_over(proc)) {
		unknown(out, "the sandbox is frozen");
		return;
	}
	out->count = 1;
	out->found[0] = (struct backend_found){
		.generation = lease->generation,
		.exec_cgroup = lease->place.exec_cgroup,
		.pid = lease->place.pid,
		.start = lease->place.start,
	};
	memcpy(out->found[0].instance, lease->instance, sizeof(lease->instance));
}

static void let_messages_go(const struct box_ref *ref, const struct lease *lease)
{
	auto_proc proc = local_proc(ref, lease);

	if (proc && proc_is_over(proc) && lease->state != LEASE_ACTIVE)
		proc_close_dialogue(proc);
}

// A warm runner whose program file was replaced is outdated.
static void check_program(const struct box_ref *ref, const struct lease *lease,
			  struct backend_view *out)
{
	auto_proc proc = local_proc(ref, lease);
	uint64_t program;

	if (lease->state != LEASE_WARM || !lease->place.program || !proc || out->count != 1)
		return;
	program = program_of(ref, proc_look(proc).command);
	if (program && program != lease->place.program)
		out->found[0].generation = 0;
}

// The leased cgroup while only the runner uses it: later commands may share it.
static uint32_t own_cgroup(const struct box_ref *ref, const struct lease *lease)
{
	auto_proc proc = local_proc(ref, lease);
	uint32_t cgroup = lease->place.exec_cgroup;

	if (proc && proc_cgroup(proc))
		return proc_cgroup(proc);
	return cgroup && procs_cgroup_is_left(ref->box, cgroup) ? cgroup : 0;
}

static void look_inside(const struct local *local, const struct backend_site *at,
			const struct lease *lease, struct backend_view *out)
{
	auto_box_ref box_ref_ = {0};
	auto_err err = local_box_ref(local, at, &box_ref_);

	if (err) {
		unknown(out, err_message(err));
		return;
	}
	discover(&box_ref_, at, lease, own_cgroup(&box_ref_, lease), out);
	if (out->failed)
		return;
	if (!out->count) {
		let_messages_go(&box_ref_, lease);
		procs_cgroup_spend(box_ref_.box, lease->place.exec_cgroup);
	}
	check_program(&box_ref_, lease, out);
}

static void agent_local_look(void *arg, const struct backend_site *at, const struct lease *lease,
			     struct backend_view *out)
{
	const struct local *local = arg;
	const struct manager *manager = local->options.manager;
	struct entry *entry = local_entry(local, at);

	*out = (struct backend_view){0};
	if (!manager->settled || manager->unknown) {
		unknown(out, "cove is still finding out what there is");
		return;
	}
	if (!entry)
		return;
	if (entry->unreadable) { // not adopted: its processes may be alive
		unknown(out, "the sandbox's record cannot be read");
		return;
	}
	if (entry->moving || entry->destroying) {
		unknown(out, "the sandbox is changing its state");
		return;
	}
	switch (entry->record.state) {
	case STATE_STOPPED:
	case STATE_ARCHIVED:
	case STATE_FAILED: // its processes are verified gone (manager/life)
		return;
	case STATE_RUNNING:
		look_inside(local, at, lease, out);
		return;
	case STATE_PAUSED:
	case STATE_FROZEN:
		look_from_outside(local, at, lease, out);
		return;
	default:
		unknown(out, "the sandbox is changing its state");
	}
}

static void agent_local_sweep(const struct box_ref *ref, uint32_t cgroup, int signal)
{
	struct files files = local_files(ref, TIMER_INSPECTION);
	uint32_t count = 0;

	if (cgroup)
		err_free(files_sweep_cgroup(&files, cgroup - 1, 0, 0, signal, &count));
}

// By pid 1 for the whole cgroup, by cgroup.kill for the forced kill, which a forking process cannot
// outrun.
static void agent_local_end(void *arg, const struct backend_site *at, const struct lease *lease,
			    const struct backend_view *seen, bool force)
{
	const struct local *local = arg;
	struct entry *entry = local_entry(local, at);
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	auto_err err = OK;

	if (!entry || entry->record.state == STATE_STOPPED)
		return;
	err = local_box_ref(local, at, &box_ref_);
	if (err)
		return;
	proc = local_proc(&box_ref_, lease);
	if (force && proc && !proc_is_over(proc))
		err_free(proc_signal(proc, SIGKILL));
	for (size_t i = 0; i < seen->count; i++) {
		for (int round = 0; round < (force ? SWEEPS : 1); round++)
			agent_local_sweep(&box_ref_, seen->found[i].exec_cgroup,
					  force ? SIGKILL : SIGTERM);
	}
}

// ------------------------------------------------------------------------------------

struct local *local_new(const struct local_options *options)
{
	struct local *local = mem_new_of(struct local);

	local->options = *options;
	local->backend = (struct backend){
		.arg = local,
		.provision = provision,
		.prepare = agent_local_prepare,
		.launch = agent_local_launch,
		.attach = agent_local_attach,
		.dial = agent_local_dial,
		.look = agent_local_look,
		.end = agent_local_end,
		.lives = lives,
		.keep_alive = agent_local_keep_alive,
		.capacity = local_capacity,
		.clean = local_clean,
		.forget = agent_local_forget,
		.sessions = local_sessions,
		.logs = local_logs,
	};
	return local;
}

void local_set_classes(struct local *local, const struct limits classes[OWNER_CLASSES])
{
	memcpy(local->options.classes, classes, sizeof(local->options.classes));
}

void local_free(struct local *local)
{
	free(local);
}

const struct backend *local_backend(const struct local *local)
{
	return &local->backend;
}
