// What the kernel says of a thread in /proc/…/stat.
#pragma once

#include <stdbool.h>

#define THREAD_UNWAKEABLE 'D'
#define THREAD_DEAD 'Z'
#define THREAD_STOPPED 'T'

struct thread_look {
	char state;
	bool exits;	 // it is on its way out: what it has open is being closed
	bool unexecuted; // it was forked, and has not executed a program since
};

// False: there is no such thread. `path` names the file.
bool thread_look(const char *path, struct thread_look *out);
