// Where a path of a request leads. Every look-up is one openat2() without magic links, inside of
// the box's root; what is then done to the last name is done beneath a directory that is held open.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "model/reach.h"

// An fd, or -1 with errno. `flags` as for open(); O_CLOEXEC is added.
int site_open(struct str base, struct str path, int flags);
int site_open_at(int dir, const char *path, int flags);

// Until the next call: whether paths may lead to /proc and /sys. There a file tells of who reads
// it, and a worker's memory is laid out as pid 1's.
void site_allow_proc(bool yes);
// An fd of /proc or /sys where they may not be read: closed, with EACCES.
bool site_is_refused(int fd);

struct site {
	int dir;		 // O_PATH
	char name[NAME_MAX + 1]; // "": the path names `dir` itself, as "/" and ".." do
};
// The directory of a path and its last name. With `parents` missing directories are made; with
// `follow` a link in the last place is followed, to something that need not exist.
bool site_find(struct str base, struct str path, bool parents, bool follow, struct site *out);
void site_done(struct site *site);
// A relative path, resolved beneath `dir`, without any link on the way: for archives.
bool site_beneath(int dir, const char *path, bool parents, struct site *out);

void site_stat(const struct stat *st, struct reach_stat *out);
// "/proc/self/fd/N", for calls that know no fd.
const char *site_of_fd(int fd, char *room); // 32 bytes
// Names that are nobody's yet. `was_there` tells watchers what the rename will mean.
void site_temp_name(char *room, bool was_there); // NAME_MAX + 1 bytes
enum site_temp { SITE_NO_TEMP, SITE_TEMP_NEW, SITE_TEMP_OLD };
enum site_temp site_is_temp(const char *name);
