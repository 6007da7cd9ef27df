// The table of rules. A rule compares one number of the view with its threshold, or waits to be
// raised about an object. The hints are the cures of docs/OPERATIONS.md.
#include "monitor/rules.h"

#include <math.h>
#include <stddef.h>

#define OF(field) offsetof(struct view, field)

// clang-format off
const struct rule rules[] = {
	{"failure_rate_high", ALERT_CRITICAL, OF(failure_total), false, 0.25, 300, "ratio",
	 "more than a quarter of the executions of the last hour failed", "see 'cove executions ls' for their outcomes"},
	{"failure_rate_raised", ALERT_WARNING, OF(failure_total), false, 0.10, 300, "ratio",
	 "more than a tenth of the executions of the last hour failed", "see 'cove executions ls' for their outcomes"},
	{"infrastructure_failure_rate_high", ALERT_CRITICAL, OF(failure_infrastructure), false, 0.25, 300, "ratio",
	 "more than a quarter of the executions of the last hour failed by cove or its host", "run 'cove doctor' and look at the log"},
	{"infrastructure_failure_rate_raised", ALERT_WARNING, OF(failure_infrastructure), false, 0.10, 300, "ratio",
	 "more than a tenth of the executions of the last hour failed by cove or its host", "run 'cove doctor' and look at the log"},
	{"sandboxes_stuck", ALERT_CRITICAL, OF(stuck), false, 0, 60, "sandboxes",
	 "sandboxes are past their limit and not gone", "see 'cove verify' and the log event cleanup_failed"},
	{"sandboxes_orphaned", ALERT_WARNING, OF(orphaned), false, 3, 60, "sandboxes",
	 "sandboxes never became ready", "see 'cove cleanup' and the log of the warden"},
	{"sandboxes_many", ALERT_WARNING, OF(active), false, 50, 60, "sandboxes",
	 "more sandboxes are active than usual", "raise the threshold with 'cove alerts rules' if this is normal"},
	{"cleanup_slow", ALERT_WARNING, OF(sweep_seconds), false, 10, 0, "seconds",
	 "the last round of the janitor took long", "the disk or the host is slow: see 'cove doctor'"},
	{"leases_quarantined", ALERT_CRITICAL, OF(quarantined), false, 0, 0, "leases",
	 "runners could not be ended", "find the process with 'cove agent-session ls', end it, and run the session again"},
	{"records_unreadable", ALERT_CRITICAL, OF(unreadable), false, 0, 0, "records",
	 "stored records cannot be read", "restore the database from a backup"},
	{"state_unwritable", ALERT_CRITICAL, OF(unwritable), false, 0, 0, "state",
	 "the state cannot be written", "make room on the disk of the data directory; service resumes by itself"},
	{"stops_overdue", ALERT_WARNING, OF(overdue_stops), false, 0, 0, "leases",
	 "runners should have been stopped ten minutes ago", "see 'cove agent-session ls' for the last error"},
	{"space_low", ALERT_WARNING, OF(disk_ratio), true, 2, 60, "ratio",
	 "the disk of the data directory is nearly full", "remove sandboxes or templates, or add space"},
	{"warden_gone", ALERT_CRITICAL, OF(warden_gone), false, 30, 0, "seconds",
	 "the privileged process does not run", "see its last lines in the log; 'cove doctor' says what the host lacks"},
	{"cleanup_failed", ALERT_WARNING, RULE_RAISED, false, 0, 0, "",
	 "something could not be removed", "it is tried again in the next round; see the log event cleanup_failed"},
	{"clock_stepped", ALERT_WARNING, RULE_RAISED, false, 0, 0, "",
	 "the clock of the host was set", "check its time service; what expires is not affected"},
	{"sink_failing", ALERT_WARNING, RULE_RAISED, false, 0, 0, "",
	 "notices cannot be delivered", "check the sink with 'cove alerts test'"},
	{"usage_unusual", ALERT_WARNING, RULE_RAISED, false, 1, 0, "ratio",
	 "a sandbox uses more memory than its kind ever did", "look at it with 'cove inspect' and 'cove stats'"},
	{.name = NULL},
};
// clang-format on
_Static_assert(sizeof(rules) / sizeof(*rules) <= RULES_MAX, "settings have room for every rule");

size_t rules_count(void)
{
	return sizeof(rules) / sizeof(*rules) - 1;
}

const struct rule *rule_named(struct str name)
{
	for (const struct rule *rule = rules; rule->name; rule++)
		if (str_is(name, rule->name))
			return rule;
	return NULL;
}

struct alert_seen rule_look(const struct rule *rule, const struct view *view, double threshold)
{
	double value = *(const double *)((const char *)view + rule->at);

	if (isnan(value))
		return (struct alert_seen){.known = false};
	return (struct alert_seen){.known = true,
				   .holds = rule->below ? value < threshold : value > threshold,
				   .value = value};
}
