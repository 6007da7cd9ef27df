// Parses /proc/.../stat of a thread: state and flags. Any format error counts as "no such thread".
// The name may contain brackets, so fields are counted from the last one.
//
// syscalls: openat read close
#include "os/thread.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "os/fd.h"

#define PF_EXITING 4	 // of the kernel; stable
#define PF_FORKNOEXEC 64 // likewise

// "42 (cove) D …", and five numbers later the flags.
bool thread_look(const char *path, struct thread_look *out)
{
	char text[512];
	unsigned long flags;
	const char *at;

	if (fd_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')'); // a name may contain more
	if (!at || strlen(at) < 3)
		return false;
	out->state = at[2];
	for (int i = 0; i < 7 && at; i++)
		at = strchr(at + 1, ' ');
	flags = at ? strtoul(at, NULL, 10) : 0;
	out->exits = flags & PF_EXITING;
	out->unexecuted = flags & PF_FORKNOEXEC;
	return at != NULL;
}
