// How the program becomes pid 1 of a box: it was executed with the builder's capabilities, joins
// the box's user namespace and drops everything that a box must not have.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sock_filter;

struct drop_privileges {
	bool joins_by_clone;
	int children;	  // signalfd: a child has exited
	int syncs;	  // listener of the filter: a process waits in sync or syncfs; -1: none
	int oom;	  // its own oom_score_adj; -1: cannot be raised for children
	char oom_own[16]; // its value between two starts
	const struct sock_filter *filter; // loaded by each child before execve
	uint16_t filter_len;
};

// NULL on success, else the name of the step that failed, with errno.
const char *drop_privileges_run(struct drop_privileges *out);
