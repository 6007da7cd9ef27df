// Alerts: rules over the view of the host, conditions that other parts raise, and the notices of
// their transitions. A transition is stored, with its notices, before it is shown or sent.
#pragma once

#include "codec/json.h"
#include "monitor/view.h"
#include "types/sink.h"
#include "types/who.h"

struct alerts;
struct trust;

struct alerts_options {
	struct loop *loop;
	struct store *store;
	struct sink *sinks; // borrowed, as are their secrets
	struct str *secrets;
	size_t sink_count;
	struct trust *trust;
	struct str hosts; // names that the operator lists
	const char *link;
};

// Loads what was stored; blocks, before the loop runs.
struct alerts *alerts_new(const struct alerts_options *options);
void alerts_start(struct alerts *alerts);

// One evaluation. Waits for the store.
void alerts_evaluate(struct alerts *alerts, const struct view *view);
// A condition about an object, for a rule that no field of the view decides. It holds until
// alerts_clear(), or for `hold_ms` (0: for ever). Does not wait.
void alerts_raise(struct alerts *alerts, const char *rule_name, const char *object, double value,
		  int64_t hold_ms);
void alerts_clear(struct alerts *alerts, const char *rule_name, const char *object);

struct alerts_counts {
	uint64_t criticals, warnings; // that fire
	uint64_t sinks_failing;
};
struct alerts_counts alerts_count(const struct alerts *alerts);
// Calls `each` for every alert that fires.
void alerts_each_firing(const struct alerts *alerts,
			void (*each)(void *arg, const struct alert *alert, const char *hint),
			void *arg);
void alerts_set_metrics(const struct alerts *alerts);

// {items, rules}: members. `state` empty: all but inactive ones. INVALID bad_field.
fallible alerts_put(struct json_out *out, const struct alerts *alerts, struct str state);
void alerts_put_rules(struct json_out *out, const struct alerts *alerts); // an array
// NOT_FOUND no_alert. Durable on return; the alert is written to `out`.
fallible alerts_acknowledge(struct alerts *alerts, struct str id, const struct who *who,
			    struct json_out *out);
// `for_ms` 0: ends the silence.
fallible alerts_silence(struct alerts *alerts, struct str id, int64_t for_ms, struct str comment,
			struct json_out *out);
// {threshold, forSeconds, enabled}. NOT_FOUND no_rule; INVALID bad_field.
fallible alerts_set_rule(struct alerts *alerts, struct str name, const struct json *body,
			 struct json_out *out);
// Sends a notice to a sink at once. NOT_FOUND no_sink; the error of the delivery.
fallible alerts_test(struct alerts *alerts, struct str sink);
