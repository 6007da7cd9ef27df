// The state of a box, for the files of this room alone; others know it by box/box.h.
#pragma once

#include "box/ask.h"
#include "box/channel.h"
#include "box/pipes.h"
#include "box/stall.h"

#define BOX_USER_MAX 64
#define BOX_EXECS_MAX 256   // running at once
#define BOX_CGROUPS_MAX 256 // cgroups of one box
#define BOX_DRAINING_MAX 64 // ended execs whose pipes somebody still holds

struct adoption;
struct contexts;
struct exec;
struct procs;
struct sessions;
struct terms;
struct prewarmed_shells;
struct tape_budget;

// One cgroup for execs. Its number and its meter come from the warden.
struct box_cgroup {
	struct link all;  // of the box
	struct link idle; // in box->clean or box->doubt
	uint32_t number;
	int meter;
	int join[2];   // until pid 1 has them; -1 then
	bool doubtful; // something may still live in it
	bool spent;    // it was killed, and whatever is cloned into it would die
	bool killed; // nothing lives in it, and its number may be another's: not to be killed again
	bool marked; // it bears the name of what runs in it: for nothing else
	int kills;   // orders to kill it that are under way
	struct box *box;
	bool taken;	   // by an exec, from the question on
	struct exec *exec; // the one that runs in it
	// The CPU-time limit holds on for what an exec left behind.
	uint64_t limit_us; // of the meter; 0: none
	uint64_t seen_us;  // what the meter said last
	uint32_t calm;	   // readings since it last moved
	struct timer timer;
};

// What a leaf tells the command that runs in it.
struct box_cgroup_events {
	void (*cpu_limit)(struct exec *exec); // the leaf's CPU time is used up
	void (*killed)(struct exec *exec);    // pid 1 has the end of the command to report
};

// What lives in a box is told of its end by one loop over a table (kinds.c).
enum box_end {
	BOX_END_LOST,	 // its pid 1 is gone for good, whoever ended it
	BOX_END_STOPPED, // its pid 1 is gone, and the box can be started again
	BOX_END_LEFT,	 // its owner lets it go: nobody finds what is in it any more
	BOX_END_FREED,	 // the last share was dropped
	BOX_ENDS
};
struct box_kind {
	const char *name;			 // NULL: the end of the table
	void (*tell[BOX_ENDS])(struct box *box); // NULL: nothing to do
	// The box keeps too much output: the oldest of it goes. False: there is none; NULL: never.
	bool (*let_oldest_go)(struct box *box);
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
	struct stall_at at;	     // it, for box/stall
	struct pipes_pace pace;
	enum box_phase phase;
	uint32_t features; // of its pid 1: enum talk_feature
	bool destroying;
	bool forsaken; // it could not be taken up: what there is of it is left as it is
	uint32_t cards, term_tapes; // files made so far
	bool has_folder;	    // of tapes and cards: to be removed with it
	struct channel channel;
	struct condition greeted;
	struct talk broken;   // what pid 1 said of its own birth
	int oom;	      // the kernel's count of OOM kills; -1: no leaf is open
	struct {	      // see sync.c
		int listener; // of a process that waits in sync; -1: none that pid 1 told of
		bool owes;    // pid 1 a SYNCED
		int64_t next; // when the next may go on
		struct timer timer;
	} sync;
	struct { // see box/net.h; -1: none
		int listener, udp;
		uint16_t port; // the listener's, whoever holds it; 0: none
	} net;
	int tapes_dir;
	struct tape_budget *tape_budget;	   // NULL until the first exec
	struct procs *procs;			   // NULL until the first process
	struct sessions *sessions;		   // NULL until the first session
	struct terms *terms;			   // NULL until the first terminal
	struct contexts *contexts;		   // NULL until the first context
	struct prewarmed_shells *prewarmed_shells; // NULL until one was wanted
	struct link exec_cgroups, clean, doubt;
	uint32_t cgroup_count;
	uint32_t cgroup_orders;		 // for new leaves, that are under way
	uint32_t kills_unsure;		 // of leaves: given without an answer, to be given again
	struct condition cgroup_settled; // one of these two has become fewer
	struct adoption *adoption;	 // while it is being taken up
	uint64_t *cgroups_left;		 // bits: leaves that exist and whose fds are not open
	bool unseen;	 // some of them are an earlier daemon's: something may run there
	uint64_t cpu_us; // of all of it, as the warden said last
	struct link execs, draining;
	uint32_t exec_count, draining_count;
	struct link workers;
	uint32_t worker_count;
	struct condition worker_free;
	uint32_t last_conn;
	void (*lost)(struct box *box, void *arg);
	void *lost_arg;
	struct deferred free_later;
};

// In kinds.c.
struct box *box_new(struct loop *loop, struct ask *ask, const char *id, int tapes_dir);
struct tape_budget *box_tape_budget(struct box *box); // borrowed
void box_ref(struct box *box);
void box_tell_kinds(struct box *box, enum box_end how);
void box_free_later(struct deferred *deferred);		    // box->free_later
void box_on_lost(struct channel *channel, const char *why); // box->channel.lost
void box_unref(struct box *box);
// pid 1 is not to be trusted any more: every exec ends, and the owner is told.
void box_break(struct box *box, const char *why);

void box_forsake(struct box *box); // the owner's share goes
// In net.c: the last fds of an answer that says `net` are the box's way out. Takes them over.
void box_net_give(struct box *box, const struct answer *answer, const int *fds);
void box_net_drop(struct box *box); // those that nobody took
void procs_forsake(struct box *box);
void terms_forsake(struct box *box);
// A file of its folder, by its letter (0: none) and number, in the background.
void box_remove_file(struct box *box, char letter, uint32_t number);
void box_adoption_lost(struct box *box); // whoever takes it up is woken
// In adoption.c: HELD and HELD_END. Takes the fds over.
void box_held(struct box *box, const struct talk *talk, int *fds, int count);

// In exec.c, called by the channel's owner.
void exec_heard(struct box *box, const struct talk *talk, int *fds, int count);
void exec_pay(struct box *box);	    // words that a full socket did not take
void exec_end_all(struct box *box); // the box is gone
// In session.c: every session ends with its box.
void sessions_end(struct box *box);
// In context.c: their processes end with the box, and what their cells wrote can still be read.
void contexts_end(struct box *box);
void contexts_settle(struct box *box); // until that is on disk; waits
void contexts_close(struct box *box);  // nobody finds them any more; their files stay
void contexts_free(struct box *box);
bool contexts_let_oldest_go(struct box *box); // a cell that has ended; false: there is none
bool procs_let_oldest_go(struct box *box);    // a process that has ended; false: there is none
void terms_end(struct box *box);	      // in term.c: what has ended is forgotten
void terms_free(struct box *box);
// In prewarmed_shell.c: with its box, before exec_end_all().
void prewarmed_shells_end(struct box *box);
// The box is about to be frozen: the one that waits leaves. Waits for that, but not for long.
void prewarmed_freeze(struct box *box);
uint32_t prewarmed_count(const struct box *box); // of those that wait
void prewarmed_shells_free(struct box *box);
// In procs.c: the box is freed, and every record and tape of its processes goes.
void procs_free(struct box *box);
extern const struct box_cgroup_events exec_cgroup_events;

// In sync.c: a SYNC of pid 1, whose fds it takes over; a box that was adopted; one that is freed.
void box_sync_heard(struct box *box, int *fds, int count);
void box_sync_adopted(struct box *box);
void box_sync_drop(struct box *box);

// In hand.c. False: it is not for a hand.
bool box_file_worker_heard(struct box *box, const struct talk *talk, int *fds, int count);
void box_file_worker_end_all(struct box *box);
void box_file_worker_rest_end(struct box *box); // those that nobody has
