// Make the n-th call fail, in torture builds only (-DCOVE_FAULT). Elsewhere it costs nothing.
// Wrapped calls ask fault_here() first; COVE_FAULT_AT=n makes the n-th answer true, and
// COVE_FAULT_COUNT=file has the number of asks appended there at exit, a line per process:
// "asks role pid". Each process counts for itself; COVE_FAULT_IN=role restricts both to the
// processes whose argv[1] is that word.
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
