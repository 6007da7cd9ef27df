// What happens, as whoever follows it is told: one table of kinds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// clang-format off
//	  EVENT_        kind                 what has happened
#define EVENT_KINDS(X) \
	X(BOX_CREATED,  "sandbox.created",   "a sandbox is written down and will be made") \
	X(BOX_RUNNING,  "sandbox.running",   "it can be worked in for the first time") \
	X(BOX_PAUSED,   "sandbox.paused",    "it was frozen by request") \
	X(BOX_FROZEN,   "sandbox.frozen",    "it was frozen because nobody used it") \
	X(BOX_STOPPED,  "sandbox.stopped",   "nothing runs in it any more; its files stay") \
	X(BOX_WOKEN,    "sandbox.woken",     "it runs again; `from` says what it was") \
	X(BOX_DELETING, "sandbox.deleting",  "its end has begun") \
	X(BOX_DELETED,  "sandbox.deleted",   "it is verified gone") \
	X(BOX_FAILED,   "sandbox.failed",    "it was lost, or could not be made; `reason` says why") \
	X(PORT_OPENED,  "port.opened",       "somebody in a sandbox began to listen on a port: `port`") \
	X(PORT_CLOSED,  "port.closed",       "nobody listens on it any more: `port`") \
	X(PORT_EXPOSED, "port.exposed",      "a port of a sandbox was exposed") \
	X(PORT_HIDDEN,  "port.unexposed",    "a port of a sandbox is exposed no more") \
	X(OUTPUT_CUT,   "output.not_kept",   "there was no room for output of a sandbox: `tape`, `reason` (`disk_full`, `quota`)") \
	X(READER_CUT,   "output.reader_detached", "a reader took nothing for 30 s, and output that is not kept did not wait for it: `tape`, `offset`") \
	X(EGRESS,       "egress",            "a sandbox was let out to somebody, and that is over: `name`, `port`, `bytesOut`, `bytesIn`") \
	X(KEY_MADE,     "key.made",          "a key was made") \
	X(KEY_REVOKED,  "key.revoked",       "a key was revoked, or went with its tenant") \
	X(TENANT_MADE,  "tenant.made",       "a tenant was made") \
	X(TENANT_SET,   "tenant.set",        "a tenant's terms were set anew") \
	X(TENANT_GONE,  "tenant.dropped",    "a tenant was removed") \
	X(SESSION_MADE, "agent_session.created",   "a session was made") \
	X(SESSION_ENDS, "agent_session.deleting",  "its end is written down, and has begun") \
	X(SESSION_GONE, "agent_session.deleted",   "its runner is verified gone, and all of it is removed") \
	X(LEASE,        "lease",             "a session's lease went from one state to another: `from`, `to`, `row`, `reason`") \
	X(SECURITY,     "security",          "something that may be an attack: `event`, `severity`, `who`") \
	X(ALERT,        "alert",             "something that the operator should look at: `alert`, `severity`")
// clang-format on
enum event_kind {
#define X(name, word, what) EVENT_##name,
	EVENT_KINDS(X)
#undef X
		EVENT_KIND_COUNT
};

const char *event_word(enum event_kind kind);
bool event_is_kind(const char *word);
// Whether a kind is the wanted one, or one of the group: "sandbox" has all of "sandbox.…".
bool event_matches(const char *kind, struct str wanted);
#define EVENT_MISSED "events.missed" // told in a stream where some are forgotten; no event itself

// Where in a row of numbered things to begin, and how many are wanted.
#define EVENT_PAGE 100
#define EVENT_PAGE_MAX 1000
struct event_place {
	uint64_t after, limit;
	bool from_now; // no place was named
};
// As it was asked for; at == NULL: it was not. `after` comes before the header. INVALID bad_field.
fallible event_read_place(struct str after, struct str last_event_id, struct str limit,
			  struct event_place *out);
