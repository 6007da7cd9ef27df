// The state of a thread by /proc/…/stat.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define THREAD_UNWAKEABLE 'D'
#define THREAD_DEAD 'Z'
#define THREAD_STOPPED 'T'

struct thread_look {
	char state;
	bool exits;	 // exiting: its files are being closed
	bool unexecuted; // has not executed a program since fork
	int parent, session;
	uint64_t started; // in clock ticks since boot
	uint64_t cpu;	  // in clock ticks, of user and system
	uint64_t rss_pages;
};

// False: there is no such thread. `path` names the file.
bool thread_look(const char *path, struct thread_look *out);
bool thread_look_process(int pid, struct thread_look *out);
