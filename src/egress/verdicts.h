// Verdicts on their way to the ledger. From its beginning until the store has it a verdict is in a
// mapped file that survives a killed daemon: so no moved byte goes uncounted, and no connection
// waits for the disk.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/map.h"
#include "types/hostname.h"

struct loop;
struct store;
struct verdicts;

// Fixed-size fields: another process may read them.
struct verdict {
	uint32_t state; // VERDICT_…
	uint16_t port;
	uint8_t allowed, opaque;
	uint64_t serial;
	int64_t time_ms;     // wall
	int64_t began_ms;    // monotonic, of the daemon that wrote it
	int64_t duration_ms; // so far
	uint64_t connections, requests, bytes_out, bytes_in, denied;
	char box[64], tenant[40];
	char name[HOSTNAME_MAX + 3];
	char address[48];
	char rule[HOSTNAME_MAX + 11]; // as the policy has it
	char reason[32];
	char secrets[256]; // names of those that were sent, with commas; "+" at the end: and more
	struct link link;  // of the daemon that wrote it
};
enum { VERDICT_FREE, VERDICT_OPEN, VERDICT_DONE };

// `live`: -1, memory alone; borrowed until verdicts_close(). Verdicts found in it are recorded at
// once: blocks.
fallible verdicts_open(struct loop *loop, struct store *store, int live, struct verdicts **out);
void verdicts_close(
	struct verdicts *verdicts); // finished verdicts were given to the store; takes NULL

struct verdict *verdict_new(struct verdicts *verdicts, const char *box, const char *tenant);
void verdict_set(char *field, size_t size, const char *text); // truncated if too long; NULL: ""
void verdict_add_secret(struct verdict *verdict, const char *name); // each name once
// The verdict is final: the store gets it with the next batch; the caller must not use it any more.
void verdict_done(struct verdicts *verdicts, struct verdict *verdict);
// Gives all finished verdicts to the store: store_flush() then waits for them.
void verdicts_hurry(struct verdicts *verdicts);
// A subscription to changes of a box's ledger, shared by all who wait for that box; subscribers are
// signalled when its rows are in the store. Boxes without a subscriber cost nothing.
struct subscriber;
void subscriber_free(struct subscriber *subscriber); // takes NULL
static inline void auto_subscriber_(struct subscriber **subscriber)
{
	subscriber_free(*subscriber);
}
#define auto_subscriber on_exit_call(auto_subscriber_) struct subscriber *
// The number of signals so far. Read it before reading the ledger, then wait for more; TIMEOUT.
uint64_t subscriber_count(const struct subscriber *subscriber);
fallible subscriber_wait(struct subscriber *subscriber, uint64_t count, int64_t deadline);
struct subscriber *verdicts_subscribe(struct verdicts *verdicts, const char *box);
void verdicts_ring(struct verdicts *verdicts, const char *box); // signals them
// Finished verdicts that are not durable yet, and in no sum of the store.
uint64_t verdicts_waiting(const struct verdicts *verdicts);
