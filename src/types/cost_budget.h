// A budget: what it covers, for which period, and how much may be used. No I/O.
#pragma once

#include "codec/json.h"
#include "types/env_map.h"
#include "types/usage.h"
#include "types/who.h"

#define COST_BUDGET_NAME_MAX 63
#define COST_BUDGET_WARN_PERCENT 80

enum cost_budget_of { COST_BUDGET_TENANT, COST_BUDGET_LABEL, COST_BUDGET_SESSION };
enum cost_budget_unit { COST_BUDGET_COST, COST_BUDGET_CPU, COST_BUDGET_REQUESTS };

struct cost_budget {
	enum cost_budget_of of;
	char tenant[WHO_TENANT_MAX + 1];     // of TENANT; "": the operator's own
	char key[64];			     // of LABEL
	char value[ENV_MAP_LABEL_VALUE + 1]; // of LABEL; of SESSION its id
	enum period period;
	enum cost_budget_unit unit;
	uint64_t limit; // millionths of the currency, microseconds of CPU time, or requests
};

// [a-z0-9][a-z0-9._-]{0,62}
bool cost_budget_is_name(struct str name);
// {match: {tenant | label: "KEY=VALUE" | agentSession}, period, cost | cpuSeconds | requests}.
// INVALID bad_field, unknown_field.
fallible cost_budget_read(const struct json *object, struct cost_budget *out);
void cost_budget_put(struct json_out *out, const struct cost_budget *budget); // members
// Whether it covers a sandbox of this tenant with these labels. `session_key`: the label that names
// the agent session.
bool cost_budget_covers(const struct cost_budget *budget, const char *tenant,
			const struct env_map *labels, const char *session_key);
// What counts against the limit, in its unit.
uint64_t cost_budget_used(const struct cost_budget *budget, const struct usage *used,
			  const struct prices *prices);
