// How the program becomes pid 1 of a box: it was executed with the builder's rights, joins the
// box's user namespace and gives up everything that a box must not have.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sock_filter;

struct drop_privileges {
	bool joins_by_clone;
	int children;	  // signalfd: a child has ended
	int syncs;	  // listener of the filter: a process waits in sync or syncfs; -1: none
	int oom;	  // its own oom_score_adj; -1: cannot be raised for children
	char oom_own[16]; // what it is between two starts
	const struct sock_filter *filter; // what each child loads before execve
	uint16_t filter_len;
};

// NULL when born, else a word for the step that failed, with errno.
const char *drop_privileges_run(struct drop_privileges *out);
