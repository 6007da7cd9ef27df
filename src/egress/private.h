// Shared by the files of egress/: the egress of one box, and one of its connections.
#pragma once

#include "base/secret.h"
#include "egress/resolve.h"
#include "egress/splice.h"
#include "egress/verdicts.h"
#include "loop/stream.h"
#include "protocol/hello.h"
#include "types/budget.h"
#include "types/hostname.h"
#include "types/names.h"
#include "types/policy.h"

#define HELLO_MS 10000	// until a connection has named its host
#define IDLE_MS 3600000 // without a byte either way
#define DIAL_MS 15000	// to resolve a name and connect
#define WAIT_MS 5000	// for a place within the limits, then a refusal

struct authority;
struct secrets;
struct trust;

struct egress {
	struct loop *loop;
	struct store *store;
	uint8_t seed[SECRET_HASH];
	struct resolve *resolve;
	struct verdicts *verdicts;
	struct trust *trust; // CAs that inspected servers are verified by
	struct link boxes;
	uint32_t count, count_max; // connections of all boxes: each has a few descriptors
	uint32_t queued;	   // of all boxes, waiting for a place
	uint64_t per_second_max;
	struct condition empty; // signalled when there is none
	// As egress_secret_fn.
	void (*on_secret)(void *arg, const char *tenant, const char *box, const char *name,
			  const char *host);
	void *on_secret_arg;
};

// A rate limit per second.
struct burst {
	int64_t since_ms;
	uint32_t count;
};
bool burst_has_room(struct burst *burst, int64_t now_ms, uint32_t per_second);

struct egress_box {
	struct link link;
	struct egress *egress;
	char *id, *tenant;
	struct policy policy;
	struct budget budget;
	struct names *names; // NULL: no DNS query yet
	struct watch listener, udp;
	struct timer again; // resumes accepting after EMFILE
	struct link queue;  // accepted, beyond a limit for now: struct arrival
	struct timer queue_due;
	uint32_t queued;
	struct timer udp_due; // resumes queries in the next second
	struct link passing;  // queries forwarded to the host's resolver: struct passing
	uint32_t passing_count;
	struct link conns;
	uint32_t count;	  // of conns, including refused ones
	uint32_t holders; // references: conns, and the owner
	uint64_t denied;
	bool opaque, closed;
	struct burst rows, events, ends, questions;
	struct verdict *rest; // denials beyond the rate of rows; NULL: none
	struct timer rest_due;
	struct authority *authority;
	struct secrets *secrets; // of this policy; NULL: not needed yet
};

// The place of a connection in the budget. A held one may be returned as if it never was; one that
// was connected to a server is closed; a followed connection then awaits another for its next
// server: HELD -> NONE | CONNECTED, CONNECTED -> CLOSED -> HELD.
enum conn_place { PLACE_NONE, PLACE_HELD, PLACE_CONNECTED, PLACE_CLOSED };

struct conn {
	struct link link;
	struct egress_box *box;
	struct task *task; // NULL: it is spliced
	struct egress_splice *splice;
	struct stream in, out;
	struct address to; // the address that the box connected to
	uint16_t port;
	enum budget_verdict refused; // before its first byte
	enum conn_place place;
	enum hostname_kind kind;
	char name[HOSTNAME_MAX + 1]; // the judged host name; "": not known yet
	enum { JUDGED_NOT, JUDGED, JUDGED_INSPECT } judged; // by name; its TLS is inspected
	bool ech;					    // the ClientHello is encrypted
	bool opaque;					    // its requests are not seen
	bool cut; // the reply was truncated: the client gets no close_notify
	enum { SNIFF_UNKNOWN, SNIFF_TLS, SNIFF_HTTP, SNIFF_HTTP2 } protocol;
	char rule[HOSTNAME_MAX + 11]; // the rule that allowed it
	struct verdict *verdict;      // NULL: not allowed yet
};

static inline void conn_return_place(struct conn *conn)
{
	if (conn->place != PLACE_HELD)
		return;
	budget_unopen(&conn->box->budget, false);
	conn->place = PLACE_NONE;
}

// acceptor: accepting, and the choice of how a connection is served.
fallible acceptor_open(struct egress_box *box, int listener);
void acceptor_close(struct egress_box *box);

// conn: the life of a connection.
void egress_box_drop(struct egress_box *box);	 // drops a reference
bool conn_may_wait(enum budget_verdict verdict); // a place may become free soon
// How long until then: a moment, WAIT_MS at most.
int64_t conn_wait_ms(struct egress_box *box, enum budget_verdict verdict);
// Waits for a place within the limits of rate and open connections, WAIT_MS at most. On BUDGET_OK
// the place is counted. CANCELLED.
fallible conn_await(struct egress_box *box, enum budget_verdict *out);
void conn_end(struct conn *conn);   // closes, records, frees
void conn_stop(struct conn *conn);  // from outside: it ends soon
void conn_abort(struct conn *conn); // conn_end() resets both sides
// Bytes that the budget allows; and what of them was not moved.
uint64_t conn_grant(struct conn *conn, enum budget_way way, uint64_t want);
void conn_moved(struct conn *conn, enum budget_way way, uint64_t bytes, uint64_t unused);
// Counts all of `bytes` in the budget before they are sent. EXHAUSTED: not enough is left, nothing
// is counted.
fallible conn_spend(struct conn *conn, enum budget_way way, uint64_t bytes);

// Hands both streams to a splice. On OK the connection must not be used any more.
fallible conn_copy(struct conn *conn);

// judge: decides. Judges conn->name by the current policy. `reason` is a literal.
bool judge_name(struct conn *conn, const char **out_reason);
// The whole HTTP reply for a denial.
void judge_write_reply(const struct conn *conn, const char *reason, struct buf *out);
// Opens a row for what the connection does from now on; `first`: it is a new connection.
void judge_open_verdict(struct conn *conn, bool first);
// Closes and records the row. `reason` may be NULL.
void judge_close_verdict(struct conn *conn, const char *reason);
// Opens a row that allows it, and connects. On failure the row is already closed.
fallible judge_connect(struct conn *conn);
void judge_spent(struct conn *conn); // a byte budget is used up: ends the connection
// The value of this secret is about to be sent: its name is in the row on return.
void judge_note_secret(struct conn *conn, const struct policy_secret *secret);
// Records and logs a denial.
void judge_note(struct conn *conn, const char *reason);
void judge_note_many(struct egress_box *box, const char *reason);
// The same for a DNS query of a denied name: no connection will follow.
void judge_note_name(struct egress_box *box, const char *name);
void judge_close_rest(struct egress_box *box); // records the summed denials
// The same, and tells the client in its protocol.
void judge_deny(struct conn *conn, const char *reason);
void judge_say_last(struct conn *conn, struct str words); // and lets the client read it
void judge_part(struct conn *conn);			  // lets the client read the last reply
// Why it must be TLS or HTTP: other protocols show no request. NULL: any protocol is allowed.
const char *judge_must_show(const struct conn *conn);

// sniff: peeks at the first bytes of a connection, which stay in the socket.
#define SILENT_MS 300 // of a client that may be waiting for the server
struct sniff {
	char *room;
	size_t have; // bytes in it
	size_t gone; // of them, bytes that were passed on and are no longer in the socket
	struct hello hello;
	bool undecided; // the client waits for the server, or does not finish its first line
	bool over;	// sniff_wait() is complete
};
struct sniff *sniff_new(void);
void sniff_free(struct sniff *sniff);
void sniff_forget(struct sniff *sniff); // frees its buffer
// Sets the name to that of the synthetic address, or to the address itself.
void sniff_take_target(struct conn *conn);
// Waits for more bytes, or *out_end: no more will come.
fallible sniff_wait(struct conn *conn, struct sniff *sniff, int64_t deadline, bool *out_end);
enum looked { LOOKED_MORE, LOOKED_DONE, LOOKED_BAD };
enum looked sniff_at(struct conn *conn, struct sniff *sniff); // sets conn->protocol
// Reads until the host is known. `patient`: the client must speak first, in a known protocol.
fallible sniff_find_out(struct conn *conn, struct sniff *sniff, bool patient);

// server_first: a connected client whose first bytes are still to come.
void server_first_serve(struct conn *conn, struct sniff *sniff);

// dns_stub: DNS.
fallible dns_stub_open(struct egress_box *box, int udp);
void dns_stub_close(struct egress_box *box);
void dns_stub_stop(struct egress_box *box); // drops forwarded queries
void dns_stub_serve(struct conn *conn);	    // TCP

// secrets: drops a reference. Takes NULL.
void secrets_free(struct secrets *secrets);

// follow and inspect: connections whose requests are seen. Without TLS secrets are never
// substituted: anybody on the path could read them.
void follow_serve_plain(struct conn *conn);
void inspect_serve(struct conn *conn);
