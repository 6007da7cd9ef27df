// Where a name leads, looked up on this host and judged before anybody connects: no address of this
// host, of its neighbours on a link or of private networks, unless the operator lists it, in every
// mode and whatever the name. What was judged is what is connected to.
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "loop/stream.h"
#include "types/address.h"

#define RESOLVE_MAX 16 // addresses of a name that are tried

struct resolve_rules {
	struct str exceptions; // "ADDRESS[/BITS][:PORT], …"
	struct str hosts;      // "NAME=ADDRESS, …"
};

// May the daemon connect there on a tenant's word?
bool resolve_may_reach(const struct resolve_rules *rules, const struct address *address,
		       uint16_t port);

struct resolve_found {
	struct address at[RESOLVE_MAX];
	size_t count;
};
// The steps of it, for whoever takes them alone. A numeric address, or a name that the operator
// lists, needs no lookup; else one blocks: for workers. The addresses that may be reached are then
// tried as RFC 8305 says: FORBIDDEN not_global; BAD_PEER no_server; TIMEOUT. The caller closes
// *out.
bool resolve_is_known(const struct resolve_rules *rules, struct str name,
		      struct resolve_found *out);
void resolve_look_up(const char *name, struct resolve_found *out); // count 0: there is none
fallible resolve_no_name(const char *name);			   // the error of that
fallible resolve_dial(const struct resolve_rules *rules, struct loop *loop,
		      const struct resolve_found *found, const char *name, uint16_t port,
		      int64_t deadline, struct stream *out, struct address *out_address);

// Threads of its own, so that a slow server of names holds up nobody but who asks it.
struct resolve;
fallible resolve_open(struct loop *loop, const struct resolve_rules *rules, struct resolve **out);
// Nobody waits at it any more. Does not wait for lookups under way: a thread that is in one frees
// what is left. Takes NULL.
void resolve_close(struct resolve *resolve);

// Waits. BAD_PEER unknown_name; EXHAUSTED lookups_full: too many for that box; TIMEOUT.
// `box` is whose turn it takes: each has its share, however many names another asks for.
fallible resolve_name(struct resolve *resolve, const char *box, const char *name, int64_t deadline,
		      struct resolve_found *out);
// Records of another type than addresses, as the host's server of names sends them: the whole
// message, whatever its code. BAD_PEER no_answer: there was none; EXHAUSTED, TIMEOUT as above.
fallible resolve_records(struct resolve *resolve, const char *box, uint16_t type, const char *name,
			 int64_t deadline, struct buf *out);
// Looks it up, judges, connects. FORBIDDEN not_global; BAD_PEER no_server; as above. The caller
// closes *out; *out_address is where it leads.
fallible resolve_connect(struct resolve *resolve, const char *box, const char *name, uint16_t port,
			 int64_t deadline, struct stream *out, struct address *out_address);
