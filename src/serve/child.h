// A process that is meant to live: started, watched, started again when it dies.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "serve/config.h"

#define CHILD_FDS_MAX 24

struct child {
	const char *role;	 // argv[1]
	char **argv;		 // NULL-ended, the owner's
	int keep[CHILD_FDS_MAX]; // fds that it inherits
	int keep_count;
	sigset_t blocked;	     // signals that wait until it listens
	const struct config *config; // how it logs; borrowed
	pid_t pid;		     // 0: not running
	int64_t again_at;	     // when to start it, in ms; 0: not wanted
	int64_t began_at;
	int64_t pause_ms;
	bool old; // an earlier image of ours has started it, and it is to be replaced
};

// Starts it now, in a process group of its own: a terminal's signals are for us. It gets SIGTERM
// when we die.
fallible child_start(struct child *child);
// Notes that it ended, and when it is due again: at once after a long life, later after a short
// one.
void child_ended(struct child *child, int64_t now_ms);
