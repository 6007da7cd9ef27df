// A command or file worker in pid 1's table, the messages about it, and what the next daemon is
// told.
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
int conn_send_broken(const char *step); // instead of HELLO; returns the exit status
// A process waits in sync or syncfs: `listener` is that of the filter. Returns like conn_send().
bool conn_send_sync(int listener);

// The change from one daemon to the next. True if TALK_FD_LISTEN listens, so that another daemon
// can connect.
bool handover_may_return(void);
// Accepts a connection as the daemon: the old connection ends. False: none was accepted.
bool handover_accept(void);
// Stores the label that a daemon gave to a command.
void handover_set_label(struct conn *conn, int place, struct str tag);
// True if the fds of STARTED are kept for the next daemon; else the write end of stdin is closed.
bool handover_keeps_in(const struct conn *conn);
// A new daemon sent ADOPT: the state of this entry is to be sent again, or dropped if no daemon
// wants it.
void handover_owe(struct conn *conn);
// Both return like conn_send().
bool handover_send(const struct conn *conn);
bool handover_send_end(void);
