// The rules of alerts: one table.
#pragma once

#include "monitor/view.h"
#include "types/alert.h"

#define RULE_RAISED SIZE_MAX // the condition is raised by the part that finds it

struct rule {
	const char *name;
	enum alert_severity severity;
	size_t at; // of a double in struct view; RULE_RAISED: none
	bool below;
	double threshold;
	int64_t for_s;
	const char *unit, *summary, *hint;
};

extern const struct rule rules[]; // ended by a row without a name
#define RULES_MAX 32
size_t rules_count(void);
// NULL: there is none.
const struct rule *rule_named(struct str name);
// What the view says. Only for rules that are not raised.
struct alert_seen rule_look(const struct rule *rule, const struct view *view, double threshold);
