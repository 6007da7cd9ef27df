// Make the n-th call fail, in torture builds only (-DCOVE_FAULT). Elsewhere it costs nothing.
// Wrapped calls ask fault_here() first. COVE_FAULT_DIR names a directory with a file for each role
// (argv[1]) that is to suffer: two 64-bit numbers that the process and the driver of the torture
// share. The first is how many asks are left until one fails, the second counts the asks.
#pragma once

#include <stdbool.h>

#ifdef COVE_FAULT
bool fault_here(void);	  // sets errno to ENOMEM, EIO, EMFILE, ENOSPC in turn when it answers true
void fault_spare(int fd); // reads and writes of this one never fail: the log's
#else
static inline bool fault_here(void)
{
	return false;
}
static inline void fault_spare(int fd)
{
	(void)fd;
}
#endif
