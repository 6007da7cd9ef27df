// The end of an execution, for rates, quantiles and limits that are suggested: what it was, how it
// ended, what it took.
//
// The code that ends an execution does two things: store_execution_ends_add_in()
// (store/execution_ends.h) in the deed that commits the outcome, which counts each id once; and
// after the commit execution_end_publish(), on the loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EXECUTION_TENANT_MAX 63
#define EXECUTION_TYPE_MAX 39	 // of an agent type or profile; longer ones are cut
#define EXECUTION_OUTCOME_MAX 31 // "completed", "timeout", "limit_memory", "cancelled" …

struct execution_end {
	char id[64];
	char tenant[EXECUTION_TENANT_MAX + 1]; // "": the operator's, or read from the store
	char type[EXECUTION_TYPE_MAX + 1];     // "": none
	char outcome[EXECUTION_OUTCOME_MAX + 1];
	bool completed, infrastructure; // neither: it failed by its own fault
	bool counted;	  // false: for no rate, such as one that was cancelled by its client
	int64_t ended_ms; // steady clock
	int64_t queued_ms, provision_ms, run_ms, cleanup_ms;
	int64_t cpu_ms, memory_peak; // bytes; -1: unknown
};

void execution_end_publish(const struct execution_end *end);
// The subscribers of this thread, at most EXECUTION_END_SUBSCRIBERS. They must not wait.
#define EXECUTION_END_SUBSCRIBERS 2
typedef void execution_end_subscriber(void *arg, const struct execution_end *end);
void execution_end_subscribe(execution_end_subscriber *fn, void *arg);
