// The audit log's hand: who did what to which sandbox.
//
//	work in a sandbox		a row that it was "begun"; another when it failed. Many of
//					one kind are summed up
//	changes the house (ROUTE_AUDITED)	the same, and a row of how it ended whatever that
// was; one 					alone where only the answer names what was made
//	no change (ROUTE_READONLY), or	summed up: a row for each who, what, where and outcome of
//	nothing was begun		AUDIT_LOG_SPAN_MS
//
// What changes the house is answered when the row of its beginning is on disk. That costs next to
// nothing: it is written while the work is done, in one commit with what the work itself writes
// down. Work in a sandbox writes nothing else, so its rows follow within
// STORE_TOLD_MS.
//
// While the state cannot be written, what runs is not held up: rows are kept, and follow.
#pragma once

#include "http/router.h"
#include "manager/table.h"
#include "types/who.h"

#define AUDIT_LOG_SPAN_MS 10000

struct audit_log;

struct audit_log *audit_log_new(struct loop *loop, struct store *store); // both borrowed
void audit_log_flush(struct audit_log *audit); // what is summed up so far goes to the store

// One request, from before its handler runs, while what it names is still there, until it is
// answered. Lives as long as the request is handled.
struct audit_log_mark {
	struct audit_log *audit;
	const struct who *who;
	bool wanted, noted;
	struct audit_log_row *row; // of the beginning
	char tenant[RECORD_TENANT_MAX];
	char target[128];
};
void audit_log_look(struct audit_log *audit, struct http *x, const struct manager *manager,
		    const struct who *who, struct audit_log_mark *out);
// What is about to be made has a name: it has begun. Right before it is written down.
void audit_log_begin(struct audit_log_mark *mark, const struct http *x, const char *target);
// Before it is answered, at the latest; a second call does nothing. `err`: what it is answered
// with, else x->status says it. Waits until what changes the house is on disk.
void audit_log_note(struct audit_log_mark *mark, const struct http *x, const struct err *err);
