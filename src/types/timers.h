// Every timer of the lifecycle in one table: name, duration, effect. No other file has a duration
// of its own. `--time-scale` divides all of them alike (tests only), except those that an operator
// sets.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TIMER_SECOND 1000ll
#define TIMER_MINUTE (60 * TIMER_SECOND)
#define TIMER_HOUR (60 * TIMER_MINUTE)
#define TIMER_DAY (24 * TIMER_HOUR)

// clang-format off
//	  TIMER_            name                    default              on expiry
#define TIMERS(X) \
	X(STARTUP,          "runner-startup",       10 * TIMER_MINUTE,   "a runner that is not ready is stopped") \
	X(READY,            "ready-without-work",   60 * TIMER_SECOND,   "a runner that got no run is stopped") \
	X(KEEP_WARM,        "keep-warm",            5 * TIMER_MINUTE,    "an idle runner is stopped") \
	X(STOP_ATTEMPT,     "stop-attempt",         45 * TIMER_SECOND,   "the attempt to stop a runner has failed") \
	X(STOP_BACKOFF_1,   "stop-backoff-1",       5 * TIMER_SECOND,    "the second attempt to stop a runner begins") \
	X(STOP_BACKOFF_2,   "stop-backoff-2",       30 * TIMER_SECOND,   "the third attempt begins") \
	X(STOP_BACKOFF_3,   "stop-backoff-3",       120 * TIMER_SECOND,  "the fourth attempt begins") \
	X(STOP_BACKOFF_4,   "stop-backoff-4",       300 * TIMER_SECOND,  "the fifth and last attempt begins") \
	X(RECHECK,          "quarantine-recheck",   10 * TIMER_MINUTE,   "cove looks for a quarantined runner again") \
	X(RECHECK_SPAN,     "quarantine-span",      60 * TIMER_MINUTE,   "only a user's action makes cove look again") \
	X(OBSERVE_1,        "stop-observe-1",       100,                 "first check after SIGTERM") \
	X(OBSERVE_2,        "stop-observe-2",       500,                 "second check") \
	X(OBSERVE_3,        "stop-observe-3",       1000,                "third check; then SIGKILL") \
	X(INSPECTION,       "inspection",           30 * TIMER_SECOND,   "the inspection has failed, which proves nothing") \
	X(CAPACITY,         "capacity-probe",       10 * TIMER_SECOND,   "the free space is unknown") \
	X(WORKSPACE,        "workspace-setup",      10 * TIMER_MINUTE,   "the setup has failed") \
	X(PING,             "ping-interval",        60 * TIMER_SECOND,   "cove sends a ping to a silent runner") \
	X(PONG,             "ping-answer",          30 * TIMER_SECOND,   "the run fails, the runner is stopped") \
	X(NO_OUTPUT,        "no-output",            5 * TIMER_MINUTE,    "the run fails, the runner is stopped") \
	X(HEARTBEAT,        "heartbeat",            30 * TIMER_SECOND,   "a runner must send a heartbeat") \
	X(STALE,            "heartbeat-stale",      90 * TIMER_SECOND,   "a silent runner counts as disconnected") \
	X(GRACE,            "disconnect-grace",     10 * TIMER_SECOND,   "the run fails, the runner is stopped") \
	X(IDLE,             "idle-sandbox",         15 * TIMER_MINUTE,   "an idle sandbox of an agent session is stopped") \
	X(MAINTAIN_BUSY,    "maintenance-busy",     5 * TIMER_MINUTE,    "leases in use are checked") \
	X(MAINTAIN_IDLE,    "maintenance-idle",     60 * TIMER_MINUTE,   "all leases are checked") \
	X(MAINTAIN_LEAST,   "maintenance-least",    1 * TIMER_SECOND,    "maintenance may run again") \
	X(STALE_DIRECTORY,  "stale-directory-age",  20 * TIMER_MINUTE,   "files of a dead agent session may be removed") \
	X(RETENTION,        "session-retention",    90 * TIMER_DAY,      "an unused agent session is deleted") \
	X(ORPHAN,           "orphan-age",           10 * TIMER_MINUTE,   "a sandbox that never became ready is terminated") \
	X(STUCK,            "stuck-age",            30 * TIMER_MINUTE,   "a run without heartbeats is stuck, and ends") \
	X(MAX_AGE,          "execution-max-age",    24 * TIMER_HOUR,     "the record of a sandbox that failed is deleted") \
	X(SLEEP,            "sandbox-sleep",        10 * TIMER_MINUTE,   "an idle sandbox without a sleepAfter of its own is frozen") \
	X(FROZEN,           "sandbox-frozen",       10 * TIMER_MINUTE,   "a frozen sandbox is stopped; its files stay") \
	X(UPLOAD,           "upload-idle",          60 * TIMER_SECOND,   "an upload in parts that gets no request is dropped") \
	X(LAUNCH,           "sandbox-ready",        5 * TIMER_MINUTE,    "a sandbox whose `ready` does not hold is told as not_ready") \
	X(SWEEP,            "sweep-interval",       5 * TIMER_MINUTE,    "the janitor runs") \
	X(EVENTS,           "event-retention",      30 * TIMER_DAY,      "an event is removed") \
	X(AUDIT,            "audit-retention",      365 * TIMER_DAY,     "a row of the audit log is removed, and its hash is kept") \
	X(USAGE,            "usage-retention",      400 * TIMER_DAY,     "an hour of usage is removed") \
	X(ALERT_QUIET,      "alert-quiet",          60 * TIMER_MINUTE,   "an alert that still holds is sent again") \
	X(ALERTS,           "alert-evaluation",     15 * TIMER_SECOND,   "the rules of alerts are evaluated") \
	X(NOTICE_JOIN,      "notice-join",          30 * TIMER_SECOND,   "a notice about several sandboxes is sent") \
	X(NOTICE_RETRY_1,   "notice-retry-1",       2 * TIMER_SECOND,    "a notice that could not be sent is sent again: first retry") \
	X(NOTICE_RETRY_2,   "notice-retry-2",       4 * TIMER_SECOND,    "second retry") \
	X(NOTICE_RETRY_3,   "notice-retry-3",       8 * TIMER_SECOND,    "third retry") \
	X(NOTICE_RETRY,     "notice-retry",         5 * TIMER_MINUTE,    "every later retry") \
	X(NOTICE_END,       "notice-end",           24 * TIMER_HOUR,     "a notice that could not be sent is dropped") \
	X(ALERTMANAGER,     "alertmanager-push",    60 * TIMER_SECOND,   "firing alerts are sent to Alertmanager again") \
	X(SAMPLE,           "history-sample",       10 * TIMER_SECOND,   "a sample of the history is taken") \
	X(HISTORY_WRITE,    "history-write",        5 * TIMER_MINUTE,    "the history is written to the disk") \
	X(HISTORY,          "history-retention",    7 * TIMER_DAY,       "a sample of the history is removed") \
	X(READER,           "stream-reader",        30 * TIMER_SECOND,   "a reader of live output that took nothing is detached") \
	X(QUIET,            "stream-keepalive",     15 * TIMER_SECOND,   "a silent event stream sends a comment line") \
	X(EXECUTION_START,  "execution-start",      30 * TIMER_SECOND,   "an attempt of an execution that is not ready has failed") \
	X(RETRY_1,          "launch-retry-1",       1 * TIMER_SECOND,    "a failed start is tried again, +-20 %: first retry") \
	X(RETRY_2,          "launch-retry-2",       2 * TIMER_SECOND,    "second retry") \
	X(RETRY_3,          "launch-retry-3",       4 * TIMER_SECOND,    "third and last retry") \
	X(REGISTRY_SILENCE, "registry-silence",     60 * TIMER_SECOND,   "a registry that sends nothing is asked again") \
	X(REGISTRY_ANSWER,  "registry-answer",      2 * TIMER_MINUTE,    "a registry whose answer's head, or whose document, is not whole is asked again") \
	X(SLOT_RETRY_1,     "slot-publish-1",       2 * TIMER_SECOND,    "the fallback sandbox of an owner is published again: first retry") \
	X(SLOT_RETRY_2,     "slot-publish-2",       4 * TIMER_SECOND,    "second retry") \
	X(SLOT_RETRY_3,     "slot-publish-3",       8 * TIMER_SECOND,    "third and last retry")
// clang-format on

enum timer_name {
#define X(name, word, ms, what) TIMER_##name,
	TIMERS(X)
#undef X
		TIMER_COUNT
};

// Its duration: set by the operator, or the default divided by the scale; at least 1 ms.
int64_t timer_ms(enum timer_name timer);
// The pause before a failed start is tried again, after `tries` failures: RETRY_1 to RETRY_3, each
// longer or shorter by up to a fifth, so that many do not begin at once.
int64_t timer_retry_ms(uint64_t tries);

// One row, for documents and checks.
struct timer_row {
	const char *name, *what;
	int64_t otherwise_ms; // the default, unscaled
};
const struct timer_row *timer_row(enum timer_name timer);

#define TIMER_SCALE_MAX 100000
// At the start of the process, before any timer runs. 1: real time.
void timers_scale(uint32_t scale);
uint32_t timers_scale_now(void);
// Set by the operator; 0: the default again. Not scaled.
void timer_set(enum timer_name timer, int64_t ms);
