// Finds runners by reading the sandbox's /proc through a file worker. A process that exits during
// the scan does not count; any other failure fails the whole scan.
//
// One runner is all processes that carry its marks in their environment, and all without other
// marks in its cgroup. A process with the session's mark but another instance's, or none, is
// another runner. Zombies are skipped.
#include "agent/discover.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "loop/closer.h"
#include "types/event.h"
#include "types/timers.h"

#define PROCESSES_MAX 32768
#define READ_MAX (160 * 1024)
// Titles of a preforked worker: the current one, and that of the pid 1 kept as test/old/cove-0.1.0.
static const char *const prefork_titles[] = {"(cove-prefork", "(cove-spare"};

struct seen {
	int pid, parent;
	uint64_t start;
	uint32_t exec_cgroup;		   // 1 + its number; 0: none
	char mark[LEASE_INSTANCE_LEN + 1]; // of that cgroup; "": none
	bool is_preforked; // a preforked child of pid 1 that waits for the next command
	char session[OWNER_PART_MAX + 1];
	char directory[ID_BOX_LEN + 1];
	char instance[LEASE_INSTANCE_LEN + 1];
	uint64_t generation;
};

struct look {
	struct files files;
	struct buf bytes;
};

static void look_done(struct look *look)
{
	buf_done(&look->bytes);
}
#define auto_look on_exit_call(look_done) struct look

static struct look discover_look_at(const struct box_ref *ref)
{
	return (struct look){
		.files = {.box = ref->box,
			  .user = "",
			  .proc = true,
			  .deadline = loop_now(ref->entry->manager->loop) +
				      timer_ms(TIMER_INSPECTION)},
		.bytes = BUF_INIT(READ_MAX),
	};
}

// *out is NULL when the process has exited or cannot be read.
static fallible discover_read_file(struct look *look, int pid, const char *name, struct str *out)
{
	struct fileop_stat stat;
	char path[48];
	struct err *err;
	int fd = -1;

	*out = (struct str){0};
	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	buf_clear(&look->bytes);
	err = files_read(&look->files, path, &look->bytes, &fd, &stat);
	if (!err) {
		*out = fd >= 0 ? (struct str){0} : buf_view(&look->bytes);
		closer_drop(&fd);
		return OK;
	}
	// ESRCH is reported as an error of the file system.
	if (err_kind(err) == ERR_NOT_FOUND || err_kind(err) == ERR_FORBIDDEN ||
	    strcmp(err_reason(err), "fs_error") == 0) {
		err_free(err);
		return OK;
	}
	return err;
}

// The value of a variable; at == NULL: absent.
static struct str variable(struct str env, const char *name)
{
	size_t len = strlen(name);
	struct str rest = env, one;

	while (rest.len && str_cut(&rest, '\0', &one))
		if (one.len > len && one.at[len] == '=' && memcmp(one.at, name, len) == 0)
			return str_skip(one, len + 1);
	return (struct str){0};
}

static void copy(struct str from, char *room, size_t size)
{
	if (from.at && from.len < size)
		snprintf(room, size, STR_FMT, STR_ARG(from));
}

static void read_marks(struct str env, struct seen *out)
{
	struct str generation = variable(env, DISCOVER_GENERATION);

	copy(variable(env, DISCOVER_SESSION), out->session, sizeof(out->session));
	copy(variable(env, DISCOVER_DIRECTORY), out->directory, sizeof(out->directory));
	copy(variable(env, DISCOVER_INSTANCE), out->instance, sizeof(out->instance));
	if (generation.at)
		str_to_u64(generation, 0, INT64_MAX, &out->generation);
}

// "0::/x-12.instance_…", or on v1 one such line a controller.
static void read_cgroup(struct str groups, struct seen *out)
{
	auto_free char *text = mem_dup(groups.at ? groups.at : "", groups.len);
	const char *at = strstr(text, ":/x-");
	char *end = NULL;

	if (!at)
		return;
	out->exec_cgroup = 1 + (uint32_t)strtoul(at + 4, &end, 10);
	if (*end == '.')
		copy((struct str){end + 1, strcspn(end + 1, "\n")}, out->mark, sizeof(out->mark));
}

// Parses the fields after the process name, which may contain anything, at the last bracket.
static bool read_stat(struct str stat, struct seen *out)
{
	const char *end = stat.len ? memrchr(stat.at, ')', stat.len) : NULL;
	struct str rest, field;
	uint64_t parent = 0;

	if (!end || end + 2 >= stat.at + stat.len)
		return false;
	out->is_preforked = false;
	for (size_t i = 0; i < sizeof(prefork_titles) / sizeof(*prefork_titles); i++)
		out->is_preforked |= memmem(stat.at, (size_t)(end - stat.at), prefork_titles[i],
					    strlen(prefork_titles[i])) != NULL;
	rest = str_skip(stat, (size_t)(end + 2 - stat.at));
	for (int i = 0; str_cut(&rest, ' ', &field); i++) {
		if (i == 0 && (str_is(field, "Z") || str_is(field, "X")))
			return false;
		if (i == 1)
			str_to_u64(field, 0, INT32_MAX, &parent);
		if (i == 19) {
			out->parent = (int)parent;
			return str_to_u64(field, 0, INT64_MAX, &out->start);
		}
	}
	return false;
}

static fallible discover_read_process(struct look *look, int pid, struct seen *out, bool *out_there)
{
	struct str text;

	*out = (struct seen){.pid = pid};
	TRY(discover_read_file(look, pid, "stat", &text));
	*out_there = text.at && read_stat(text, out);
	if (!*out_there)
		return OK;
	TRY(discover_read_file(look, pid, "cgroup", &text));
	read_cgroup(text, out);
	TRY(discover_read_file(look, pid, "environ", &text));
	if (text.at)
		read_marks(text, out);
	// A preforked worker shares pid 1's memory, which no process in the box can read: one with
	// only the title is none.
	out->is_preforked &= !text.at && out->parent == 1;
	return OK;
}

// All pids except pid 1, which is cove's. The caller frees *out.
static fallible list_pids(struct look *look, int **out, size_t *out_count)
{
	auto_free int *pids = NULL;
	struct files_walk *walk = NULL;
	struct fileop_entry entry;
	size_t count = 0;
	bool more = true;

	TRY(files_list(&look->files, "/proc", 0, 0, &walk));
	while (more) {
		struct err *err = files_next_entry(walk, &entry, &more);
		uint64_t pid;

		if (err) {
			files_drop(walk);
			return err;
		}
		if (!more || !str_to_u64(entry.path, 2, INT32_MAX, &pid))
			continue;
		if (count >= PROCESSES_MAX) {
			files_drop(walk);
			return err_new(EXHAUSTED, "too_many", "too many processes to scan");
		}
		if (count % 64 == 0)
			pids = mem_grow(pids, count + 64, sizeof(*pids));
		pids[count++] = (int)pid;
	}
	err_free(files_end(walk, NULL));
	*out = take_ptr(pids);
	*out_count = count;
	return OK;
}

typedef void see_fn(const struct seen *seen, void *of);

static fallible see_all(const struct box_ref *ref, see_fn *see, void *of)
{
	auto_look look = discover_look_at(ref);
	auto_free int *pids = NULL;
	auto_free struct seen *seen = mem_new_of(struct seen);
	size_t count = 0;

	TRY(list_pids(&look, &pids, &count));
	for (size_t i = 0; i < count; i++) {
		bool there = false;

		TRY(discover_read_process(&look, pids[i], seen, &there));
		if (there && !seen->is_preforked)
			see(seen, of);
	}
	return OK;
}

// ---------------------------------------------------------------------------- grouping

struct grouping {
	struct entry *entry;
	const struct backend_site *site;
	const struct lease *lease;
	uint32_t exec_cgroup;
	struct backend_view *out;
};

static struct backend_found *group_of(struct backend_view *view, const char *instance,
				      uint64_t generation)
{
	struct backend_found *found;

	for (size_t i = 0; i < view->count; i++) {
		found = &view->found[i];
		if (strcmp(found->instance, instance) == 0 && found->generation == generation)
			return found;
	}
	if (view->count == BACKEND_FOUND_MAX)
		return NULL;
	found = &view->found[view->count++];
	*found = (struct backend_found){.generation = generation};
	snprintf(found->instance, sizeof(found->instance), "%s", instance);
	return found;
}

// The first process is the one that the lease names; if unknown, the one that pid 1 started, or the
// oldest.
static bool discover_is_first(const struct grouping *grouping, const struct backend_found *found,
			      const struct seen *seen)
{
	const struct lease_place *place = &grouping->lease->place;

	if (strcmp(found->instance, grouping->lease->instance) == 0 && place->pid)
		return seen->pid == place->pid && seen->start == place->start;
	return !found->pid || seen->start < found->start;
}

// The marks are those of a runner whose cgroup it is not in: a process of the sandbox wrote them
// itself. A leased runner of an older cove is in a cgroup without its name.
static bool discover_is_spoofed(const struct grouping *grouping, const struct seen *seen)
{
	bool is_leased = grouping->exec_cgroup && seen->exec_cgroup == grouping->exec_cgroup &&
			 !strcmp(seen->instance, grouping->lease->instance);

	return seen->session[0] && seen->instance[0] && strcmp(seen->instance, seen->mark) != 0 &&
	       !is_leased;
}

// Each such process is told of once, in the order of their starts.
static void discover_report(struct grouping *grouping, const struct seen *seen)
{
	struct entry *entry = grouping->entry;
	char pid[16];

	if (seen->start < entry->spoofed.start ||
	    (seen->start == entry->spoofed.start && seen->pid <= entry->spoofed.pid))
		return;
	entry->spoofed.start = seen->start;
	entry->spoofed.pid = seen->pid;
	snprintf(pid, sizeof(pid), "%d", seen->pid);
	event_publish_security(entry->record.id, "marker_spoofed", "medium", "claims",
			       seen->session, "pid", pid);
}

static void group(const struct seen *seen, void *of)
{
	struct grouping *grouping = of;
	const struct lease *lease = grouping->lease;
	bool marked = strcmp(seen->session, grouping->site->session) == 0;
	bool inside = (grouping->exec_cgroup && seen->exec_cgroup == grouping->exec_cgroup) ||
		      (seen->mark[0] && strcmp(seen->mark, lease->instance) == 0);
	struct backend_found *found;

	if (discover_is_spoofed(grouping, seen))
		discover_report(grouping, seen);
	// A process in the leased cgroup is the leased runner's, unless it carries another mark.
	if (marked)
		found = group_of(grouping->out, seen->instance, seen->generation);
	else if (inside)
		found = group_of(grouping->out, lease->instance, lease->generation);
	else
		return;
	if (!found)
		return; // several runners: their number does not matter
	if (discover_is_first(grouping, found, seen)) {
		found->pid = seen->pid;
		found->start = seen->start;
	}
	if (!found->exec_cgroup || inside)
		found->exec_cgroup = seen->exec_cgroup;
}

void discover(const struct box_ref *ref, const struct backend_site *local,
	      const struct lease *lease, uint32_t cgroup, struct backend_view *out)
{
	struct grouping grouping = {ref->entry, local, lease, cgroup, out};
	auto_err err = OK;

	*out = (struct backend_view){0};
	err = see_all(ref, group, &grouping);
	if (err) {
		*out = (struct backend_view){.failed = true};
		snprintf(out->why, sizeof(out->why), "%s", err_message(err));
	}
}

fallible discover_start(const struct box_ref *ref, int pid, uint64_t *out)
{
	auto_look look = discover_look_at(ref);
	struct seen seen = {0};
	struct str text;

	TRY(discover_read_file(&look, pid, "stat", &text));
	if (!text.at || !read_stat(text, &seen))
		return err_new(NOT_FOUND, "no_process", "the process has ended");
	*out = seen.start;
	return OK;
}

struct naming {
	void (*each)(const char *name, void *of);
	void *of;
};

static void discover_name(const struct seen *seen, void *of)
{
	struct naming *naming = of;

	if (seen->directory[0])
		naming->each(seen->directory, naming->of);
}

static void name_session(const struct seen *seen, void *of)
{
	struct naming *naming = of;

	if (seen->session[0] && seen->directory[0] && seen->instance[0] && seen->generation)
		naming->each(seen->session, naming->of);
}

fallible discover_sessions(const struct box_ref *ref, void (*each)(const char *name, void *of),
			   void *of)
{
	struct naming naming = {each, of};

	return see_all(ref, name_session, &naming);
}

fallible discover_directories(const struct box_ref *ref, void (*each)(const char *name, void *of),
			      void *of)
{
	struct naming naming = {each, of};

	return see_all(ref, discover_name, &naming);
}
