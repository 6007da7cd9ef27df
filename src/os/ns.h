// User namespaces, and the ids that stand for a box's root while we still are the host's.
#pragma once

#include <stdint.h>

#include "base/err.h"

#define NS_IDS 65536 // ids of one box

// A user namespace that maps 0..65535 to `base` and up, in which no further namespace can be made
// and inotify is bounded. `base` owns it: what the box uses of things that are counted per user is
// counted under that id, not under root's. It lives as long as *out_fd, the caller's. Blocks for
// a third of a millisecond: a child is born and reaped.
fallible ns_user(uint32_t base, int *out_fd);

// From here on files are made and judged as by id `id` (0: as ourselves), with all our
// capabilities. -1 with errno. For the builder: no allocation.
int ns_files_as(uint32_t id);
