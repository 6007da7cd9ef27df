// User namespaces of boxes.
#pragma once

#include <stdint.h>

#include "base/err.h"

#define NS_IDS 65536 // ids of one box
// The reason of an error (UNAVAILABLE): a helper process could not be forked, or was killed. Says
// nothing about the host: another try may succeed.
#define NS_HELPER_LOST "helper_lost"

// A user namespace that maps 0..65535 to `base` and up, in which no further namespace can be made
// and inotify is limited. `base` owns it: per-user counts of the box are charged to that uid, not
// to root. It lives as long as *out_fd, owned by the caller. Blocks for a third of a millisecond: a
// child is forked and reaped. UNAVAILABLE NS_HELPER_LOST if it was killed.
fallible ns_user(uint32_t base, int *out_fd);
// Reserves its low fd number before others take it. Else the first ns_user() does so.
void ns_prepare(void);
