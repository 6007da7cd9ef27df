// Copies trees, for templates: host files to a layer. The source is trusted (the host's own /usr,
// /etc and /var/lib/dpkg), so it is walked by recursion; depth is bounded all the same.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/fd.h"
#include "os/path.h"

#define DEPTH_MAX 256

struct copy {
	int root;	  // the top of the copy
	struct map *seen; // "dev:ino" of files with several names, to the first path made
	struct path_copied *sum;
	struct buf path; // of the current directory, beneath root, ends with '/'
};

static fallible explain(int errnum, const char *what, const char *name)
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
		return explain(errno, "size", "a copy");
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
			return explain(errno, "copy", "a file");
		at = hole;
	}
	*out_bytes = (uint64_t)st.st_size;
	return OK;
}

static fallible path_copy_attributes(int fd, const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if (fchown(fd, st->st_uid, st->st_gid) || fchmod(fd, st->st_mode & 07777) ||
	    futimens(fd, times))
		return explain(errno, "dress", name);
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
		return explain(errno, "make", name);
	if (fstat(in, &st))
		return err_sys(errno, "look at '%s'", name);
	TRY(path_copy_data(in, out, &bytes), "copy '%s'", name);
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
		return explain(errno, "make the link", name);
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
			return explain(errno, "link", name);
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
		return explain(errno, "make the directory", name);
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
	return path_copy_attributes(out, name, st);
}

static fallible copy_any(struct copy *copy, int from, int to, const char *name, int depth)
{
	struct stat st;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? OK : err_sys(errno, "look at '%s'", name);
	if (S_ISDIR(st.st_mode))
		return copy_dir(copy, from, to, name, &st, depth);
	if (S_ISLNK(st.st_mode))
		return path_copy_link(copy, from, to, name, &st);
	if (!S_ISREG(st.st_mode))
		return OK;
	return st.st_nlink > 1 ? copy_named(copy, from, to, name, &st)
			       : path_copy_file(copy, from, to, name);
}

static fallible path_copy_all(struct copy *copy, DIR *dir, int from, int to, int depth)
{
	struct dirent *entry;

	while (errno = 0, (entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])))
			continue;
		TRY(copy_any(copy, from, to, name, depth), "copy '%s'", name);
	}
	return errno ? err_sys(errno, "read a directory to copy") : OK;
}

static fallible copy_tree(struct copy *copy, int from, int to, int depth)
{
	auto_fd again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct err *err;

	if (!dir)
		return err_sys(errno, "list a directory to copy");
	take_fd(&again);
	err = path_copy_all(copy, dir, from, to, depth);
	closedir(dir);
	return err;
}

static void path_copy_forget(struct copy *copy)
{
	struct str key;
	void *value;
	size_t at = 0;

	while (map_next(copy->seen, &at, &key, &value))
		free(value);
	map_free(copy->seen);
	buf_done(&copy->path);
}

fallible path_copy(int from, int to, struct path_copied *sum)
{
	struct copy copy = {.root = to, .seen = map_new(), .sum = sum, .path = BUF_INIT(65536)};
	struct err *err = copy_tree(&copy, from, to, 0);

	path_copy_forget(&copy);
	return err;
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
