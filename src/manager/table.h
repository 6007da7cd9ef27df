// The table of boxes: state only, for the files of manager/. Other folders include
// manager/manager.h.
#pragma once

#include "base/map.h"
#include "box/ask.h"
#include "box/box.h"
#include "box/context_warm.h"
#include "loop/task.h"
#include "manager/account.h"
#include "manager/admit.h"
#include "manager/exposed_ports.h"
#include "manager/live_log.h"
#include "types/event.h"
#include "types/record.h"
#include "types/usage.h"

struct egress;
struct pulled;
struct operations;
struct pull_settings;
struct pools;
struct budgets;
struct host_load;
struct adopting;
struct egress_box;
struct kept_box;

#define BOX_BUILD_LABEL "cove/build" // of sandboxes that run the steps of a build

struct entry {
	struct record record;
	struct manager *manager;
	struct box *box; // NULL until it runs
	struct exposed_ports ports;
	struct condition
		changed;  // signalled at every change of state, and when the entry leaves the table
	struct link link; // in order of creation
	uint32_t holds;	  // references: the table, tasks, execs
	bool listed;	  // found by lookups
	struct account *account;    // of its tenant; borrowed from the manager
	enum account_weight weight; // how much of the box its account counts
	struct limits charged;	    // with these limits
	uint32_t visits;	    // box references: while there are any the box is in use
	struct link readers;	    // of gateway/cancel_on_delete: replies that end with the box
	struct kept_box *kept;	    // of preview/pool; NULL: no idle connections
	void (*gone)(struct entry *entry); // called when it leaves the table; NULL: none
	bool moving;			   // a step of manager/pause is under way
	struct operation *archiving;	   // that step, if it packs the files; NULL: none
	bool starting;			   // … from stopped to running: it counts as running
	bool launch_due;		   // it was started: its launch has not begun
	struct queued *queued;		   // its position in manager/queue; NULL: none
	const char *pull;	     // id of the operation that its create waits for; NULL: none
	struct port_scan *port_scan; // of manager/port_scan; NULL: never scanned
	struct sampled *sampled;     // of manager/sampler; NULL: never sampled
	struct meter *meter;	     // of manager/metering; NULL: nothing was added
	bool over_budget;	     // of manager/budgets: one that covers it is used up
	bool restored;		     // from the store: an earlier daemon has made it
	struct egress_box
		*egress;      // of manager/network_attach; NULL: never attached under this daemon
	uint32_t attach_link; // the warden's connection over which it was attached; 0: detached
	bool attach_due;      // adopted, and not attached since
	bool attaching;	      // a step of manager/network_attach is under way
	int64_t attach_retry_ms;   // loop time before which the attach is not retried
	int64_t attach_backoff_ms; // the current backoff; 0: the last attach succeeded
	bool has_ca;		   // the CA is in its trust store: manager/ca_install
	struct {
		int64_t busy_ms;   // loop time of its last use, or of its last change of state
		int64_t look_ms;   // when it is checked again
		uint64_t cpu_us;   // the CPU counters then
		int64_t ends_ms;   // loop time of the end of its ttl; 0: none, or not yet known
		bool ttl_stopped;  // it was stopped at that time, since it is unsynced
	} idle;			   // of manager/idle
	bool destroying;	   // a task destroys it
	struct adopting *adopting; // of manager/adopt_queue; NULL: settled
	bool ending;		   // its delete is recorded
	int64_t sync_mark;	   // of manager/unsynced: the mark when the last sync began
	bool unreadable;	   // its row in the store cannot be read: left as it is
	bool destroyed;		   // the warden has verified that it is gone
	char trace[65];		   // of the request that destroys it; may be ""
	struct {
		uint64_t start;
		int pid;
	} spoofed; // the last process with false marks that was told of: agent/discover
	struct live_mark live;
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
	struct map *images;		   // of manager/templates: image configurations by template
	struct map *secrets, *secret_uses; // of manager/named_secrets
	struct pulled *pulled;		   // of manager/pulled: images and their layers
	struct operations *operations;	   // of manager/operations
	const struct pull_settings *pull;  // of manager/pull; NULL: no registry is asked
	bool secrets_unknown;		   // the secrets could not be read
	struct map *registry_logins;	   // of manager/registry_logins
	bool logins_unknown;		   // they could not be read
	struct map *volumes;		   // of manager/volumes, by TENANT/NAME
	bool volumes_unknown;		   // they could not be read
	struct condition volume_changed;   // one was made or removed, or that failed
	struct map *build_caches;	   // of manager/build_files: those in use
	struct condition build_cache_freed;
	struct build_steps *steps; // of manager/build_steps; NULL: not known
	struct pools *pools;	   // of manager/pools; NULL: not loaded
	struct queue *queue;
	int64_t queue_wait_ms;
	uint32_t loops_max;		   // loop devices that boxes may use
	struct context_warmth warmth;	   // prewarmed interpreters (manager/contexts.h)
	uint32_t warm_all;		   // bits: languages that are prewarmed in every box
	void (*made)(struct entry *entry); // called when a box was created; NULL: none
	// Of manager/box_launch: called after each start of a sandbox that has a launch.
	fallible (*launch)(struct manager *manager, const char *tenant, const char *id,
			   const char *text);
	uint32_t running, inoded; // boxes that may run; those of them with an inode limit
	struct store *store;	  // NULL: nothing is kept
	struct egress *egress;	  // NULL: no box has a network
	struct condition
		attach_changed; // of manager/network_attach: a box may need an attach or a detach
	struct condition event_written;	    // signalled when there are more events in the store
	uint64_t events_written;	    // counts them, since the start
	struct live_log *live_log;	    // NULL: changes are not noted
	struct condition operation_changed; // of manager/operations: any of them
	uint64_t operation_changes;
	const char *sockets; // directory of the boxes' sockets
	bool settled;	     // manager/adopt has settled all boxes
	bool rebooted;	     // a create in the store may have been acknowledged: see manager/adopt
	bool unknown;	     // the records could not be read: an absent record proves nothing
	bool doubtful;	     // a record's id is malformed: boxes without a record are left alone
	struct link entries;
	uint64_t next_seq;
	struct condition
		left; // signalled when an entry leaves the table, and when adoption is done
	struct sampler *sampler;     // NULL: nothing is sampled
	struct host_load *host_load; // NULL: not measured
	struct prices prices;
	struct budgets *budgets; // NULL: there can be none
	void (*metered)(void *arg, const struct entry *entry, const struct usage *used);
	void *metered_arg; // of manager/metering
	bool closing;	   // creates are refused …
	bool leaving;	   // … because the next daemon takes over
	uint64_t created, lost;
	uint64_t changes; // counts changes of the table and of states: equal numbers, equal tables
};

// Adds a new box in state creating, with its name, ids and short id reserved. Takes over the maps
// of the spec. CONFLICT name_taken; EXHAUSTED quota. The table holds a reference; the pointer is
// valid until the next wait unless the caller holds one, too.
fallible table_add(struct manager *manager, struct spec *spec, struct entry **out);
// Adds a box from the store, with its sequence number and state. Takes the record over.
struct entry *table_restore(struct manager *manager, struct record *record);
void table_remove(struct entry *entry); // no lookup finds it any more; wakes its waiters
// Gives a sandbox without a name one. CONFLICT name_taken.
fallible table_rename(struct entry *entry, const char *name);
// By id, short id, or name within the tenant; NULL: absent. Access is checked in manager/access.h.
struct entry *table_find(const struct manager *manager, const char *tenant, struct str key);
struct entry *table_named(const struct manager *manager, const char *tenant, struct str name);

void entry_ref(struct entry *entry);
void entry_unref(struct entry *entry); // the last reference frees the entry and its box
static inline void auto_entry_(struct entry **entry)
{
	if (*entry)
		entry_unref(*entry);
}
#define auto_entry on_exit_call(auto_entry_) struct entry *
bool entry_is_alive(const struct entry *entry);		// state running, and pid 1 has not exited
void entry_move(struct entry *entry, enum state state); // and wakes the waiters
// Publishes an event of its box. `reason` and `from` are fields of the event; NULL or "": left out.
void entry_publish(const struct entry *entry, enum event_kind kind, const char *reason,
		   const char *from);
void entry_detach(struct entry *entry); // closes its sockets: its box no longer runs
void entry_weigh(struct entry *entry);	// updates its tenant's account
// The limits of its box, and those that are being put in force (NULL: none), with the account.
void entry_set_limits(struct entry *entry, const struct limits *limits, const struct limits *next);
// A box was built or adopted: bounds its stored output and counts it for the tenant.
void entry_keep_output(struct entry *entry);
void entry_need_box(struct entry *entry); // creates an idle box object if there is none
// Closes descriptors of a box that is not in use; `hard`: also those kept for the next command.
void entry_close_files(struct entry *entry, bool hard);
// The same for all boxes, hard, if `shortage` (may be NULL) is one of descriptors. True: try again.
bool table_close_files(struct manager *manager, const struct err *shortage);
void entry_keep(
	struct entry *entry); // queues the record for the store after changes besides the state
// The same, durable on return. The caller holds the entry. UNAVAILABLE state_unwritable,
// state_corrupt.
fallible entry_keep_now(struct entry *entry);
