// Replaces the path-based system calls of SQLite's VFS by *at() calls for paths of the form
// "/@FD/NAME". Other paths are passed through unchanged.
//
// syscalls: openat newfstatat faccessat faccessat2 unlinkat fstat
#include "store/sqlite_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

// Splits a path of ours into directory and name; any other path is AT_FDCWD and itself. The
// directory alone is named ".".
static int sqlite_files_split(const char *path, const char **out_name)
{
	struct str rest = str_of(path), fd;
	uint64_t number;

	*out_name = path;
	if (!str_starts(rest, "/@"))
		return AT_FDCWD;
	rest = str_skip(rest, 2);
	str_cut(&rest, '/', &fd);
	if (!str_to_u64(fd, 0, INT32_MAX, &number))
		return AT_FDCWD;
	*out_name = rest.at && rest.len ? rest.at : ".";
	return (int)number;
}

static int lead_open(const char *path, int flags, int mode)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	// Readable by the owner alone, whatever the directory allows.
	return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW, mode & 0600);
}

static int lead_access(const char *path, int mode)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return faccessat(dir, name, mode, 0);
}

static int lead_stat(const char *path, struct stat *out)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return fstatat(dir, name, out, 0);
}

static int lead_lstat(const char *path, struct stat *out)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	// SQLite calls it for each part of a path to resolve symlinks. Ours have none.
	if (dir != AT_FDCWD && !strcmp(name, ".")) {
		errno = ENOENT;
		return -1;
	}
	return fstatat(dir, name, out, AT_SYMLINK_NOFOLLOW);
}

static int lead_unlink(const char *path)
{
	const char *name;
	int dir = sqlite_files_split(path, &name);

	return unlinkat(dir, name, 0);
}

void sqlite_files_lead(void)
{
	static const struct {
		const char *vfs;
	} all[] = {{"unix"}, {"unix-none"}};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		sqlite3_vfs *vfs = sqlite3_vfs_find(all[i].vfs);

		if (!vfs || vfs->iVersion < 3)
			continue;
		vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)lead_open);
		vfs->xSetSystemCall(vfs, "access", (sqlite3_syscall_ptr)lead_access);
		vfs->xSetSystemCall(vfs, "stat", (sqlite3_syscall_ptr)lead_stat);
		vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)lead_lstat);
		vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)lead_unlink);
	}
}

void sqlite_files_path(int dir, const char *name, char *room, size_t size)
{
	snprintf(room, size, "/@%d/%s", dir, name);
}
