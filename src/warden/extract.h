// Puts the entries of an archive into a root directory, inside the jail. Names come from strangers:
// each is resolved by the kernel as if that directory were "/", so a link in the archive can lead
// astray, but never out. Where the last name of a path is taken, what was there gives way.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

#define EXTRACT_NAME_MAX 4096
#define EXTRACT_DEPTH_MAX 256

struct place {
	int root;
	struct map *fresh; // what this layer brought, NULL: nobody asks
	struct buf parent; // the path of the directory that was used last
	int parent_fd;	   // and the directory; -1: none
};

void extract_init(struct place *place, int root);
void extract_done(struct place *place);
// The next layer begins: from here on what it brings is remembered (or not, when `layered` is
// false), for its whiteouts concern the layers below only.
void extract_layer(struct place *place, bool layered);

// "/a/./b//c/" becomes "a/b/c". INVALID bad_archive for "..", a name too long or too deep.
fallible extract_clean(const char *path, struct buf *out);

struct extract_dress {
	mode_t mode;
	uint64_t uid, gid; // ids that no box has become nobody's
	struct timespec mtime;
};

// `path` is clean. A file is returned open for writing, to be dressed when it is written.
fallible extract_dir(struct place *place, const char *path, const struct extract_dress *dress);
fallible extract_file(struct place *place, const char *path, int *out_fd);
fallible extract_attributes(int fd, const char *path, const struct extract_dress *dress);
fallible extract_symlink(struct place *place, const char *path, const char *target,
			 const struct extract_dress *dress);
fallible extract_link(struct place *place, const char *path, const char *to); // `to` clean too
// `path` ends with the name of a whiteout; *out says whether it was one.
fallible extract_whiteout(struct place *place, const char *path, bool *out);
