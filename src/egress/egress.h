// The only network path out of a box. Its network namespace has no route: every connection ends at
// one listener, and every DNS query at one socket, both made there by the warden and passed to the
// daemon. Each connection is judged by host name, counted, forwarded to an address that this host
// has looked up, and recorded in the ledger.
//
// Denials are logged ("security", "egress_denied"), and published as events. Everything runs on the
// loop's thread, so that counts are exact under concurrency.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/str.h"

struct loop;
struct store;
struct policy; // types/policy.h
struct egress;
struct egress_box;

struct egress_config {
	struct str exceptions, hosts, ca; // as in egress/outbound.h; borrowed until egress_close()
	// Seed of the boxes' CAs and of the seals of secrets: the same after a restart.
	uint8_t seed[SECRET_HASH];
	// A file for verdicts that are not in the store yet: it survives a killed daemon. Borrowed.
	// -1: memory alone.
	int live;
	uint64_t per_second_max; // maximum of new connections per box; 0: the default
};

// Blocks: call it before the loop runs. Verdicts that an earlier daemon left in `live` are in the
// ledger on return. `store` may be NULL in tests: then nothing is recorded.
fallible egress_open(struct loop *loop, struct store *store, const struct egress_config *config,
		     struct egress **out);
// Every box must be freed before. Waits in a task for the end of their connections; takes NULL.
void egress_close(struct egress *egress);

struct egress_box_spec {
	const char *id, *tenant;     // copied
	const struct policy *policy; // copied
	int listener, udp;	     // taken over, also on failure; -1: none yet (mode off)
	bool fresh;		     // a new box: the store has no usage of it and is not asked
};
// Adds a box. Waits (in a task) for the store unless it is fresh.
fallible egress_box_new(struct egress *egress, const struct egress_box_spec *spec,
			struct egress_box **out);
// Replaces the policy: it holds from the next verdict on. Connections that it would not allow are
// ended. Does not wait. Usage is kept.
void egress_box_policy(struct egress_box *box, const struct policy *policy);
// The sockets of a box that got a network, or whose warden restarted; the previous ones are closed.
// Both are taken over; -1: none, and open connections end.
fallible egress_box_sockets(struct egress_box *box, int listener, int udp);
// Ends its connections and records them. Does not wait; takes NULL.
void egress_box_free(struct egress_box *box);

struct egress_counts {
	uint64_t connections, requests, bytes_out, bytes_in, denied; // since the box was made
	uint32_t open;						     // connections now
	// True if `requests` includes opaque connections, each counted as one.
	bool opaque;
};
struct egress_counts egress_box_counts(const struct egress_box *box);
// A subscription to the ledger of a box: signalled when rows were written, and by egress_ring() at
// the end of the box. The caller frees it.
struct subscriber; // egress/verdicts.h
struct subscriber *egress_listen(struct egress *egress, const char *box_id);
void egress_ring(struct egress *egress, const char *box_id);
// Queues all verdicts so far: store_flush() then makes them durable. Does not wait.
void egress_hurry(struct egress *egress);

// The certificate of a box's CA, for its trust store: PEM. Always the same. `hash` is its file name
// in a hashed directory; may be NULL. Takes a millisecond: call it in a worker.
#define EGRESS_HASH 9
fallible egress_authority(const struct egress *egress, const char *box_id, struct buf *out_pem,
			  char hash[EGRESS_HASH]);
// A Java keystore with that certificate under the box's alias: keystore_add(). Call it in a worker.
fallible egress_keystore(const struct egress *egress, const char *box_id, struct str old,
			 struct buf *out);
// Encrypts a secret for the store, and back. `owner`: the id of a box, or the name of a tenant's
// secret. INVALID bad_seal: another key, or another owner.
fallible egress_seal(const struct egress *egress, const char *owner, struct str value,
		     struct buf *out);
fallible egress_unseal(const struct egress *egress, const char *owner, struct str sealed,
		       struct buf *out);

// Called when a tenant's secret is sent to a host, once a request. Must not wait.
typedef void egress_secret_fn(void *arg, const char *tenant, const char *box, const char *name,
			      const char *host);
void egress_on_secret(struct egress *egress, egress_secret_fn *fn, void *arg);
