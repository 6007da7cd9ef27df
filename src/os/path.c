// Paths beneath directory fds. Removal must survive hostile trees: a hundred thousand names in one
// directory, or directories nested as deep as the disk allows. So it never recurses: a directory in
// the tree is moved to its top and emptied there. Each is moved at most once, and two fds suffice.
#include "os/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "os/fd.h"

#define RACES_BORNE 32

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}
#define auto_dir on_exit_call(close_dir) DIR *

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

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
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

// NULL with errno.
static DIR *os_path_open_dir(int dir, const char *name)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *out = fd < 0 ? NULL : fdopendir(fd);

	if (out)
		take_fd(&fd);
	return out;
}

// One pass over `dir`. Removal during readdir may hide entries, so the caller repeats until a pass
// finds none.
static fallible os_path_sweep(struct removal *removal, DIR *dir, bool *out_found)
{
	struct dirent *entry;
	bool full;

	*out_found = false;
	rewinddir(dir);
	while (errno = 0, (entry = readdir(dir))) {
		if (is_dots(entry->d_name))
			continue;
		*out_found = true;
		TRY(drop_entry(dirfd(dir), entry->d_name, &full));
		if (!full)
			continue;
		if (dirfd(dir) != removal->top) {
			TRY(lift(removal, dirfd(dir), entry->d_name));
			continue;
		}
		auto_dir below = os_path_open_dir(dirfd(dir), entry->d_name);
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
	auto_dir top = os_path_open_dir(dir, name);

	if (!top)
		return err_sys(errno, "open the directory '%s'", name);
	removal.top = dirfd(top);
	while (found)
		TRY(os_path_sweep(&removal, top, &found), "empty '%s'", name);
	return drop_entry(dir, name, &full);
}
