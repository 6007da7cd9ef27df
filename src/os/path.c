// Paths beneath directory fds. Removal must survive hostile trees: a hundred thousand names in one
// directory, or directories nested as deep as the disk allows. So it never recurses: a directory in
// the tree is moved to its top and emptied there. Each is moved at most once, and two fds suffice.
// Copies are for templates: their source is trusted (the host's own /usr, /etc and /var/lib/dpkg),
// so it is walked by recursion; depth is bounded all the same.
#include "os/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/fd.h"

#define RACES_BORNE 32
#define DEPTH_MAX 256 // of a tree that is copied

static fallible os_path_explain(int errnum, const char *path)
{
	switch (errnum) {
	case ENOENT:
		return err_new(NOT_FOUND, "no_file", "there is no file '%s'", path);
	case EXDEV:
	case ELOOP:
		return err_hint(err_new(FORBIDDEN, "path_escape", "'%s' leads out", path),
				"name a path without '..' that no link redirects");
	default:
		return err_sys(errnum, "open '%s' beneath a directory", path);
	}
}

fallible path_open(int root, const char *path, int flags, int *out_fd)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	// EAGAIN: a directory was renamed during the lookup. A tenant can cause that for ever.
	for (int i = 0; i < RACES_BORNE; i++) {
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	if (fd < 0)
		return os_path_explain(errno, path);
	*out_fd = (int)fd;
	return OK;
}

fallible path_dir(int dir, const char *name, mode_t mode, int *out_fd)
{
	bool made = mkdirat(dir, name, 0700) == 0;

	if (!made && errno != EEXIST)
		return err_sys(errno, "make the directory '%s'", name);
	auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "open the directory '%s'", name);
	if (made && fchmod(fd, mode)) // the umask cuts mkdir's mode
		return err_sys(errno, "set the mode of '%s'", name);
	*out_fd = take_fd(&fd);
	return OK;
}

fallible path_read(int dir, const char *name, struct buf *out)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return errno == ENOENT ? os_path_explain(errno, name)
				       : err_sys(errno, "read '%s'", name);
	for (;;) {
		char piece[2048];
		ssize_t got = read(fd, piece, sizeof(piece));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(errno, "read '%s'", name);
		if (got == 0)
			return OK;
		buf_add(out, piece, (size_t)got);
		if (!buf_ok(out))
			return err_new(TOO_LARGE, "file_too_large", "'%s' is too large", name);
	}
}

fallible path_sync(int dir)
{
	return fsync(dir) ? err_sys(errno, "sync a directory") : OK;
}

static fallible write_aside(int dir, const char *name, mode_t mode, struct str bytes, bool sync)
{
	if (unlinkat(dir, name, 0) && errno != ENOENT)
		return err_sys(errno, "remove the old '%s'", name);
	auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(errno, "make '%s'", name);
	if (fd_write_all(fd, bytes.at, bytes.len) || fchmod(fd, mode) || (sync && fsync(fd)))
		return err_sys(errno, "write '%s'", name);
	return OK;
}

static fallible replace(int dir, const char *name, mode_t mode, struct str bytes, bool sync)
{
	char aside[NAME_MAX + 1];
	struct err *err;

	snprintf(aside, sizeof(aside), "%s~", name);
	err = write_aside(dir, aside, mode, bytes, sync);
	if (!err && renameat(dir, aside, dir, name))
		err = err_sys(errno, "replace '%s'", name);
	if (err)
		unlinkat(dir, aside, 0);
	return err;
}

fallible path_write(int dir, const char *name, mode_t mode, const char *text)
{
	return replace(dir, name, mode, str_of(text), false);
}

fallible path_write_sync(int dir, const char *name, mode_t mode, struct str bytes)
{
	TRY(replace(dir, name, mode, bytes, true));
	kill_point("file_renamed", name);
	TRY(path_sync(dir));
	kill_point("file_synced", name);
	return OK;
}

DIR *path_list(int dir, const char *name)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (list)
		take_fd(&fd);
	return list;
}

void path_list_close(DIR **list)
{
	if (*list)
		closedir(*list);
}

struct dirent *path_next(DIR *list)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(list);
	} while (entry && entry->d_name[0] == '.' &&
		 (!entry->d_name[1] || (entry->d_name[1] == '.' && !entry->d_name[2])));
	return entry;
}

// Where directories that are not empty are moved: the top of the tree, under generated names.
struct removal {
	int top;
	uint64_t moved;
};

static fallible lift(struct removal *removal, int dir, const char *name)
{
	char at_top[32];

	for (;;) {
		snprintf(at_top, sizeof(at_top), ".up-%llx", (unsigned long long)removal->moved++);
		if (renameat2(dir, name, removal->top, at_top, RENAME_NOREPLACE) == 0)
			return OK;
		if (errno != EEXIST)
			return errno == ENOENT ? OK : err_sys(errno, "lift '%s'", name);
	}
}

// Removes the entry if possible. *out_full: it is a directory that is not empty.
static fallible drop_entry(int dir, const char *name, bool *out_full)
{
	*out_full = false;
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return OK;
	if (errno != EISDIR)
		return err_sys(errno, "remove '%s'", name);
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return OK;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_sys(errno, "remove the directory '%s'", name);
	*out_full = true;
	return OK;
}

// One pass over `dir`. Removal during readdir may hide entries, so the caller repeats until a pass
// finds none.
static fallible os_path_sweep(struct removal *removal, DIR *dir, bool *out_found)
{
	struct dirent *entry;
	bool full;

	*out_found = false;
	rewinddir(dir);
	while ((entry = path_next(dir))) {
		*out_found = true;
		TRY(drop_entry(dirfd(dir), entry->d_name, &full));
		if (!full)
			continue;
		if (dirfd(dir) != removal->top) {
			TRY(lift(removal, dirfd(dir), entry->d_name));
			continue;
		}
		auto_dir below = path_list(dirfd(dir), entry->d_name);
		bool found = true;

		if (!below)
			return err_sys(errno, "open the directory '%s'", entry->d_name);
		while (found)
			TRY(os_path_sweep(removal, below, &found)); // no deeper
		TRY(drop_entry(dirfd(dir), entry->d_name, &full));
	}
	return errno ? err_sys(errno, "read a directory") : OK;
}

fallible path_remove(int dir, const char *name)
{
	struct removal removal = {0};
	bool full, found = true;

	TRY(drop_entry(dir, name, &full));
	if (!full)
		return OK;
	auto_dir top = path_list(dir, name);

	if (!top)
		return err_sys(errno, "open the directory '%s'", name);
	removal.top = dirfd(top);
	while (found)
		TRY(os_path_sweep(&removal, top, &found), "empty '%s'", name);
	return drop_entry(dir, name, &full);
}

struct copy {
	int root;	  // the top of the copy
	bool whole;	  // with whiteouts, pipes and attributes
	struct map *seen; // "dev:ino" of files with several names, to the first path made
	struct path_copied *sum;
	bool links;	 // hard links instead of copies
	struct buf path; // of the current directory, beneath root, ends with '/'
};

static fallible path_copy_explain(int errnum, const char *what, const char *name)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_new(NO_SPACE, "disk_full", "the disk of the host is full");
	return err_sys(errnum, "%s '%s'", what, name);
}

// For kernels or file systems without copy_file_range between these two.
static int copy_by_hand(int from, int to, off_t at, off_t end)
{
	char piece[3584];

	while (at < end) {
		size_t want = end - at < (off_t)sizeof(piece) ? (size_t)(end - at) : sizeof(piece);
		ssize_t got = pread(from, piece, want, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return (int)got; // 0: the file shrank
		if (pwrite(to, piece, (size_t)got, at) != got)
			return -1;
		at += got;
	}
	return 0;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t got = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
				errno == ENOSYS || errno == EPERM))
			return copy_by_hand(from, to, at, end);
		if (got <= 0)
			return (int)got;
		at += got;
	}
	return 0;
}

fallible path_copy_data(int from, int to, uint64_t *out_bytes)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st))
		return err_sys(errno, "look at a file to copy");
	if (ioctl(to, FICLONE, from) == 0) {
		*out_bytes = (uint64_t)st.st_size;
		return OK;
	}
	if (ftruncate(to, st.st_size))
		return path_copy_explain(errno, "size", "a copy");
	while (at < st.st_size) {
		off_t data = lseek(from, at, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO)
			break; // only a hole is left
		if (data < 0)
			return err_sys(errno, "find data to copy");
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(errno, "find a hole to skip");
		if (copy_range(from, to, data, hole))
			return path_copy_explain(errno, "copy", "a file");
		at = hole;
	}
	*out_bytes = (uint64_t)st.st_size;
	return OK;
}

#define XATTR_LIST_MAX 65536
#define XATTR_VALUE_MAX 65536

static fallible path_copy_xattrs(int from, int to, const char *name)
{
	auto_free char *names = mem_new(XATTR_LIST_MAX);
	auto_free char *value = mem_new(XATTR_VALUE_MAX);
	ssize_t len = flistxattr(from, names, XATTR_LIST_MAX);

	if (len < 0)
		return errno == ENOTSUP ? OK : err_sys(errno, "list the attributes of '%s'", name);
	for (const char *at = names; at < names + len; at += strlen(at) + 1) {
		ssize_t size;

		if (!str_starts(str_of(at), "user.") && !str_starts(str_of(at), "trusted.overlay."))
			continue;
		size = fgetxattr(from, at, value, XATTR_VALUE_MAX);
		if (size < 0 || fsetxattr(to, at, value, (size_t)size, 0))
			return path_copy_explain(errno, "copy an attribute of", name);
	}
	return OK;
}

// Without CAP_FSETID the kernel clears set-gid for a group that is not the caller's: the file's
// group becomes the caller's for that call. A change of ids clears the signal of the parent's
// death.
static int path_chmod(int fd, const struct stat *like)
{
	mode_t mode = like->st_mode & 07777;
	int old, death = 0;
	struct stat st;

	if (fchmod(fd, mode))
		return -1;
	if (!(mode & S_ISGID) || fstat(fd, &st) || (st.st_mode & S_ISGID))
		return 0;
	prctl(PR_GET_PDEATHSIG, &death);
	old = setfsgid(like->st_gid);
	fchmod(fd, mode);
	setfsgid((gid_t)old);
	if (death)
		prctl(PR_SET_PDEATHSIG, death);
	return 0;
}

static fallible path_copy_attributes(int fd, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchown(fd, st->st_uid, st->st_gid) || path_chmod(fd, st) || futimens(fd, times))
		return path_copy_explain(errno, "dress", name);
	return OK;
}

static fallible path_copy_file(struct copy *copy, int from, int to, const char *name)
{
	auto_fd in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint64_t bytes = 0;
	struct stat st;

	if (in < 0)
		return err_sys(errno, "open '%s' to copy it", name);
	auto_fd out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (out < 0)
		return path_copy_explain(errno, "make", name);
	if (fstat(in, &st))
		return err_sys(errno, "look at '%s'", name);
	TRY(path_copy_data(in, out, &bytes), "copy '%s'", name);
	if (copy->whole || copy->links)
		TRY(path_copy_xattrs(in, out, name));
	copy->sum->files++;
	copy->sum->bytes += bytes;
	return path_copy_attributes(out, name, &st);
}

static fallible path_copy_link(struct copy *copy, int from, int to, const char *name,
			       const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	auto_free char *target = mem_new(PATH_MAX);

	if (readlinkat(from, name, target, PATH_MAX - 1) < 0)
		return err_sys(errno, "read the link '%s'", name);
	if (symlinkat(target, to, name) ||
	    fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) ||
	    utimensat(to, name, times, AT_SYMLINK_NOFOLLOW))
		return path_copy_explain(errno, "make the link", name);
	copy->sum->files++;
	return OK;
}

// A second name of a file that was copied becomes a hard link to the copy.
static fallible copy_named(struct copy *copy, int from, int to, const char *name,
			   const struct stat *st)
{
	char key[64];
	int len = snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev,
			   (unsigned long long)st->st_ino);
	const char *first = map_get(copy->seen, (struct str){key, (size_t)len});

	if (first) {
		if (linkat(copy->root, first, to, name, 0))
			return path_copy_explain(errno, "link", name);
		copy->sum->files++;
		return OK;
	}
	TRY(path_copy_file(copy, from, to, name));
	map_put(copy->seen, (struct str){key, (size_t)len},
		mem_fmt("%s%s", copy->path.len ? copy->path.at : "", name));
	return OK;
}

static fallible copy_tree(struct copy *copy, int from, int to, int depth);

static fallible copy_dir(struct copy *copy, int from, int to, const char *name,
			 const struct stat *st, int depth)
{
	auto_fd in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd out = -1;
	size_t len = copy->path.len;

	if (in < 0)
		return err_sys(errno, "open the directory '%s'", name);
	if (depth >= DEPTH_MAX)
		return err_sys(ELOOP, "copy '%s': too deep", name);
	if (mkdirat(to, name, 0700))
		return path_copy_explain(errno, "make the directory", name);
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return err_sys(errno, "open the new directory '%s'", name);
	buf_fmt(&copy->path, "%s/", name);
	if (!buf_ok(&copy->path))
		return err_sys(ENAMETOOLONG, "copy '%s'", name);
	TRY(copy_tree(copy, in, out, depth + 1));
	copy->path.len = len;
	if (copy->path.at)
		copy->path.at[len] = 0;
	if (copy->whole || copy->links)
		TRY(path_copy_xattrs(in, out, name));
	return path_copy_attributes(out, name, st);
}

// A whiteout, a named pipe or a socket; of others nothing is copied.
static fallible copy_node(struct copy *copy, int to, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_mtim, st->st_mtim};
	bool is_whiteout = S_ISCHR(st->st_mode) && !st->st_rdev;

	if (!copy->whole || (!is_whiteout && !S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode)))
		return OK;
	if (mknodat(to, name, st->st_mode, 0) ||
	    fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) ||
	    utimensat(to, name, times, AT_SYMLINK_NOFOLLOW))
		return path_copy_explain(errno, "make", name);
	copy->sum->files++;
	return OK;
}

static fallible copy_any(struct copy *copy, int from, int to, const char *name, int depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : err_sys(errno, "look at '%s'", name);
	if (S_ISDIR(st.st_mode))
		return copy_dir(copy, from, to, name, &st, depth);
	if (copy->links && linkat(from, name, to, name, 0) == 0) {
		copy->sum->files++;
		return OK;
	}
	if (copy->links && errno != EMLINK)
		return path_copy_explain(errno, "link", name);
	if (S_ISLNK(st.st_mode))
		return path_copy_link(copy, from, to, name, &st);
	if (!S_ISREG(st.st_mode))
		return copy_node(copy, to, name, &st);
	return st.st_nlink > 1 ? copy_named(copy, from, to, name, &st)
			       : path_copy_file(copy, from, to, name);
}

static fallible copy_tree(struct copy *copy, int from, int to, int depth)
{
	auto_dir list = path_list(from, ".");
	struct dirent *entry;

	if (!list)
		return err_sys(errno, "list a directory to copy");
	while ((entry = path_next(list)))
		TRY(copy_any(copy, from, to, entry->d_name, depth), "copy '%s'", entry->d_name);
	return errno ? err_sys(errno, "read a directory to copy") : OK;
}

// `copy` says how.
static fallible path_copy_all(int from, int to, struct copy copy)
{
	struct err *err;
	struct str key;
	size_t at = 0;
	void *first;

	copy.root = to;
	copy.seen = map_new();
	copy.path = (struct buf)BUF_INIT(65536);
	err = copy_tree(&copy, from, to, 0);
	while (map_next(copy.seen, &at, &key, &first))
		free(first);
	map_free(copy.seen);
	buf_done(&copy.path);
	return err;
}

fallible path_copy(int from, int to, struct path_copied *sum)
{
	return path_copy_all(from, to, (struct copy){.sum = sum});
}

fallible path_copy_whole(int from, int to, struct path_copied *sum)
{
	return path_copy_all(from, to, (struct copy){.sum = sum, .whole = true});
}

fallible path_link(int from, int to, struct path_copied *sum)
{
	auto_fd top = openat(from, ".",
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC); // it may be an O_PATH one
	struct stat st;

	if (top < 0 || fstat(top, &st))
		return err_sys(errno, "look at a directory to link");
	TRY(path_copy_all(from, to, (struct copy){.sum = sum, .links = true}));
	TRY(path_copy_xattrs(top, to, "."));
	return path_copy_attributes(to, ".", &st);
}

fallible path_copy_one(int from, int to, const char *name, struct path_copied *sum)
{
	struct copy copy = {.root = to, .sum = sum};
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return err_sys(errno, "look at '%s'", name);
	if (S_ISLNK(st.st_mode))
		return path_copy_link(&copy, from, to, name, &st);
	return path_copy_file(&copy, from, to, name);
}

void path_spread(int dir)
{
	int flags = 0;

	if (ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_TOPDIR_FL;
		(void)ioctl(dir, FS_IOC_SETFLAGS, &flags);
	}
}
