// Each operation is one request to a file worker: with one answer, or a walk with many (list, find,
// grep, archives, watches, ports). An fd that a worker passes is checked before it is used: a
// regular file, on a file system of a type that boxes have, not procfs or a memfd. Items of a walk
// lie in a copy of the message that brought them, because the caller may wait between two items.
//
// syscalls: fstat newfstatat fstatfs close
#include "box/files.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/mem.h"
#include "box/file_worker.h"
#include "box/pipe.h"
#include "box/private.h"
#include "loop/closer.h"
#include "loop/offload.h"
#include "os/fd.h"
#include "types/event.h"

#define SHOWN 200
#define TRIES 5 // all idle workers, and a new one

// A request with default fields.
static struct fileop_request files_ask(const struct files *files, enum fileop_verb verb,
				       const char *path)
{
	return (struct fileop_request){
		.verb = verb,
		.mode = FILEOP_KEEP_MODE,
		.base = str_of(files->base ? files->base : "/workspace"),
		.path = str_of(path),
		.other = STR(""),
		.text = STR(""),
		.bytes = STR(""),
	};
}

static fallible files_check(const char *path)
{
	size_t len = strlen(path);

	if (len == 0)
		return err_new(INVALID, "bad_path", "a path must not be empty");
	if (len > FILEOP_PATH_MAX)
		return err_new(INVALID, "name_too_long", "a path has at most %d bytes",
			       FILEOP_PATH_MAX);
	return OK;
}

// The worker broke the protocol.
static fallible files_nonsense(void)
{
	return err_new(BAD_PEER, "bad_file_worker", "the sandbox sent an invalid answer");
}

static fallible files_explain_errno(int errnum, const char *path)
{
	static const struct {
		int errnum;
		enum err_kind kind;
		const char *reason, *text;
	} rows[] = {
		{ENOENT, ERR_NOT_FOUND, "no_file", "File not found"},
		{EISDIR, ERR_INVALID, "is_directory", "Is a directory"},
		{ENOTDIR, ERR_INVALID, "not_directory", "Not a directory"},
		{ENAMETOOLONG, ERR_INVALID, "name_too_long", "File name too long"},
		{ELOOP, ERR_INVALID, "too_many_links", "Too many links, or one that leads nowhere"},
		{EACCES, ERR_FORBIDDEN, "permission_denied", "Permission denied"},
		{ESRCH, ERR_CONFLICT, "process_gone", "The process has ended"},
		{EPERM, ERR_FORBIDDEN, "permission_denied", "Permission denied"},
		{EROFS, ERR_FORBIDDEN, "read_only", "Read-only file system"},
		{EIO, ERR_INTERNAL, "io_error", "Input/output error"},
		{EEXIST, ERR_CONFLICT, "file_exists", "File exists"},
		{ENOTEMPTY, ERR_CONFLICT, "not_empty", "Directory not empty"},
		{EBUSY, ERR_CONFLICT, "file_busy", "Resource busy"},
		{ETXTBSY, ERR_CONFLICT, "file_busy", "Resource busy"},
		{EFBIG, ERR_TOO_LARGE, "file_too_large", "File too large"},
		{ENOSPC, ERR_NO_SPACE, "no_space", "No space left on device"},
		{EDQUOT, ERR_NO_SPACE, "no_space", "No space left on device"},
		{EMFILE, ERR_EXHAUSTED, "too_many_files", "Too many open files"},
		{ENFILE, ERR_EXHAUSTED, "too_many_files", "Too many open files"},
		{EMLINK, ERR_INTERNAL, "too_deep", "Too deep a tree, or too many links"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].errnum == errnum)
			return err_new_at(__FILE__, __LINE__, rows[i].kind, 0, rows[i].reason,
					  "%s: %.*s", rows[i].text, SHOWN, path);
	return err_new(INTERNAL, "fs_error", "%s: %.*s", strerror(errnum), SHOWN, path);
}

static fallible files_explain(const char *box, const struct fileop_reply *failed, const char *path)
{
	switch (failed->why) {
	case FILEOP_REFUSED:
		event_publish_security(box, "path_refused", "medium", "path", path, NULL, NULL);
		return files_explain_errno(EACCES, path);
	case FILEOP_NOT_REGULAR:
		return err_new(INVALID, "not_regular", "Not a regular file: %.*s", SHOWN, path);
	case FILEOP_BAD_PATTERN:
		return err_new(INVALID, "bad_pattern", "the pattern is malformed");
	case FILEOP_BAD_ARCHIVE:
		return err_new(INVALID, "bad_archive", "the archive cannot be read: " STR_FMT,
			       STR_ARG(failed->text));
	case FILEOP_TOO_MUCH:
		return err_new(TOO_LARGE, "archive_too_large", "the archive is too large");
	case FILEOP_TOO_DEEP:
		return err_new(INVALID, "too_deep", "the tree is too deep: %.*s", SHOWN, path);
	case FILEOP_OUT_OF_TURN:
		return files_nonsense();
	default:
		return files_explain_errno(failed->errnum, path);
	}
}

// Takes a worker, sends the request and waits until it begins to answer. An idle worker may be
// dying: if it has not read the request, or the request changes nothing, another one is asked.
static fallible files_put(const struct files *files, const struct fileop_request *ask,
			  enum file_worker_use use, struct box_file_worker **out)
{
	static const bool harmless[FILEOP_VERB_COUNT] = {
		[FILEOP_STAT] = true,  [FILEOP_READ] = true,   [FILEOP_LIST] = true,
		[FILEOP_FIND] = true,  [FILEOP_GREP] = true,   [FILEOP_READLINK] = true,
		[FILEOP_WATCH] = true, [FILEOP_PACK] = true,   [FILEOP_PORTS] = true,
		[FILEOP_SPACE] = true, [FILEOP_SOCKET] = true, [FILEOP_PROCESSES] = true,
	};
	bool may_repeat = harmless[ask->verb];
	struct fileop_request asked = *ask;
	struct err *err = OK;

	if (files->proc && (files->box->features & TALK_CAN_PROC))
		asked.flags |= FILEOP_PROC;

	for (int i = 0; i < TRIES; i++) {
		auto_worker worker = NULL;

		err_free(err);
		TRY(box_file_worker_take(files->box, files->user ? files->user : "", use,
					 files->deadline, &worker));
		err = box_file_worker_ask(worker, &asked);
		if (!err)
			err = box_file_worker_await(worker, files->deadline);
		if (!err) {
			*out = take_ptr(worker);
			return OK;
		}
		if (strcmp(err_reason(err), "file_worker_lost") != 0)
			return err;
		// Repeat once only: this request may be what kills the worker.
		if (!box_file_worker_unheard(worker) && !may_repeat)
			return err;
		may_repeat &= box_file_worker_unheard(worker);
	}
	return err;
}

// The same, and reads the answer. FAILED becomes an error; *out_fd is the caller's, or -1; the
// caller gives or drops *out.
static fallible files_get(const struct files *files, const struct fileop_request *ask,
			  enum file_worker_use use, struct box_file_worker **out,
			  struct fileop_reply *say, int *out_fd)
{
	auto_worker worker = NULL;
	int fd = -1;

	TRY(files_check(ask->path.at));
	TRY(files_put(files, ask, use, &worker));
	TRY(box_file_worker_next(worker, files->deadline, say, &fd));
	if (say->kind == FILEOP_FAILED) {
		box_file_worker_give(take_ptr(worker));
		return files_explain(files->box->id, say, ask->path.at);
	}
	*out_fd = fd;
	*out = take_ptr(worker);
	return OK;
}

// A request with one answer. `out`: may be NULL.
static fallible files_once(const struct files *files, const struct fileop_request *ask,
			   struct fileop_reply *out)
{
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;
	struct fileop_reply own, *say = out ? out : &own;

	TRY(files_get(files, ask, FILE_WORKER_SHORT, &worker, say, &fd));
	if (say->kind != FILEOP_DONE)
		return files_nonsense();
	box_file_worker_give(take_ptr(worker));
	return OK;
}

fallible files_check_fd(int fd)
{
	static const unsigned long known[] = {OVERLAYFS_SUPER_MAGIC, EXT4_SUPER_MAGIC,
					      XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC};
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(errno, "check a file of a box");
	if (!S_ISREG(st.st_mode))
		return err_new(INVALID, "not_regular", "it is not a regular file");
	// A tmpfs without a size is a memfd: writes to it would use the host's memory.
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((unsigned long)fs.f_type == known[i] &&
		    (fs.f_type != TMPFS_MAGIC || fs.f_blocks > 0))
			return OK;
	return err_new(INVALID, "not_regular", "it is not a file on a disk");
}

// Waits for DONE. After FAILED the worker is given back.
static fallible files_await_done(struct box_file_worker **worker, int64_t deadline,
				 const char *path, struct fileop_reply *say)
{
	const char *box = box_file_worker_box(*worker);
	auto_closer_fd fd = -1;

	TRY(box_file_worker_next(*worker, deadline, say, &fd));
	if (say->kind == FILEOP_FAILED) {
		box_file_worker_give(take_ptr(*worker));
		return files_explain(box, say, path);
	}
	return say->kind == FILEOP_DONE ? OK : files_nonsense();
}

fallible files_stat(const struct files *files, const char *path, bool follow,
		    struct fileop_stat *out)
{
	struct fileop_request ask = files_ask(files, FILEOP_STAT, path);
	struct fileop_reply say;

	ask.flags = follow ? FILEOP_FOLLOW : 0;
	TRY(files_once(files, &ask, &say));
	*out = say.stat;
	return OK;
}

fallible files_probe(const struct files *files)
{
	struct fileop_stat stat;
	struct err *err;

	do { // the start of a worker has a bound of its own
		box_file_worker_rest_end(files->box);
		err = files_stat(files, "/", true, &stat);
		if (!err || err_kind(err) != ERR_TIMEOUT ||
		    loop_now(files->box->loop) >= files->deadline)
			return err;
		err_free(err);
	} while (true);
}

fallible files_exists(const struct files *files, const char *path, bool *out)
{
	struct fileop_stat stat;
	auto_err err = files_stat(files, path, true, &stat);

	if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID &&
	    err_kind(err) != ERR_FORBIDDEN)
		return take_ptr(err);
	if (err && strcmp(err_reason(err), "bad_path") == 0)
		return take_ptr(err);
	*out = !err;
	return OK;
}

static fallible files_read_as(const struct files *files, const char *path, uint32_t flags,
			      struct buf *out, int *out_fd, struct fileop_stat *stat)
{
	struct fileop_request ask = files_ask(files, FILEOP_READ, path);
	struct fileop_reply say;
	struct fileop_stat seen;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;

	ask.flags = flags;
	TRY(files_get(files, &ask, FILE_WORKER_SHORT, &worker, &say, &fd));
	seen = say.stat;
	if (say.kind == FILEOP_BYTES && out) {
		buf_add(out, say.rest.at, say.rest.len);
	} else if (say.kind == FILEOP_OPENED) {
		TRY(files_check_fd(fd));
		TRY(files_await_done(&worker, files->deadline, path, &say));
	} else {
		return files_nonsense();
	}
	box_file_worker_give(take_ptr(worker));
	if (out && !buf_ok(out))
		return err_new(TOO_LARGE, "file_too_large", "File too large: %.*s", SHOWN, path);
	*out_fd = take_fd(&fd);
	*stat = seen;
	return OK;
}

fallible files_read(const struct files *files, const char *path, struct buf *out, int *out_fd,
		    struct fileop_stat *stat)
{
	return files_read_as(files, path, 0, out, out_fd, stat);
}

fallible files_open(const struct files *files, const char *path, int *out_fd,
		    struct fileop_stat *stat)
{
	return files_read_as(files, path, FILEOP_AS_FD, NULL, out_fd, stat);
}

fallible files_write(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct str bytes)
{
	struct fileop_request ask = files_ask(files, FILEOP_WRITE, path);

	if (bytes.len > FILEOP_SMALL)
		return err_new(TOO_LARGE, "file_too_large", "too large to be written at once");
	ask.flags = flags & (FILEOP_PARENTS | FILEOP_EXCLUSIVE);
	ask.mode = mode;
	ask.bytes = bytes;
	return files_once(files, &ask, NULL);
}

struct files_upload {
	struct box_file_worker *worker;
	int fd;
	char *path;
};

static void files_close_run(void *arg)
{
	struct files_upload *upload = arg;

	fd_drop(&upload->fd);
}

static void files_free_upload(struct files_upload *upload)
{
	closer_drop(&upload->fd);
	free(upload->path);
	free(upload);
}

fallible files_begin(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct files_upload **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_BEGIN, path);
	struct fileop_reply say;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;

	ask.flags = flags & (FILEOP_PARENTS | FILEOP_EXCLUSIVE);
	ask.mode = mode;
	TRY(files_get(files, &ask, FILE_WORKER_LONG, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED)
		return files_nonsense();
	TRY(files_check_fd(fd));
	TRY(files_await_done(&worker, files->deadline, path, &say));
	*out = mem_new_of(struct files_upload);
	**out = (struct files_upload){take_ptr(worker), take_fd(&fd), mem_str(path)};
	return OK;
}

int files_upload_fd(const struct files_upload *upload)
{
	return upload->fd;
}

fallible files_commit(struct files_upload *upload, int64_t deadline, struct fileop_stat *stat)
{
	struct fileop_request ask = {.verb = FILEOP_COMMIT};
	auto_worker worker = take_ptr(upload->worker);
	struct fileop_reply say;
	struct err *err;

	ask.base = ask.path = ask.other = ask.text = ask.bytes = STR("");
	// execve() of a file that is open for writing is ETXTBSY: close it before it gets a name.
	offload_run(files_close_run, upload);
	err = box_file_worker_ask(worker, &ask);
	if (!err)
		err = files_await_done(&worker, deadline, upload->path, &say);
	if (!err && stat)
		*stat = say.stat;
	if (!err)
		box_file_worker_give(take_ptr(worker));
	files_free_upload(upload);
	return err;
}

void files_abort(struct files_upload *upload)
{
	if (!upload)
		return;
	box_file_worker_drop(upload->worker);
	files_free_upload(upload);
}

fallible files_mkdir(const struct files *files, const char *path, bool parents, uint32_t mode)
{
	struct fileop_request ask = files_ask(files, FILEOP_MKDIR, path);

	ask.flags = parents ? FILEOP_PARENTS : 0;
	ask.mode = mode;
	return files_once(files, &ask, NULL);
}

fallible files_remove(const struct files *files, const char *path, bool recursive)
{
	struct fileop_request ask = files_ask(files, FILEOP_REMOVE, path);

	ask.flags = recursive ? FILEOP_RECURSIVE : 0;
	return files_once(files, &ask, NULL);
}

fallible files_move(const struct files *files, const char *from, const char *to, bool exclusive)
{
	struct fileop_request ask = files_ask(files, FILEOP_MOVE, from);

	TRY(files_check(to));
	ask.other = str_of(to);
	ask.flags = exclusive ? FILEOP_EXCLUSIVE : 0;
	return files_once(files, &ask, NULL);
}

fallible files_chmod(const struct files *files, const char *path, uint32_t mode, bool recursive)
{
	struct fileop_request ask = files_ask(files, FILEOP_CHMOD, path);

	ask.mode = mode & 07777;
	ask.flags = recursive ? FILEOP_RECURSIVE : 0;
	return files_once(files, &ask, NULL);
}

fallible files_readlink(const struct files *files, const char *path, struct buf *out)
{
	struct fileop_request ask = files_ask(files, FILEOP_READLINK, path);
	struct fileop_reply say;

	TRY(files_once(files, &ask, &say));
	buf_str(out, say.text);
	return OK;
}

fallible files_space(const struct files *files, const char *path, struct files_space *out)
{
	struct fileop_request ask = files_ask(files, FILEOP_SPACE, path);
	struct fileop_reply say;

	TRY(files_once(files, &ask, &say));
	*out = (struct files_space){say.space, say.space_free, say.inodes, say.inodes_free};
	return OK;
}

// ------------------------------------------------------------------------------------- walks

struct files_walk {
	struct box_file_worker *worker; // NULL: ended
	enum fileop_kind kind;		// of its items
	int64_t deadline;
	struct files_total total;
	struct buf room; // items of the last message
	struct unpack items;
	char *path;
	char box[ID_BOX_LEN + 1];
	bool unpacks;
};

static struct files_walk *files_walk_new(const struct files *files, const char *path,
					 enum fileop_kind kind, struct box_file_worker *worker)
{
	struct files_walk *walk = mem_new_of(struct files_walk);

	walk->worker = worker;
	walk->kind = kind;
	walk->deadline = files->deadline;
	walk->room = BUF_INIT(FILEOP_SIZE_MAX);
	walk->path = mem_str(path);
	memcpy(walk->box, files->box->id, sizeof(walk->box));
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
	if (walk->unpacks && walk->total.skipped)
		event_publish_security(walk->box, "path_refused", "medium", "path",
				       walk->total.note, "archive", walk->path);
	box_file_worker_give(take_ptr(walk->worker));
}

// Reads the next message: items, or the end. An error ends the walk.
static fallible files_walk_receive(struct files_walk *walk, int64_t deadline)
{
	struct fileop_reply say;
	auto_closer_fd fd = -1;
	struct err *err = box_file_worker_next(walk->worker, deadline, &say, &fd);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err;
	if (!err && say.kind == FILEOP_FAILED) {
		err = files_explain(walk->box, &say, walk->path);
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
static fallible files_walk_more(struct files_walk *walk, int64_t deadline, bool *more)
{
	while (walk->items.left == 0 && walk->worker)
		TRY(files_walk_receive(walk, deadline));
	*more = walk->items.left > 0;
	return OK;
}

static fallible files_walk_bad(struct files_walk *walk)
{
	unpack_init(&walk->items, "", 0);
	if (walk->worker)
		box_file_worker_drop(take_ptr(walk->worker));
	return files_nonsense();
}

fallible files_next_entry(struct files_walk *walk, struct fileop_entry *out, bool *more)
{
	TRY(files_walk_more(walk, walk->deadline, more));
	if (*more && !fileop_get_entry(&walk->items, out))
		return files_walk_bad(walk);
	return OK;
}

fallible files_next_match(struct files_walk *walk, struct fileop_match *out, bool *more)
{
	TRY(files_walk_more(walk, walk->deadline, more));
	if (*more && !fileop_get_match(&walk->items, out))
		return files_walk_bad(walk);
	return OK;
}

fallible files_next_process(struct files_walk *walk, struct fileop_process *out, bool *more)
{
	TRY(files_walk_more(walk, walk->deadline, more));
	if (*more && !fileop_get_process(&walk->items, out))
		return files_walk_bad(walk);
	return OK;
}

fallible files_next_event(struct files_walk *walk, int64_t deadline, struct fileop_event *out)
{
	bool more;

	TRY(files_walk_more(walk, deadline, &more));
	if (!more) {
		*out = (struct fileop_event){.type = FILEOP_STOPPED, .path = STR("")};
		return OK;
	}
	return fileop_get_event(&walk->items, out) ? OK : files_walk_bad(walk);
}

void files_nudge(struct files_walk *walk)
{
	if (walk->worker)
		box_file_worker_nudge(walk->worker);
}

void files_within(struct files_walk *walk, int64_t deadline)
{
	walk->deadline = deadline;
}

fallible files_end(struct files_walk *walk, struct files_total *total)
{
	struct err *err = OK;

	if (!walk)
		return OK;
	while (total && !err && walk->worker && walk->items.left == 0)
		err = files_walk_receive(walk, walk->deadline);
	if (total && !err)
		*total = walk->total;
	files_drop(walk);
	return err;
}

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
	for (uint32_t i = 0; include && i < includes; i++)
		(*out)[i] = include[i];
	for (uint32_t i = 0; exclude && i < excludes; i++)
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
	*out = files_walk_new(files, ask->path.at, kind, take_ptr(worker));
	return OK;
}

// Waits for the first answer, which tells whether the request is possible.
static fallible files_begin_items(const struct files *files, struct fileop_request *ask,
				  const char *const *include, const char *const *exclude,
				  enum fileop_kind kind, struct files_walk **out)
{
	struct files_walk *walk;
	struct err *err;

	TRY(files_walk_begin(files, ask, include, exclude, kind, &walk));
	err = files_walk_receive(walk, walk->deadline);
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
	return files_begin_items(files, &ask, NULL, NULL, FILEOP_ENTRIES, out);
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
	return files_begin_items(files, &ask, find->include, find->exclude, FILEOP_ENTRIES, out);
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
	return files_begin_items(files, &ask, grep->include, grep->exclude, FILEOP_MATCHES, out);
}

// The pipe comes first; DONE when all bytes went through it.
static fallible files_begin_pipe(const struct files *files, struct fileop_request *ask,
				 const char *const *include, const char *const *exclude,
				 int *out_fd, struct files_walk **out)
{
	auto_free const char **globs = NULL;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;
	struct fileop_reply say;

	TRY(files_walk_put_globs(ask, include, exclude, &globs));
	TRY(files_get(files, ask, FILE_WORKER_LONG, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED || !pipe_fd_is(fd, S_IFIFO))
		return files_nonsense();
	*out = files_walk_new(files, ask->path.at, FILEOP_DONE, take_ptr(worker));
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
	if (pack->stats && !(files->box->features & TALK_CAN_STATS))
		return err_hint(err_new(NOT_OFFERED, "old_box",
					"the sandbox was started by an older cove, which cannot "
					"list files with their times"),
				"stop and start it");
	ask.flags = (pack->gitignore ? FILEOP_IGNORE : 0) | (pack->stats ? FILEOP_STATS : 0);
	return files_begin_pipe(files, &ask, pack->gitignore ? pack->tracked : NULL, pack->exclude,
				out_fd, out);
}

fallible files_unpack(const struct files *files, const char *path, uint32_t flags, int *out_fd,
		      struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_UNPACK, path);

	ask.flags = flags & FILEOP_OWNERS;
	TRY(files_begin_pipe(files, &ask, NULL, NULL, out_fd, out));
	(*out)->unpacks = true;
	return OK;
}

void files_sync_begin(struct box *box)
{
	box_ref(box);
	box->sync_unpacks++;
}

void files_sync_end(struct box *box)
{
	box->sync_unpacks--;
	condition_signal(&box->sync_unpacked);
	box_unref(box);
}

fallible files_sync_wait(struct box *box, int64_t deadline)
{
	struct err *err = OK;

	box_ref(box);
	while (box->sync_unpacks > 0 && !err)
		err = condition_wait(&box->sync_unpacked, deadline);
	box_unref(box);
	return err;
}

fallible files_watch(const struct files *files, const char *path, uint32_t flags,
		     const char *const *include, const char *const *exclude,
		     struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_WATCH, path);
	struct files_walk *walk;
	struct fileop_reply say;
	struct err *err;

	ask.flags = flags & (FILEOP_RECURSIVE | FILEOP_ATTRIB);
	TRY(files_walk_begin(files, &ask, include, exclude, FILEOP_EVENTS, &walk));
	err = files_await_done(&walk->worker, files->deadline, path, &say);
	if (err) {
		files_drop(walk);
		return err;
	}
	walk->total.count = say.count;
	*out = walk;
	return OK;
}

// ----------------------------------------------------------------------------------- ports

static fallible files_take_socket(const struct files *files, const struct fileop_request *ask,
				  bool rests, int *out_fd)
{
	struct fileop_reply say;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;

	TRY(files_get(files, ask, FILE_WORKER_SHORT, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED || !pipe_fd_is(fd, S_IFSOCK))
		return files_nonsense();
	TRY(files_await_done(&worker, files->deadline, "a socket", &say));
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
	err = files_take_socket(files, &ask, true, out_fd);
	if (err && (!strcmp(err_reason(err), "fs_error") || err_kind(err) == ERR_FORBIDDEN))
		return err_recast(err, ERR_BAD_PEER, "port_closed",
				  "nothing answers at port %u of the sandbox", port);
	return err;
}

fallible files_socket(const struct files *files, int *out_fd)
{
	struct fileop_request ask = files_ask(files, FILEOP_SOCKET, "/");

	return files_take_socket(files, &ask, false, out_fd);
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

		err = files_walk_more(walk, files->deadline, &more);
		if (err || !more)
			break;
		if (!fileop_get_port(&walk->items, &port))
			err = files_walk_bad(walk);
		else if (port.port != files->box->net.port && n++ < room)
			out[n - 1] = port;
	}
	files_drop(walk);
	if (!err)
		*count = n;
	return err;
}

static fallible files_sweep_in(const struct files *files, uint32_t depth, int pid,
			       uint64_t since_ms, int signal, uint32_t *out_count)
{
	struct fileop_request ask = files_ask(files, FILEOP_SWEEP, "/");
	struct fileop_reply say;

	ask.pid = (uint32_t)pid;
	ask.since = since_ms;
	ask.depth = depth;
	ask.number = (uint32_t)signal;
	TRY(files_once(files, &ask, &say));
	*out_count = (uint32_t)say.count;
	return OK;
}

static fallible files_want_processes(const struct files *files)
{
	if (files->box->features & TALK_CAN_PROCESSES)
		return OK;
	return err_hint(err_new(NOT_OFFERED, "old_box",
				"the sandbox was started by an older cove, which cannot list "
				"its processes"),
			"stop and start it");
}

fallible files_processes(const struct files *files, struct files_walk **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_PROCESSES, "/");

	TRY(files_want_processes(files));
	return files_begin_items(files, &ask, NULL, NULL, FILEOP_PROCESSES_ARE, out);
}

fallible files_signal(const struct files *files, const struct fileop_process *process, int signal)
{
	struct fileop_request ask = files_ask(files, FILEOP_SIGNAL, "/");

	TRY(files_want_processes(files));
	ask.pid = (uint32_t)process->pid;
	ask.since = process->started_ms;
	ask.number = (uint32_t)signal;
	return files_once(files, &ask, NULL);
}

fallible files_sweep(const struct files *files, int pid, uint64_t since_ms, int signal,
		     uint32_t *out_count)
{
	return files_sweep_in(files, 0, pid, since_ms, signal, out_count);
}

fallible files_sweep_cgroup(const struct files *files, uint32_t exec_cgroup, int spared,
			    uint64_t since_ms, int signal, uint32_t *out_count)
{
	return files_sweep_in(files, exec_cgroup + 1, spared, since_ms, signal, out_count);
}
