// User namespaces of boxes.
#pragma once

#include <stdint.h>

#include "base/err.h"

#define NS_IDS 65536 // ids of one box
// The reason of an error (UNAVAILABLE): a helper process could not be forked, or was killed before
// it was done. Says nothing about the host: another try may go well.
#define NS_HELPER_LOST "helper_lost"

// A user namespace that maps 0..65535 to `base` and up, in which no further namespace can be made
// and inotify is bounded. `base` owns it: what the box uses of things that are counted per user is
// counted under that id, not under root's. It lives as long as *out_fd, the caller's. Blocks for
// a third of a millisecond: a child is born and reaped. UNAVAILABLE NS_HELPER_LOST when that was
// killed.
fallible ns_user(uint32_t base, int *out_fd);
// Takes what it needs of low numbers, before others do. Where it was not called, or failed, the
// first ns_user() does so.
void ns_prepare(void);
