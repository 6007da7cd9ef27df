// The attributes trusted.overlay.* of directories, by which an overlay hides what lies below them.
// The jail can neither read nor set them: they are read before it is confined, and set after it.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

struct disk_copy;

#define OVERLAY_MARKS "marks"	      // a file at the top of an unpacked disk, until they are set
#define OVERLAY_MARKS_MAX (64u << 20) // bytes of it
#define OVERLAY_MARK_VALUE 4096

// Those of all directories beneath `tree`, by "NAME PATH". TOO_LARGE archive_too_large.
fallible overlay_marks_read(int tree, struct map *out);
void overlay_marks_done(struct map *marks);
// The n-th name; NULL: no more.
const char *overlay_mark_name(size_t n);
// NULL: the directory has none of that name.
const char *overlay_mark(const struct map *marks, const char *name, const char *path);
// Appends one to the text of the file. The name is unknown: false.
bool overlay_mark_put(struct buf *out, const char *name, const char *path, struct str value);
// Runs in a child: sets what the file of the tree fds[0] says, and removes the file.
fallible overlay_marks_apply(struct disk_copy *copy);
