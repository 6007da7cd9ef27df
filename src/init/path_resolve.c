// Resolves paths of requests with openat2() and RESOLVE_NO_MAGICLINKS. The last component is split
// off and used relative to an fd of its directory. Files of /proc and /sys are refused unless
// allowed. EAGAIN, which a box can cause by renames, is retried a bounded number of times.
#include "init/path_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/weak.h"
#include "os/fd.h"

#define RACES_BORNE 32
#define LINKS_MAX 40
#define TEMP_NEW ".cove-new-"
#define TEMP_OLD ".cove-old-"
#define TEMP_LEN (sizeof(TEMP_NEW) - 1)

static bool proc_is_allowed, has_refused;

bool path_resolve_has_refused(void)
{
	return has_refused;
}

void path_resolve_allow_proc(bool yes)
{
	has_refused = false;
	proc_is_allowed = yes || weak(PROC_FILES);
}

bool path_resolve_is_refused(int fd)
{
	struct statfs fs;

	if (proc_is_allowed ||
	    (fstatfs(fd, &fs) == 0 && fs.f_type != PROC_SUPER_MAGIC && fs.f_type != SYSFS_MAGIC))
		return false;
	close(fd);
	has_refused = true;
	errno = EACCES;
	return true;
}

static void path_resolve_note_refused(int dir, const char *path, const struct open_how *how)
{
	struct open_how look = {.flags = O_PATH | O_CLOEXEC, .resolve = how->resolve};
	int fd = (int)syscall(SYS_openat2, dir, path, &look, sizeof(look));

	if (fd >= 0 && !path_resolve_is_refused(fd))
		close(fd);
	errno = EACCES;
}

static int open_with(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? 0600 : 0,
		.resolve = (weak(MAGIC_LINKS) ? 0 : RESOLVE_NO_MAGICLINKS) | resolve,
	};
	long fd = -1;

	// EAGAIN: a directory was renamed during the lookup. A box can cause that for ever.
	for (int i = 0; i < RACES_BORNE; i++) {
		fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	if (fd < 0 && errno == EACCES) // the kernel was faster: some files of /proc refuse a worker
		path_resolve_note_refused(dir, path, &how);
	return fd >= 0 && path_resolve_is_refused((int)fd) ? -1 : (int)fd;
}

// An absolute path, in `room` of 2 * PATH_MAX.
static bool init_path_resolve_join(struct str base, struct str path, char *room)
{
	size_t len = 0;

	errno = path.len == 0 ? ENOENT : EINVAL;
	if (path.len == 0 || (path.at[0] != '/' && (base.len == 0 || base.at[0] != '/')))
		return false;
	errno = ENAMETOOLONG;
	if (path.len >= PATH_MAX || base.len >= PATH_MAX)
		return false;
	if (path.at[0] != '/') {
		memcpy(room, base.at, base.len);
		len = base.len;
		room[len++] = '/';
	}
	memcpy(room + len, path.at, path.len);
	room[len + path.len] = 0;
	return true;
}

int path_resolve_open_at(int dir, const char *path, int flags)
{
	return open_with(dir, path, flags, 0);
}

int path_resolve_open(struct str base, struct str path, int flags)
{
	static char room[2 * PATH_MAX];

	return init_path_resolve_join(base, path, room) ? open_with(AT_FDCWD, room, flags, 0) : -1;
}

// Cuts the last component off. `path` is then the directory, "" for the starting one.
static char *cut_name(char *path)
{
	size_t len = strlen(path);
	char *slash;

	while (len > 1 && path[len - 1] == '/')
		path[--len] = 0;
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// Opens each directory of the path, made if missing. The fd of the last, or -1.
static int init_path_resolve_make_way(int at, const char *path, uint64_t resolve)
{
	int dir = open_with(at, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);
	struct str rest = str_of(path), part;
	char name[NAME_MAX + 1];

	while (dir >= 0 && str_cut(&rest, '/', &part)) {
		int next = -1;

		if (part.len == 0)
			continue;
		errno = ENAMETOOLONG;
		if (part.len <= NAME_MAX) {
			memcpy(name, part.at, part.len);
			name[part.len] = 0;
			next = open_with(dir, name, O_PATH | O_DIRECTORY, resolve);
			if (next < 0 && errno == ENOENT &&
			    (mkdirat(dir, name, 0755) == 0 || errno == EEXIST))
				next = open_with(dir, name, O_PATH | O_DIRECTORY, resolve);
		}
		fd_drop(&dir);
		dir = next;
	}
	return dir;
}

static int open_way(int at, const char *path, size_t len, bool parents, uint64_t resolve)
{
	static char way[2 * PATH_MAX];
	int dir;

	memcpy(way, path, len);
	way[len] = 0;
	dir = open_with(at, len > 0 ? way : ".", O_PATH | O_DIRECTORY, resolve);
	if (dir >= 0 || errno != ENOENT || !parents)
		return dir;
	return init_path_resolve_make_way(at, way, resolve);
}

// `path` is written to.
static bool init_path_resolve_split(int at, char *path, bool parents, uint64_t resolve,
				    struct path_resolve *out)
{
	char *name = cut_name(path);
	size_t len = (size_t)(name - path);
	bool is_dir = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || !*name;

	if (strlen(name) > NAME_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(out->name, is_dir ? "" : name, is_dir ? 1 : strlen(name) + 1);
	out->dir = open_way(at, path, is_dir ? strlen(path) : len, parents, resolve);
	return out->dir >= 0;
}

// If the last component is a symlink, follows it.
static bool follow_links(struct path_resolve *resolved, bool parents)
{
	static char target[PATH_MAX];

	for (int i = 0; i < LINKS_MAX && resolved->name[0]; i++) {
		struct path_resolve next;
		ssize_t n = readlinkat(resolved->dir, resolved->name, target, sizeof(target) - 1);
		bool found;

		if (n < 0)
			return true; // no symlink, or nothing there
		target[n] = 0;
		found = init_path_resolve_split(resolved->dir, target, parents, 0, &next);
		path_resolve_done(resolved);
		if (!found)
			return false;
		*resolved = next;
	}
	if (!resolved->name[0])
		return true;
	path_resolve_done(resolved);
	errno = ELOOP;
	return false;
}

bool path_resolve_find(struct str base, struct str path, bool parents, bool follow,
		       struct path_resolve *out)
{
	static char room[2 * PATH_MAX];

	if (!init_path_resolve_join(base, path, room) ||
	    !init_path_resolve_split(AT_FDCWD, room, parents, 0, out))
		return false;
	return !follow || follow_links(out, parents);
}

bool path_resolve_beneath(int dir, const char *path, bool parents, struct path_resolve *out)
{
	static char room[PATH_MAX];

	if (strlen(path) >= sizeof(room)) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(room, path, strlen(path) + 1);
	return init_path_resolve_split(
		dir, room, parents, weak(PATHS) ? 0 : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, out);
}

void path_resolve_done(struct path_resolve *resolved)
{
	fd_drop(&resolved->dir);
}

static enum fileop_type init_path_resolve_type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FILEOP_REGULAR;
	case S_IFDIR:
		return FILEOP_DIRECTORY;
	case S_IFLNK:
		return FILEOP_SYMLINK;
	default:
		return FILEOP_OTHER;
	}
}

// A file can have any timestamp; values beyond the range are clamped.
static int64_t in_us(const struct timespec *time)
{
	int64_t max = 1ll << 39;
	int64_t seconds = time->tv_sec > max ? max : time->tv_sec < -max ? -max : time->tv_sec;

	return seconds * 1000000 + time->tv_nsec / 1000;
}

void path_resolve_stat(const struct stat *st, struct fileop_stat *out)
{
	*out = (struct fileop_stat){
		.type = init_path_resolve_type_of(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.links = (uint32_t)st->st_nlink,
		.inode = st->st_ino,
		.size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
		.mtime_us = in_us(&st->st_mtim),
		.ctime_us = in_us(&st->st_ctim),
	};
}

const char *path_resolve_of_fd(int fd, char *room)
{
	snprintf(room, 32, "/proc/self/fd/%d", fd);
	return room;
}

void path_resolve_temp_name(char *room, bool was_there)
{
	static uint64_t number;

	if (number == 0)
		(void)!getrandom(&number, sizeof(number), 0);
	number++;
	snprintf(room, NAME_MAX + 1, "%s%016llx", was_there ? TEMP_OLD : TEMP_NEW,
		 (unsigned long long)number);
}

enum path_resolve_temp path_resolve_is_temp(const char *name)
{
	if (strlen(name) != TEMP_LEN + 16)
		return PATH_RESOLVE_NO_TEMP;
	if (strncmp(name, TEMP_NEW, TEMP_LEN) == 0)
		return PATH_RESOLVE_TEMP_NEW;
	return strncmp(name, TEMP_OLD, TEMP_LEN) == 0 ? PATH_RESOLVE_TEMP_OLD
						      : PATH_RESOLVE_NO_TEMP;
}
