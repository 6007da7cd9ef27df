// How much space the host's file system has for boxes.
#pragma once

#include <stdint.h>

#include "base/err.h"

// Free bytes beyond the watermark, the smaller of 2 GiB and 5 %.
fallible disk_room(int data, uint64_t *out);
// The same, and the size of the file system.
fallible disk_measure(int data, uint64_t *out_total, uint64_t *out_room);
