// Parses /proc/.../stat of a thread: state, flags, start time. Any format error counts as "no such
// thread". The name may contain brackets, so fields are counted from the last one.
//
// syscalls: openat read close
#include "os/thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/fd.h"

#define PF_EXITING 4	 // of the kernel; stable
#define PF_FORKNOEXEC 64 // likewise

// "42 (cove) D …": fields are counted from the name.
#define FLAGS 7
#define STARTED 20

bool thread_look(const char *path, struct thread_look *out)
{
	char text[1024];
	unsigned long flags;
	const char *at;

	if (fd_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')'); // a name may contain more
	if (!at || strlen(at) < 3)
		return false;
	out->state = at[2];
	for (int i = 0; i < FLAGS && at; i++)
		at = strchr(at + 1, ' ');
	flags = at ? strtoul(at, NULL, 10) : 0;
	for (int i = FLAGS; i < STARTED && at; i++)
		at = strchr(at + 1, ' ');
	out->exits = flags & PF_EXITING;
	out->unexecuted = flags & PF_FORKNOEXEC;
	out->started = at ? strtoull(at, NULL, 10) : 0;
	return at != NULL;
}

bool thread_look_process(int pid, struct thread_look *out)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return thread_look(path, out);
}
