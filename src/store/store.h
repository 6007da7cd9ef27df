// The database. One thread writes; tasks give it deeds. A deed is a function that runs in the
// transaction of its batch, behind its own savepoint: when it fails, only its changes are rolled
// back. One commit makes all deeds of a batch durable, so that a thousand of them do not cost a
// thousand syncs.
//
// The queries are in the other files of this folder. Each has two forms: one for tasks (takes the
// store, waits), and one ending in _in for use inside a deed (takes the db), to combine several.
//
// While the state cannot be written (full, read-only, I/O error), waiting deeds are UNAVAILABLE
// state_unwritable, and told deeds are kept and retried; it resumes by itself. If it cannot be read
// everything is UNAVAILABLE state_corrupt until the operator acts.
#pragma once

#include "loop/task.h"
#include "store/db.h"

struct store;
struct db_driver;

struct store_options {
	struct loop *loop;
	int dir;			// directory of the files, borrowed; -1: in memory
	const char *name;		// of the database there; NULL: "cove.db"
	const struct db_driver *driver; // NULL: SQLite
	// Makes and migrates the tables; NULL: those of cove.db. A store with tables of its own has
	// no reserve on the disk.
	fallible (*settle)(struct db *db);
};

// Blocks: call it before the loop runs. UNAVAILABLE state_too_new: written by a newer cove. An
// unreadable database is no error here: store_health() reports it.
fallible store_open(const struct store_options *options, struct store **out);
void store_close(struct store *store); // blocks until told deeds are written, or cannot be

enum store_health { STORE_FINE, STORE_UNWRITABLE, STORE_CORRUPT };
enum store_health store_health(const struct store *store);
const char *store_health_word(enum store_health health); // "fine", "unwritable", "corrupt"
// Called on the loop's thread at each change.
void store_on_health(struct store *store, void (*changed)(enum store_health health, void *arg),
		     void *arg);
// OK, or the error for new requests: state_unwritable, state_corrupt.
fallible store_ready(const struct store *store);

// Runs on the writer's thread and uses only its arg. It may run more than once: if its batch could
// not be committed, nothing of it was done.
typedef struct err *store_deed(struct db *db, void *arg);

// Waits until the deed is durable; `arg` may be on the task's stack. Not cancelled once begun.
// Outside of tasks (at start, in tests) it blocks.
fallible store_do(struct store *store, store_deed *deed, void *arg);
// The same for deeds that free space or end something: they may use the reserve when the disk is
// full.
fallible store_do_last(struct store *store, store_deed *deed, void *arg);
// The same for a deed that nobody waits for: its batch starts with another deed, or after
// STORE_TOLD_MS.
fallible store_do_soon(struct store *store, store_deed *deed, void *arg);
// Does not wait: durable within STORE_TOLD_MS, in order with all others. drop(arg) is called on the
// loop's thread when it is done, or when the store closes; an error other than of the disk is
// logged.
#define STORE_TOLD_MS 20
void store_queue(struct store *store, store_deed *deed, void *arg, void (*drop)(void *arg));
// Starts told deeds without waiting for others.
void store_nudge(struct store *store);
// A read-only deed: waits for no commit.
fallible store_ask(struct store *store, store_deed *deed, void *arg);
// The same on another connection, for long reads: blocks no commit, and sees what was durable when
// it began. Each call is one transaction; split long reads.
fallible store_look(struct store *store, store_deed *deed, void *arg);
// Waits until all deeds told before are durable.
fallible store_flush(struct store *store);

struct store_stats {
	uint64_t deeds, commits; // since the start
	uint64_t failures;	 // batches that could not be committed
	uint64_t waiting;	 // deeds not yet durable
	uint64_t lost;		 // told deeds that were dropped: the disk was full for too long
	uint64_t bytes;		 // of the files
	uint32_t schema;
};
struct store_stats store_stats(const struct store *store);
