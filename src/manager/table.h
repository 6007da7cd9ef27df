// The boxes this host holds: state only. The verbs (create, life, use) include this; outsiders
// include manager/manager.h.
#pragma once

#include "base/map.h"
#include "box/ask.h"
#include "box/box.h"
#include "box/context_warm.h"
#include "loop/task.h"
#include "manager/account.h"
#include "manager/admit.h"
#include "manager/exposed_ports.h"
#include "manager/publish.h"
#include "types/record.h"

struct egress;
struct adopting;
struct egress_box;

struct entry {
	struct record record;
	struct manager *manager;
	struct box *box; // NULL until it runs
	struct exposed_ports ports;
	struct condition changed;   // rings at every change of state, and when it leaves the table
	struct link link;	    // in order of creation
	uint32_t holds;		    // those who keep it in memory: the table, tasks, execs
	bool listed;		    // found by lookups
	struct account *account;    // of its tenant; borrowed from the fleet
	enum account_weight weight; // how much of it is counted there
	uint32_t visits;	    // those who work in it: it is in use
	struct link readers;	    // of gateway/cancel_on_delete: replies that end with it
	void (*gone)(struct entry *entry); // told when it leaves the table; NULL: nobody
	bool moving;			   // a step of manager/pause is under way
	bool starting;			   // … from stopped to running: it counts as running
	struct queued *preview_token;	   // its place in manager/queue; NULL: none
	struct port_scan
		*port_scan; // of manager/port_scan; NULL: nothing is known of its listeners
	struct egress_box
		*way; // of manager/network_attach; NULL: it had no network since this daemon began
	uint32_t way_links;   // the warden's link that its way was opened over; 0: it is shut
	bool way_due;	      // it was taken up, and its way has not been opened since
	bool steering;	      // a step of manager/network_attach is under way
	int64_t way_again_ms; // loop time before which it is not tried again
	int64_t way_pause_ms; // how long that was put off; 0: it did not fail
	bool trusting;	      // its programs believe its authority: manager/ca_install
	struct {
		int64_t busy_ms;   // loop time: when it was last in use, or fell to its state
		int64_t look_ms;   // when it is looked at again
		uint64_t cpu_us;   // what the meters said then
		int64_t ends_ms;   // loop time of the end of its ttl; 0: none, or not yet known
	} idle;			   // of manager/idle
	bool burying;		   // a task sees to it
	struct adopting *adopting; // of manager/adopt_queue; NULL: it is settled
	bool ending;		   // its end is written down
	bool unreadable;	   // its row in the store: left as it is, for evidence
	bool destroyed;		   // the warden verified that it is gone
	char trace[65];		   // of the request that had it buried; may be ""
};

struct manager {
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	int tapes_dir;
	uint32_t boxes_max;
	struct spec_bounds bounds;
	struct map *by_id, *by_short, *by_name;
	struct accounts accounts;
	struct map *images; // of manager/images: what is known of templates, by name
	struct queue *queue;
	int64_t queue_wait_ms;
	uint32_t loops_max;		   // loop devices that boxes may use
	struct context_warmth warmth;	   // interpreters that wait (manager/warm.h)
	uint32_t warm_all;		   // bits: languages of which one waits in every box
	void (*made)(struct entry *entry); // NULL: nobody is told that a box was made
	uint32_t running, inoded; // boxes that may run; those of them with a bound on inodes
	struct store *store;	  // NULL: nothing is kept
	struct egress *egress;	  // NULL: no box has a network
	struct condition ways;	  // of manager/network_attach: some are not as they should be
	struct publish tell;
	const char *sockets; // directory of the boxes' sockets
	bool settled;	     // manager/adopt has found out what there is
	bool rebooted; // what the store calls creating may have been promised: see manager/adopt
	bool unknown;  // what there is could not be read: absent means nothing
	bool doubtful; // a record has lost its id: what has none is left alone
	struct link entries;
	uint64_t next_seq;
	struct condition left; // rings when an entry leaves the table, and when it is settled
	bool closing;	       // no more creates …
	bool leaving;	       // … but when the next daemon goes on with whatever was begun
	uint64_t created, lost;
	uint64_t changes; // of the table and of states: equal numbers, equal tables
};

// Enters a new box in state creating, with its name, ids and short id reserved. Takes the spec's
// pairs over. CONFLICT name_taken; EXHAUSTED quota. The table holds it; the pointer is good until
// the next wait unless the caller holds it too.
fallible table_add(struct manager *manager, struct spec *spec, struct entry **out);
// Enters a box that is known from before, with its seq and whatever state. Takes the record over.
struct entry *table_restore(struct manager *manager, struct record *record);
void table_remove(struct entry *entry); // out of sight, its waiters woken
// By id, short id, or name within the tenant; NULL: absent. Who may see it is asked in
// manager/access.h.
struct entry *table_find(const struct manager *manager, const char *tenant, struct str key);
struct entry *table_named(const struct manager *manager, const char *tenant, struct str name);

void entry_ref(struct entry *entry);
void entry_unref(struct entry *entry); // the last one frees it, and its box
static inline void auto_entry_(struct entry **entry)
{
	if (*entry)
		entry_unref(*entry);
}
#define auto_entry on_exit_call(auto_entry_) struct entry *
bool entry_is_alive(const struct entry *entry); // it is running, and its pid 1 was not seen to end
void entry_move(struct entry *entry, enum state state); // and wakes whoever waits
void entry_shut_way(struct entry *entry);		// its box no longer runs
void entry_weigh(struct entry *entry);			// counts it anew for its tenant
// Its box was made or taken up: what that keeps of output is bounded, and counts for its tenant.
void entry_keep_output(struct entry *entry);
void entry_need_box(struct entry *entry); // one that does not run, unless there is one
// Closes descriptors of a box that nobody works in; `hard`: those that rest to serve soon, too.
void entry_freeze_files(struct entry *entry, bool hard);
// Those of all boxes, hard, if `shortage` (may be NULL) is one of descriptors. True: ask again.
bool table_freeze_files(struct manager *manager, const struct err *shortage);
void entry_keep(struct entry *entry); // tells the store what changed besides the state
// The same, durable on return. The caller holds it. UNAVAILABLE state_unwritable, state_corrupt.
fallible entry_keep_now(struct entry *entry);
