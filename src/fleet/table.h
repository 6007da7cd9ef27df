// The boxes this host holds: state only. The verbs (create, life, use) include this; outsiders
// include fleet/fleet.h.
#pragma once

#include "base/map.h"
#include "box/ask.h"
#include "box/box.h"
#include "fleet/admit.h"
#include "fleet/portbook.h"
#include "loop/task.h"
#include "model/record.h"

struct entry {
	struct record record;
	struct fleet *fleet;
	struct box *box; // NULL until it runs
	struct portbook ports;
	struct bell changed; // rings at every change of state, and when it leaves the table
	struct link link;    // in order of creation
	uint32_t holds;	     // those who keep it in memory: the table, tasks, execs
	bool listed;	     // found by lookups
	bool burying;	     // a task sees to it
	bool buried;	     // the warden verified that it is gone
	char trace[65];	     // of the request that had it buried; may be ""
};

struct fleet {
	struct loop *loop;
	struct ask *ask;
	struct admit *admit;
	int tapes_dir;
	uint32_t boxes_max;
	struct spec_bounds bounds;
	struct map *by_id, *by_short, *by_name;
	struct link entries;
	uint64_t next_seq;
	struct bell left; // rings when an entry leaves the table
	bool closing;	  // no more creates
	uint64_t created, lost;
	uint64_t changes; // of the table and of states: equal numbers, equal tables
};

// Enters a new box in state creating, with its name, ids and short id reserved. Takes the spec's
// pairs over. CONFLICT name_taken. The table holds it; the pointer is good until the next wait
// unless the caller holds it too.
fallible table_add(struct fleet *fleet, struct spec *spec, struct entry **out);
void table_remove(struct entry *entry); // out of sight, its waiters woken
// By id, short id or name; NULL: absent.
struct entry *table_find(const struct fleet *fleet, struct str key);

void entry_hold(struct entry *entry);
void entry_drop(struct entry *entry); // the last one frees it, and its box
static inline void auto_entry_(struct entry **entry)
{
	if (*entry)
		entry_drop(*entry);
}
#define auto_entry on_exit_call(auto_entry_) struct entry *
void entry_move(struct entry *entry, enum state state); // and wakes whoever waits
