// Resolves names on this host and judges the addresses before connecting: no address of this host,
// of its neighbours on a link or of private networks, unless the operator lists it, in every mode
// and for every name. The judged address is the one connected to.
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

struct resolve_found {
	struct address at[RESOLVE_MAX];
	size_t count;
};
// The single steps. A numeric address, or a name that the operator lists, needs no lookup; any
// other lookup blocks: call it in a worker. Dialling tries the allowed addresses as in RFC 8305:
// FORBIDDEN not_global; BAD_PEER no_server; TIMEOUT. The caller closes *out.
bool resolve_is_known(const struct resolve_rules *rules, struct str name,
		      struct resolve_found *out);
void resolve_look_up(const char *name, struct resolve_found *out); // count 0: no such name
fallible resolve_no_name(const char *name);			   // the error for that
fallible resolve_dial(const struct resolve_rules *rules, struct loop *loop,
		      const struct resolve_found *found, const char *name, uint16_t port,
		      int64_t deadline, struct stream *out, struct address *out_address);

// Own threads, so that a slow DNS server delays only those who ask it.
struct resolve;
fallible resolve_open(struct loop *loop, const struct resolve_rules *rules, struct resolve **out);
// No task may be waiting any more. Does not wait for running lookups: the last thread frees the
// rest. Takes NULL.
void resolve_close(struct resolve *resolve);

// Waits. BAD_PEER unknown_name; EXHAUSTED lookups_full: too many for that box; TIMEOUT. The lookup
// counts for `box`: each box has its share.
fallible resolve_name(struct resolve *resolve, const char *box, const char *name, int64_t deadline,
		      struct resolve_found *out);
// Records of a type other than addresses, as the host's resolver sends them: the whole message,
// with any response code. BAD_PEER no_answer: no reply; EXHAUSTED, TIMEOUT as above.
fallible resolve_records(struct resolve *resolve, const char *box, uint16_t type, const char *name,
			 int64_t deadline, struct buf *out);
// Resolves, judges, connects. FORBIDDEN not_global; BAD_PEER no_server; as above. The caller closes
// *out; *out_address is the address.
fallible resolve_connect(struct resolve *resolve, const char *box, const char *name, uint16_t port,
			 int64_t deadline, struct stream *out, struct address *out_address);
