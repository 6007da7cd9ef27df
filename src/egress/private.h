// What the files of this room share: a box's way out, and one connection on it.
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

#define HELLO_MS 10000	// until a connection has said whom it wants
#define IDLE_MS 3600000 // without a byte either way
#define DIAL_MS 15000	// to look a name up and connect
#define WAIT_MS 5000	// for a place within the limits of connections, then it is refused

struct authority;
struct secrets;
struct trust;

struct egress {
	struct loop *loop;
	struct store *store;
	uint8_t seed[SECRET_HASH];
	struct resolve *resolve;
	struct verdicts *verdicts;
	struct trust *trust; // whom inspected names are believed by
	struct link boxes;
	uint32_t count, count_max; // connections of all boxes: each has a few descriptors
	uint32_t queued;	   // of all boxes, that wait for a place
	uint64_t per_second_max;
	struct condition empty; // rings when there is none
};

// So many a second, and what lies beyond is summed up.
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
	struct names *names; // NULL: it has asked for none
	struct watch listener, udp;
	struct timer again; // accepting, after this process had no numbers left
	struct link queue;  // accepted, and beyond a limit for now: struct arrival
	struct timer queue_due;
	uint32_t queued;
	struct timer udp_due; // questions, after as many as a second may have
	struct link passing;  // questions that the host's server of names is asked: struct passing
	uint32_t passing_count;
	struct link conns;
	uint32_t count;	  // of conns, also those that are refused
	uint32_t holders; // conns, and whoever opened it
	uint64_t denied;
	bool opaque, closed;
	struct burst rows, events, ends, questions;
	struct verdict *rest; // denials beyond what has rows of its own; NULL: none
	struct timer rest_due;
	struct authority *authority;
	struct secrets *secrets; // of this policy; NULL: nobody has asked for them
};

struct conn {
	struct link link;
	struct egress_box *box;
	struct task *task; // NULL: it pours
	struct egress_splice *pour;
	struct stream in, out;
	struct address to; // where the box wanted to go
	uint16_t port;
	enum budget_verdict refused; // before it said a word
	bool counted;		     // in the budget
	enum hostname_kind kind;
	char name[HOSTNAME_MAX + 1]; // whom it is taken for; "": not known yet
	bool judged, ech, inspected, opaque;
	bool was_out; // it has been connected to somebody
	bool cut;     // the reply ended before its end: the client gets no close_notify
	enum { TONGUE_UNKNOWN, TONGUE_TLS, TONGUE_HTTP, TONGUE_HTTP2 } tongue;
	char rule[HOSTNAME_MAX + 11]; // that let it
	struct verdict *verdict;      // NULL: none that lets it out
};

// gate: accepting.
fallible acceptor_open(struct egress_box *box, int listener);
void acceptor_close(struct egress_box *box);

// conn: the life of a connection.
void egress_box_drop(struct egress_box *box);	 // one holder less
bool conn_may_wait(enum budget_verdict verdict); // a place may become free soon
// Until then: a moment, WAIT_MS at most.
int64_t conn_wait_ms(struct egress_box *box, enum budget_verdict verdict);
// Waits for a place within the limits of rate and open connections, WAIT_MS at most. The place is
// counted when it returns BUDGET_OK. CANCELLED.
fallible conn_await(struct egress_box *box, enum budget_verdict *out);
void conn_end(struct conn *conn);   // closes, writes down, frees
void conn_stop(struct conn *conn);  // from outside: ended soon
void conn_abort(struct conn *conn); // conn_end() resets both sides
// A limit of the box, in bytes that may be moved; and what of that was not.
uint64_t conn_grant(struct conn *conn, enum budget_way way, uint64_t want);
void conn_moved(struct conn *conn, enum budget_way way, uint64_t bytes, uint64_t unused);
// Counts first, then moves all of it. EXHAUSTED: the budget was used up on the way.
fallible conn_spend(struct conn *conn, enum budget_way way, uint64_t bytes);

// From now on it is a pour: both streams are handed over, and nothing of it may be used any more
// when this returns OK and the task ends.
fallible conn_copy(struct conn *conn);

// dispatch: finds out whom a connection wants, and serves it. In the task of the connection.
void dispatch_serve(struct conn *conn);

// judge: whether a connection may.
// Judges conn->name anew, by the policy of now. Copies: `reason` is a literal.
bool judge_name(struct conn *conn, const char **out_reason);
// What a client of HTTP is told: the whole reply.
void judge_write_reply(const struct conn *conn, const char *reason, struct buf *out);
// What it does from now on is written down together; `first`: it is a new connection.
void judge_open_verdict(struct conn *conn, bool first);
// That is over: written down with what it had. `reason` may be NULL.
void judge_close_verdict(struct conn *conn, const char *reason);
// Opens a verdict that lets it out; connects. On failure it is denied or given back already.
fallible judge_connect(struct conn *conn);
void judge_spent(struct conn *conn); // a budget of bytes was used up: that is its end
// Writes a denial down and tells of it.
void judge_note(struct conn *conn, const char *reason);
void judge_note_many(struct egress_box *box, const char *reason);
// The same for a name that was asked for and may not be known: who asks never comes to connect.
void judge_note_name(struct egress_box *box, const char *name);
void judge_close_rest(struct egress_box *box); // what was summed up is written down
// The same, and says so in the tongue of the client.
void judge_deny(struct conn *conn, const char *reason);
void judge_say_last(struct conn *conn, struct str words); // and lets the client read them
void judge_part(struct conn *conn); // the last word was said: lets the client read it
// Why it has to be TLS or HTTP: what is neither shows no request. NULL: it may be anything.
const char *judge_must_show(const struct conn *conn);

// look: the first bytes of a connection, which stay in the socket.
#define SILENT_MS 300 // of a client that may be waiting for the server
struct look {
	char *room;
	size_t have; // bytes in it
	size_t gone; // of them that were passed on already, and are no more in the socket
	struct hello hello;
	bool undecided; // it lets the server speak first, or does not finish its first line
	bool over;	// sniff_wait() need not go on
};
struct look *sniff_new(void);
void sniff_free(struct look *sniff);
void sniff_forget(struct look *sniff); // its room: nobody looks again
// The name behind the address that it connected to, or that itself.
void sniff_take_target(struct conn *conn);
// More bytes than there are, or *out_end: no more will come.
fallible sniff_wait(struct conn *conn, struct look *sniff, int64_t deadline, bool *out_end);
enum looked { LOOKED_MORE, LOOKED_DONE, LOOKED_BAD };
enum looked sniff_at(struct conn *conn, struct look *sniff); // sets conn->tongue
// As far as it takes to know whom it wants. `patient`: it has to speak, in a known tongue.
fallible sniff_find_out(struct conn *conn, struct look *sniff, bool patient);

// late: a connection that is out and whose first words are still to come.
void server_first_serve(struct conn *conn, struct look *sniff);

// stub: names.
fallible dns_stub_open(struct egress_box *box, int udp);
void dns_stub_close(struct egress_box *box);
void dns_stub_stop(struct egress_box *box); // questions that are being passed on are dropped
void dns_stub_serve(struct conn *conn);	    // TCP

// secrets: one holder less. Takes NULL.
void secrets_free(struct secrets *secrets);

// plain and inspect: connections whose requests are seen.
void plain_serve(struct conn *conn);
void inspect_serve(struct conn *conn);
