// Renames where the kernel can. On EXDEV copies under a temporary name, renames the copy to the
// target and removes the original. overlayfs cannot rename a directory of the lower layer, so that
// is common.
//
// The copy is walked beside the original, with one fd per level of both. Everything is created with
// O_EXCL or its like, so a box that interferes can only make it fail.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/tree.h"
#include "init/walk.h"
#include "os/fd.h"

#define CHUNK (1 << 20)

static char target[PATH_MAX];
static int mirror[FILEOP_DEPTH_MAX + 2]; // directories of the copy, by depth
static struct stat stats[FILEOP_DEPTH_MAX + 2];

static void move_copy_attributes(int dir, const char *name, const struct stat *st)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};

	// Without the right to chown or to set times both are left out.
	(void)!fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
	if (!S_ISLNK(st->st_mode))
		(void)!fchmodat(dir, name, st->st_mode & 07777, 0);
	(void)!utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
}

static bool move_copy_move_bytes(int from, int to)
{
	ssize_t n;

	do {
		n = copy_file_range(from, NULL, to, NULL, CHUNK, 0);
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		return true;
	if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
		return false;
	do {
		n = sendfile(to, from, NULL, CHUNK);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n == 0;
}

static bool move_copy_file(int dir, const char *name, int new_dir, const char *new_name)
{
	auto_fd_errno from = openat(dir, name,
				    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	auto_fd_errno to = from < 0 ? -1
				    : openat(new_dir, new_name,
					     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
					     0600);

	return to >= 0 && move_copy_move_bytes(from, to);
}

static bool move_copy_link(int dir, const char *name, int new_dir, const char *new_name)
{
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = 0;
	return symlinkat(target, new_dir, new_name) == 0;
}

// Everything but a directory, which is made empty and entered by the caller.
static bool copy_one(int dir, const char *name, int new_dir, const char *new_name,
		     const struct stat *st)
{
	bool done = false;

	if (S_ISDIR(st->st_mode))
		return mkdirat(new_dir, new_name, 0700) == 0;
	errno = EINVAL;
	if (S_ISREG(st->st_mode))
		done = move_copy_file(dir, name, new_dir, new_name);
	else if (S_ISLNK(st->st_mode))
		done = move_copy_link(dir, name, new_dir, new_name);
	if (done)
		move_copy_attributes(new_dir, new_name, st);
	return done;
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static bool copy_entry(const struct walk_at *at)
{
	struct stat st;

	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	if (!copy_one(at->dir, at->name, mirror[at->depth - 1], at->name, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return true;
	stats[at->depth] = st;
	mirror[at->depth] = open_dir(mirror[at->depth - 1], at->name);
	return mirror[at->depth] >= 0 && walk_enter();
}

// Every exit closes all fds: depths above `open` have none.
static bool copy_beneath(void)
{
	struct walk_at at;
	enum walk_step step;
	uint32_t open = 0;
	bool done = true;

	while (done && (step = walk_next(&at)) != WALK_END) {
		if (step == WALK_LEFT) {
			close(mirror[at.depth]);
			open = at.depth - 1;
			move_copy_attributes(mirror[at.depth - 1], at.name, &stats[at.depth]);
			continue;
		}
		mirror[at.depth] = -1;
		done = copy_entry(&at);
		if (mirror[at.depth] >= 0)
			open = at.depth;
	}
	for (; open > 0; open--)
		fd_drop(&mirror[open]);
	if (walk_skipped() > 0 && done) {
		done = false;
		errno = ENAMETOOLONG;
	}
	walk_end();
	return done;
}

// Copies `name` in `dir` to `new_name` in `new_dir`, which must not exist: files, directories,
// links, with modes, times and, if allowed, owners. False with errno; a partial copy stays. EINVAL:
// an entry is neither of the three.
static bool move_by_copy(int dir, const char *name, int new_dir, const char *new_name)
{
	struct stat st;
	bool done;
	int root;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !copy_one(dir, name, new_dir, new_name, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return true;
	root = open_dir(dir, name);
	if (root < 0)
		return false;
	mirror[0] = open_dir(new_dir, new_name);
	if (mirror[0] < 0) {
		close(root);
		return false;
	}
	walk_begin(root);
	done = copy_beneath();
	fd_drop(&mirror[0]);
	if (done)
		move_copy_attributes(new_dir, new_name, &st);
	return done;
}

#define NO_REPLACE 1 // RENAME_NOREPLACE

static bool rename_at(const struct path_resolve *from, const char *name,
		      const struct path_resolve *to, unsigned flags)
{
	return syscall(SYS_renameat2, from->dir, name, to->dir, to->name, flags) == 0;
}

// The checks of rename(): a copy must not replace what a rename would not.
static bool may_replace(const struct path_resolve *from, const struct path_resolve *to,
			unsigned flags)
{
	struct stat source, there;

	if (fstatat(from->dir, from->name, &source, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (fstatat(to->dir, to->name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT;
	errno = EEXIST;
	if (flags & NO_REPLACE)
		return false;
	errno = EISDIR;
	if (S_ISDIR(there.st_mode) && !S_ISDIR(source.st_mode))
		return false;
	errno = ENOTDIR;
	return S_ISDIR(there.st_mode) || !S_ISDIR(source.st_mode);
}

// A directory must not be copied into itself.
static bool move_is_beneath(const struct path_resolve *from, const struct path_resolve *to)
{
	auto_fd_errno dir = openat(to->dir, ".", O_PATH | O_CLOEXEC);
	struct stat source, at;
	bool is = false;

	if (fstatat(from->dir, from->name, &source, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	for (int i = 0; i < FILEOP_DEPTH_MAX * 8 && dir >= 0 && !is; i++) {
		int up = openat(dir, "..", O_PATH | O_CLOEXEC);
		ino_t inode = 0;
		dev_t device = 0;

		if (fstat(dir, &at) == 0) {
			inode = at.st_ino;
			device = at.st_dev;
			is = inode == source.st_ino && device == source.st_dev;
		}
		close(dir);
		dir = up;
		if (up >= 0 && fstat(up, &at) == 0 && at.st_ino == inode && at.st_dev == device)
			break; // the root is its own parent
	}
	return is;
}

static bool copy_over(const struct path_resolve *from, const struct path_resolve *to,
		      unsigned flags)
{
	struct path_resolve temp = {.dir = to->dir};
	uint64_t count = 0;
	int kept;

	if (!may_replace(from, to, flags))
		return false;
	errno = EINVAL;
	if (move_is_beneath(from, to))
		return false;
	path_resolve_temp_name(temp.name, false);
	if (!move_by_copy(from->dir, from->name, temp.dir, temp.name) ||
	    !rename_at(&temp, temp.name, to, flags)) {
		kept = errno;
		tree_erase(temp.dir, temp.name, &count);
		errno = kept;
		return false;
	}
	// The copy is in place; entries of the original that could not be removed are reported.
	return tree_erase(from->dir, from->name, &count) == 0;
}

// The target: under its own name in a directory, or exactly the given path.
static bool find_place(const struct fileop_request *ask, const struct path_resolve *from,
		       struct path_resolve *to)
{
	int dir = path_resolve_open(ask->base, ask->other, O_PATH | O_DIRECTORY);

	if (dir >= 0) {
		to->dir = dir;
		memcpy(to->name, from->name, sizeof(to->name));
		return true;
	}
	if (errno != ENOENT && errno != ENOTDIR)
		return false;
	if (!path_resolve_find(ask->base, ask->other, ask->flags & FILEOP_PARENTS, false, to))
		return false;
	errno = ENOENT;
	return to->name[0];
}

bool move_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	unsigned flags = ask->flags & FILEOP_EXCLUSIVE ? NO_REPLACE : 0;
	auto_path_resolve from = {.dir = -1}, to = {.dir = -1};
	struct stat st;

	if (!path_resolve_find(ask->base, ask->path, false, false, &from))
		return false;
	errno = EBUSY;
	if (!from.name[0] || fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !find_place(ask, &from, &to))
		return false;
	// EINVAL: the file system has no RENAME_NOREPLACE, or a directory is moved into itself.
	if (!rename_at(&from, from.name, &to, flags) &&
	    (errno != EXDEV || !copy_over(&from, &to, flags)))
		return false;
	path_resolve_stat(&st, &reply->stat);
	return true;
}
