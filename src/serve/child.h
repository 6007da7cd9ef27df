// A supervised process: started, watched, restarted when it dies.
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
	char **argv;		 // NULL-ended, owned by the caller
	int keep[CHILD_FDS_MAX]; // fds to inherit
	int keep_count;
	sigset_t blocked;	     // signals that stay pending until the child handles them
	const struct config *config; // for its logging; borrowed
	pid_t pid;		     // 0: not running
	int64_t again_at;	     // when to start it, in ms; 0: not wanted
	int64_t began_at;
	int64_t pause_ms;
	bool old; // started by the image before an upgrade, and to be replaced
};

// Starts it in a process group of its own, so that the terminal's signals reach only the
// supervisor. It gets SIGTERM when the supervisor dies.
fallible child_start(struct child *child);
// Records its end, and when it is due again: at once after a long life, later after a short one.
void child_ended(struct child *child, int64_t now_ms);

// The command lines, NULL-ended, freed by mem_free_list(). The daemon gets every setting as a
// flag; the warden only those that it needs. Secrets are never in argv.
char **child_daemon_argv(const struct config *config);
char **child_warden_argv(const struct config *config);
