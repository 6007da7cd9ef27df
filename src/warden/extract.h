// Creates the entries of an archive below a root directory, inside the jail. The names are
// untrusted: the kernel resolves each as if that directory were "/", so a symlink in the archive
// never leads outside. An existing entry at the last component is replaced.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

#define EXTRACT_NAME_MAX 4096
#define EXTRACT_DEPTH_MAX 256

struct extract {
	int root;
	struct map *fresh; // paths that this layer made, NULL: not recorded
	struct buf parent; // path of the parent that was used last
	int parent_fd;	   // that directory; -1: none
};

void extract_init(struct extract *extract, int root);
void extract_done(struct extract *extract);
// Begins the next layer: from here on its paths are recorded if `layered`, because its whiteouts
// apply to the layers below only.
void extract_layer(struct extract *extract, bool layered);

// "/a/./b//c/" becomes "a/b/c". INVALID bad_archive for "..", a name too long or too deep.
fallible extract_clean(const char *path, struct buf *out);

struct extract_attrs {
	mode_t mode;
	uint64_t uid, gid; // ids outside a box's range become nobody's
	struct timespec mtime;
};

// `path` is clean. A file is returned open for writing; set its attributes after the last write.
fallible extract_dir(struct extract *extract, const char *path, const struct extract_attrs *attrs);
fallible extract_file(struct extract *extract, const char *path, int *out_fd);
fallible extract_attributes(int fd, const char *path, const struct extract_attrs *attrs);
fallible extract_symlink(struct extract *extract, const char *path, const char *target,
			 const struct extract_attrs *attrs);
fallible extract_link(struct extract *extract, const char *path, const char *to); // `to` clean too
// `path` ends with the name of a whiteout; *out says whether it was one.
fallible extract_whiteout(struct extract *extract, const char *path, bool *out);
