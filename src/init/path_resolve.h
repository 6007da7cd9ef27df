// Path resolution. Every lookup is one openat2() without magic links, inside of the box's root; the
// last component is then used relative to a directory that is held open.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "protocol/fileop.h"

// An fd, or -1 with errno. `flags` as for open(); O_CLOEXEC is added.
int path_resolve_open(struct str base, struct str path, int flags);
int path_resolve_open_at(int dir, const char *path, int flags);

// Until the next call: whether paths may lead to /proc and /sys. Files there tell about their
// reader, and a worker's memory is laid out as pid 1's.
void path_resolve_allow_proc(bool yes);
bool path_resolve_has_refused(void); // since that call
// True for an fd of /proc or /sys while these are not allowed: then closed, with EACCES.
bool path_resolve_is_refused(int fd);

struct path_resolve {
	int dir;		 // O_PATH
	char name[NAME_MAX + 1]; // "": the path names `dir` itself, as "/" and ".." do
};
// The directory of a path and its last component. With `parents` missing directories are made; with
// `follow` a symlink as last component is followed, to a target that need not exist.
bool path_resolve_find(struct str base, struct str path, bool parents, bool follow,
		       struct path_resolve *out);
void path_resolve_done(struct path_resolve *resolved); // errno stays
#define auto_path_resolve __attribute__((cleanup(path_resolve_done))) struct path_resolve
// A relative path, resolved beneath `dir` without following any symlink: for archives.
bool path_resolve_beneath(int dir, const char *path, bool parents, struct path_resolve *out);

void path_resolve_stat(const struct stat *st, struct fileop_stat *out);
// "/proc/self/fd/N", for calls that take no fd.
const char *path_resolve_of_fd(int fd, char *room); // 32 bytes
// A unique temporary name. `was_there` tells watchers how to report the rename.
void path_resolve_temp_name(char *room, bool was_there); // NAME_MAX + 1 bytes
enum path_resolve_temp { PATH_RESOLVE_NO_TEMP, PATH_RESOLVE_TEMP_NEW, PATH_RESOLVE_TEMP_OLD };
enum path_resolve_temp path_resolve_is_temp(const char *name);
