// Disk space of the local backend: how much a session's sandbox has, removal of stale files, and
// the runner's log. A directory is stale only if its name is a session's, it is old enough, no
// process carries its mark, and no session uses it. Unknown counts as in use.
//
// syscalls: fstatfs statfs
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "agent/admission.h"
#include "agent/discover.h"
#include "agent/faults.h"
#include "agent/local_backend_private.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/offload.h"
#include "types/timers.h"

#define LOG_TAIL (64 * 1024)

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
	auto_box_ref box_ref_ = {0};
	auto_err err = local_box_ref(local, &other, &box_ref_);
	struct files files;

	if (err)
		return 0;
	files = local_files(&box_ref_, TIMER_CAPACITY);
	err = files_space(&files, WORKSPACE, &space);
	return err ? 0 : space.free;
}

fallible local_capacity(void *arg, const struct backend_site *at, struct backend_room *out)
{
	const struct local *local = arg;
	struct entry *entry = local_entry(local, at);
	struct measuring measuring = {.fd = local->options.data};
	struct files_space space;
	struct files files;
	auto_box_ref box_ref_ = {0};

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
	TRY(local_box_ref(local, at, &box_ref_));
	files = local_files(&box_ref_, TIMER_CAPACITY);
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
	auto_box_ref box_ref_ = {0};
	struct files files;

	TRY(local_box_ref(local, at, &box_ref_));
	files = local_files(&box_ref_, TIMER_WORKSPACE);
	// Unknown counts as in use: without the list of processes nothing is removed.
	TRY(faults_meet_until(FAULT_OBSERVE, at->session, files.deadline));
	TRY(discover_directories(&box_ref_, note_used, cleaning));
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

void local_clean(void *arg, const struct backend_site *at,
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

struct telling {
	struct backend_site at;
	void (*each)(const struct backend_site *at, void *of);
	void *of;
};

static void tell_session(const char *name, void *of)
{
	struct telling *telling = of;

	telling->at.session = name;
	telling->each(&telling->at, telling->of);
}

static fallible look_through(const struct local *local, const struct entry *entry,
			     struct telling *telling)
{
	auto_box_ref box_ref_ = {0};

	telling->at = (struct backend_site){
		.sandbox = entry->record.id,
		.tenant = entry->record.tenant,
	};
	TRY(local_box_ref(local, &telling->at, &box_ref_));
	return discover_sessions(&box_ref_, tell_session, telling);
}

// Scans the running sandboxes one after another, by id: the table may change meanwhile.
fallible local_sessions(void *arg, void (*each)(const struct backend_site *at, void *of), void *of)
{
	const struct local *local = arg;
	const struct manager *manager = local->options.manager;
	struct telling telling = {.each = each, .of = of};
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
		err = look_through(local, entry, &telling);
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

void local_logs(void *arg, const struct backend_site *at, const struct lease *lease,
		struct json_out *out)
{
	auto_box_ref box_ref_ = {0};
	auto_proc proc = NULL;
	auto_err err = local_find_proc(arg, at, lease, &box_ref_, &proc);
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

fallible local_read_class(struct str text, struct limits *limits, uint64_t *max)
{
	struct str word;

	while (text.len && str_cut(&text, ' ', &word)) {
		struct str name;
		uint64_t number = 0;
		bool good;

		if (!word.len)
			continue;
		good = str_cut(&word, '=', &name) && word.at;
		if (good && str_is(name, "memory"))
			good = str_to_bytes(word, &limits->memory);
		else if (good && str_is(name, "disk"))
			good = str_to_bytes(word, &limits->disk);
		else if (good && str_is(name, "pids")) {
			good = str_to_u64(word, 1, UINT32_MAX, &number);
			limits->pids = (uint32_t)number;
		} else if (good && str_is(name, "cpus")) {
			good = str_to_u64(word, 1, 4096, &number);
			limits->cpu_milli = (uint32_t)number * 1000;
		} else if (good && str_is(name, "max"))
			good = str_to_u64(word, 0, UINT32_MAX, max);
		else
			good = false;
		if (!good)
			return err_hint(err_new(INVALID, "bad_config", "a size class is malformed"),
					"like 'cpus=4 memory=12G disk=20G pids=1024 max=100'");
	}
	return OK;
}
