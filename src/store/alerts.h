// Alerts, the operator's settings of their rules, and the queue of notices. What is shown or sent
// was committed before; a notice is removed when it was delivered.
#pragma once

#include "store/store.h"
#include "types/alert.h"

struct store_alert {
	const char *id, *rule, *object;
	int64_t state, severity, value_milli, since_ms, fired_ms, resolved_ms, last_ms;
	int64_t acknowledged_ms;
	const char *acknowledged_by;
	int64_t silenced_ms;
	const char *comment;
	int64_t quiet_ms, owes, held;
	const char *deliveries; // JSON array
};
struct store_alert_rule {
	const char *name;
	int64_t threshold_milli, wait_ms, enabled;
};
struct store_notice {
	const char *id, *sink, *rule;
	int64_t kind;			      // enum alert_notice
	const char *body;		      // JSON
	int64_t created_ms, due_ms, attempts; // steady clock
};

// One transaction: alerts that changed, notices that are new or have changed.
struct store_alerts_change {
	const struct store_alert *alerts;
	size_t alert_count;
	const struct store_notice *notices;
	size_t notice_count;
	const char *dropped; // the id of a notice that is removed; NULL: none
};
// Durable on return.
fallible store_alerts_apply(struct store *store, const struct store_alerts_change *change);
fallible store_alert_rule_put(struct store *store, const struct store_alert_rule *rule);
// At the start; texts are in the arena.
struct store_alerts {
	struct store_alert *alerts;
	struct store_alert_rule *rules;
	struct store_notice *notices; // oldest first
	size_t alert_count, rule_count, notice_count;
};
fallible store_alerts_load(struct store *store, struct arena *arena, struct store_alerts *out);
// Removes alerts that were resolved before that time.
fallible store_alerts_prune(struct store *store, int64_t before_ms);
