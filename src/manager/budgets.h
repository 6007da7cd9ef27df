// Budgets of tenants, labels and agent sessions: what is used of each in its period, and which
// sandboxes are covered by one that is used up.
#pragma once

#include "manager/access.h"
#include "types/cost_budget.h"

#define BUDGETS_MAX 1000

struct budget_line {
	char name[COST_BUDGET_NAME_MAX + 1];
	struct cost_budget budget;
	int64_t created_ms;
	int64_t begin_ms, end_ms; // of the period, steady clock
	struct usage used;	  // in the period
	bool warned, exceeded;	  // announced in the period
	struct link link;
};

// Reads budgets and what was used of them. Blocks: call it before the loop runs.
void budgets_open(struct manager *manager);
// EXHAUSTED budget_exceeded: no new sandbox of that tenant with these labels.
fallible budgets_ask(const struct manager *manager, const char *tenant,
		     const struct env_map *labels);
// Begins periods, announces, and sets `over_budget` of every entry. Does not wait.
void budgets_look(struct manager *manager);

// Requests. Lines are borrowed until the caller's next wait.
fallible budgets_set(struct manager *manager, const struct who *who, struct str name,
		     const struct json *body, const struct budget_line **out, bool *out_made);
fallible budgets_drop(struct manager *manager, const struct who *who, struct str name);
fallible budgets_get(const struct manager *manager, const struct who *who, struct str name,
		     const struct budget_line **out);
// Steps through those that `who` sees, by age: start with *at NULL. NULL: no more.
fallible budgets_ask_list(const struct who *who);
const struct budget_line *budgets_next(const struct manager *manager, const struct who *who,
				       const struct budget_line *at);
void budgets_put(struct json_out *out, const struct manager *manager,
		 const struct budget_line *line);
