// The only way out of a box. Its network has no route: whatever it connects to ends at one listener
// that the warden made there and handed over, and whatever name it asks for is answered by one
// socket. Here each connection is judged by its name, counted, carried to an address that this host
// looked up itself, and written down.
//
// Denials are told by the log ("security", "egress_denied"), which the fleet makes events of.
//
// All of it happens on the loop's thread, so a count is exact however many connections there are.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

struct subscriber; // egress/subscribers.h
struct loop;
struct store;
struct policy; // types/policy.h
struct egress;
struct egress_box;

struct egress_config {
	struct str exceptions, hosts, ca; // as in gateway/outbound.h; borrowed until egress_close()
	// What the boxes' authorities and the seals of secrets are made from: the same after a
	// restart.
	uint8_t seed[SECRET_HASH];
	// A file of the daemon's own for what is not in the store yet, so that a killed daemon
	// leaves it behind. Borrowed. -1: memory alone.
	int live;
	uint64_t per_second_max; // new connections of a box at most; 0: the default
};

// Blocks: call it before the loop runs. What an earlier daemon left in `live` is in the ledger when
// it returns. `store` may be NULL in tests: then nothing is written down.
fallible egress_open(struct loop *loop, struct store *store, const struct egress_config *config,
		     struct egress **out);
// Every box was freed before. Waits for the end of their connections, in a task; takes NULL.
void egress_close(struct egress *egress);

struct egress_box_spec {
	const char *id, *tenant;     // copied
	const struct policy *policy; // copied
	int listener, udp; // taken over, also on failure; -1: it has none (mode off), as yet
	bool fresh;	   // it was just made: the store knows nothing of it and is not asked
};
// Opens the way. Waits (in a task) for the store unless it is fresh.
fallible egress_box_new(struct egress *egress, const struct egress_box_spec *spec,
			struct egress_box **out);
// Another policy, as a whole: the next verdict is by this one. Connections that it would not have
// let out are ended. Does not wait. What was spent stays spent.
void egress_box_policy(struct egress_box *box, const struct policy *policy);
// The sockets of a box that got a network, or whose warden began anew; those before are closed.
// Both are taken over; -1: none from now on, and what is connected ends.
fallible egress_box_sockets(struct egress_box *box, int listener, int udp);
// Ends its connections and writes them down. Does not wait; takes NULL.
void egress_box_free(struct egress_box *box);

struct egress_counts {
	uint64_t connections, requests, bytes_out, bytes_in, denied; // since the box was made
	uint32_t open;						     // connections now
	// Whether `requests` has opaque connections in it, each counted as one.
	bool opaque;
};
struct egress_counts egress_box_counts(const struct egress_box *box);
// For who follows the ledger of a box: rings when rows of it were written, and when it is told to:
// the box has come to its end. The caller frees it.
struct subscriber *egress_listen(struct egress *egress, const char *box_id);
void egress_ring(struct egress *egress, const char *box_id);
// What was decided up to now is in the store when that was flushed. Does not wait.
void egress_hurry(struct egress *egress);

// The authority that a box's inspected names are signed by, for its trust store: PEM. The same
// whenever it is asked for. `hash` names its file in a directory of hashes; may be NULL.
// For workers: takes a millisecond.
#define EGRESS_HASH 9
fallible egress_authority(const struct egress *egress, const char *box_id, struct buf *out_pem,
			  char hash[EGRESS_HASH]);
// A Java keystore with that authority in it, by an alias of the box: keystore_add(). For workers.
fallible egress_keystore(const struct egress *egress, const char *box_id, struct str old,
			 struct buf *out);
// A value as it may lie in the store, and back. INVALID bad_seal: it was made with another key, or
// for another box.
fallible egress_seal(const struct egress *egress, const char *box_id, struct str value,
		     struct buf *out);
fallible egress_unseal(const struct egress *egress, const char *box_id, struct str tls,
		       struct buf *out);
