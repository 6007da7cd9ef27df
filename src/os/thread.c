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

// "42 (cove) D …": fields are counted from the state.
enum { PARENT = 1, SESSION = 3, FLAGS = 6, USER = 11, SYSTEM, STARTED = 19, RSS = 21, FIELDS };

bool thread_look(const char *path, struct thread_look *out)
{
	unsigned long long fields[FIELDS];
	char text[1024];
	const char *at;

	if (fd_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	at = strrchr(text, ')'); // a name may contain more
	if (!at || strlen(at) < 3)
		return false;
	out->state = at[2];
	for (int i = 0; i < FIELDS; i++) {
		at = strchr(at + 1, ' ');
		if (!at)
			return false;
		fields[i] = strtoull(at, NULL, 10);
	}
	out->parent = (int)fields[PARENT];
	out->session = (int)fields[SESSION];
	out->exits = fields[FLAGS] & PF_EXITING;
	out->unexecuted = fields[FLAGS] & PF_FORKNOEXEC;
	out->started = fields[STARTED];
	out->cpu = fields[USER] + fields[SYSTEM];
	out->rss_pages = fields[RSS];
	return true;
}

bool thread_look_process(int pid, struct thread_look *out)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return thread_look(path, out);
}
