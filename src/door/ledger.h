// The audit log's hand: every request that may change something is written down, with who sent it,
// whose it was, what became of it. Nobody waits for that. What changes the house (routes with
// ROUTE_TOLD) has a row each; work inside of sandboxes, which may be thousands of requests a
// second, is summed up: a row for each who, what, where and outcome of LEDGER_SPAN_MS.
#pragma once

#include "fleet/table.h"
#include "http/router.h"
#include "model/who.h"

#define LEDGER_SPAN_MS 10000

struct ledger;

struct ledger *ledger_new(struct loop *loop, struct store *store); // both borrowed
void ledger_flush(struct ledger *ledger); // what is summed up so far goes to the store

// Before the handler runs, while what it names is still there.
struct ledger_mark {
	bool wanted;
	char tenant[RECORD_TENANT_MAX];
	char target[128];
};
void ledger_look(const struct http *x, const struct fleet *fleet, const struct who *who,
		 struct ledger_mark *out);
// After it has run. `err` is what it returned.
void ledger_note(struct ledger *ledger, const struct http *x, const struct who *who,
		 const struct ledger_mark *mark, const struct err *err);
