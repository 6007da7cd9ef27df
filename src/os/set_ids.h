// Acting with the ids of a box's root while still root of the host. No allocation: pid 1 links
// this. -1 with errno.
#pragma once

#include <stdint.h>

// Sets fsuid and fsgid to `id` (0: our own), with all our capabilities: files are made and checked
// as by that id.
int set_ids_files(uint32_t id);
// Leaving uid 0 clears the effective capabilities; this restores them from the permitted set.
int set_ids_raise(void);
// Sets the effective uid to `id` (0: our own), with all our capabilities: files opened now carry
// it. The kernel clears PR_SET_PDEATHSIG at each call.
int set_ids_effective(uint32_t id);
