// The backend on this host's sandboxes. Every call to the manager uses the identity of the
// session's tenant, with all rights of one: whatever sandbox id a session has, it never reaches
// another tenant's sandbox. Observing never wakes: a sandbox that is not running proves absence; a
// frozen one, or one that is changing its state, proves nothing.
//
// Stale files: a directory is stale only if its name is a session's, it is old enough, no process
// carries its mark, and no session uses it. Unknown counts as in use.
//
// syscalls: fcntl close fstatfs statfs
#include "agent/local_backend.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/admission.h"
#include "agent/choices.h"
#include "agent/discover.h"
#include "agent/faults.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "manager/access.h"
#include "manager/box_ref.h"
#include "manager/metering.h"
#include "manager/pull.h"
#include "manager/templates.h"
#include "types/timers.h"

#define SWEEPS 3
#define LOG_TAIL (64 * 1024)
#define WORKSPACE "/workspace"
#define HOMES "/home"

struct local {
	struct local_options options;
	struct backend backend;
};

// ------------------------------------------------------------- sandbox, files, process

// The tenant, with all rights of one.
static struct who local_who(const struct backend_site *at)
{
	struct who who = WHO_COVE;

	who.role = WHO_TENANT;
	snprintf(who.tenant, sizeof(who.tenant), "%s", at->tenant);
	return who;
}

// NULL: none.
static struct entry *local_entry(const struct local *local, const struct backend_site *at)
{
	struct who who = local_who(at);

	return access_find(local->options.manager, &who, str_of(at->sandbox));
}

// Wakes a frozen or stopped sandbox.
static fallible local_box_ref(const struct local *local, const struct backend_site *at,
			      struct box_ref *out)
{
	struct who who = local_who(at);

	return box_ref_begin(local->options.manager, &who, str_of(at->sandbox), out);
}

static struct files local_files(const struct box_ref *ref, enum timer_name timer)
{
	return (struct files){
		.box = ref->box,
		.user = "",
		.deadline = loop_now(ref->entry->manager->loop) + timer_ms(timer),
	};
}

// Removes a directory tree; OK if it is absent.
static fallible local_remove(const struct files *files, const char *above, const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", above, name);
	struct err *err = files_remove(files, path, true);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

static char *local_proc_name(const char *instance)
{
	return mem_fmt("runner-%s", instance + strlen("instance_"));
}

static struct proc *local_proc(const struct box_ref *ref, const struct lease *lease)
{
	auto_free char *name = NULL;

	if (!lease->instance[0])
		return NULL;
	name = local_proc_name(lease->instance);
	return procs_find(ref->box, str_of(name));
}

static fallible local_no_runner(void)
{
	return err_new(NOT_FOUND, "no_runner", "the runner does not exist");
}

// The process record of the leased runner, in whatever state of the sandbox, which is not woken.
static fallible local_find_proc(const struct local *local, const struct backend_site *at,
				const struct lease *lease, struct box_ref *ref, struct proc **out)
{
	struct entry *entry = local_entry(local, at);
	struct who who = local_who(at);

	if (!entry || !entry->box)
		return local_no_runner();
	TRY(box_ref_look(local->options.manager, &who, str_of(at->sandbox), ref));
	*out = local_proc(ref, lease);
	return *out ? OK : local_no_runner();
}

// ------------------------------------------------------------------------- the sandbox

// Whether the sandbox that exists is as it was asked for.
static fallible local_compare(const struct entry *entry, const struct choices *choices,
			      const struct spec *spec)
{
	auto_buf asked = BUF_INIT(CHOICES_BYTES_MAX), had = BUF_INIT(CHOICES_BYTES_MAX);
	struct json_out asked_out = json_to(&asked), had_out = json_to(&had);

	if (strcmp(spec->template, entry->record.template) != 0)
		return choices_differ(choice_keys[CHOICE_TEMPLATE]);
	if (choices->text[CHOICE_VOLUMES] &&
	    !volume_mounts_agree(&spec->volumes, &entry->record.volumes))
		return choices_differ(choice_keys[CHOICE_VOLUMES]);
	if (!choices->text[CHOICE_NETWORK] && !choices->text[CHOICE_SECRETS])
		return OK;
	policy_write(&asked_out, spec->network);
	if (entry->record.network)
		policy_write(&had_out, entry->record.network);
	if (str_eq(buf_view(&asked), buf_view(&had)))
		return OK;
	return choices_differ(choice_keys[CHOICE_NETWORK]);
}

// The settings of a profile are chosen with it, and stay when the profile changes.
static fallible local_apply_profile(const struct local *local, struct choices *choices)
{
	auto_json name = NULL;

	if (!choices->text[CHOICE_PROFILE] || choices->text[CHOICE_LIMITS])
		return OK;
	TRY(json_read(str_of(choices->text[CHOICE_PROFILE]), &name));
	if (local->options.profile)
		return local->options.profile(local->options.profile_arg, json_chars(name),
					      choices);
	return err_hint(
		err_new(INVALID, "no_profile", "there is no profile '%.64s'", json_chars(name).at),
		"a section [profile NAME] of the server's configuration makes one");
}

static fallible local_check(void *arg, const struct who *who, const struct backend_site *at,
			    struct choices *choices)
{
	const struct local *local = arg;
	struct manager *manager = local->options.manager;
	struct entry *entry = local_entry(local, at);
	struct create_grant grant;
	bool is_chosen;
	auto_spec spec = {0};

	TRY(access_create(who, &grant));
	TRY(local_apply_profile(local, choices));
	is_chosen = choices->text[CHOICE_TEMPLATE] || choices->text[CHOICE_IMAGE];
	TRY(choices_spec(choices, manager_bounds(manager), &spec));
	if (entry && !is_chosen)
		snprintf(spec.template, sizeof(spec.template), "%s",
			 record_template(&entry->record));
	templates_default(manager, who, spec.template);
	if (!is_chosen)
		choices_set_template(choices, spec.template);
	TRY(create_check(manager, &grant, &spec));
	entry = local_entry(local, at); // after the wait
	return entry ? local_compare(entry, choices, &spec) : OK;
}

// The limits of the class; a profile may have less.
static void local_fit_limits(const struct limits *class, const struct choices *choices,
			     struct limits *limits)
{
	static const enum limit of_profile[] = {LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS, LIMIT_DISK};
	struct limits asked = *limits;

	*limits = *class;
	if (!choices->text[CHOICE_LIMITS])
		return;
	for (size_t i = 0; i < sizeof(of_profile) / sizeof(*of_profile); i++) {
		uint64_t most = limit_of(class, of_profile[i]);
		uint64_t wanted = limit_of(&asked, of_profile[i]);

		if (wanted && (!most || wanted < most))
			*limit_at(limits, of_profile[i]) = wanted;
	}
}

static fallible make_box(const struct local *local, const struct backend_site *at)
{
	struct who who = local_who(at);
	struct create_grant grant;
	auto_spec spec = {0};
	const struct record *record;
	bool made;

	TRY(choices_spec(at->choices, manager_bounds(local->options.manager), &spec));
	snprintf(spec.id, sizeof(spec.id), "%s", at->sandbox);
	local_fit_limits(&local->options.classes[at->class], at->choices, &spec.limits);
	env_map_set(&spec.labels, STR("cove/class"), str_of(owner_class_word(at->class)));
	env_map_set(&spec.labels, STR(CHARGE_OWNER), str_of(at->sandbox));
	if (at->isolated && strlen(at->session) <= ENV_MAP_LABEL_VALUE)
		env_map_set(&spec.labels, STR(CHARGE_SESSION), str_of(at->session));
	spec.retention.sleep_after_ms = (uint64_t)timer_ms(TIMER_IDLE);
	TRY(access_create(&who, &grant));
	if (spec.image)
		TRY(pull_again(local->options.manager, at->tenant, str_of(spec.image)));
	return create_box(local->options.manager, &grant, &spec, CREATE_NEW, &record, &made);
}

// Two sessions of one owner may start at the same time: wait for the other's create.
static fallible local_settle(const struct local *local, const struct backend_site *at)
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
	auto_box_ref ref = {0};
	struct entry *entry;

	TRY(local_settle(local, at));
	entry = local_entry(local, at);
	if (entry && entry->record.state == STATE_FAILED && entry->record.ephemeral) {
		TRY(life_delete(local->options.manager, &who, str_of(at->sandbox),
				LIFE_WAITS | LIFE_FORCED),
		    "remove a failed sandbox");
		entry = NULL;
	}
	*out_cold = !entry;
	if (!entry) {
		struct err *err = make_box(local, at);

		if (err && err_kind(err) == ERR_CONFLICT) { // another create was faster
			err_free(err);
			err = local_settle(local, at);
		}
		TRY(err);
	}
	return local_box_ref(local, at, &ref); // wakes it
}

static fallible local_probe(void *arg, const struct backend_site *at)
{
	auto_box_ref ref = {0};
	struct files files;

	TRY(local_box_ref(arg, at, &ref));
	files = local_files(&ref, TIMER_INSPECTION);
	return files_probe(&files);
}

// The home is made last, by local_fill(): where it is missing, the files may not be complete.
static fallible local_prepare(void *arg, const struct backend_site *at, bool *out_new)
{
	auto_free char *base = mem_fmt(WORKSPACE "/%s", at->directory);
	auto_free char *home = mem_fmt(HOMES "/%s", at->directory);
	auto_box_ref ref = {0};
	struct files files;
	bool is_made;

	TRY(local_box_ref(arg, at, &ref));
	files = local_files(&ref, TIMER_WORKSPACE);
	TRY(files_mkdir(&files, base, true, 0755));
	TRY(files_mkdir(&files, HOMES, true, 0755));
	TRY(files_exists(&files, home, &is_made));
	*out_new = !is_made;
	return OK;
}

static struct err *local_write_file(void *arg, const struct choice_file *file)
{
	auto_free char *path = mem_dup(file->path.at, file->path.len);
	auto_free char *why = NULL;
	struct err *err = files_write(arg, path, FILEOP_PARENTS, file->mode, file->bytes);

	if (!err)
		return OK;
	why = mem_str(err_message(err));
	return err_recast(err, err_kind(err), "files_not_written",
			  "cannot write the file %.200s: %s", path, why);
}

static fallible local_fill(void *arg, const struct backend_site *at)
{
	auto_free char *base = mem_fmt(WORKSPACE "/%s", at->directory);
	auto_free char *home = mem_fmt(HOMES "/%s", at->directory);
	auto_box_ref ref = {0};
	struct files files;

	TRY(local_box_ref(arg, at, &ref));
	files = local_files(&ref, TIMER_WORKSPACE);
	files.base = base;
	TRY(choices_each_file(at->choices, local_write_file, &files));
	return files_mkdir(&files, home, true, 0755);
}

// Terminals of the session end with the session.
static fallible local_end_terminal(const struct box_ref *ref, const char *id, int64_t deadline)
{
	auto_term term = term_find(ref->box, str_of(id));
	struct exec_result result;
	bool box_gone;

	if (!term)
		return OK;
	term_kill(term);
	while (!term_ended(term, &result, &box_gone))
		TRY(term_await(term, UINT64_MAX, deadline), "end the terminal of a session");
	term_forget(term);
	return OK;
}

static fallible local_forget(void *arg, const struct backend_site *at, enum backend_end end)
{
	const struct local *local = arg;
	struct who who = local_who(at);
	auto_box_ref ref = {0};
	struct files files;
	struct err *err;

	if (!local_entry(local, at))
		return OK;
	if (end == BACKEND_END_SANDBOX)
		err = life_delete(local->options.manager, &who, str_of(at->sandbox),
				  LIFE_WAITS | LIFE_FORCED);
	else
		err = local_box_ref(local, at, &ref);
	// An absent sandbox needs no removal; a failed one is removed by its owner.
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_GONE)) {
		err_free(err);
		return OK;
	}
	if (err || end == BACKEND_END_SANDBOX)
		return err;
	files = local_files(&ref, TIMER_WORKSPACE);
	TRY(local_end_terminal(&ref, at->directory, files.deadline));
	TRY(local_remove(&files, WORKSPACE, at->directory));
	return local_remove(&files, HOMES, at->directory);
}

static void local_keep_alive(void *arg, const struct backend_site *at)
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

static fallible local_start(const struct box_ref *ref, const struct backend_site *at,
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

static fallible local_launch(void *arg, const struct backend_site *at,
			     const struct backend_launch *what, struct lease_place *out_place,
			     int *out_fd)
{
	const struct local *local = arg;
	struct lease_place place = {0};
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	auto_err err = OK;
	int fd;

	TRY(local_box_ref(local, at, &ref));
	TRY(local_start(&ref, at, what, &proc));
	snprintf(place.sandbox, sizeof(place.sandbox), "%s", at->sandbox);
	snprintf(place.boot, sizeof(place.boot), "%s", local->options.boot);
	place.exec_cgroup = proc_cgroup(proc);
	place.pid = proc_look(proc).pid;
	err = discover_start(&ref, place.pid, &place.start);
	if (err)
		place.pid = 0; // found by its marks instead
	place.program = program_of(&ref, what->argv[0]);
	fd = proc_dialogue(proc);
	if (fd < 0)
		return err_new(UNAVAILABLE, "no_dialogue", "the runner exited at once");
	*out_place = place;
	*out_fd = fd;
	return OK;
}

static fallible local_attach(void *arg, const struct backend_site *at, const struct lease *lease,
			     int *out_fd)
{
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	int fd;

	TRY(local_find_proc(arg, at, lease, &ref, &proc));
	fd = proc_dialogue(proc);
	if (fd < 0)
		return local_no_runner();
	*out_fd = fd;
	return OK;
}

static fallible local_dial(void *arg, const struct backend_site *at, uint16_t port, int *out_fd)
{
	auto_box_ref ref = {0};
	struct files files;

	TRY(local_box_ref(arg, at, &ref));
	files = local_files(&ref, TIMER_GRACE);
	return files_dial(&files, port, out_fd);
}

static bool lives(void *arg, const struct backend_site *at, const struct lease *lease)
{
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(arg, at, lease, &ref, &proc);

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
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(local, at, lease, &ref, &proc);

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
	auto_box_ref ref = {0};
	auto_err err = local_box_ref(local, at, &ref);

	if (err) {
		unknown(out, err_message(err));
		return;
	}
	discover(&ref, at, lease, own_cgroup(&ref, lease), out);
	if (out->failed)
		return;
	if (!out->count) {
		let_messages_go(&ref, lease);
		procs_cgroup_spend(ref.box, lease->place.exec_cgroup);
	}
	check_program(&ref, lease, out);
}

static void local_look(void *arg, const struct backend_site *at, const struct lease *lease,
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

static void local_sweep(const struct box_ref *ref, uint32_t cgroup, int signal)
{
	struct files files = local_files(ref, TIMER_INSPECTION);
	uint32_t count = 0;

	if (cgroup)
		err_free(files_sweep_cgroup(&files, cgroup - 1, 0, 0, signal, &count));
}

// By pid 1 for the whole cgroup, by cgroup.kill for the forced kill, which a forking process cannot
// outrun.
static void local_end(void *arg, const struct backend_site *at, const struct lease *lease,
		      const struct backend_view *seen, bool force)
{
	const struct local *local = arg;
	struct entry *entry = local_entry(local, at);
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	auto_err err = OK;

	if (!entry || state_is_stopped(entry->record.state))
		return;
	err = local_box_ref(local, at, &ref);
	if (err)
		return;
	proc = local_proc(&ref, lease);
	if (force && proc && !proc_is_over(proc))
		err_free(proc_signal(proc, SIGKILL));
	for (size_t i = 0; i < seen->count; i++) {
		for (int round = 0; round < (force ? SWEEPS : 1); round++)
			local_sweep(&ref, seen->found[i].exec_cgroup, force ? SIGKILL : SIGTERM);
	}
}

// ------------------------------------------------------------------------- disk space

struct measuring {
	int fd;
	struct statvfs fs;
	int errnum;
};

static void measure_run(void *arg)
{
	struct measuring *measuring = arg;

	if (fstatvfs(measuring->fd, &measuring->fs))
		measuring->errnum = errno;
}

static bool local_has_pool(const struct local *local)
{
	const struct order_host *host = ask_host(local->options.manager->ask);

	return host && !strcmp(host->disk, "btrfs");
}

// Preallocated but unused space of the pool is free. A running sandbox of the same tenant shows it;
// without one, the pool counts as zero.
static uint64_t local_pool_free(const struct local *local, const struct backend_site *at)
{
	struct manager *manager = local->options.manager;
	struct backend_site other = *at;
	struct files_space space;
	char id[ID_BOX_LEN + 1] = "";

	list_each (link, &manager->entries) {
		const struct entry *entry = link_of(link, struct entry, link);

		if (!strcmp(entry->record.tenant, at->tenant) &&
		    entry->record.state == STATE_RUNNING && !entry->moving &&
		    !entry->record.limits.inodes)
			memcpy(id, entry->record.id, sizeof(id));
	}
	if (!id[0])
		return 0;
	other.sandbox = id;
	auto_box_ref ref = {0};
	auto_err err = local_box_ref(local, &other, &ref);
	struct files files;

	if (err)
		return 0;
	files = local_files(&ref, TIMER_CAPACITY);
	err = files_space(&files, WORKSPACE, &space);
	return err ? 0 : space.free;
}

static fallible local_capacity(void *arg, const struct backend_site *at, struct backend_room *out)
{
	const struct local *local = arg;
	struct entry *entry = local_entry(local, at);
	struct measuring measuring = {.fd = local->options.data};
	struct files_space space;
	struct files files;
	auto_box_ref ref = {0};

	offload_run(measure_run, &measuring);
	if (measuring.errnum)
		return err_sys(measuring.errnum, "measure the host's file system");
	*out = (struct backend_room){
		.host_free = (uint64_t)measuring.fs.f_bavail * measuring.fs.f_frsize,
		.cold = !entry || entry->record.state != STATE_RUNNING,
	};
	if (out->cold) {
		if (local_has_pool(local))
			out->host_free += local_pool_free(local, at);
		return OK;
	}
	TRY(local_box_ref(local, at, &ref));
	files = local_files(&ref, TIMER_CAPACITY);
	TRY(files_space(&files, WORKSPACE, &space));
	// A shared pool reports what is left of its present size, and grows into the host's free
	// space.
	out->free = space.free;
	if (local_has_pool(local)) {
		out->free += out->host_free;
		out->host_free = out->free;
	}
	out->total = space.total;
	out->inodes = space.inodes;
	out->inodes_free = space.inodes_free;
	return OK;
}

struct cleaning {
	char (*used)[ID_BOX_LEN + 1]; // directories that a process names
	size_t used_count;
	char (*stale)[ID_BOX_LEN + 1];
	size_t stale_count;
};

static void add_name(char (**list)[ID_BOX_LEN + 1], size_t *count, const char *name)
{
	*list = mem_grow(*list, *count + 1, sizeof(**list));
	snprintf((*list)[(*count)++], sizeof(**list), "%s", name);
}

static void note_used(const char *name, void *of)
{
	struct cleaning *cleaning = of;

	add_name(&cleaning->used, &cleaning->used_count, name);
}

static bool local_space_is_named(const struct cleaning *cleaning, const char *name)
{
	for (size_t i = 0; i < cleaning->used_count; i++)
		if (strcmp(cleaning->used[i], name) == 0)
			return true;
	return false;
}

static fallible find_stale(const struct files *files, struct cleaning *cleaning,
			   bool (*is_used)(const char *directory, void *of), void *of,
			   struct backend_cleaned *out)
{
	int64_t now_ms = clock_wall_ms(), steady_ms = clock_steady_ms();
	// The clock may have been set: use the earlier of the two times.
	int64_t now_us = (now_ms < steady_ms ? now_ms : steady_ms) * 1000;
	struct files_walk *walk = NULL;
	struct fileop_entry entry;
	bool more = true;

	TRY(files_list(files, WORKSPACE, 0, 0, &walk));
	while (more) {
		struct err *err = files_next_entry(walk, &entry, &more);
		char name[ID_BOX_LEN + 1];
		enum owner_kind kind;
		int64_t age_us;

		if (err) {
			files_drop(walk);
			return err;
		}
		if (!more || !owner_is_id(entry.path, &kind) || kind != OWNER_SES ||
		    entry.stat.type != FILEOP_DIRECTORY)
			continue;
		snprintf(name, sizeof(name), STR_FMT, STR_ARG(entry.path));
		age_us = now_us - entry.stat.mtime_us;
		if (entry.stat.mtime_us <= 0 || age_us < timer_ms(TIMER_STALE_DIRECTORY) * 1000 ||
		    local_space_is_named(cleaning, name) || is_used(name, of))
			out->skipped++;
		else
			add_name(&cleaning->stale, &cleaning->stale_count, name);
	}
	return files_end(walk, NULL);
}

static fallible clean_inside(const struct local *local, const struct backend_site *at,
			     bool (*is_used)(const char *directory, void *of), void *of,
			     struct cleaning *cleaning, struct backend_cleaned *out)
{
	auto_box_ref ref = {0};
	struct files files;

	TRY(local_box_ref(local, at, &ref));
	files = local_files(&ref, TIMER_WORKSPACE);
	// Unknown counts as in use: without the list of processes nothing is removed.
	TRY(faults_meet_until(FAULT_OBSERVE, at->session, files.deadline));
	TRY(discover_directories(&ref, note_used, cleaning));
	TRY(find_stale(&files, cleaning, is_used, of, out));
	for (size_t i = 0; i < cleaning->stale_count; i++) {
		auto_err err = local_remove(&files, WORKSPACE, cleaning->stale[i]);

		if (!err)
			err = local_remove(&files, HOMES, cleaning->stale[i]);
		out->cleaned += !err;
		out->skipped += err != NULL;
		if (err && admission_proof(err))
			out->errnum = admission_proof(err);
	}
	return OK;
}

static void local_clean(void *arg, const struct backend_site *at,
			bool (*is_used)(const char *directory, void *of), void *of,
			struct backend_cleaned *out)
{
	const struct local *local = arg;
	const struct entry *entry = local_entry(local, at);
	struct cleaning cleaning = {0};
	auto_err err = OK;

	*out = (struct backend_cleaned){0};
	if (at->isolated || !entry || entry->record.state != STATE_RUNNING)
		return;
	err = clean_inside(local, at, is_used, of, &cleaning, out);
	if (err)
		log_event(LOG_WARN, "agent_session.not_cleaned", "sandbox", at->sandbox, "trail",
			  err_trail(err), NULL);
	free(cleaning.used);
	free(cleaning.stale);
}

// --------------------------------------------------------------------------- sessions

struct session_scan {
	struct backend_site at;
	void (*each)(const struct backend_site *at, void *of);
	void *of;
};

static void local_call_each(const char *name, void *of)
{
	struct session_scan *scan = of;

	scan->at.session = name;
	scan->each(&scan->at, scan->of);
}

static fallible look_through(const struct local *local, const struct entry *entry,
			     struct session_scan *scan)
{
	auto_box_ref ref = {0};

	scan->at = (struct backend_site){
		.sandbox = entry->record.id,
		.tenant = entry->record.tenant,
	};
	TRY(local_box_ref(local, &scan->at, &ref));
	return discover_sessions(&ref, local_call_each, scan);
}

// Scans the running sandboxes one after another, by id: the table may change meanwhile.
static fallible local_sessions(void *arg, void (*each)(const struct backend_site *at, void *of),
			       void *of)
{
	const struct local *local = arg;
	const struct manager *manager = local->options.manager;
	struct session_scan scan = {.each = each, .of = of};
	struct cleaning list = {0};
	enum owner_kind kind;

	if (!manager->settled || manager->unknown)
		return err_new(UNAVAILABLE, "starting",
			       "cove is starting and adopting its sandboxes");
	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (owner_is_id(str_of(entry->record.id), &kind))
			note_used(entry->record.id, &list);
	}
	for (size_t i = 0; i < list.used_count; i++) {
		struct entry *entry = map_get(manager->by_id, str_of(list.used[i]));
		auto_err err = OK;

		if (!entry || entry->record.state != STATE_RUNNING)
			continue;
		entry_ref(entry);
		err = look_through(local, entry, &scan);
		if (err)
			log_event(LOG_WARN, "sandbox.unseen", "sandbox", list.used[i], "trail",
				  err_trail(err), NULL);
		entry_unref(entry);
	}
	free(list.used);
	return OK;
}

// ------------------------------------------------------------------------------- logs

static void write_tail(struct tape *tape, struct json_out *out)
{
	uint64_t kept = tape_kept(tape), at = kept > LOG_TAIL ? kept - LOG_TAIL : 0;
	auto_buf text = BUF_INIT(LOG_TAIL * 2);
	auto_free char *room = mem_new(16384);

	while (at < kept) {
		enum tape_stream stream;
		size_t got = 0;
		auto_err err = tape_read(tape, &at, &stream, room, 16384, &got, 0);

		if (err || !got)
			break;
		buf_add(&text, room, got);
	}
	json_put_str(out, "log", buf_ok(&text) && text.at ? buf_view(&text) : STR(""));
}

static void local_logs(void *arg, const struct backend_site *at, const struct lease *lease,
		       struct json_out *out)
{
	auto_box_ref ref = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(arg, at, lease, &ref, &proc);
	struct tape *tape;

	if (err) {
		json_put_text(out, "log", NULL);
		return;
	}
	tape = proc_tape(proc);
	tape_ref(tape);
	json_put_text(out, "instance_id", lease->instance);
	json_put_text(out, "status", proc_status_word(proc_look(proc).status));
	write_tail(tape, out);
	tape_unref(tape);
}

// ------------------------------------------------------------------------------------

struct local *local_new(const struct local_options *options)
{
	struct local *local = mem_new_of(struct local);

	local->options = *options;
	local->backend = (struct backend){
		.arg = local,
		.check = local_check,
		.provision = provision,
		.probe = local_probe,
		.prepare = local_prepare,
		.fill = local_fill,
		.launch = local_launch,
		.attach = local_attach,
		.dial = local_dial,
		.look = local_look,
		.end = local_end,
		.lives = lives,
		.keep_alive = local_keep_alive,
		.capacity = local_capacity,
		.clean = local_clean,
		.forget = local_forget,
		.sessions = local_sessions,
		.logs = local_logs,
	};
	return local;
}

void local_set_classes(struct local *local, const struct limits classes[OWNER_CLASSES])
{
	memcpy(local->options.classes, classes, sizeof(local->options.classes));
}

const struct backend *local_backend(const struct local *local)
{
	return &local->backend;
}
