// The audit log: who did what to which sandbox.
//
// work in a sandbox: a row "begun", another one if it failed; many of one kind are counted in one
// row
// ROUTE_AUDITED (changes the host's state): the same, and always a row with the outcome; only that
// row if the answer alone names the new object
// ROUTE_READONLY, or nothing was begun: one row per principal, action, target and outcome for each
// AUDIT_LOG_SPAN_MS
//
// A change of the host's state is answered after its "begun" row is durable. The row is written
// while the handler works, in one commit with the handler's own writes, so the wait is short. Work
// in a sandbox makes no other write: its rows are durable within STORE_TOLD_MS.
//
// While the store cannot be written, requests are not delayed: their rows are queued and written
// later.
#pragma once

#include "http/router.h"
#include "manager/table.h"
#include "types/who.h"

#define AUDIT_LOG_SPAN_MS 10000

struct audit_log;

struct audit_log *audit_log_new(struct loop *loop, struct store *store); // both borrowed
void audit_log_flush(struct audit_log *audit); // writes the counted rows to the store

// One request, from before its handler runs, while the object it names still exists, until it is
// answered. Lives as long as the request.
struct audit_log_mark {
	struct audit_log *audit;
	const struct who *who;
	bool wanted, noted;
	struct audit_log_row *row; // the "begun" row
	char tenant[RECORD_TENANT_MAX];
	char target[128];
};
void audit_log_look(struct audit_log *audit, struct http *x, const struct manager *manager,
		    const struct who *who, struct audit_log_mark *out);
// The object that is about to be created has a name now. Called right before its record is written.
void audit_log_begin(struct audit_log_mark *mark, const struct http *x, const char *target);
// Called at the latest before the answer; a second call does nothing. `err`: the error that is
// answered, else x->status is used. Waits until the row of a ROUTE_AUDITED request is durable.
void audit_log_note(struct audit_log_mark *mark, const struct http *x, const struct err *err);
