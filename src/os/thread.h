// What the kernel says of a thread in /proc/…/stat.
#pragma once

#include <stdbool.h>

#define THREAD_UNWAKEABLE 'D'
#define THREAD_DEAD 'Z'

struct thread_look {
	char state;
	bool exits; // it is on its way out: what it has open is being closed
};

// False: there is no such thread. `path` names the file; the thread's name has no parenthesis.
bool thread_look(const char *path, struct thread_look *out);
