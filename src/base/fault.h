// Fault injection: makes the n-th call fail, in builds with -DCOVE_FAULT only. Elsewhere it costs
// nothing. Wrapped calls ask fault_here() first. COVE_FAULT_DIR is a directory with a file for each
// affected role (argv[1]): two 64-bit numbers shared with the test driver. The first is the number
// of calls until one fails, the second counts calls.
#pragma once

#include <stdbool.h>

#ifdef COVE_FAULT
bool fault_here(void);	  // if true, sets errno to ENOMEM, EIO, EMFILE, ENOSPC in turn
void fault_spare(int fd); // reads and writes of this fd never fail: the log's
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

// A kill point is a named place where a process kills itself with SIGKILL when a test has armed it.
// There are some after each commit, sync and rename, and at each message between supervisor,
// warden, daemon and pid 1. Weak builds only (base/weak.h): elsewhere nothing of it exists.
// COVE_KILL_POINTS is a file of KILL_POINTS_SIZE bytes that the processes share with the test:
//
//	0	u32 left: the armed point kills when it is reached so often; 0: none is armed
//	4	u32 then_left: the same for the second point, which the first arms as it kills
//	8	u32 fired: how many have killed
//	64	the armed point, "PLACE" or "PLACE.WHAT"
//	128	the second point
//	192	points reached since the last kill: 60 bytes of the name, then u32 how often
#ifdef COVE_WEAK
#define KILL_POINTS_SIZE 32768
void kill_point(const char *place,
		const char *what); // `what` tells kinds of a place apart, or NULL
#else
#define kill_point(place, what) ((void)0)
#endif
