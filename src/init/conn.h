// One conversation with the daemon, and the words in which pid 1 tells of it.
#pragma once

#include "init/run.h"

enum owed { OWES_STARTED = 1, OWES_FAILED = 2, OWES_EXITED = 4, OWES_WORKER = 8, OWES_HELD = 16 };

struct conn {
	bool used;
	bool forgotten;
	bool starting; // a spare has it in hand
	bool mute;     // its end is nobody's concern
	uint8_t owes;
	uint32_t id;
	uint32_t exec_cgroup;
	int64_t asked_us; // when, by pid 1's clock
	int pid;	  // 0: reaped, or never born
	struct run run;	  // our ends of its pipes
	int step, errnum; // FAILED
	int status;	  // EXITED
	uint64_t max_rss, cpu_us;
	bool cgroup_empty, over;
	uint32_t flags; // of its EXEC
	uint16_t tag_len;
	const char *tag;
};

// Says what is owed. True when the kernel took it, or never will.
bool conn_send(const struct conn *conn);
// Both of its pipes are empty, and nobody can write to them any more.
bool conn_is_over(const struct conn *conn);

// The first word to a daemon; `returns`: another one could come after it. False: it did not hear.
bool conn_greet(bool returns);
int conn_tell_broken(const char *step); // instead; what to end with
