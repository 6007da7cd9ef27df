// One command or file worker in pid 1's table, and the messages about it.
#pragma once

#include "init/run.h"

enum owed { OWES_STARTED = 1, OWES_FAILED = 2, OWES_EXITED = 4, OWES_WORKER = 8, OWES_HELD = 16 };

struct conn {
	bool used;
	bool forgotten;
	bool starting; // given to a preforked worker, not yet executed
	bool mute;     // its end is not reported
	uint8_t owes;
	uint32_t id;
	uint32_t exec_cgroup;
	int64_t asked_us; // time of the request, by pid 1's clock
	int pid;	  // 0: reaped, or never forked
	struct run run;	  // our ends of its pipes
	int step, errnum; // FAILED
	int status;	  // EXITED
	uint64_t max_rss, cpu_us;
	bool cgroup_empty, over;
	uint32_t flags; // of its EXEC
	uint16_t tag_len;
	const char *tag;
};

// Sends the message that is due. True: the kernel took it, or never will.
bool conn_send(const struct conn *conn);
// Both of its pipes are empty, and no process can write to them any more.
bool conn_is_over(const struct conn *conn);

// HELLO to a daemon; `returns`: another daemon may connect later. False: not sent.
bool conn_greet(bool returns);
int conn_tell_broken(const char *step); // instead of HELLO; returns the exit status
