// Executions: a command in a sandbox of its own, with limits of the whole, whose record, log and
// artifacts outlive it. The public interface. Each function authorises `who`; an execution that the
// caller may not see is absent.
#pragma once

#include "agent/results.h"
#include "manager/access.h"
#include "manager/manager.h"
#include "manager/sweep.h"
#include "store/store.h"
#include "types/profile.h"
#include "types/who.h"

#define EXECUTION_ID_LEN 36 // "exe-" and 32 hex digits

struct executions;
struct execution;

struct executions_options {
	struct loop *loop;
	struct store *store;
	struct manager *manager;
	struct results *results; // NULL: nothing is kept but the record
};

// Loads the executions that have not ended. Nothing runs before executions_start(). Blocks.
fallible executions_open(const struct executions_options *options, struct executions **out);
// `sections`: of the configuration, for profiles_read(). For executions made from now on.
// INVALID bad_config.
fallible executions_configure(struct executions *executions, struct str sections, uint64_t max,
			      uint64_t queue_max);
// Calls `each` for every one that was made under an idempotency key since then. Blocks.
fallible executions_marks(struct executions *executions, int64_t since_ms,
			  void (*each)(void *arg, const char *mark, const char *id), void *arg);
void executions_start(struct executions *executions); // adopts their sandboxes, then serves
// No attempt begins any more. Those whose sandbox ends with this daemon are tried again by the
// next.
void executions_drain(struct executions *executions);

// A new execution from the text of a request. Durable on return; it starts by itself. `mark`: of
// the idempotency key, "": none. `must`: it must have a command. Errors of job_read(); INVALID
// unknown_agent_type, unknown_profile, above_ceiling, no_command; EXHAUSTED queue_full,
// at_capacity; NOT_FOUND no_template; FORBIDDEN network_not_allowed; UNAVAILABLE state_unwritable,
// draining.
struct execution_origin {
	const char *mark;
	bool must;
	const char *retry_of, *replay_of; // NULL: none
	struct str image;		  // of that one, with its digest; at == NULL: none
};
fallible executions_create(struct executions *executions, const struct create_grant *grant,
			   struct str body, const struct execution_origin *origin,
			   struct execution **out);
// A new one from the stored request of `id`, as a retry or as a replay. NOT_FOUND no_execution;
// CONFLICT not_ended for a retry of one that runs.
fallible executions_again(struct executions *executions, const struct create_grant *grant,
			  struct str id, bool is_replay, const char *mark, struct execution **out);

// One that has not ended, or whose sandbox is not gone yet: referenced until execution_unref().
// NULL: there is none, or it has ended: see executions_write().
struct execution *executions_live(const struct executions *executions, const struct who *who,
				  struct str id);
void execution_unref(struct execution *execution);
static inline void auto_execution_(struct execution **execution)
{
	if (*execution)
		execution_unref(*execution);
}
#define auto_execution on_exit_call(auto_execution_) struct execution *
const char *execution_id(const struct execution *execution);
// Its sandbox, while there is one; else NULL.
const char *execution_box(const struct execution *execution);

// The record as JSON, with what was committed last; in the store, too. NOT_FOUND no_execution.
fallible executions_write(struct executions *executions, const struct who *who, struct str id,
			  struct json_out *out);
// Limits that past executions of its tenant, profile and repository suggest: {profile, repository,
// executions, limits: {KEY: {p50, p95, p99, peak, profile}}, suggested: {KEY: …}}, with the keys
// and units of `limits` of a request. `repository` is null for those of any: it is not named, or
// has too few. `suggested` is null while there are too few. NOT_FOUND no_execution.
fallible executions_suggest(struct executions *executions, const struct who *who, struct str id,
			    struct json_out *out);
struct executions_filter {
	struct str state, agent_type, profile, task, label; // at == NULL: any; label "NAME=VALUE"
	struct str cursor;				    // "": from the newest
	size_t max;
};
fallible executions_write_page(struct executions *executions, const struct who *who,
			       const struct executions_filter *filter, struct json_out *out);

// What a client needs to find the results. NOT_FOUND no_execution.
struct execution_place {
	char tenant[WHO_TENANT_MAX + 1];
	uint32_t attempts;
	bool ended;
	bool unknown;		  // an earlier daemon made it, and what runs is not known yet
	char box[ID_BOX_LEN + 1]; // of the attempt that runs; "": none
	struct proc *proc;	  // its command, held; NULL: none. The caller drops it
};
fallible executions_place(struct executions *executions, const struct who *who, struct str id,
			  struct execution_place *out);

enum execution_until { UNTIL_READY, UNTIL_RUNNING, UNTIL_DONE };
// Waits for a state, or the end. TIMEOUT.
fallible execution_wait(struct execution *execution, enum execution_until until, int64_t deadline);

// Waits until its sandbox is verified gone, or the deadline.
void execution_await_gone(struct execution *execution, int64_t deadline);
// One that has ended, too, for execution_next_event(): referenced. NOT_FOUND no_execution.
fallible executions_open_any(struct executions *executions, const struct who *who, struct str id,
			     struct execution **out);

// Its states and steps after the first `after`, as lines of {id, type, …}. Does not
// wait.
struct execution_event {
	uint64_t id;
	const char *type; // "state", "step"
};
bool execution_next_event(const struct execution *execution, uint64_t after,
			  struct execution_event *out, struct json_out *json);
// Waits for more of them. *out_more false: it has ended, and there are no more.
fallible execution_await_event(struct execution *execution, uint64_t after, bool *out_more);

// Commands. Durable on return. CONFLICT ended, not_ready, command_runs.
fallible execution_cancel(struct execution *execution);
fallible execution_complete(struct execution *execution, struct str result); // JSON, or at == NULL
fallible execution_fail(struct execution *execution, struct str reason);
// Waits until it is ready, and makes it running: for commands that the client gives.
fallible execution_enter(struct execution *execution);
// Removes the record, logs and artifacts. CONFLICT not_ended.
fallible executions_delete(struct executions *executions, const struct who *who, struct str id);

// Removes those of a tenant that goes, with their logs and artifacts: a later tenant of its name
// sees none of them. CONFLICT tenant_in_use: some have not ended.
fallible executions_drop_tenant(struct executions *executions, const char *tenant);

// Those that have not ended, by state. `who` NULL: all.
struct executions_view {
	size_t queued, initializing, ready, running;
};
struct executions_view executions_look(const struct executions *executions, const struct who *who);
