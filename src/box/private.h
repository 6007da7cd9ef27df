// The state of a box, for the files of this folder; others use box/box.h.
#pragma once

#include "box/ask.h"
#include "box/channel.h"
#include "box/pipes.h"
#include "box/stall.h"

#define BOX_USER_MAX 64
#define BOX_EXECS_MAX 256   // running at once
#define BOX_CGROUPS_MAX 256 // cgroups of one box
#define BOX_DRAINING_MAX 64 // ended execs whose pipes a process still holds

struct adoption;
struct contexts;
struct exec;
struct procs;
struct prewarmed_shells;
struct tape_budget;

// An exec cgroup. Its number and CPU meter come from the warden.
struct box_cgroup {
	struct link all;  // box->exec_cgroups
	struct link idle; // in box->clean or box->doubt
	uint32_t number;
	int meter;
	int join[2];   // fds to join it, until pid 1 has them; then -1
	bool doubtful; // processes may still live in it
	bool spent;    // it was killed: what is cloned into it would die
	bool killed;   // it is empty and its number may be reused: never kill it again
	bool marked;   // its name says what runs in it: used once
	int kills;     // kill orders that are under way
	struct box *box;
	bool taken;	   // by an exec, from EXEC on
	struct exec *exec; // that runs in it
	// The CPU limit also covers processes that an exec left behind.
	uint64_t limit_us; // meter value; 0: none
	uint64_t seen_us;  // last meter value
	uint32_t calm;	   // readings without a change
	struct timer timer;
};

// Events of a cgroup for the exec that runs in it.
struct box_cgroup_events {
	void (*cpu_limit)(struct exec *exec); // the CPU limit is used up
	void (*killed)(struct exec *exec);    // it was killed: EXITED must come
};

// Everything in a box is told of the box's end by one loop over a table (kinds.c).
enum box_end {
	BOX_END_LOST,	 // pid 1 is gone for good
	BOX_END_STOPPED, // pid 1 is gone; the box can be started again
	BOX_END_LEFT,	 // its owner drops it: nothing in it can be found any more
	BOX_END_FREED,	 // the last reference was dropped
	BOX_ENDS
};
struct box_kind {
	const char *name;			 // NULL: end of the table
	void (*tell[BOX_ENDS])(struct box *box); // NULL: nothing to do
	// Drops the oldest kept output. False: there is none. NULL: never.
	bool (*let_oldest_go)(struct box *box);
};

// The long-lived processes of a box by kind (unit.h).
enum unit_type { UNIT_PROCESS, UNIT_TERM, UNIT_SESSION, UNIT_CONTEXT, UNIT_TYPES };
struct units {
	struct link all;   // in order of creation
	struct map *by_id; // NULL until the first
	uint32_t files;	   // numbers given to their files so far
};

enum box_phase { BOX_GREETING, BOX_ALIVE, BOX_BROKEN, BOX_LOST, BOX_STOPPED, BOX_DESTROYED };

struct box {
	struct loop *loop;
	struct ask *ask;
	const struct box_kind *kinds;
	const struct box_cgroup_events *cgroup_events;
	int refs;
	char id[ID_BOX_LEN + 1];
	char user[BOX_USER_MAX + 1]; // of commands that name none; "": root
	struct stall_at at;	     // its identity, for box/stall
	struct pipes_pace pace;
	enum box_phase phase;
	uint32_t features; // of its pid 1: enum talk_feature
	bool stopping;	   // a stop or destroy was requested
	bool abandoned;	   // adoption failed: its files and processes stay untouched
	bool left;	   // its owner has dropped it: its files go with the folder
	bool has_folder;   // of tapes and state files: removed with it
	struct channel channel;
	struct condition greeted;
	struct talk broken;   // why pid 1 could not set up the box
	int oom;	      // fd of the OOM counter; -1: no cgroup is open
	struct {	      // see sync.c
		int listener; // of a caller that waits in sync; -1: none announced
		bool owes;    // SYNCED is still to be sent
		int64_t next; // loop time: when the next caller may continue
		struct timer timer;
	} sync;
	struct { // box/net.h; -1: none
		int listener, udp;
		uint16_t port; // of the listener, whichever process holds it; 0: none
	} net;
	int tapes_dir;
	struct tape_budget *tape_budget; // NULL until the first exec
	struct units units[UNIT_TYPES];
	struct procs *procs;			   // NULL until the first process
	struct contexts *contexts;		   // NULL until the first context, or spare
	size_t session_texts;			   // bytes of cached states of shells
	struct session_records *session_records;   // of session_record.c
	struct prewarmed_shells *prewarmed_shells; // NULL until one is requested
	struct link exec_cgroups, clean, doubt;
	uint32_t cgroup_count;
	uint32_t cgroup_orders;		 // orders for new cgroups that are under way
	uint32_t kills_unsure;		 // kill orders without an answer, to be repeated
	struct condition cgroup_settled; // one of these two counts fell
	struct adoption *adoption;	 // during adoption
	uint64_t *cgroups_left;		 // bits: cgroups that exist and whose fds are not open
	bool unseen;	       // some of them are of a previous daemon: processes may run there
	uint64_t cpu_us;       // of the whole box, by the warden's last answer
	uint64_t ended_cpu_us; // by its last cgroup, when it had ended
	struct link execs, draining;
	uint32_t exec_count, draining_count;
	struct link workers;
	uint32_t worker_count;
	struct condition worker_free;
	uint32_t sync_unpacks; // files_sync_begin()
	struct condition sync_unpacked;
	uint32_t last_conn;
	void (*lost)(struct box *box, void *arg);
	void *lost_arg;
	struct deferred free_later;
};

// In kinds.c.
struct box *box_new(struct loop *loop, struct ask *ask, const char *id, int tapes_dir);
struct tape_budget *box_tape_budget(struct box *box); // borrowed
void box_ref(struct box *box);
void box_end_kinds(struct box *box, enum box_end how);
void box_free_later(struct deferred *deferred);		    // box->free_later
void box_on_lost(struct channel *channel, const char *why); // box->channel.lost
void box_unref(struct box *box);
// pid 1 broke the protocol: every exec ends, and the owner is told.
void box_break(struct box *box, const char *why);

void box_abandon(struct box *box); // drops the owner's reference
// In net.c: takes the egress sockets, the last fds of an answer with `net`.
void box_net_give(struct box *box, const struct answer *answer, const int *fds);
void box_net_drop(struct box *box);	 // closes those that were not taken
void box_adoption_lost(struct box *box); // wakes the adopting task
// In adoption.c: HELD and HELD_END. Takes ownership of the fds.
void box_held(struct box *box, const struct talk *talk, int *fds, int count);

// In exec.c, called for messages of pid 1.
void exec_on_message(struct box *box, const struct talk *talk, int *fds, int count);
void exec_pay(struct box *box);	    // sends messages that a full socket did not take
void exec_end_all(struct box *box); // the box is gone
// In session.c: every session ends with its box.
void sessions_end(struct box *box);
// In context.c: processes end with the box; the output of their cells stays readable.
void contexts_end(struct box *box);
void contexts_settle(struct box *box); // waits until that is on disk
void contexts_close(struct box *box);  // unlists them; their files stay
void contexts_free(struct box *box);
bool contexts_let_oldest_go(struct box *box); // drops an ended cell; false: none
bool procs_let_oldest_go(struct box *box);    // drops an ended process; false: none
void terms_end(struct box *box);	      // in term.c: forgets ended terminals
// In prewarmed_shell.c: called before exec_end_all().
void prewarmed_shells_end(struct box *box);
// Before a freeze: ends the idle shell and waits for that, but not for long.
void prewarmed_freeze(struct box *box);
uint32_t prewarmed_count(const struct box *box); // idle ones
void prewarmed_shells_free(struct box *box);
// In procs.c: frees every record and tape of its processes.
void procs_free(struct box *box);
extern const struct box_cgroup_events exec_cgroup_events;

// In sync.c: SYNC of pid 1 (takes ownership of the fds); an adopted box; a freed box.
void box_sync_on_message(struct box *box, int *fds, int count);
void box_sync_adopted(struct box *box);
void box_sync_drop(struct box *box);

// In file_worker.c. False: the message is for no file worker.
bool box_file_worker_on_message(struct box *box, const struct talk *talk, int *fds, int count);
void box_file_worker_end_all(struct box *box);
void box_file_worker_rest_end(struct box *box); // ends the idle ones
