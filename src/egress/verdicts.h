// What was decided and what came of it, on its way to the ledger. A verdict lies in memory that a
// killed daemon leaves behind (a file of its own, mapped) from its beginning until the store has
// it: so nothing that was moved goes uncounted, and nobody waits for a disk.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "types/hostname.h"

struct subscribers;
struct loop;
struct store;
struct verdicts;

// Numbers and texts of a fixed form: another process reads them.
struct verdict {
	uint32_t state; // VERDICT_…
	uint16_t port;
	uint8_t allowed, opaque;
	uint64_t serial;
	int64_t time_ms;     // wall
	int64_t began_ms;    // monotonic, of its own daemon
	int64_t duration_ms; // as far as it is known
	uint64_t connections, requests, bytes_out, bytes_in, denied;
	char box[64], tenant[40];
	char name[HOSTNAME_MAX + 3];
	char address[48];
	char rule[HOSTNAME_MAX + 11]; // as the policy has it
	char reason[32];
	struct link link; // its own daemon's
};
enum { VERDICT_FREE, VERDICT_OPEN, VERDICT_DONE };

// `live`: -1, memory alone; borrowed until verdicts_close(). Verdicts that are found in it are
// written down at once: blocks.
fallible verdicts_open(struct loop *loop, struct store *store, int live, struct verdicts **out);
void verdicts_close(struct verdicts *verdicts); // what is done was handed over; takes NULL

struct verdict *verdict_new(struct verdicts *verdicts, const char *box, const char *tenant);
void verdict_set(char *field, size_t size, const char *text); // cut where it must be; NULL: ""
// It is final: the store gets it with the next batch, and the caller forgets it.
void verdict_done(struct verdicts *verdicts, struct verdict *verdict);
// The store gets at once what is done: store_flush() then waits for it.
void verdicts_hurry(struct verdicts *verdicts);
// They ring when rows of their box are in the store.
struct subscribers *verdicts_subscribers(const struct verdicts *verdicts);
// What is done and not yet durable, of one box: no sum of the store's has it.
uint64_t verdicts_waiting(const struct verdicts *verdicts);
