// What survives a restart. One thread writes; tasks hand it deeds. A deed is a function that runs
// inside the transaction of its batch, behind a savepoint of its own: when it fails, it alone is
// undone. All deeds of a batch become durable by one commit, so a thousand of them do not cost a
// thousand syncs one after another.
//
// The questions themselves are in the files beside this one. Each has two forms: one for tasks
// (takes the store, waits), and one ending in _in for use inside of a deed (takes the db), so that
// several of them can be made one.
//
// When the state cannot be written (full, read-only, I/O error), deeds that wait are UNAVAILABLE
// state_unwritable and deeds that were told are kept and tried again; it resumes by itself. When it
// cannot be read, everything is UNAVAILABLE state_corrupt until the operator has acted.
#pragma once

#include "loop/task.h"
#include "store/db.h"

struct store;
struct db_driver;

struct store_options {
	struct loop *loop;
	int dir;	  // directory of the files, borrowed; -1: in memory, gone with the process
	const char *name; // of the database there; NULL: "cove.db"
	const struct db_driver *driver; // of store/db_private.h; NULL: SQLite's
};

// Blocks: call it before the loop runs. UNAVAILABLE state_too_new: it was written by a newer cove.
// A state that cannot be read is no error here: store_health() tells.
fallible store_open(const struct store_options *options, struct store **out);
void store_close(struct store *store); // blocks until all that was told is written, or cannot be

enum store_health { STORE_FINE, STORE_UNWRITABLE, STORE_CORRUPT };
enum store_health store_health(const struct store *store);
const char *store_health_word(enum store_health health); // "fine", "unwritable", "corrupt"
// Called on the loop's thread at each change.
void store_on_health(struct store *store, void (*changed)(enum store_health health, void *arg),
		     void *arg);
// OK, or the error that new work is refused with: state_unwritable, state_corrupt.
fallible store_ready(const struct store *store);

// Runs on the writer's thread and sees only its arg. It may run more than once: when its batch
// could not be committed, nothing of it was done.
typedef struct err *store_deed(struct db *db, void *arg);

// Waits until the deed is durable; `arg` may live on the task's stack. Not cancelled once begun.
// Outside of any task (at start, in tests) it blocks.
fallible store_do(struct store *store, store_deed *deed, void *arg);
// The same for what frees space or ends something: it has a reserve of its own when the disk is
// full.
fallible store_do_last(struct store *store, store_deed *deed, void *arg);
// Does not wait: durable within STORE_TOLD_MS, in order with everything else. drop(arg) is called
// on the loop's thread when it is done, or when the store closes; a failure that is not of the disk
// is logged.
#define STORE_TOLD_MS 20
void store_tell(struct store *store, store_deed *deed, void *arg, void (*drop)(void *arg));
// What was told does not wait for company any longer.
void store_nudge(struct store *store);
// A deed that changes nothing: no commit is waited for.
fallible store_ask(struct store *store, store_deed *deed, void *arg);
// The same beside the writer, for what takes long: no commit waits for it, and it sees what was
// durable when it began. Each call is one look; a long one is made of several.
fallible store_look(struct store *store, store_deed *deed, void *arg);
// Waits until everything that was told before is durable.
fallible store_flush(struct store *store);

struct store_stats {
	uint64_t deeds, commits; // since the start
	uint64_t failures;	 // batches that could not be committed
	uint64_t waiting;	 // deeds not yet durable
	uint64_t lost;		 // told deeds that were given up: the disk was full for too long
	uint64_t bytes;		 // of the files
	uint32_t schema;
};
struct store_stats store_stats(const struct store *store);
