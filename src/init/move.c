// Renames where the kernel can. On EXDEV copies under a temporary name, renames the copy to the
// target and removes the original. overlayfs cannot rename a directory of the lower layer, so that
// is common.
#include "init/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/copy.h"
#include "init/path_resolve.h"
#include "init/tree.h"

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
	struct stat source, at;
	int dir = openat(to->dir, ".", O_PATH | O_CLOEXEC);
	bool is = false;

	if (dir < 0 || fstatat(from->dir, from->name, &source, AT_SYMLINK_NOFOLLOW) < 0)
		return dir >= 0 && close(dir) < 0;
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
	if (dir >= 0)
		close(dir);
	return is;
}

static bool copy_over(const struct path_resolve *from, const struct path_resolve *to,
		      unsigned flags)
{
	struct path_resolve temp = {.dir = to->dir};
	uint64_t count = 0;
	bool done;
	int kept;

	if (!may_replace(from, to, flags))
		return false;
	errno = EINVAL;
	if (move_is_beneath(from, to))
		return false;
	path_resolve_temp_name(temp.name, false);
	done = copy_tree(from->dir, from->name, temp.dir, temp.name) &&
	       rename_at(&temp, temp.name, to, flags);
	kept = errno;
	if (!done) {
		tree_erase(temp.dir, temp.name, &count);
		errno = kept;
		return false;
	}
	// The copy is in place; entries of the original that could not be removed are reported.
	return tree_erase(from->dir, from->name, &count) == 0;
}

static bool move_to(const struct path_resolve *from, struct path_resolve *to, unsigned flags)
{
	if (rename_at(from, from->name, to, flags))
		return true;
	// EINVAL: the file system has no RENAME_NOREPLACE, or a directory is moved into itself.
	if (errno != EXDEV)
		return false;
	return copy_over(from, to, flags);
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
	if (to->name[0])
		return true;
	path_resolve_done(to);
	errno = ENOENT;
	return false;
}

bool move_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	unsigned flags = ask->flags & FILEOP_EXCLUSIVE ? NO_REPLACE : 0;
	struct path_resolve from, to;
	struct stat st;
	bool done = false;
	int kept;

	if (!path_resolve_find(ask->base, ask->path, false, false, &from))
		return false;
	errno = EBUSY;
	if (from.name[0] && fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    find_place(ask, &from, &to)) {
		done = move_to(&from, &to, flags);
		kept = errno;
		path_resolve_done(&to);
		errno = kept;
	}
	kept = errno;
	path_resolve_done(&from);
	errno = kept;
	if (done)
		path_resolve_stat(&st, &reply->stat);
	return done;
}
