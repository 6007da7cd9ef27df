// How much room the host's file system has for what boxes write.
#pragma once

#include <stdint.h>

#include "base/err.h"

// Bytes that the host's file system has free beyond its watermark, the smaller of 2 GiB and 5 %.
fallible disk_room(int data, uint64_t *out);
// The same, and the size of the file system.
fallible disk_measure(int data, uint64_t *out_total, uint64_t *out_room);
