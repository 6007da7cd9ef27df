// What is asked of a sandbox is asked through the fleet, in the tenant's name and with all rights
// of one: whatever id a session was given, no other tenant's sandbox is there for it. Looking never
// wakes: a sandbox that does not run proves absence, one that is frozen, or is on its way from one
// state to another, proves nothing.
//
// syscalls: fcntl close
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "conv/discover.h"
#include "conv/site_inner.h"
#include "fleet/access.h"
#include "model/timers.h"

#define SWEEPS 3

// ------------------------------------------------------------------------- the sandbox

static fallible make_box(const struct site *site, const struct seam_site *at)
{
	struct who who = site_who(at);
	auto_spec spec = {0};
	const struct record *record;
	bool made;

	TRY(spec_read(NULL, fleet_bounds(site->options.fleet), &spec));
	snprintf(spec.id, sizeof(spec.id), "%s", at->sandbox);
	if (site->options.template[0])
		snprintf(spec.template, sizeof(spec.template), "%s", site->options.template);
	spec.limits = site->options.classes[at->class];
	pairs_set(&spec.labels, STR("cove/class"), str_of(owner_class_word(at->class)));
	spec.terms.sleep_after_ms = (uint64_t)timer_ms(TIMER_IDLE);
	return create_box(site->options.fleet, &who, &spec, CREATE_NEW, &record, &made);
}

// Two conversations of one owner may want it at the same time: the other's making is waited for.
static fallible conv_site_settle(const struct site *site, const struct seam_site *at)
{
	struct loop *loop = site->options.fleet->loop;
	int64_t deadline = loop_now(loop) + timer_ms(TIMER_WORKSPACE);
	struct entry *entry;

	while ((entry = site_entry(site, at))) {
		enum state state = entry->record.state;
		struct err *err;

		if (state != STATE_CREATING && state != STATE_DELETING)
			return OK;
		entry_hold(entry);
		err = bell_wait(&entry->changed, deadline);
		entry_drop(entry);
		TRY(err, "wait for the sandbox");
	}
	return OK;
}

static fallible provision(void *arg, const struct seam_site *at, bool *out_cold)
{
	const struct site *site = arg;
	struct who who = site_who(at);
	auto_visit visit_ = {0};
	struct entry *entry;

	TRY(conv_site_settle(site, at));
	entry = site_entry(site, at);
	if (entry && entry->record.state == STATE_FAILED && entry->record.ephemeral) {
		TRY(life_delete(site->options.fleet, &who, str_of(at->sandbox), true),
		    "remove a failed sandbox");
		entry = NULL;
	}
	*out_cold = !entry;
	if (!entry) {
		struct err *err = make_box(site, at);

		if (err && err_kind(err) == ERR_CONFLICT) { // somebody was faster
			err_free(err);
			err = conv_site_settle(site, at);
		}
		TRY(err);
	}
	return site_visit(site, at, &visit_); // which wakes it
}

static fallible make_directory(const struct files *files, const char *above, const char *name)
{
	auto_free char *path = mem_fmt("%s/%s", above, name);

	return files_mkdir(files, path, true, 0755);
}

static fallible conv_site_prepare(void *arg, const struct seam_site *at)
{
	const struct site *site = arg;
	auto_visit visit_ = {0};
	struct files files;

	TRY(site_visit(site, at, &visit_));
	files = site_files(&visit_, TIMER_WORKSPACE);
	TRY(make_directory(&files, WORKSPACE, at->directory));
	return make_directory(&files, HOMES, at->directory);
}

// What people work with there beside the runner ends with the session.
static fallible conv_site_end_terminal(const struct visit *visit, const char *id, int64_t deadline)
{
	auto_term term = term_find(visit->box, str_of(id));
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

static fallible conv_site_forget(void *arg, const struct seam_site *at, enum seam_end end)
{
	const struct site *site = arg;
	struct who who = site_who(at);
	auto_visit visit_ = {0};
	struct files files;
	struct err *err;

	if (!site_entry(site, at))
		return OK;
	if (end == SEAM_END_SANDBOX)
		err = life_delete(site->options.fleet, &who, str_of(at->sandbox), true);
	else
		err = site_visit(site, at, &visit_);
	// What is not there need not be removed; what has failed is somebody else's to remove.
	if (err && (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_GONE)) {
		err_free(err);
		return OK;
	}
	if (err || end == SEAM_END_SANDBOX)
		return err;
	files = site_files(&visit_, TIMER_WORKSPACE);
	TRY(conv_site_end_terminal(&visit_, at->directory, files.deadline));
	TRY(site_remove(&files, WORKSPACE, at->directory));
	return site_remove(&files, HOMES, at->directory);
}

static void conv_site_keep_alive(void *arg, const struct seam_site *at)
{
	const struct site *site = arg;
	struct entry *entry = site_entry(site, at);

	if (entry)
		entry->idle.busy_ms = loop_now(site->options.fleet->loop);
}

// -------------------------------------------------------------------------- the runner

static void mark(struct pairs *env, const struct seam_site *at, const struct seam_launch *what)
{
	char generation[24], workspace[ID_BOX_LEN + 16], home[ID_BOX_LEN + 16], fd[12];
	char beat[24];

	snprintf(generation, sizeof(generation), "%llu", (unsigned long long)what->generation);
	snprintf(workspace, sizeof(workspace), WORKSPACE "/%s", at->directory);
	snprintf(home, sizeof(home), HOMES "/%s", at->directory);
	snprintf(fd, sizeof(fd), "%d", TALK_DIALOGUE_FD);
	snprintf(beat, sizeof(beat), "%lld", (long long)timer_ms(TIMER_HEARTBEAT));
	for (size_t i = 0; what->env && i < what->env->count; i++)
		pairs_set(env, str_of(what->env->at[i].name), str_of(what->env->at[i].value));
	pairs_set(env, STR("HOME"), str_of(home));
	pairs_set(env, STR("COVE_WORKSPACE"), str_of(workspace));
	pairs_set(env, STR("COVE_RUNNER_FD"), str_of(fd));
	pairs_set(env, STR("COVE_HEARTBEAT_MS"), str_of(beat));
	pairs_set(env, STR(DISCOVER_SESSION), str_of(at->session));
	pairs_set(env, STR(DISCOVER_DIRECTORY), str_of(at->directory));
	pairs_set(env, STR(DISCOVER_INSTANCE), str_of(what->instance));
	pairs_set(env, STR(DISCOVER_GENERATION), str_of(generation));
}

static fallible conv_site_start(const struct visit *visit, const struct seam_site *at,
				const struct seam_launch *what, struct proc **out)
{
	auto_pairs env = {0};
	auto_outfit outfit = {0};
	auto_free char *cwd = mem_fmt(WORKSPACE "/%s", at->directory);
	auto_free char *name = site_proc_name(what->instance);
	struct use_spec use = {.argv = what->argv, .env = &env, .cwd = cwd};
	struct proc_spec proc = {
		.id = str_of(name),
		.command = str_of(what->argv[0]),
		.exec = &outfit.spec,
	};

	mark(&env, at, what);
	TRY(visit_admit(visit));
	outfit_make(visit, &use, &outfit);
	outfit.spec.dialogue = true;
	outfit.spec.mark = what->instance;
	outfit.spec.wall_ms = outfit.spec.cpu_ms = 0; // a runner is no single command
	return visit_explain(procs_start(visit->box, &proc, out));
}

// A fingerprint of the program: another file of that name is another version.
static uint64_t program_of(const struct visit *visit, const char *path)
{
	struct files files = site_files(visit, TIMER_INSPECTION);
	struct reach_stat stat;
	auto_err err = path[0] == '/' ? files_stat(&files, path, true, &stat) : OK;

	if (err || path[0] != '/')
		return 0;
	return (stat.inode * 31 + stat.size * 7 + (uint64_t)stat.mtime_us) & ((1ull << 52) - 1);
}

static fallible conv_site_launch(void *arg, const struct seam_site *at,
				 const struct seam_launch *what, struct lease_place *out_place,
				 int *out_fd)
{
	const struct site *site = arg;
	struct lease_place place = {0};
	auto_visit visit_ = {0};
	auto_proc proc = NULL;
	auto_err err = OK;
	int fd;

	TRY(site_visit(site, at, &visit_));
	TRY(conv_site_start(&visit_, at, what, &proc));
	snprintf(place.sandbox, sizeof(place.sandbox), "%s", at->sandbox);
	snprintf(place.boot, sizeof(place.boot), "%s", site->options.boot);
	place.leaf = proc_leaf(proc);
	place.pid = proc_look(proc).pid;
	err = discover_start(&visit_, place.pid, &place.start);
	if (err)
		place.pid = 0; // its marks tell it
	place.program = program_of(&visit_, what->argv[0]);
	fd = proc_dialogue(proc);
	if (fd < 0)
		return err_new(UNAVAILABLE, "no_dialogue", "the runner ended at once");
	*out_place = place;
	*out_fd = fd;
	return OK;
}

static fallible conv_site_attach(void *arg, const struct seam_site *at, const struct lease *lease,
				 int *out_fd)
{
	auto_visit visit_ = {0};
	auto_proc proc = NULL;
	int fd;

	TRY(site_find_proc(arg, at, lease, &visit_, &proc));
	fd = proc_dialogue(proc);
	if (fd < 0)
		return site_no_runner();
	*out_fd = fd;
	return OK;
}

static fallible conv_site_dial(void *arg, const struct seam_site *at, uint16_t port, int *out_fd)
{
	auto_visit visit_ = {0};
	struct files files;

	TRY(site_visit(arg, at, &visit_));
	files = site_files(&visit_, TIMER_GRACE);
	return files_dial(&files, port, out_fd);
}

static bool lives(void *arg, const struct seam_site *at, const struct lease *lease)
{
	auto_visit visit_ = {0};
	auto_proc proc = NULL;
	auto_err err = site_find_proc(arg, at, lease, &visit_, &proc);

	return !err && !proc_is_over(proc);
}

static void unknown(struct seam_view *out, const char *why)
{
	*out = (struct seam_view){.failed = true};
	snprintf(out->why, sizeof(out->why), "%s", why);
}

// Of a sandbox that stands still: what is known of the process without asking inside.
static void look_from_outside(const struct site *site, const struct seam_site *at,
			      const struct lease *lease, struct seam_view *out)
{
	auto_visit visit_ = {0};
	auto_proc proc = NULL;
	auto_err err = site_find_proc(site, at, lease, &visit_, &proc);

	if (err || proc_is_over(proc)) {
		unknown(out, "the sandbox is frozen");
		return;
	}
	out->count = 1;
	out->found[0] = (struct seam_found){
		.generation = lease->generation,
		.leaf = lease->place.leaf,
		.pid = lease->place.pid,
		.start = lease->place.start,
	};
	memcpy(out->found[0].instance, lease->instance, sizeof(lease->instance));
}

static void let_words_go(const struct visit *visit, const struct lease *lease)
{
	auto_proc proc = site_proc(visit, lease);

	if (proc && proc_is_over(proc) && lease->state != LEASE_ACTIVE)
		proc_close_dialogue(proc);
}

// A warm runner whose program was replaced is not the one that is wanted now.
static void check_program(const struct visit *visit, const struct lease *lease,
			  struct seam_view *out)
{
	auto_proc proc = site_proc(visit, lease);
	uint64_t program;

	if (lease->state != LEASE_WARM || !lease->place.program || !proc || out->count != 1)
		return;
	program = program_of(visit, proc_look(proc).command);
	if (program && program != lease->place.program)
		out->found[0].generation = 0;
}

// The leased cgroup, while it is the runner's: later commands may get it, too.
static uint32_t own_leaf(const struct visit *visit, const struct lease *lease)
{
	auto_proc proc = site_proc(visit, lease);
	uint32_t leaf = lease->place.leaf;

	if (proc && proc_leaf(proc))
		return proc_leaf(proc);
	return leaf && procs_leaf_is_left(visit->box, leaf) ? leaf : 0;
}

static void look_inside(const struct site *site, const struct seam_site *at,
			const struct lease *lease, struct seam_view *out)
{
	auto_visit visit_ = {0};
	auto_err err = site_visit(site, at, &visit_);

	if (err) {
		unknown(out, err_message(err));
		return;
	}
	discover(&visit_, at, lease, own_leaf(&visit_, lease), out);
	if (out->failed)
		return;
	if (!out->count) {
		let_words_go(&visit_, lease);
		procs_leaf_spend(visit_.box, lease->place.leaf);
	}
	check_program(&visit_, lease, out);
}

static void conv_site_look(void *arg, const struct seam_site *at, const struct lease *lease,
			   struct seam_view *out)
{
	const struct site *site = arg;
	const struct fleet *fleet = site->options.fleet;
	struct entry *entry = site_entry(site, at);

	*out = (struct seam_view){0};
	if (!fleet->settled || fleet->unknown) {
		unknown(out, "cove is still finding out what there is");
		return;
	}
	if (!entry)
		return;
	if (entry->unreadable) { // it was left alone, with whatever runs in it
		unknown(out, "the sandbox's record cannot be read");
		return;
	}
	if (entry->moving || entry->burying) {
		unknown(out, "the sandbox is changing its state");
		return;
	}
	switch (entry->record.state) {
	case STATE_STOPPED:
	case STATE_ARCHIVED:
	case STATE_FAILED: // what ran in it was ended, verified (fleet/life)
		return;
	case STATE_RUNNING:
		look_inside(site, at, lease, out);
		return;
	case STATE_PAUSED:
	case STATE_FROZEN:
		look_from_outside(site, at, lease, out);
		return;
	default:
		unknown(out, "the sandbox is changing its state");
	}
}

static void conv_site_sweep(const struct visit *visit, uint32_t leaf, int signal)
{
	struct files files = site_files(visit, TIMER_INSPECTION);
	uint32_t count = 0;

	if (leaf)
		err_free(files_sweep_leaf(&files, leaf - 1, 0, 0, signal, &count));
}

// By the sandbox's own process for the whole cgroup, by its cgroup for the kernel's kill: nothing
// that forks outruns that.
static void conv_site_end(void *arg, const struct seam_site *at, const struct lease *lease,
			  const struct seam_view *seen, bool force)
{
	const struct site *site = arg;
	struct entry *entry = site_entry(site, at);
	auto_visit visit_ = {0};
	auto_proc proc = NULL;
	auto_err err = OK;

	if (!entry || entry->record.state == STATE_STOPPED)
		return;
	err = site_visit(site, at, &visit_);
	if (err)
		return;
	proc = site_proc(&visit_, lease);
	if (force && proc && !proc_is_over(proc))
		err_free(proc_signal(proc, SIGKILL));
	for (size_t i = 0; i < seen->count; i++) {
		for (int round = 0; round < (force ? SWEEPS : 1); round++)
			conv_site_sweep(&visit_, seen->found[i].leaf, force ? SIGKILL : SIGTERM);
	}
}

// ------------------------------------------------------------------------------------

struct site *site_new(const struct site_options *options)
{
	struct site *site = mem_new_of(struct site);

	site->options = *options;
	site->seam = (struct seam){
		.arg = site,
		.provision = provision,
		.prepare = conv_site_prepare,
		.launch = conv_site_launch,
		.attach = conv_site_attach,
		.dial = conv_site_dial,
		.look = conv_site_look,
		.end = conv_site_end,
		.lives = lives,
		.keep_alive = conv_site_keep_alive,
		.capacity = site_capacity,
		.clean = site_clean,
		.forget = conv_site_forget,
		.sessions = site_sessions,
		.logs = site_logs,
	};
	return site;
}

void site_set_classes(struct site *site, const struct limits classes[OWNER_CLASSES])
{
	memcpy(site->options.classes, classes, sizeof(site->options.classes));
}

void site_free(struct site *site)
{
	free(site);
}

const struct seam *site_seam(const struct site *site)
{
	return &site->seam;
}
