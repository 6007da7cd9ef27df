// The kinds of events that clients can follow: one table.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

// clang-format off
//	  EVENT_        kind                 what has happened
#define EVENT_KINDS(X) \
	X(BOX_CREATED,  "sandbox.created",   "a sandbox is in the database and will be made") \
	X(BOX_RUNNING,  "sandbox.running",   "the sandbox is ready for the first time") \
	X(BOX_PAUSED,   "sandbox.paused",    "the sandbox was frozen by a request") \
	X(BOX_FROZEN,   "sandbox.frozen",    "the sandbox was frozen because it was idle") \
	X(BOX_STOPPED,  "sandbox.stopped",   "the processes of the sandbox have ended; its files stay") \
	X(BOX_ARCHIVED, "sandbox.archived", "the files of a stopped sandbox were packed into an archive") \
	X(BOX_WOKEN,    "sandbox.woken",     "the sandbox runs again; `from` is the state before") \
	X(BOX_DELETING, "sandbox.deleting",  "the delete of the sandbox has begun") \
	X(BOX_DELETED,  "sandbox.deleted",   "the sandbox is verified gone") \
	X(BOX_FAILED,   "sandbox.failed",    "the sandbox was lost, or could not be made; `reason` says why") \
	X(BOX_LIMITS,   "sandbox.limits",    "limits of the sandbox were changed: `memoryMB`, `cpus`, `pids`, `diskMB` as they are now") \
	X(SNAPSHOT,     "snapshot.made",     "a snapshot of the sandbox was made: `template`") \
	X(PORT_OPENED,  "port.opened",       "a process of a sandbox began to listen on `port`") \
	X(PORT_CLOSED,  "port.closed",       "no process of the sandbox listens on `port` any more") \
	X(PORT_EXPOSED, "port.exposed",      "a port of a sandbox was exposed") \
	X(PORT_HIDDEN,  "port.unexposed",    "a port of a sandbox was unexposed") \
	X(OUTPUT_CUT,   "output.not_kept",   "there was no room for output of a sandbox: `tape`, `reason` (`disk_full`, `quota`)") \
	X(READER_CUT,   "output.reader_detached", "a reader took nothing for 30 s and was detached: `tape`, `offset`") \
	X(EGRESS,       "egress",            "an allowed connection of a sandbox has ended: `name`, `port`, `bytesOut`, `bytesIn`") \
	X(KEY_MADE,     "key.made",          "a key was made") \
	X(KEY_REVOKED,  "key.revoked",       "a key was revoked, or removed with its tenant") \
	X(TENANT_MADE,  "tenant.made",       "a tenant was made") \
	X(TENANT_SET,   "tenant.set",        "the terms of a tenant were replaced") \
	X(TENANT_GONE,  "tenant.dropped",    "a tenant was removed") \
	X(SESSION_MADE, "agent_session.created",   "an agent session was made") \
	X(SESSION_ENDS, "agent_session.deleting",  "the delete of an agent session is durable and has begun") \
	X(SESSION_GONE, "agent_session.deleted",   "the runner of an agent session is verified gone, and its files are removed") \
	X(LEASE,        "lease",             "the lease of an agent session changed its state: `from`, `to`, `row`, `reason`") \
	X(IMAGE_PULLED, "image.pulled",      "an image was pulled: `image`, `digest`, `template`") \
	X(TEMPLATE_MADE, "template.made",    "a template is new, or has moved to another digest: `template`") \
	X(TEMPLATE_GONE, "template.removed", "a template was removed: `template`") \
	X(BUILD_STARTED, "build.started",    "the build of a template has begun: `operation`, `template`") \
	X(BUILD_ENDED,  "build.ended",       "the build of a template has ended: `operation`, `template`; `reason`: why it failed") \
	X(VOLUME_MADE,  "volume.created",    "a volume was made: `volume`") \
	X(VOLUME_GONE,  "volume.deleted",    "a volume is verified gone: `volume`") \
	X(POOL_EMPTY,   "pool.empty",        "a create found no member of the pool ready: `pool`") \
	X(BUDGET_NEAR,  "budget.warning",    "80 % of a budget are used: `budget`") \
	X(BUDGET_OVER,  "budget.exceeded",   "a budget is used up: `budget`; idle sandboxes are paused, new ones refused") \
	X(EXECUTION,    "execution.state",   "an execution changed its state: `execution`, `state`, `outcome`, `reason`") \
	X(SECURITY,     "security",          "a possible attack: `event`, `severity`, `who`") \
	X(ALERT,        "alert",             "a condition that needs the operator: `alert`, `severity`") \
	X(ALERT_FIRING, "alert.firing",      "the alert `alert` of the rule `rule` fires: `severity`, `value`") \
	X(ALERT_ENDED,  "alert.resolved",    "the alert `alert` of the rule `rule` has ended")
// clang-format on
enum event_kind {
#define X(name, word, what) EVENT_##name,
	EVENT_KINDS(X)
#undef X
		EVENT_KIND_COUNT
};

const char *event_word(enum event_kind kind);

// Publishes an event beside its log line. Fields are pairs of name and text, ended by NULL; a NULL
// text leaves its field out. `tenant`, `sandbox` and `session` name its subject. Folders below
// the manager publish through the subscriber of their thread; a thread without one drops events.
void event_publish(enum event_kind kind, ...) __attribute__((sentinel));
// A security event of a sandbox: a log line and an event, as many a minute as log_event_of() lets a
// sandbox have. Names and texts as above; a second name may be NULL.
void event_publish_security(const char *box, const char *event, const char *severity,
			    const char *name, const char *text, const char *second,
			    const char *second_text);
// The subscriber gets every event that this thread publishes. It must not wait.
typedef void event_subscriber(void *arg, enum event_kind kind, va_list fields);
void event_subscribe(event_subscriber *publish, void *arg);

// Whether a kind equals the filter, or is of its group: "sandbox" matches every "sandbox.…".
bool event_matches(const char *kind, struct str wanted);
#define EVENT_MISSED "events.missed" // sent in a stream where events were dropped; no event itself

// The start position in a numbered list, and how many entries are wanted.
#define EVENT_PAGE 100
#define EVENT_PAGE_MAX 1000
struct event_place {
	uint64_t after, limit;
	bool from_now; // no position was given
};
// Reads the request's values; at == NULL: absent. `after` overrides the header. INVALID bad_field.
fallible event_read_place(struct str after, struct str last_event_id, struct str limit,
			  struct event_place *out);
