// Requests with many answers: list, find, grep, archives, watches, ports. Items lie in a copy of
// the message that brought them, because the caller may wait between two items.
//
// syscalls: fstat newfstatat close
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "box/files_private.h"
#include "box/private.h"
#include "loop/closer.h"

struct files_walk {
	struct box_file_worker *worker; // NULL: ended
	enum fileop_kind kind;		// of its items
	int64_t deadline;
	struct files_total total;
	struct buf room; // items of the last message
	struct unpack items;
	char *path;
};

static struct files_walk *new_walk(const struct files *files, const char *path,
				   enum fileop_kind kind)
{
	struct files_walk *walk = mem_new_of(struct files_walk);

	walk->kind = kind;
	walk->deadline = files->deadline;
	walk->room = BUF_INIT(FILEOP_SIZE_MAX);
	walk->path = mem_str(path);
	unpack_init(&walk->items, "", 0);
	return walk;
}

void files_drop(struct files_walk *walk)
{
	if (!walk)
		return;
	if (walk->worker)
		box_file_worker_drop(walk->worker);
	buf_done(&walk->room);
	free(walk->path);
	free(walk);
}

static void files_walk_finish(struct files_walk *walk, const struct fileop_reply *say)
{
	size_t len = say->text.len < sizeof(walk->total.note) ? say->text.len
							      : sizeof(walk->total.note) - 1;

	walk->total = (struct files_total){.count = say->count,
					   .bytes = say->bytes,
					   .skipped = say->skipped,
					   .more = say->more};
	memcpy(walk->total.note, say->text.at, len);
	box_file_worker_give(take_ptr(walk->worker));
}

// Reads the next message: items, or the end. An error ends the walk.
static fallible files_walk_hear(struct files_walk *walk, int64_t deadline)
{
	struct fileop_reply say;
	auto_closer_fd fd = -1;
	struct err *err = box_file_worker_next(walk->worker, deadline, &say, &fd);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err;
	if (!err && say.kind == FILEOP_FAILED) {
		err = files_explain(&say, walk->path);
		box_file_worker_give(take_ptr(walk->worker));
	} else if (!err && say.kind == FILEOP_DONE) {
		files_walk_finish(walk, &say);
	} else if (!err && say.kind == walk->kind && walk->kind >= FILEOP_ENTRIES) {
		buf_clear(&walk->room);
		buf_str(&walk->room, say.rest);
		unpack_init(&walk->items, walk->room.at, walk->room.len);
	} else {
		if (!err)
			err = files_nonsense();
		box_file_worker_drop(take_ptr(walk->worker));
	}
	return err;
}

// *more: another item is available. Waits.
static fallible more_items(struct files_walk *walk, int64_t deadline, bool *more)
{
	while (walk->items.left == 0 && walk->worker)
		TRY(files_walk_hear(walk, deadline));
	*more = walk->items.left > 0;
	return OK;
}

static fallible bad_item(struct files_walk *walk)
{
	unpack_init(&walk->items, "", 0);
	if (walk->worker)
		box_file_worker_drop(take_ptr(walk->worker));
	return files_nonsense();
}

fallible files_next_entry(struct files_walk *walk, struct fileop_entry *out, bool *more)
{
	TRY(more_items(walk, walk->deadline, more));
	if (*more && !fileop_get_entry(&walk->items, out))
		return bad_item(walk);
	return OK;
}

fallible files_next_match(struct files_walk *walk, struct fileop_match *out, bool *more)
{
	TRY(more_items(walk, walk->deadline, more));
	if (*more && !fileop_get_match(&walk->items, out))
		return bad_item(walk);
	return OK;
}

fallible files_next_event(struct files_walk *walk, int64_t deadline, struct fileop_event *out)
{
	bool more;

	TRY(more_items(walk, deadline, &more));
	if (!more) {
		*out = (struct fileop_event){.type = FILEOP_STOPPED, .path = STR("")};
		return OK;
	}
	return fileop_get_event(&walk->items, out) ? OK : bad_item(walk);
}

void files_nudge(struct files_walk *walk)
{
	if (walk->worker)
		box_file_worker_nudge(walk->worker);
}

fallible files_end(struct files_walk *walk, struct files_total *total)
{
	struct err *err = OK;

	if (!walk)
		return OK;
	while (total && !err && walk->worker && walk->items.left == 0)
		err = files_walk_hear(walk, walk->deadline);
	if (total && !err)
		*total = walk->total;
	files_drop(walk);
	return err;
}

// ------------------------------------------------------------------------------ beginnings

static uint32_t count_of(const char *const *list)
{
	uint32_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

// Joins both lists for the request; freed by the caller.
static fallible files_walk_put_globs(struct fileop_request *ask, const char *const *include,
				     const char *const *exclude, const char ***out)
{
	uint32_t includes = count_of(include), excludes = count_of(exclude);

	if (includes + excludes > FILEOP_GLOBS_MAX)
		return err_new(INVALID, "too_many_patterns", "at most %d patterns",
			       FILEOP_GLOBS_MAX);
	*out = mem_new((includes + excludes + 1) * sizeof(**out));
	for (uint32_t i = 0; i < includes; i++)
		(*out)[i] = include[i];
	for (uint32_t i = 0; i < excludes; i++)
		(*out)[includes + i] = exclude[i];
	ask->includes = includes;
	ask->excludes = excludes;
	ask->globs = *out;
	return OK;
}

static fallible files_walk_begin(const struct files *files, struct fileop_request *ask,
				 const char *const *include, const char *const *exclude,
				 enum fileop_kind kind, struct files_walk **out)
{
	auto_free const char **globs = NULL;
	auto_worker worker = NULL;

	TRY(files_check(ask->path.at));
	TRY(files_walk_put_globs(ask, include, exclude, &globs));
	TRY(files_put(files, ask,
		      ask->verb == FILEOP_WATCH ? FILE_WORKER_ENDLESS : FILE_WORKER_LONG, &worker));
	*out = new_walk(files, ask->path.at, kind);
	(*out)->worker = take_ptr(worker);
	return OK;
}

// Waits for the first answer, which tells whether the request is possible.
static fallible begin_items(const struct files *files, struct fileop_request *ask,
			    const char *const *include, const char *const *exclude,
			    enum fileop_kind kind, struct files_walk **out)
{
	struct files_walk *walk;
	struct err *err;

	TRY(files_walk_begin(files, ask, include, exclude, kind, &walk));
	err = files_walk_hear(walk, walk->deadline);
	if (err) {
		files_drop(walk);
		return err;
	}
	*out = walk;
	return OK;
}

fallible files_list(const struct files *files, const char *path, uint32_t flags, uint64_t limit,
		    struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_LIST, path);

	ask.flags = flags & (FILEOP_RECURSIVE | FILEOP_HIDDEN);
	ask.limit = limit;
	return begin_items(files, &ask, NULL, NULL, FILEOP_ENTRIES, out);
}

fallible files_find(const struct files *files, const char *path, const struct files_find *find,
		    struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_FIND, path);

	ask.flags = find->flags & FILEOP_HIDDEN;
	ask.types = find->types;
	ask.min = find->min_size;
	ask.max = find->max_size;
	ask.depth = find->depth;
	ask.limit = find->limit;
	return begin_items(files, &ask, find->include, find->exclude, FILEOP_ENTRIES, out);
}

fallible files_grep(const struct files *files, const char *path, const struct files_grep *grep,
		    struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_GREP, path);

	if (grep->pattern.len == 0 || grep->pattern.len > 4096)
		return err_new(INVALID, "bad_pattern", "a pattern has 1 to 4096 bytes");
	ask.flags = grep->flags & (FILEOP_FIXED | FILEOP_NO_CASE | FILEOP_HIDDEN);
	ask.text = grep->pattern;
	ask.limit = grep->limit;
	ask.max = grep->max_size;
	return begin_items(files, &ask, grep->include, grep->exclude, FILEOP_MATCHES, out);
}

// The pipe comes first; DONE when all bytes went through it.
static fallible begin_pipe(const struct files *files, struct fileop_request *ask,
			   const char *const *include, const char *const *exclude, int *out_fd,
			   struct files_walk **out)
{
	auto_free const char **globs = NULL;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;
	struct fileop_reply say;
	struct stat st;

	TRY(files_walk_put_globs(ask, include, exclude, &globs));
	TRY(files_get(files, ask, FILE_WORKER_LONG, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return files_nonsense();
	*out = new_walk(files, ask->path.at, FILEOP_DONE);
	(*out)->worker = take_ptr(worker);
	*out_fd = take_fd(&fd);
	return OK;
}

fallible files_pack(const struct files *files, const char *path, const struct files_pack *pack,
		    int *out_fd, struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_PACK, path);

	if (pack->gitignore && !(files->box->features & TALK_CAN_IGNORE))
		return err_hint(err_new(NOT_OFFERED, "old_box",
					"the sandbox was started by an older cove, which cannot "
					"leave out what git ignores"),
				"stop and start it");
	ask.flags = pack->gitignore ? FILEOP_IGNORE : 0;
	return begin_pipe(files, &ask, pack->gitignore ? pack->tracked : NULL, pack->exclude,
			  out_fd, out);
}

fallible files_unpack(const struct files *files, const char *path, uint32_t flags, int *out_fd,
		      struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_UNPACK, path);

	ask.flags = flags & FILEOP_OWNERS;
	return begin_pipe(files, &ask, NULL, NULL, out_fd, out);
}

fallible files_watch(const struct files *files, const char *path, uint32_t flags,
		     const char *const *include, const char *const *exclude,
		     struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_WATCH, path);
	struct files_walk *walk;
	struct fileop_reply say;
	struct err *err;
	int fd = -1;

	ask.flags = flags & (FILEOP_RECURSIVE | FILEOP_ATTRIB);
	TRY(files_walk_begin(files, &ask, include, exclude, FILEOP_EVENTS, &walk));
	err = box_file_worker_next(walk->worker, files->deadline, &say, &fd);
	if (!err && say.kind == FILEOP_FAILED)
		err = files_explain(&say, path);
	else if (!err && say.kind != FILEOP_DONE)
		err = files_nonsense();
	if (err) {
		closer_drop(&fd);
		files_drop(walk);
		return err;
	}
	walk->total.count = say.count;
	*out = walk;
	return OK;
}

// ----------------------------------------------------------------------------------- ports

static fallible take_socket(const struct files *files, const struct fileop_request *ask, bool rests,
			    int *out_fd)
{
	struct fileop_reply say;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;
	struct stat st;
	int none = -1;

	TRY(files_get(files, ask, FILE_WORKER_SHORT, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED || fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode))
		return files_nonsense();
	TRY(box_file_worker_next(worker, files->deadline, &say, &none));
	if (say.kind != FILEOP_DONE) {
		closer_drop(&none);
		return files_nonsense();
	}
	if (rests)
		box_file_worker_give(take_ptr(worker));
	*out_fd = take_fd(&fd);
	return OK;
}

fallible files_dial(const struct files *files, uint16_t port, int *out_fd)
{
	struct fileop_request ask = files_ask(files, FILEOP_DIAL, "/");
	struct err *err;

	ask.number = port;
	err = take_socket(files, &ask, true, out_fd);
	if (err && (!strcmp(err_reason(err), "fs_error") || err_kind(err) == ERR_FORBIDDEN))
		return err_recast(err, ERR_BAD_PEER, "port_closed",
				  "nothing answers at port %u of the sandbox", port);
	return err;
}

fallible files_socket(const struct files *files, int *out_fd)
{
	struct fileop_request ask = files_ask(files, FILEOP_SOCKET, "/");

	return take_socket(files, &ask, false, out_fd);
}

fallible files_ports(const struct files *files, struct fileop_port *out, size_t room, size_t *count)
{
	struct fileop_request ask = files_ask(files, FILEOP_PORTS, "/");
	struct files_walk *walk;
	struct err *err = OK;
	size_t n = 0;

	TRY(files_walk_begin(files, &ask, NULL, NULL, FILEOP_PORTS_ARE, &walk));
	for (bool more = true; more && !err;) {
		struct fileop_port port;

		err = more_items(walk, files->deadline, &more);
		if (err || !more)
			break;
		if (!fileop_get_port(&walk->items, &port))
			err = bad_item(walk);
		else if (port.port != files->box->net.port && n++ < room)
			out[n - 1] = port;
	}
	files_drop(walk);
	if (!err)
		*count = n;
	return err;
}

fallible files_sweep(const struct files *files, int pid, uint64_t since_ms, int signal,
		     uint32_t *out_count)
{
	struct fileop_request ask = files_ask(files, FILEOP_SWEEP, "/");
	struct fileop_reply say;

	ask.pid = (uint32_t)pid;
	ask.since = since_ms;
	ask.number = (uint32_t)signal;
	TRY(files_once(files, &ask, &say));
	*out_count = (uint32_t)say.count;
	return OK;
}

fallible files_sweep_cgroup(const struct files *files, uint32_t exec_cgroup, int spared,
			    uint64_t since_ms, int signal, uint32_t *out_count)
{
	struct fileop_request ask = files_ask(files, FILEOP_SWEEP, "/");
	struct fileop_reply say;

	ask.pid = (uint32_t)spared;
	ask.since = since_ms;
	ask.depth = exec_cgroup + 1;
	ask.number = (uint32_t)signal;
	TRY(files_once(files, &ask, &say));
	*out_count = (uint32_t)say.count;
	return OK;
}
