// The ids that stand for a box's root while we still are the host's. No allocation: pid 1 links
// this. -1 with errno.
#pragma once

#include <stdint.h>

// From here on files are made and judged as by id `id` (0: as ourselves), with all our
// capabilities.
int set_ids_files(uint32_t id);
// Leaving id 0 takes capabilities out of the effective set; this puts the permitted ones back.
int set_ids_raise(void);
// The effective uid alone becomes `id` (0: ours again), with all our capabilities: what is opened
// now carries it. The kernel forgets PR_SET_PDEATHSIG at each call.
int set_ids_effective(uint32_t id);
