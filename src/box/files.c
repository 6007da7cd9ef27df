// Each operation is one request to a file worker. An fd that a worker passes is checked before it
// is used: a regular file, on a file system of a type that boxes have, not procfs or a memfd.
//
// syscalls: fstat newfstatat fstatfs close
#include "box/files.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/mem.h"
#include "box/files_private.h"
#include "box/private.h"
#include "loop/closer.h"
#include "os/fd.h"

#define SHOWN 200
#define TRIES 5 // all idle workers, and a new one

struct fileop_request files_ask(const struct files *files, enum fileop_verb verb, const char *path)
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

fallible files_check(const char *path)
{
	size_t len = strlen(path);

	if (len == 0)
		return err_new(INVALID, "bad_path", "a path must not be empty");
	if (len > FILEOP_PATH_MAX)
		return err_new(INVALID, "name_too_long", "a path has at most %d bytes",
			       FILEOP_PATH_MAX);
	return OK;
}

fallible files_nonsense(void)
{
	return err_new(BAD_PEER, "bad_file_worker", "the sandbox sent an invalid answer");
}

static fallible explain_errno(int errnum, const char *path)
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

fallible files_explain(const struct fileop_reply *failed, const char *path)
{
	switch (failed->why) {
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
		return explain_errno(failed->errnum, path);
	}
}

static bool changes_nothing(enum fileop_verb verb)
{
	static const bool harmless[FILEOP_VERB_COUNT] = {
		[FILEOP_STAT] = true,  [FILEOP_READ] = true,   [FILEOP_LIST] = true,
		[FILEOP_FIND] = true,  [FILEOP_GREP] = true,   [FILEOP_READLINK] = true,
		[FILEOP_WATCH] = true, [FILEOP_PACK] = true,   [FILEOP_PORTS] = true,
		[FILEOP_SPACE] = true, [FILEOP_SOCKET] = true,
	};

	return harmless[verb];
}

fallible files_put(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **out)
{
	bool may_repeat = changes_nothing(ask->verb);
	struct fileop_request asked = *ask;
	struct err *err = OK;

	if (files->proc && (files->box->features & TALK_CAN_PROC))
		asked.flags |= FILEOP_PROC;

	for (int i = 0; i < TRIES; i++) {
		auto_worker worker = NULL;

		err_free(err);
		TRY(box_file_worker_take(files->box, files->user ? files->user : "", use,
					 files->deadline, &worker));
		err = box_file_worker_ask(worker, &asked, files->deadline);
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

fallible files_get(const struct files *files, const struct fileop_request *ask,
		   enum file_worker_use use, struct box_file_worker **out, struct fileop_reply *say,
		   int *out_fd)
{
	auto_worker worker = NULL;
	int fd = -1;

	TRY(files_check(ask->path.at));
	TRY(files_put(files, ask, use, &worker));
	TRY(box_file_worker_next(worker, files->deadline, say, &fd));
	if (say->kind == FILEOP_FAILED) {
		box_file_worker_give(take_ptr(worker));
		return files_explain(say, ask->path.at);
	}
	*out_fd = fd;
	*out = take_ptr(worker);
	return OK;
}

fallible files_once(const struct files *files, const struct fileop_request *ask,
		    struct fileop_reply *say)
{
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;

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

// Waits for DONE after OPENED.
static fallible await_done(struct box_file_worker *worker, int64_t deadline, const char *path)
{
	struct fileop_reply say;
	int fd = -1;

	TRY(box_file_worker_next(worker, deadline, &say, &fd));
	if (say.kind == FILEOP_FAILED)
		return files_explain(&say, path);
	if (say.kind == FILEOP_DONE)
		return OK;
	closer_drop(&fd);
	return files_nonsense();
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

static fallible read_as(const struct files *files, const char *path, uint32_t flags,
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
		TRY(await_done(worker, files->deadline, path));
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
	return read_as(files, path, 0, out, out_fd, stat);
}

fallible files_open(const struct files *files, const char *path, int *out_fd,
		    struct fileop_stat *stat)
{
	return read_as(files, path, FILEOP_AS_FD, NULL, out_fd, stat);
}

fallible files_write(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct str bytes)
{
	struct fileop_request ask = files_ask(files, FILEOP_WRITE, path);
	struct fileop_reply say;

	if (bytes.len > FILEOP_SMALL)
		return err_new(TOO_LARGE, "file_too_large", "too large to be written at once");
	ask.flags = flags & (FILEOP_PARENTS | FILEOP_EXCLUSIVE);
	ask.mode = mode;
	ask.bytes = bytes;
	return files_once(files, &ask, &say);
}

struct files_upload {
	struct box_file_worker *worker;
	int fd;
	char *path;
};

static void free_upload(struct files_upload *upload)
{
	closer_drop(&upload->fd);
	free(upload->path);
	free(upload);
}

fallible files_begin(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct files_upload **out)
{
	struct fileop_request ask = files_ask(files, FILEOP_BEGIN, path);
	struct files_upload *upload;
	struct fileop_reply say;
	auto_worker worker = NULL;
	auto_closer_fd fd = -1;

	ask.flags = flags & (FILEOP_PARENTS | FILEOP_EXCLUSIVE);
	ask.mode = mode;
	TRY(files_get(files, &ask, FILE_WORKER_LONG, &worker, &say, &fd));
	if (say.kind != FILEOP_OPENED)
		return files_nonsense();
	TRY(files_check_fd(fd));
	TRY(await_done(worker, files->deadline, path));
	upload = mem_new_of(struct files_upload);
	upload->worker = take_ptr(worker);
	upload->fd = take_fd(&fd);
	upload->path = mem_str(path);
	*out = upload;
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
	int fd = -1;

	ask.base = ask.path = ask.other = ask.text = ask.bytes = STR("");
	err = box_file_worker_ask(worker, &ask, deadline);
	if (!err)
		err = box_file_worker_next(worker, deadline, &say, &fd);
	if (!err && say.kind == FILEOP_FAILED) {
		err = files_explain(&say, upload->path);
		box_file_worker_give(take_ptr(worker));
	} else if (!err && say.kind != FILEOP_DONE) {
		closer_drop(&fd);
		err = files_nonsense();
	} else if (!err) {
		if (stat)
			*stat = say.stat;
		box_file_worker_give(take_ptr(worker));
	}
	free_upload(upload);
	return err;
}

void files_abort(struct files_upload *upload)
{
	if (!upload)
		return;
	box_file_worker_drop(upload->worker);
	free_upload(upload);
}

fallible files_mkdir(const struct files *files, const char *path, bool parents, uint32_t mode)
{
	struct fileop_request ask = files_ask(files, FILEOP_MKDIR, path);
	struct fileop_reply say;

	ask.flags = parents ? FILEOP_PARENTS : 0;
	ask.mode = mode;
	return files_once(files, &ask, &say);
}

fallible files_remove(const struct files *files, const char *path, bool recursive)
{
	struct fileop_request ask = files_ask(files, FILEOP_REMOVE, path);
	struct fileop_reply say;

	ask.flags = recursive ? FILEOP_RECURSIVE : 0;
	return files_once(files, &ask, &say);
}

fallible files_move(const struct files *files, const char *from, const char *to, bool exclusive)
{
	struct fileop_request ask = files_ask(files, FILEOP_MOVE, from);
	struct fileop_reply say;

	TRY(files_check(to));
	ask.other = str_of(to);
	ask.flags = exclusive ? FILEOP_EXCLUSIVE : 0;
	return files_once(files, &ask, &say);
}

fallible files_chmod(const struct files *files, const char *path, uint32_t mode, bool recursive)
{
	struct fileop_request ask = files_ask(files, FILEOP_CHMOD, path);
	struct fileop_reply say;

	ask.mode = mode & 07777;
	ask.flags = recursive ? FILEOP_RECURSIVE : 0;
	return files_once(files, &ask, &say);
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
