// The state of pid 1, shared by its loop (init.c) and by start.c.
#pragma once

#include "init/conn.h"
#include "init/exec_cgroup.h"

// The content of one EXEC. It stays while a preforked worker reads it; another takes the next
// message.
struct message {
	struct run_order order;
	const char *argv[TALK_ARGS_MAX + 3], *env[TALK_ARGS_MAX + 3];
	char words[TALK_SIZE_MAX];
};

// The daemon's side. Messages that are due are sent only to a daemon that KNOWS.
enum listener {
	LISTENER_KNOWS,
	LISTENER_AWAY,
	LISTENER_STRANGER,
	LISTENER_ASKS,
	LISTENER_TOLD
}; // TOLD: the list is being sent

// Whether the daemon may be told that a process waits in sync or syncfs, and was.
enum sync { SYNC_OFF, SYNC_MAY, SYNC_TOLD };

struct init {
	struct drop_privileges setup;
	enum sync sync;
	enum listener listener;
	bool returns; // another daemon can connect
	struct conn conns[TALK_CONN_MAX];
	int conn_end; // entries from here on were never used
	struct exec_cgroup exec_cgroups[TALK_CGROUPS_MAX];
	bool owing;	   // the socket was full
	struct conn other; // an answer without an entry in the table
	struct message *letters[2], first;
	int free_message;    // the free one
	bool fresh;	     // a STARTED is due that may be sent together with its EXITED
	bool untidy;	     // free entries have open fds
	bool wants;	     // a preforked worker, when idle
	uint32_t stdio_kind; // of the last command: most likely that of the next
	uint32_t served;     // the exec cgroup that was found empty last
	int64_t ended_us;    // and when
	bool served_many;    // it was not the first
	struct run stale;    // fds of an ended command, to be closed when no client waits
	// When to check the preforked worker that has a command, and to give it up.
	int64_t look_us, stuck_us;
};
extern struct init init;

int64_t init_now_us(void);
struct conn *init_find(uint32_t id); // NULL: none
void init_settle(struct conn *conn); // sends what is due; frees the entry when it is over

// In start.c.
void start_tidy(void); // closes fds of free entries
// A command has ended, and the one before it at last_us: the next may follow as soon.
void start_look_ahead(const struct conn *conn, int64_t last_us);
void start_drop_fds(const int *fds, int count);
void start_exec(uint32_t id, struct run_order *order, const int *fds, int count);
void start_worker(uint32_t id, struct str user);
// The preforked worker has executed, failed, or never moved: then the command is started by
// run_start(). executed: a worker that moved and did not fail has executed, as far as is known.
void start_conclude(struct conn *conn, bool executed);
void start_look(bool now); // checks the preforked worker that has a command
