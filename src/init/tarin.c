// Unpacks a tar from a pipe. Each name is resolved beneath the target directory by the kernel,
// without following symlinks. Every entry is made new: an existing file or link is removed first,
// an existing directory stays. So an archive can write only below its target directory. Directories
// get their modes and times at the end, since both could prevent or be changed by later entries.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/tar.h"
#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "init/tree.h"
#include "os/fd.h"

#define ENTRIES_MAX 1000000
#define BYTES_MAX (10ull << 30)
#define TAIL_MAX (64u << 20) // after the end of the archive; then reading stops
#define CHUNK (1 << 20)
#define ID_MAX 65535

struct late {
	struct late *next;
	mode_t mode;
	int64_t mtime;
	char path[];
};

static struct {
	const struct fileop_request *ask;
	struct fileop_reply *reply;
	int pipe, root;
	uint64_t entries, bytes_max;
	struct late *late;
	struct tar_in tar;
	char note[256];
	char scratch[65536];
} in;

// Skips an entry. The first one is reported.
static void tarin_refuse(struct str path)
{
	size_t len = path.len < sizeof(in.note) ? path.len : sizeof(in.note) - 1;

	if (in.reply->skipped++ > 0)
		return;
	memcpy(in.note, path.at, len);
	in.note[len] = 0;
	in.reply->text = (struct str){in.note, len};
}

// Not absolute, without "..", not too deep. A leading "./" is accepted.
static bool is_decent(struct str path)
{
	struct str rest = path, part;
	int depth = 0;

	if (path.len == 0 || path.len > FILEOP_PATH_MAX || path.at[0] == '/')
		return false;
	while (str_cut(&rest, '/', &part))
		if (str_is(part, "..") || part.len > NAME_MAX || ++depth > FILEOP_DEPTH_MAX)
			return false;
	return true;
}

// Copies bytes of the pipe to the file, or discards them (-1). False: errno, or 0 if the archive is
// truncated.
static bool tarin_move_bytes(int to, uint64_t len)
{
	while (len > 0) {
		size_t want = len < sizeof(in.scratch) ? (size_t)len : sizeof(in.scratch);
		ssize_t n;

		if (to >= 0 && len > sizeof(in.scratch))
			n = splice(in.pipe, NULL, to, NULL, len < CHUNK ? (size_t)len : CHUNK,
				   SPLICE_F_MOVE);
		else
			n = read(in.pipe, in.scratch, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : 0;
			return false;
		}
		if (to >= 0 && len <= sizeof(in.scratch) &&
		    fd_write_all(to, in.scratch, (size_t)n) < 0)
			return false;
		len -= (uint64_t)n;
	}
	return true;
}

static mode_t mode_of(const struct tar_head *head)
{
	return head->mode & (in.ask->flags & FILEOP_OWNERS ? 07777 : 01777);
}

static void own(int dir, const char *name, const struct tar_head *head)
{
	if ((in.ask->flags & FILEOP_OWNERS) && head->uid <= ID_MAX && head->gid <= ID_MAX)
		(void)!fchownat(dir, name, head->uid, head->gid, AT_SYMLINK_NOFOLLOW);
}

static void date(int dir, const char *name, int64_t mtime)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)mtime}};

	(void)!utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
}

// True: the name is free. False: a directory has it.
static bool clear(const struct path_resolve *resolved)
{
	return unlinkat(resolved->dir, resolved->name, 0) == 0 || errno == ENOENT;
}

// *written: its bytes were read from the pipe, all of them or until it failed.
static bool tarin_make_file(const struct path_resolve *resolved, const struct tar_head *head,
			    bool *written)
{
	auto_fd_errno fd = clear(resolved)
				   ? openat(resolved->dir, resolved->name,
					    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
					    0600)
				   : -1;

	if (fd < 0)
		return false;
	*written = true;
	if (!tarin_move_bytes(fd, head->size))
		return false;
	own(resolved->dir, resolved->name, head);
	(void)!fchmod(fd, mode_of(head));
	date(resolved->dir, resolved->name, head->mtime);
	return true;
}

static bool make_directory(const struct path_resolve *resolved, const struct tar_head *head)
{
	struct stat st;
	struct late *late;

	if (mkdirat(resolved->dir, resolved->name, 0700) < 0) {
		if (errno != EEXIST)
			return false;
		if (fstatat(resolved->dir, resolved->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
		if (!S_ISDIR(st.st_mode) &&
		    (!clear(resolved) || mkdirat(resolved->dir, resolved->name, 0700) < 0))
			return false;
	}
	own(resolved->dir, resolved->name, head);
	late = malloc(sizeof(*late) + head->path.len + 1);
	if (!late)
		return true;
	late->next = in.late;
	late->mode = mode_of(head);
	late->mtime = head->mtime;
	memcpy(late->path, head->path.at, head->path.len + 1);
	in.late = late;
	return true;
}

static bool make_hardlink(const struct path_resolve *resolved, const struct tar_head *head)
{
	auto_path_resolve other = {.dir = -1};
	struct stat st;

	if (!is_decent(head->target) ||
	    !path_resolve_beneath(in.root, head->target.at, false, &other)) {
		errno = EXDEV;
		return false;
	}
	return other.name[0] && fstatat(other.dir, other.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && clear(resolved) &&
	       linkat(other.dir, other.name, resolved->dir, resolved->name, 0) == 0;
}

static bool tarin_make(const struct path_resolve *resolved, const struct tar_head *head,
		       bool *written)
{
	switch (head->type) {
	case TAR_FILE:
		return tarin_make_file(resolved, head, written);
	case TAR_DIRECTORY:
		return make_directory(resolved, head);
	case TAR_SYMLINK:
		if (!clear(resolved) ||
		    symlinkat(head->target.at, resolved->dir, resolved->name) < 0)
			return false;
		own(resolved->dir, resolved->name, head);
		date(resolved->dir, resolved->name, head->mtime);
		return true;
	case TAR_HARDLINK:
		return make_hardlink(resolved, head);
	default:
		errno = EPERM;
		return false;
	}
}

static bool is_fatal(int errnum)
{
	return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG || errnum == EIO ||
	       errnum == EROFS || errnum == EMFILE || errnum == ENOMEM || errnum == 0;
}

static bool archive_is_bad(const char *why)
{
	in.reply->why = FILEOP_BAD_ARCHIVE;
	in.reply->text = str_of(why);
	errno = EINVAL;
	return false;
}

static bool cut_short(void)
{
	return archive_is_bad("the archive is truncated");
}

// One member. False: the whole request has failed.
static bool tarin_take(const struct tar_head *head)
{
	auto_path_resolve resolved = {.dir = -1};
	bool written = false, done = false;
	uint64_t left = head->size + tar_padding(head->size);

	if (++in.entries > ENTRIES_MAX || head->size > in.bytes_max - in.reply->bytes) {
		in.reply->why = FILEOP_TOO_MUCH;
		errno = EFBIG;
		return false;
	}
	errno = EPERM;
	if (head->type != TAR_OTHER && is_decent(head->path) &&
	    path_resolve_beneath(in.root, head->path.at, true, &resolved)) {
		done = resolved.name[0] ? tarin_make(&resolved, head, &written)
					: head->type == TAR_DIRECTORY;
		if (!done && written && errno == 0)
			return cut_short();
	}
	if (!done && (is_fatal(errno) || written))
		return false;
	if (!done)
		tarin_refuse(head->path);
	in.reply->count += done;
	in.reply->bytes += done && head->type == TAR_FILE ? head->size : 0;
	if (!tarin_move_bytes(-1, written ? tar_padding(head->size) : left))
		return cut_short();
	return true;
}

static bool tarin_take_all(void)
{
	struct tar_head head;
	char block[TAR_BLOCK];

	tar_begin(&in.tar);
	for (;;) {
		ssize_t n = fd_read_all(in.pipe, block, sizeof(block));

		// Some archivers omit the two empty blocks.
		if (n == 0 && in.tar.left == 0 && in.entries > 0)
			return true;
		if (n < TAR_BLOCK)
			return cut_short();
		switch (tar_feed(&in.tar, block, &head)) {
		case TAR_MORE:
			break;
		case TAR_ENTRY:
			if (!tarin_take(&head))
				return false;
			break;
		case TAR_END:
			return true;
		case TAR_BAD:
			return archive_is_bad(in.tar.why);
		}
	}
}

static void finish_directories(void)
{
	while (in.late) {
		struct late *late = in.late;
		auto_path_resolve resolved = {.dir = -1};

		in.late = late->next;
		if (path_resolve_beneath(in.root, late->path, false, &resolved)) {
			const char *name = resolved.name[0] ? resolved.name : ".";
			auto_fd_errno fd = openat(resolved.dir, name,
						  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (fd >= 0) {
				(void)!fchmod(fd, late->mode);
				date(resolved.dir, name, late->mtime);
			}
		}
		free(late);
	}
}

static int open_target(const struct fileop_request *ask)
{
	auto_path_resolve resolved = {.dir = -1};

	if (!path_resolve_find(ask->base, ask->path, true, true, &resolved))
		return -1;
	if (resolved.name[0] && mkdirat(resolved.dir, resolved.name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(resolved.dir, resolved.name[0] ? resolved.name : ".",
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool tarin_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	int ends[2], kept;
	bool done;

	in.root = open_target(ask);
	if (in.root < 0)
		return false;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		close(in.root);
		return false;
	}
	reply_opened(ends[1]);
	close(ends[1]);
	in.ask = ask;
	in.reply = reply;
	in.pipe = ends[0];
	in.entries = 0;
	in.bytes_max = ask->max ? ask->max : BYTES_MAX;
	done = tarin_take_all();
	kept = errno;
	finish_directories();
	if (done)
		tarin_move_bytes(-1, TAIL_MAX);
	close(in.pipe);
	close(in.root);
	errno = kept;
	return done;
}
