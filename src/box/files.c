// Each verb is one request to a hand. An fd that a hand passes on is looked at before anybody uses
// it: a regular file, on a file system that is the box's own and not a window into the kernel.
//
// syscalls: fstat newfstatat fstatfs close
#include "box/files.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/mem.h"
#include "box/files_inner.h"
#include "box/inner.h"
#include "loop/closer.h"
#include "os/fd.h"

#define SHOWN 200
#define TRIES 5 // all hands that may be at rest, and a new one

struct reach_ask files_ask(const struct files *files, enum reach_verb verb, const char *path)
{
	return (struct reach_ask){
		.verb = verb,
		.mode = REACH_KEEP_MODE,
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
	if (len > REACH_PATH_MAX)
		return err_new(INVALID, "name_too_long", "a path has at most %d bytes",
			       REACH_PATH_MAX);
	return OK;
}

fallible files_nonsense(void)
{
	return err_new(BAD_PEER, "bad_hand", "the sandbox answers nonsense");
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

fallible files_explain(const struct reach_say *failed, const char *path)
{
	switch (failed->why) {
	case REACH_NOT_REGULAR:
		return err_new(INVALID, "not_regular", "Not a regular file: %.*s", SHOWN, path);
	case REACH_BAD_PATTERN:
		return err_new(INVALID, "bad_pattern", "the pattern is malformed");
	case REACH_BAD_ARCHIVE:
		return err_new(INVALID, "bad_archive", "the archive cannot be read: " STR_FMT,
			       STR_ARG(failed->text));
	case REACH_TOO_MUCH:
		return err_new(TOO_LARGE, "archive_too_large", "the archive is too large");
	case REACH_TOO_DEEP:
		return err_new(INVALID, "too_deep", "the tree is too deep: %.*s", SHOWN, path);
	case REACH_OUT_OF_TURN:
		return files_nonsense();
	default:
		return explain_errno(failed->errnum, path);
	}
}

static bool changes_nothing(enum reach_verb verb)
{
	static const bool harmless[REACH_VERB_COUNT] = {
		[REACH_STAT] = true,  [REACH_READ] = true,   [REACH_LIST] = true,
		[REACH_FIND] = true,  [REACH_GREP] = true,   [REACH_READLINK] = true,
		[REACH_WATCH] = true, [REACH_PACK] = true,   [REACH_PORTS] = true,
		[REACH_SPACE] = true, [REACH_SOCKET] = true,
	};

	return harmless[verb];
}

fallible files_put(const struct files *files, const struct reach_ask *ask, enum hand_use use,
		   struct box_hand **out)
{
	bool may_repeat = changes_nothing(ask->verb);
	struct reach_ask asked = *ask;
	struct err *err = OK;

	if (files->proc && (files->box->features & TALK_CAN_PROC))
		asked.flags |= REACH_PROC;

	for (int i = 0; i < TRIES; i++) {
		auto_hand hand = NULL;

		err_free(err);
		TRY(box_hand_take(files->box, files->user ? files->user : "", use, files->deadline,
				  &hand));
		err = box_hand_ask(hand, &asked, files->deadline);
		if (!err)
			err = box_hand_await(hand, files->deadline);
		if (!err) {
			*out = take_ptr(hand);
			return OK;
		}
		if (strcmp(err_reason(err), "hand_lost") != 0)
			return err;
		// Once: it may be this very request that kills it.
		if (!box_hand_unheard(hand) && !may_repeat)
			return err;
		may_repeat &= box_hand_unheard(hand);
	}
	return err;
}

fallible files_get(const struct files *files, const struct reach_ask *ask, enum hand_use use,
		   struct box_hand **out, struct reach_say *say, int *out_fd)
{
	auto_hand hand = NULL;
	int fd = -1;

	TRY(files_check(ask->path.at));
	TRY(files_put(files, ask, use, &hand));
	TRY(box_hand_next(hand, files->deadline, say, &fd));
	if (say->kind == REACH_FAILED) {
		box_hand_give(take_ptr(hand));
		return files_explain(say, ask->path.at);
	}
	*out_fd = fd;
	*out = take_ptr(hand);
	return OK;
}

fallible files_once(const struct files *files, const struct reach_ask *ask, struct reach_say *say)
{
	auto_hand hand = NULL;
	auto_closer_fd fd = -1;

	TRY(files_get(files, ask, HAND_SHORT, &hand, say, &fd));
	if (say->kind != REACH_DONE)
		return files_nonsense();
	box_hand_give(take_ptr(hand));
	return OK;
}

fallible files_check_fd(int fd)
{
	static const unsigned long known[] = {OVERLAYFS_SUPER_MAGIC, EXT4_SUPER_MAGIC,
					      XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC};
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(errno, "look at a file of a box");
	if (!S_ISREG(st.st_mode))
		return err_new(INVALID, "not_regular", "it is not a regular file");
	// A tmpfs without a size is a memfd: what is written to it would be the host's memory.
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if ((unsigned long)fs.f_type == known[i] &&
		    (fs.f_type != TMPFS_MAGIC || fs.f_blocks > 0))
			return OK;
	return err_new(INVALID, "not_regular", "it is not a file on a disk");
}

// The answer behind an OPENED one.
static fallible await_done(struct box_hand *hand, int64_t deadline, const char *path)
{
	struct reach_say say;
	int fd = -1;

	TRY(box_hand_next(hand, deadline, &say, &fd));
	if (say.kind == REACH_FAILED)
		return files_explain(&say, path);
	if (say.kind == REACH_DONE)
		return OK;
	closer_drop(&fd);
	return files_nonsense();
}

fallible files_stat(const struct files *files, const char *path, bool follow,
		    struct reach_stat *out)
{
	struct reach_ask ask = files_ask(files, REACH_STAT, path);
	struct reach_say say;

	ask.flags = follow ? REACH_FOLLOW : 0;
	TRY(files_once(files, &ask, &say));
	*out = say.stat;
	return OK;
}

fallible files_exists(const struct files *files, const char *path, bool *out)
{
	struct reach_stat stat;
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
			struct buf *out, int *out_fd, struct reach_stat *stat)
{
	struct reach_ask ask = files_ask(files, REACH_READ, path);
	struct reach_say say;
	struct reach_stat seen;
	auto_hand hand = NULL;
	auto_closer_fd fd = -1;

	ask.flags = flags;
	TRY(files_get(files, &ask, HAND_SHORT, &hand, &say, &fd));
	seen = say.stat;
	if (say.kind == REACH_BYTES && out) {
		buf_add(out, say.rest.at, say.rest.len);
	} else if (say.kind == REACH_OPENED) {
		TRY(files_check_fd(fd));
		TRY(await_done(hand, files->deadline, path));
	} else {
		return files_nonsense();
	}
	box_hand_give(take_ptr(hand));
	if (out && !buf_ok(out))
		return err_new(TOO_LARGE, "file_too_large", "File too large: %.*s", SHOWN, path);
	*out_fd = take_fd(&fd);
	*stat = seen;
	return OK;
}

fallible files_read(const struct files *files, const char *path, struct buf *out, int *out_fd,
		    struct reach_stat *stat)
{
	return read_as(files, path, 0, out, out_fd, stat);
}

fallible files_open(const struct files *files, const char *path, int *out_fd,
		    struct reach_stat *stat)
{
	return read_as(files, path, REACH_AS_FD, NULL, out_fd, stat);
}

fallible files_write(const struct files *files, const char *path, uint32_t flags, uint32_t mode,
		     struct str bytes)
{
	struct reach_ask ask = files_ask(files, REACH_WRITE, path);
	struct reach_say say;

	if (bytes.len > REACH_SMALL)
		return err_new(TOO_LARGE, "file_too_large", "too large to be written at once");
	ask.flags = flags & (REACH_PARENTS | REACH_EXCLUSIVE);
	ask.mode = mode;
	ask.bytes = bytes;
	return files_once(files, &ask, &say);
}

struct files_upload {
	struct box_hand *hand;
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
	struct reach_ask ask = files_ask(files, REACH_BEGIN, path);
	struct files_upload *upload;
	struct reach_say say;
	auto_hand hand = NULL;
	auto_closer_fd fd = -1;

	ask.flags = flags & (REACH_PARENTS | REACH_EXCLUSIVE);
	ask.mode = mode;
	TRY(files_get(files, &ask, HAND_LONG, &hand, &say, &fd));
	if (say.kind != REACH_OPENED)
		return files_nonsense();
	TRY(files_check_fd(fd));
	TRY(await_done(hand, files->deadline, path));
	upload = mem_new_of(struct files_upload);
	upload->hand = take_ptr(hand);
	upload->fd = take_fd(&fd);
	upload->path = mem_str(path);
	*out = upload;
	return OK;
}

int files_upload_fd(const struct files_upload *upload)
{
	return upload->fd;
}

fallible files_commit(struct files_upload *upload, int64_t deadline, struct reach_stat *stat)
{
	struct reach_ask ask = {.verb = REACH_COMMIT};
	auto_hand hand = take_ptr(upload->hand);
	struct reach_say say;
	struct err *err;
	int fd = -1;

	ask.base = ask.path = ask.other = ask.text = ask.bytes = STR("");
	err = box_hand_ask(hand, &ask, deadline);
	if (!err)
		err = box_hand_next(hand, deadline, &say, &fd);
	if (!err && say.kind == REACH_FAILED) {
		err = files_explain(&say, upload->path);
		box_hand_give(take_ptr(hand));
	} else if (!err && say.kind != REACH_DONE) {
		closer_drop(&fd);
		err = files_nonsense();
	} else if (!err) {
		if (stat)
			*stat = say.stat;
		box_hand_give(take_ptr(hand));
	}
	free_upload(upload);
	return err;
}

void files_abort(struct files_upload *upload)
{
	if (!upload)
		return;
	box_hand_drop(upload->hand);
	free_upload(upload);
}

fallible files_mkdir(const struct files *files, const char *path, bool parents, uint32_t mode)
{
	struct reach_ask ask = files_ask(files, REACH_MKDIR, path);
	struct reach_say say;

	ask.flags = parents ? REACH_PARENTS : 0;
	ask.mode = mode;
	return files_once(files, &ask, &say);
}

fallible files_remove(const struct files *files, const char *path, bool recursive)
{
	struct reach_ask ask = files_ask(files, REACH_REMOVE, path);
	struct reach_say say;

	ask.flags = recursive ? REACH_RECURSIVE : 0;
	return files_once(files, &ask, &say);
}

fallible files_move(const struct files *files, const char *from, const char *to, bool exclusive)
{
	struct reach_ask ask = files_ask(files, REACH_MOVE, from);
	struct reach_say say;

	TRY(files_check(to));
	ask.other = str_of(to);
	ask.flags = exclusive ? REACH_EXCLUSIVE : 0;
	return files_once(files, &ask, &say);
}

fallible files_chmod(const struct files *files, const char *path, uint32_t mode, bool recursive)
{
	struct reach_ask ask = files_ask(files, REACH_CHMOD, path);
	struct reach_say say;

	ask.mode = mode & 07777;
	ask.flags = recursive ? REACH_RECURSIVE : 0;
	return files_once(files, &ask, &say);
}

fallible files_readlink(const struct files *files, const char *path, struct buf *out)
{
	struct reach_ask ask = files_ask(files, REACH_READLINK, path);
	struct reach_say say;

	TRY(files_once(files, &ask, &say));
	buf_str(out, say.text);
	return OK;
}

fallible files_space(const struct files *files, const char *path, struct files_space *out)
{
	struct reach_ask ask = files_ask(files, REACH_SPACE, path);
	struct reach_say say;

	TRY(files_once(files, &ask, &say));
	*out = (struct files_space){say.space, say.space_free, say.inodes, say.inodes_free};
	return OK;
}
