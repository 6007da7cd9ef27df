// One inotify watch per directory, added by fd before the directory is listed: entries that exist
// are found, later ones are reported by the kernel, and duplicates are merged. A renamed directory
// keeps its watches, with a new path; a directory that leaves the tree loses them when no
// IN_MOVED_TO follows within the delay. Events are delayed for a short time, counted from the
// first. An event that equals the last one of its path is dropped, no other is, so the last event
// of a path is always right. Files that cove itself replaces have names by which the rename is
// reported as it is meant (path_resolve_temp_name()).
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codec/glob.h"
#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "init/tree.h"
#include "os/fd.h"

#define FREE 0 // watch descriptors start at 1
#define GIVEN_UP (-1)

struct place {
	int wd;
	char *path;
};

// The table of inotify watches: an open-addressing hash table by watch descriptor. A removed entry
// stays marked until the table is rebuilt. Paths are on the heap; a failed allocation ends the
// watch.
static struct {
	struct place *places;
	uint32_t size; // a power of two
	uint32_t used; // with removed entries
	uint32_t count;
} table;

// NULL: none.
static struct place *watched_find(int wd)
{
	if (table.size == 0 || wd <= 0)
		return NULL;
	for (uint32_t i = (uint32_t)wd * 2654435761u;; i++) {
		struct place *place = &table.places[i & (table.size - 1)];

		if (place->wd == wd)
			return place;
		if (place->wd == FREE)
			return NULL;
	}
}

static void watched_put(struct place what)
{
	int wd = what.wd;
	uint32_t i = (uint32_t)wd * 2654435761u;

	while (table.places[i & (table.size - 1)].wd != FREE)
		i++;
	table.places[i & (table.size - 1)] = what;
	table.used++;
	table.count++;
}

static bool watched_make_room(void)
{
	struct place *old = table.places;
	uint32_t old_size = table.size;
	struct place *places;

	if (table.used + 1 <= table.size / 2)
		return true;
	while (table.size < 64 || table.count + 1 > table.size / 4)
		table.size = table.size ? table.size * 2 : 64;
	places = calloc(table.size, sizeof(*places));
	if (!places) {
		table.size = old_size;
		return false;
	}
	table.places = places;
	table.used = table.count = 0;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i].wd > 0)
			watched_put(old[i]);
	free(old);
	return true;
}

// Adds it, or changes its path. False: no memory.
static bool watched_add(int wd, const char *path)
{
	char *own = strdup(path);
	struct place *place = watched_find(wd);

	if (!own || (!place && !watched_make_room())) {
		free(own);
		return false;
	}
	if (place) {
		free(place->path);
		place->path = own;
	} else {
		watched_put((struct place){wd, own});
	}
	return true;
}

static void give_up(struct place *place)
{
	free(place->path);
	*place = (struct place){.wd = GIVEN_UP};
	table.count--;
}

static bool is_in(const struct place *place, const char *path, size_t len)
{
	return place->wd > 0 && strncmp(place->path, path, len) == 0 &&
	       (!place->path[len] || place->path[len] == '/');
}

// The directory, and everything beneath it, has a new path.
static void watched_rename(const char *path, const char *to)
{
	size_t len = strlen(path), to_len = strlen(to);

	for (uint32_t i = 0; i < table.size; i++) {
		struct place *place = &table.places[i];
		size_t rest;
		char *moved;

		if (!is_in(place, path, len))
			continue;
		rest = strlen(place->path + len);
		moved = malloc(to_len + rest + 1);
		if (!moved)
			continue;
		memcpy(moved, to, to_len);
		memcpy(moved + to_len, place->path + len, rest + 1);
		free(place->path);
		place->path = moved;
	}
}

// Removes the watches of a directory and of everything beneath it.
static void watched_drop_tree(int inotify, const char *path)
{
	size_t len = strlen(path);

	for (uint32_t i = 0; i < table.size; i++) {
		struct place *place = &table.places[i];

		if (!is_in(place, path, len))
			continue;
		inotify_rm_watch(inotify, place->wd);
		give_up(place);
	}
}

static void watched_clear(void)
{
	for (uint32_t i = 0; i < table.size; i++)
		if (table.places[i].wd > 0)
			free(table.places[i].path);
	free(table.places);
	memset(&table, 0, sizeof(table));
}

#define MERGE_MS 75
#define PENDING_MAX 1000
#define CATCH_UP_READS 64
#define MASK                                                                                       \
	(IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |        \
	 IN_MOVE_SELF | IN_EXCL_UNLINK)

struct pending {
	enum fileop_event_type type;
	bool is_directory;
	char *path;
};

static struct {
	const struct fileop_request *ask;
	int inotify, root, root_wd;
	int parent_wd; // -1: none
	struct pending pending[PENDING_MAX];
	int count;
	int64_t due; // of the oldest event that waits
	bool is_over;
	uint32_t cookie; // of a temporary file of cove that is being renamed
	enum path_resolve_temp temp;
	uint32_t leaving; // the cookie of a directory that left, and its path
	char left[FILEOP_PATH_MAX + 1];
	bool lame; // some directory could not be watched
	char path[FILEOP_PATH_MAX + 1];
	_Alignas(8) char events[65536];
} job;

static int64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void forget_left(void)
{
	if (job.leaving)
		watched_drop_tree(job.inotify, job.left);
	job.leaving = 0;
}

static void init_watch_flush(void)
{
	struct reply_batch batch;

	reply_begin(&batch, FILEOP_EVENTS);
	for (int i = 0; i < job.count; i++) {
		struct pending *event = &job.pending[i];

		fileop_put_event(&batch.pack,
				 &(struct fileop_event){event->type, event->is_directory,
							str_of(event->path)});
		reply_item(&batch);
		free(event->path);
	}
	reply_flush(&batch);
	job.count = 0;
	forget_left();
}

static bool init_watch_is_reported(const char *path)
{
	const struct fileop_request *ask = job.ask;

	if (tree_is_excluded(ask, path))
		return false;
	for (uint32_t i = 0; i < ask->includes; i++)
		if (glob_hits(ask->globs[i], path))
			return true;
	return ask->includes == 0;
}

static void init_watch_report(enum fileop_event_type type, bool is_directory, const char *path)
{
	char *own;

	if (*path && !init_watch_is_reported(path))
		return;
	for (int i = job.count - 1; i >= 0; i--) {
		if (strcmp(job.pending[i].path, path) != 0)
			continue;
		if (job.pending[i].type == type)
			return;
		break;
	}
	own = strdup(path);
	if (!own)
		return;
	if (job.count == 0)
		job.due = now_ms() + MERGE_MS;
	job.pending[job.count++] = (struct pending){type, is_directory, own};
	if (job.count == PENDING_MAX)
		init_watch_flush();
}

// Adds a watch, by fd. False: too many watches.
static bool watch_dir(int dir, const char *name, const char *path)
{
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint32_t mask = MASK | (job.ask->flags & FILEOP_ATTRIB ? IN_ATTRIB : 0);
	char at[32];
	int wd;

	if (fd < 0)
		return true;
	wd = inotify_add_watch(job.inotify, path_resolve_of_fd(fd, at), mask);
	close(fd);
	if (wd < 0)
		return errno != ENOSPC && errno != ENOMEM;
	return watched_add(wd, path);
}

// Watches all directories beneath one that is watched already. `fresh`: their entries are new.
static bool watch_beneath(int root, const char *path, bool fresh)
{
	size_t len = strlen(path);
	struct walk_at at;
	enum walk_step step;
	bool all = true;

	walk_begin(root);
	while ((step = walk_next(&at)) != WALK_END) {
		bool is_dir;

		if (step == WALK_LEFT || len + 1 + at.path.len > FILEOP_PATH_MAX ||
		    path_resolve_is_temp(at.name))
			continue;
		memcpy(job.path, path, len);
		job.path[len] = '/';
		memcpy(job.path + len + (len > 0), at.path.at, at.path.len + 1);
		if (tree_is_excluded(job.ask, job.path))
			continue;
		is_dir = tree_is_directory(&at);
		if (fresh)
			init_watch_report(FILEOP_CREATE, is_dir, job.path);
		if (!is_dir || !(job.ask->flags & FILEOP_RECURSIVE))
			continue;
		all &= watch_dir(at.dir, at.name, job.path);
		if (all)
			walk_enter();
	}
	walk_end();
	return all;
}

// A directory was added. It is opened relative to the root, which is held open.
static void meet(const char *path, bool fresh)
{
	static char own[FILEOP_PATH_MAX + 1];
	struct path_resolve resolved;
	int dir = -1;

	memcpy(own, path, strlen(path) + 1);
	if (tree_is_excluded(job.ask, own) ||
	    !path_resolve_beneath(job.root, own, false, &resolved))
		return;
	if (resolved.name[0]) {
		job.lame |= !watch_dir(resolved.dir, resolved.name, own);
		dir = openat(resolved.dir, resolved.name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	path_resolve_done(&resolved);
	if (dir >= 0)
		job.lame |= !watch_beneath(dir, own, fresh);
}

static bool init_watch_join(const char *dir, const char *name)
{
	size_t len = strlen(dir), more = strlen(name);

	if (len + 1 + more > FILEOP_PATH_MAX)
		return false;
	memcpy(job.path, dir, len);
	if (len > 0 && more > 0)
		job.path[len++] = '/';
	memcpy(job.path + len, name, more + 1);
	return true;
}

// Files of cove itself: true if the event is fully handled.
static bool init_watch_is_ours(const struct inotify_event *event, const char *name)
{
	enum path_resolve_temp temp = path_resolve_is_temp(name);

	if (temp) {
		if (event->mask & IN_MOVED_FROM) {
			job.cookie = event->cookie;
			job.temp = temp;
		}
		return true;
	}
	if (!(event->mask & IN_MOVED_TO) || !job.cookie || event->cookie != job.cookie)
		return false;
	job.cookie = 0;
	if (job.temp == PATH_RESOLVE_TEMP_NEW)
		init_watch_report(FILEOP_CREATE, event->mask & IN_ISDIR, job.path);
	if (!(event->mask & IN_ISDIR))
		init_watch_report(FILEOP_MODIFY, false, job.path);
	return !(event->mask & IN_ISDIR);
}

static void watch_event_name(const struct inotify_event *event)
{
	static const struct {
		uint32_t bit;
		enum fileop_event_type type;
	} rows[] = {
		{IN_CREATE, FILEOP_CREATE},    {IN_MODIFY, FILEOP_MODIFY},
		{IN_DELETE, FILEOP_DELETE},    {IN_MOVED_FROM, FILEOP_MOVE_FROM},
		{IN_MOVED_TO, FILEOP_MOVE_TO}, {IN_ATTRIB, FILEOP_ATTRIB_SET},
	};
	bool is_dir = event->mask & IN_ISDIR;

	if (event->len > 0 && init_watch_is_ours(event, event->name))
		return;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (event->mask & rows[i].bit)
			init_watch_report(rows[i].type, is_dir, job.path);
	if (!is_dir || event->len == 0 || !(job.ask->flags & FILEOP_RECURSIVE))
		return;
	if (event->mask & IN_MOVED_FROM) {
		forget_left();
		job.leaving = event->cookie;
		memcpy(job.left, job.path, strlen(job.path) + 1);
	} else if ((event->mask & IN_MOVED_TO) && job.leaving == event->cookie && job.leaving &&
		   !tree_is_excluded(job.ask, job.path)) {
		watched_rename(job.left, job.path);
		job.leaving = 0;
	} else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
		meet(job.path, event->mask & IN_CREATE);
	}
}

static void rescan(void)
{
	int root = openat(job.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root >= 0 && (job.ask->flags & FILEOP_RECURSIVE))
		watch_beneath(root, "", false);
	else if (root >= 0)
		close(root);
}

// Whether the root is still at the requested path.
static bool is_there(void)
{
	auto_fd_errno fd = path_resolve_open(job.ask->base, job.ask->path, O_PATH);
	struct stat now, then;

	return fd >= 0 && fstat(fd, &now) == 0 && fstat(job.root, &then) == 0 &&
	       now.st_ino == then.st_ino && now.st_dev == then.st_dev;
}

static void watch_event(const struct inotify_event *event)
{
	struct place *place;

	if (event->mask & IN_Q_OVERFLOW) {
		init_watch_report(FILEOP_OVERFLOW, false, "");
		rescan();
		return;
	}
	if (event->wd == job.parent_wd && !is_there()) {
		init_watch_report(FILEOP_STOPPED, true, "");
		job.is_over = true;
	}
	place = watched_find(event->wd);
	if (!place)
		return;
	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) {
		if (event->wd == job.root_wd) {
			init_watch_report(FILEOP_STOPPED, true, "");
			job.is_over = true;
		} else if (event->mask & (IN_IGNORED | IN_UNMOUNT)) {
			give_up(place);
		}
		return;
	}
	// Events of the directory itself come from its parent as well.
	if (event->len == 0 && event->wd != job.root_wd)
		return;
	if (init_watch_join(place->path, event->len > 0 ? event->name : ""))
		watch_event_name(event);
}

// A large file is replaced by RENAME_EXCHANGE (file.c): it moves to a temporary name first.
static bool is_exchange(const struct inotify_event *event, const struct inotify_event *next)
{
	return next && (event->mask & IN_MOVED_FROM) && (next->mask & IN_MOVED_TO) &&
	       event->cookie == next->cookie && next->len > 0 && path_resolve_is_temp(next->name);
}

static bool watch_read_events(void)
{
	ssize_t n = read(job.inotify, job.events, sizeof(job.events));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	for (ssize_t at = 0; at < n && !job.is_over;) {
		const struct inotify_event *event = (const void *)(job.events + at), *next;

		at += (ssize_t)sizeof(*event) + event->len;
		next = at < n ? (const void *)(job.events + at) : NULL;
		if (!is_exchange(event, next))
			watch_event(event);
	}
	if (job.lame)
		init_watch_report(FILEOP_OVERFLOW, false, "");
	job.lame = false;
	return true;
}

// A client asks now: read all queued events and send them. A tree that keeps changing is not waited
// for.
static bool init_watch_catch_up(void)
{
	struct pollfd ready = {.fd = job.inotify, .events = POLLIN};
	char word;

	if (recv(reply_sock(), &word, sizeof(word), MSG_DONTWAIT) <= 0)
		return false;
	for (int i = 0; i < CATCH_UP_READS && !job.is_over && poll(&ready, 1, 0) > 0; i++)
		if (!watch_read_events())
			return false;
	init_watch_report(FILEOP_CAUGHT_UP, false, "");
	init_watch_flush();
	return true;
}

static void init_watch_live(void)
{
	while (!job.is_over) {
		struct pollfd ready[2] = {
			{.fd = job.inotify, .events = POLLIN},
			{.fd = reply_sock(), .events = POLLIN | POLLRDHUP},
		};
		int64_t wait = job.count > 0 ? job.due - now_ms() : -1;

		if (wait < 0 && job.count > 0) {
			init_watch_flush();
			continue;
		}
		if (poll(ready, 2, (int)wait) < 0 && errno != EINTR)
			break;
		if (ready[1].revents && !init_watch_catch_up())
			_exit(0);
		if (ready[0].revents && !watch_read_events())
			break;
	}
	init_watch_flush();
}

// The root is held open, so its own watch does not report its removal: its parent's does.
static int watch_parent(void)
{
	int up = openat(job.root, "..", O_PATH | O_DIRECTORY | O_CLOEXEC), wd;
	char at[32];

	if (up < 0)
		return -1;
	wd = inotify_add_watch(job.inotify, path_resolve_of_fd(up, at),
			       IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR | IN_MASK_ADD);
	close(up);
	return wd == job.root_wd ? -1 : wd;
}

static bool init_watch_begin(const struct fileop_request *ask)
{
	char at[32];
	struct stat st;
	int root;

	job.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (job.inotify < 0 || fstat(job.root, &st) < 0)
		return false;
	job.root_wd = inotify_add_watch(job.inotify, path_resolve_of_fd(job.root, at),
					MASK | (ask->flags & FILEOP_ATTRIB ? IN_ATTRIB : 0));
	if (job.root_wd < 0 || !watched_add(job.root_wd, ""))
		return false;
	job.parent_wd = watch_parent();
	if (!S_ISDIR(st.st_mode) || !(ask->flags & FILEOP_RECURSIVE))
		return true;
	root = openat(job.root, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (root < 0)
		return false;
	if (watch_beneath(root, "", false))
		return true;
	errno = ENOSPC;
	return false;
}

bool watch_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	struct fileop_reply placed = {.kind = FILEOP_DONE};
	bool begun;
	int kept;

	job.root = path_resolve_open(ask->base, ask->path, O_PATH);
	if (job.root < 0)
		return false;
	job.ask = ask;
	job.is_over = job.lame = false;
	job.cookie = job.leaving = 0;
	job.inotify = -1;
	begun = init_watch_begin(ask);
	kept = errno;
	if (begun) {
		placed.count = table.count;
		reply_answer(&placed, -1);
		init_watch_live();
	}
	watched_clear();
	fd_drop(&job.inotify);
	close(job.root);
	reply->count = 0;
	errno = kept == ENOSPC ? EMFILE : kept; // of watches, not of disk space
	return begun;
}
