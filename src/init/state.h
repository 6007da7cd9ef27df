// The state of pid 1, for init.c, its loop, and start.c, how what was asked for begins.
#pragma once

#include "init/conn.h"
#include "init/exec_cgroup.h"

// What one EXEC brought. It stays while a spare reads it, and another takes the next words.
struct message {
	struct run_order order;
	const char *argv[TALK_ARGS_MAX + 3], *env[TALK_ARGS_MAX + 3];
	char words[TALK_SIZE_MAX];
};

// Who is at the other end. What is owed is said to one who knows alone.
enum listener {
	LISTENER_KNOWS,
	LISTENER_AWAY,
	LISTENER_STRANGER,
	LISTENER_ASKS,
	LISTENER_TOLD
}; // TOLD: it is being told

// Whether the daemon may be told that a process waits in sync or syncfs, and was.
enum sync { SYNC_OFF, SYNC_MAY, SYNC_TOLD };

struct init {
	struct drop_privileges birth;
	enum sync sync;
	enum listener listener;
	bool returns; // another daemon can come
	struct conn conns[TALK_CONN_MAX];
	int conn_end; // places at and behind this one were never used
	struct exec_cgroup exec_cgroups[TALK_CGROUPS_MAX];
	bool owing;	   // the socket was full
	struct conn other; // an answer that belongs to no place in the table
	struct message *letters[2], first;
	int letter;	  // the one that is free
	bool fresh;	  // somebody owes a STARTED that may go together with its EXITED
	bool untidy;	  // places that are free have open ends
	bool wants;	  // a spare, in an idle moment
	uint32_t seat;	  // of the last: where the next will most likely sit, too
	uint32_t served;  // the leaf that was found empty last
	int64_t ended_us; // and when
	bool served_many; // it was not the first
	struct run stale; // ends of one that is over, to be closed when nobody waits
	// When to look after the spare that has a command in hand, and to give it up.
	int64_t look_us, stuck_us;
};
extern struct init init;

int64_t init_now_us(void);
struct conn *init_find(uint32_t id); // NULL: none
void init_settle(struct conn *conn); // says what is owed; frees the place when all is over

// In start.c.
void start_tidy(void); // closes what is open for nobody
// One has ended, and the one before it had at last_us: the next may come as soon behind it.
void start_look_ahead(const struct conn *conn, int64_t last_us);
void start_drop_fds(const int *fds, int count);
void start_exec(uint32_t id, struct run_order *order, const int *fds, int count);
void start_worker(uint32_t id, struct str user);
// The spare has executed, or failed, or never came to it: then the command is started the other
// way. executed: one that moved and did not fail did execute, as far as is known.
void start_conclude(struct conn *conn, bool executed);
void start_look(bool now); // after the spare that has a command in hand
