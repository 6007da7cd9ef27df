// The actor of an execution: the one task that changes its lease and record. Which sandbox may
// exist is the lease's to say (types/lease): `initializing` is STARTING, `ready` READY, `running`
// ACTIVE. Here are no deadlines of ready and warm, and no grace: an attempt that ends has its
// sandbox destroyed as soon as the result is committed.
//
// Each item below is a change of the record and the lease, one commit, then the deed. A commit that
// the store refuses is tried until it is taken: nothing else happens before.
#include <stdio.h>
#include <stdlib.h>

#include "agent/faults.h"
#include "agent/results.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "execution/private.h"
#include "types/event.h"
#include "types/timers.h"

#define COMMIT_AGAIN_MS 250
#define AGAIN_MS 1000	 // after a failed observation, and while the counters cannot be read
#define LOOK_MAX_MS 5000 // between two looks at the counters
#define LOOK_MIN_MS 100
#define LOOK_MEMORY_MS 500 // between two looks at the kernel's kills

static struct loop *actor_loop(const struct execution *execution)
{
	return execution->all->loop;
}

// ------------------------------------------------------------------------------- commits

static void actor_publish(const struct execution *execution)
{
	event_publish(EVENT_EXECUTION, "tenant", execution->tenant, "execution", execution->id,
		      "state", execution_state_word(execution->state), "outcome",
		      execution->outcome ? execution_outcome_word(execution->outcome) : NULL,
		      "reason", execution->reason[0] ? execution->reason : NULL, NULL);
}

// Requests are bounded, but an end must not wait for ever for what the store cannot take.
static void actor_cut(struct execution *execution)
{
	free(take_ptr(execution->result));
	if (!execution->artifacts.missing)
		return;
	free(execution->artifacts.missing);
	execution->artifacts.missing = mem_str("[]");
	execution->artifacts.partial = true;
}

// The rows of results are given up when the store does not take them: the end is not.
static void actor_write(struct execution *execution, struct execution_write *write)
{
	enum execution_state before = execution->stored;

	for (;;) {
		auto_err err = execution_commit(execution, write);

		if (!err)
			break;
		log_event(LOG_WARN, "execution.blocked", "execution", execution->id, "trail",
			  err_trail(err), NULL);
		if (write->results)
			log_event(LOG_ERROR, "execution.results_lost", "execution", execution->id,
				  "trail", err_trail(err), NULL);
		write->results = NULL;
		if (err_kind(err) == ERR_TOO_LARGE)
			actor_cut(execution);
		err_free(task_sleep_until(loop_now(actor_loop(execution)) + COMMIT_AGAIN_MS));
	}
	if (before != execution->stored)
		actor_publish(execution);
	condition_signal(&execution->changed);
}

static void actor_commit(struct execution *execution)
{
	actor_write(execution, &(struct execution_write){0});
}

static void actor_log(const struct execution *execution, const struct lease *was, int row)
{
	const struct lease *now = &execution->lease;
	char number[12];

	snprintf(number, sizeof(number), "%d", row);
	log_event(LOG_INFO, "lease", "tenant", execution->tenant, "execution", execution->id,
		  "sandbox",
		  execution->attempt_count ? execution->attempts[execution->attempt_count - 1].box
					   : NULL,
		  "row", number, "from", lease_state_word(was->state), "to",
		  lease_state_word(now->state), "reason",
		  now->reason ? lease_reason_word(now->reason) : NULL, "error",
		  now->error[0] ? now->error : NULL, NULL);
}

// Applies an event to the lease, in memory: the caller commits. Returns what is then to be done.
static unsigned actor_event(struct execution *execution, struct lease_event event)
{
	char instance[LEASE_INSTANCE_LEN + 1], attempt[LEASE_ATTEMPT_LEN + 1];
	struct lease was = execution->lease;
	struct lease_step step;

	lease_new_instance(instance);
	lease_new_attempt(attempt);
	event.now_ms = clock_steady_ms();
	event.instance = instance;
	if (event.kind != LEASE_STOPPED)
		event.attempt = attempt;
	step = lease_handle(&was, &event, &execution->lease);
	if (!step.changed)
		return step.todo;
	actor_log(execution, &was, step.row);
	if (execution->lease.state == LEASE_STARTING)
		execution->lease.deadline_ms = event.now_ms + timer_ms(TIMER_EXECUTION_START);
	else if (execution->lease.state == LEASE_READY)
		execution->lease.deadline_ms = execution->wall_at; // it may wait for its client
	return step.todo;
}

// -------------------------------------------------------------------------- stop attempts

struct stop {
	struct execution *execution;
	char id[LEASE_ATTEMPT_LEN + 1];
};

static bool stop_is_current(const struct stop *stop)
{
	const struct lease *lease = &stop->execution->lease;

	return lease->state == LEASE_STOPPING && !strcmp(lease->attempt, stop->id);
}

// A start that was given up may still be making the sandbox: it ends first.
static fallible stop_try(struct stop *stop)
{
	struct execution *execution = stop->execution;
	int64_t until = loop_now(actor_loop(execution)) + timer_ms(TIMER_STOP_ATTEMPT);

	TRY(faults_meet(FAULT_STOP, execution->id));
	while (execution_is_launching(execution))
		TRY(condition_wait(&execution->changed, until), "wait for the start to end");
	return stop_is_current(stop) ? sandbox_remove(execution) : OK;
}

static void stop_run(void *arg)
{
	struct stop *stop = arg;
	struct execution *execution = stop->execution;
	char why[LEASE_ERROR_MAX] = "";
	auto_err err = OK;

	task_shield(true);
	err = stop_try(stop);
	if (stop_is_current(stop)) {
		execution->stopped.seen = sandbox_observe(execution, why);
		snprintf(execution->stopped.error, sizeof(execution->stopped.error), "%s",
			 err ? err_message(err) : why);
		if (err && execution->stopped.seen == LEASE_SEES_MATCH)
			execution->stopped.seen = LEASE_SEES_OTHER;
		memcpy(execution->stopped.attempt, stop->id, sizeof(stop->id));
	}
	condition_signal(&execution->wake);
	execution_unref(execution);
	free(stop);
}

static void actor_stop(struct execution *execution)
{
	struct stop *stop = mem_new_of(struct stop);

	execution_ref(execution);
	stop->execution = execution;
	memcpy(stop->id, execution->lease.attempt, sizeof(stop->id));
	task_start(actor_loop(execution), "execution.stop", stop_run, stop);
}

static void actor_look_again(struct execution *execution)
{
	struct lease_event event = {.kind = LEASE_RECHECKED};
	char why[LEASE_ERROR_MAX] = "";

	event.seen = sandbox_observe(execution, why);
	actor_event(execution, event);
}

static void actor_do(struct execution *execution, unsigned todo)
{
	if (todo & LEASE_DO_ALERT) {
		log_event(LOG_ERROR, "alert", "alert", "lease_quarantined", "severity", "critical",
			  "execution", execution->id, "error", execution->lease.error, NULL);
		event_publish(EVENT_ALERT, "alert", "lease_quarantined", "severity", "critical",
			      "execution", execution->id, "error", execution->lease.error, NULL);
	}
	if (todo & LEASE_DO_STOP)
		actor_stop(execution);
	if (todo & LEASE_DO_LOOK) {
		actor_look_again(execution);
		actor_commit(execution);
	}
}

// The sandbox is to go, at once.
static unsigned actor_want_stop(struct execution *execution, const char *why)
{
	if (execution->lease.state == LEASE_NONE)
		return 0;
	actor_event(execution, (struct lease_event){.kind = LEASE_STOP,
						    .reason = LEASE_FOR_EXECUTION_ENDED,
						    .error = why});
	return actor_event(execution, (struct lease_event){.kind = LEASE_TIME});
}

// ------------------------------------------------------------------------ end of an attempt

static bool actor_is_late(const struct execution *execution)
{
	return execution->wall_at && clock_steady_ms() >= execution->wall_at;
}

static bool actor_may_retry(const struct execution *execution, const struct attempt_end *end)
{
	if (end->outcome != OUTCOME_INFRA || execution->attempt_count >= EXECUTION_TRIES_MAX)
		return false;
	if (actor_is_late(execution))
		return false;
	return execution->retry == RETRY_INFRA ||
	       (execution->retry == RETRY_NOT_STARTED && !execution->begun);
}

static void actor_set_end(struct execution *execution, const struct attempt_end *end)
{
	bool well = end->outcome == OUTCOME_COMPLETED;

	execution->state = well ? EXECUTION_COMPLETED : EXECUTION_FAILED;
	execution->outcome = end->outcome;
	execution->exit_code = end->exit_code;
	execution->signal = end->signal;
	execution->ended_ms = clock_steady_ms();
	snprintf(execution->reason, sizeof(execution->reason), "%s", end->reason);
	execution_note_state(execution, end->reason);
}

static void actor_drop_proc(struct execution *execution)
{
	if (execution->proc)
		proc_unref(take_ptr(execution->proc));
}

// Log and artifacts are kept before the sandbox goes. What cannot be kept does not hold up the end.
static bool actor_keep_results(struct execution *execution, struct arena *arena,
			       struct results_found *out)
{
	auto_err err = sandbox_collect(execution, arena, out);

	if (err)
		log_event(LOG_ERROR, "execution.results_lost", "execution", execution->id, "trail",
			  err_trail(err), NULL);
	return !err && execution->all->options.results;
}

// The end of an attempt and its results, in one commit.
static void actor_commit_end(struct execution *execution, const struct results_found *found)
{
	struct store_result_rows rows;
	struct execution_write write = {0};

	if (found) {
		rows = results_rows(found);
		write.results = &rows;
	}
	actor_write(execution, &write);
	if (found)
		sandbox_settle(execution, found, write.results != NULL);
}

static struct attempt_end actor_end(enum execution_outcome outcome, const char *reason)
{
	return (struct attempt_end){outcome, reason, -1, 0};
}

// A command that is killed, here or by a limit of its own, tells the next daemon nothing but its
// signal: why it is killed is durable before.
static void actor_intend(struct execution *execution, const struct attempt_end *end)
{
	bool is_told = end->outcome == OUTCOME_COMPLETED || end->outcome == OUTCOME_EXIT ||
		       end->outcome == OUTCOME_INFRA;

	if (execution->intent || !execution->proc || (is_told && proc_is_over(execution->proc)))
		return;
	execution->intent = end->outcome;
	snprintf(execution->intent_reason, sizeof(execution->intent_reason), "%s", end->reason);
	actor_commit(execution);
}

// What a completed command must have made, and has not; or nobody knows.
static void actor_judge_artifacts(const struct execution *execution, bool has_results,
				  struct attempt_end *end)
{
	const char *missing = execution->artifacts.missing;

	if (end->outcome != OUTCOME_COMPLETED || !execution->must_artifacts ||
	    !execution->all->options.results)
		return;
	if (!has_results)
		*end = actor_end(OUTCOME_INFRA, "results_lost");
	else if (missing && strcmp(missing, "[]") != 0)
		*end = (struct attempt_end){OUTCOME_ARTIFACTS, "artifacts_missing", end->exit_code,
					    0};
}

static void actor_finish(struct execution *execution, struct attempt_end end)
{
	struct execution_attempt *attempt = execution_attempt(execution);
	bool ran = execution->lease.state == LEASE_READY || execution->lease.state == LEASE_ACTIVE;
	auto_arena arena = arena_new();
	struct results_found found;
	bool has_results = false, again;
	unsigned todo;

	if (ran) {
		actor_intend(execution, &end);
		sandbox_quiet(execution);
		kill_point("daemon.execution", "quiet");
		sandbox_measure(execution);
		sandbox_sample(execution); // written with the end
		has_results = actor_keep_results(execution, arena, &found);
	}
	actor_judge_artifacts(execution, has_results, &end);
	if (attempt && !attempt->ended_ms) {
		attempt->ended_ms = clock_steady_ms();
		attempt->outcome = end.outcome;
	}
	execution->intent = OUTCOME_NONE;
	again = actor_may_retry(execution, &end);
	if (!again && end.outcome == OUTCOME_INFRA && execution->retry == RETRY_INFRA &&
	    actor_is_late(execution))
		end.outcome = OUTCOME_TIMEOUT; // what prevents the next attempt
	if (again) {
		execution->state = EXECUTION_INITIALIZING;
		execution->next_at = clock_steady_ms() +
				     timer_retry_ms(execution->attempt_count - 1);
		execution_note_state(execution, end.reason);
	} else {
		actor_set_end(execution, &end);
	}
	todo = actor_want_stop(execution, end.reason);
	actor_drop_proc(execution);
	queue_quit(execution);
	actor_commit_end(execution, has_results ? &found : NULL);
	log_event(LOG_INFO, again ? "execution.retry" : "execution.ended", "execution",
		  execution->id, "outcome", execution_outcome_word(end.outcome), "reason",
		  end.reason[0] ? end.reason : NULL, NULL);
	queue_started(execution);
	actor_do(execution, todo);
	if (!again && execution->lease.state == LEASE_NONE)
		execution_unlist(execution);
}

// A command that did not end well may have been ended with its sandbox, by a signal or by what the
// command made of one. Unknown is asked again: the command is judged by what is seen.
static bool actor_lost_sandbox(struct execution *execution, const struct exec_result *result)
{
	bool is_killed = result->ending == ENDING_KILLED_BY_API || result->signal;
	char why[LEASE_ERROR_MAX] = "";
	enum lease_seen seen;

	if (result->ending == ENDING_BOX_LOST || (is_killed && execution->all->draining))
		return true;
	if (!is_killed && result->exit_code == 0)
		return false;
	while ((seen = sandbox_observe(execution, why)) == LEASE_SEES_FAILED)
		err_free(task_sleep_until(loop_now(actor_loop(execution)) + AGAIN_MS));
	return seen == LEASE_SEES_NOTHING || seen == LEASE_SEES_OTHER;
}

// By the end of its command.
static struct attempt_end actor_judge(struct execution *execution)
{
	const struct exec_result *result = proc_look(execution->proc).result;
	struct attempt_end end = {OUTCOME_EXIT, "", -1, 0};

	if (!result)
		return actor_end(OUTCOME_INFRA, "command_lost");
	end.exit_code = result->exit_code;
	end.signal = result->signal;
	if (actor_lost_sandbox(execution, result))
		return actor_end(OUTCOME_INFRA, "sandbox_lost");
	switch (sandbox_met_oom(execution) ? ENDING_OOM : result->ending) {
	case ENDING_OOM:
		end.outcome = OUTCOME_MEMORY;
		return end;
	case ENDING_CPU_LIMIT:
		end.outcome = OUTCOME_CPU_TIME;
		return end;
	case ENDING_WALL_LIMIT:
		end.outcome = OUTCOME_TIMEOUT;
		return end;
	default:
		break;
	}
	if (result->ending == ENDING_EXITED && result->exit_code == 0)
		end.outcome = OUTCOME_COMPLETED;
	else if (sandbox_was_refused(execution))
		end.outcome = OUTCOME_NETWORK;
	else if (sandbox_is_full(execution))
		end.outcome = OUTCOME_STORAGE;
	return end;
}

// ------------------------------------------------------------------------------ commands

static fallible actor_ended(void)
{
	return err_new(CONFLICT, "ended", "the execution has ended");
}

static fallible command_cancel(struct execution *execution, const struct execution_command *command)
{
	(void)command;
	actor_finish(execution, actor_end(OUTCOME_CANCELLED, ""));
	return OK;
}

static fallible command_fail(struct execution *execution, const struct execution_command *command)
{
	char reason[EXECUTION_REASON_MAX];

	snprintf(reason, sizeof(reason), STR_FMT, STR_ARG(command->text));
	actor_finish(execution, actor_end(OUTCOME_REPORTED, reason));
	return OK;
}

static fallible actor_need_ready(const struct execution *execution)
{
	if (execution->state == EXECUTION_READY || execution->state == EXECUTION_RUNNING)
		return OK;
	return err_hint(err_new(CONFLICT, "not_ready", "the execution is not ready yet"),
			"GET …/wait?for=ready waits for it");
}

static fallible command_complete(struct execution *execution,
				 const struct execution_command *command)
{
	TRY(actor_need_ready(execution));
	if (execution->has_command)
		return err_hint(err_new(CONFLICT, "command_runs",
					"the execution ends with its own command"),
				"cancel it, or make one without a command");
	if (command->text.at) {
		free(execution->result);
		execution->result = mem_dup(command->text.at, command->text.len);
	}
	actor_finish(execution, actor_end(OUTCOME_COMPLETED, ""));
	return OK;
}

static fallible command_make_running(struct execution *execution,
				     const struct execution_command *command)
{
	(void)command;
	TRY(actor_need_ready(execution));
	if (execution->state == EXECUTION_RUNNING)
		return OK;
	actor_event(execution, (struct lease_event){.kind = LEASE_ACCEPTED});
	execution->state = EXECUTION_RUNNING;
	execution->begun = true;
	execution_note_state(execution, NULL);
	actor_commit(execution);
	return OK;
}

static void actor_answer(struct execution_command *command, struct err *err)
{
	command->err = err;
	command->done = true;
	condition_signal(&command->granted);
}

typedef fallible command_verb(struct execution *execution, const struct execution_command *command);

static bool actor_serve_command(struct execution *execution)
{
	static command_verb *const verbs[VERB_COUNT] = {
		[VERB_CANCEL] = command_cancel,
		[VERB_COMPLETE] = command_complete,
		[VERB_FAIL] = command_fail,
		[VERB_ENTER] = command_make_running,
	};
	struct execution_command *command;

	if (link_empty(&execution->commands) || execution->phase == EXECUTION_ADOPTING)
		return false;
	command = link_of(execution->commands.next, struct execution_command, link);
	link_drop(&command->link);
	actor_answer(command, execution_is_over(execution)
				      ? actor_ended()
				      : verbs[command->verb](execution, command));
	return true;
}

fallible actor_command(struct execution *execution, struct execution_command *command)
{
	if (!execution->actor)
		return execution->phase == EXECUTION_GONE
			       ? actor_ended()
			       : err_new(UNAVAILABLE, "starting",
					 "cove is starting and adopting its sandboxes");
	condition_init(&command->granted);
	link_add(&execution->commands, &command->link);
	condition_signal(&execution->wake);
	task_shield(true);
	while (!command->done)
		condition_await(&command->granted);
	task_shield(false);
	return command->err;
}

fallible execution_cancel(struct execution *execution)
{
	return actor_command(execution, &(struct execution_command){.verb = VERB_CANCEL});
}

fallible execution_complete(struct execution *execution, struct str result)
{
	return actor_command(execution,
			     &(struct execution_command){.verb = VERB_COMPLETE, .text = result});
}

fallible execution_fail(struct execution *execution, struct str reason)
{
	return actor_command(execution,
			     &(struct execution_command){.verb = VERB_FAIL, .text = reason});
}

fallible execution_enter(struct execution *execution)
{
	return actor_command(execution, &(struct execution_command){.verb = VERB_ENTER});
}

// ---------------------------------------------------------------------------- its image

static void pull_task(void *arg)
{
	struct execution *execution = arg;
	int64_t left = execution->queue_at - clock_steady_ms();

	execution->pull_err = sandbox_pull(execution, loop_now(actor_loop(execution)) + left);
	execution_set_pull(execution, PULL_ENDED);
	condition_signal(&execution->wake);
	execution_unref(execution);
}

static void actor_take_image(struct execution *execution)
{
	auto_err err = take_ptr(execution->pull_err);

	execution_set_pull(execution, err ? PULL_NONE : PULL_THERE);
	if (!err) {
		queue_dispatch(execution->all);
		return;
	}
	log_event(LOG_WARN, "execution.unready", "execution", execution->id, "trail",
		  err_trail(err), NULL);
	execution->retry = RETRY_NEVER; // the pull itself has tried again
	actor_finish(execution, actor_end(OUTCOME_INFRA, err_reason(err)));
}

// A pull may take longer than a start may: it comes before the first attempt.
static bool actor_pull(struct execution *execution)
{
	if (!execution->want.image || execution->pull == PULL_THERE ||
	    execution->phase != EXECUTION_LIVE || execution_is_over(execution) ||
	    execution->lease.state != LEASE_NONE || execution->all->draining ||
	    execution->pull == PULL_RUNNING)
		return false;
	if (execution->pull == PULL_ENDED) {
		actor_take_image(execution);
		return true;
	}
	execution_ref(execution);
	execution_set_pull(execution, PULL_RUNNING);
	task_start(actor_loop(execution), "execution.pull", pull_task, execution);
	return false;
}

// --------------------------------------------------------------------------------- launch

static void launch_task(void *arg)
{
	struct execution *execution = arg;

	task_shield(true);
	err_free(execution->launch_err);
	execution->launch_err = sandbox_launch(execution);
	execution_set_launch(execution, LAUNCH_ENDED);
	condition_signal(&execution->wake);
	condition_signal(&execution->changed);
	execution_unref(execution);
}

static void actor_launch(struct execution *execution)
{
	execution_ref(execution);
	execution_set_launch(execution, LAUNCH_PREPARING);
	task_start(actor_loop(execution), "execution.start", launch_task, execution);
}

// The next attempt, in memory: the caller commits before anything is made.
static void actor_allocate(struct execution *execution)
{
	struct execution_attempt *attempt = &execution->attempts[execution->attempt_count++];

	*attempt = (struct execution_attempt){.started_ms = clock_steady_ms()};
	ask_name_box(execution->all->options.manager->ask, attempt->box); // it may be prebuilt
	if (!execution->dispatched_ms)
		execution->dispatched_ms = attempt->started_ms;
	if (!execution->ready_ms)
		execution->provisioned_ms = attempt->started_ms;
	execution->next_at = 0;
	free(take_ptr(execution->last_output));
	execution->begun = false;
	if (execution->state != EXECUTION_INITIALIZING) {
		execution->state = EXECUTION_INITIALIZING;
		execution_note_state(execution, NULL);
	}
	actor_event(execution,
		    (struct lease_event){.kind = LEASE_WANTED, .seen = LEASE_SEES_NOTHING});
}

// The attempt is stored meanwhile: this prepares all that needs no order to the warden, and sets up
// the prebuilt sandbox.
void actor_prepare(struct execution *execution)
{
	if (!queue_take_slot(execution))
		return;
	actor_allocate(execution);
	actor_launch(execution);
}

static bool actor_begin_attempt(struct execution *execution)
{
	if (!execution_has_slot(execution) || execution->lease.state != LEASE_NONE ||
	    execution_is_over(execution) || execution_is_launching(execution) ||
	    execution->all->draining || clock_steady_ms() < execution->next_at ||
	    execution->attempt_count >= EXECUTION_TRIES_MAX)
		return false;
	actor_allocate(execution);
	actor_launch(execution);
	actor_commit(execution);
	execution_set_stored(execution);
	return true;
}

static void actor_start_command(struct execution *execution)
{
	auto_err err = sandbox_begin(execution);
	struct attempt_end end = {OUTCOME_EXIT, "", 126, 0};

	condition_signal(&execution->changed);
	if (!err)
		return;
	log_event(LOG_INFO, "execution.not_started", "execution", execution->id, "trail",
		  err_trail(err), NULL);
	end.reason = err_reason(err);
	if (!strcmp(end.reason, "command_not_found"))
		end.exit_code = 127;
	else if (err_kind(err) != ERR_FORBIDDEN && err_kind(err) != ERR_INVALID &&
		 err_kind(err) != ERR_NOT_FOUND)
		end = actor_end(OUTCOME_INFRA, err_reason(err));
	actor_finish(execution, end);
}

static void actor_become_ready(struct execution *execution)
{
	bool runs = execution->has_command;

	if (!execution->ready_ms) {
		execution->ready_ms = clock_steady_ms();
		execution->wall_at = execution->ready_ms + (int64_t)execution->limits.wall_time_ms;
	}
	actor_event(execution, (struct lease_event){.kind = LEASE_HEALTHY});
	execution->state = EXECUTION_READY;
	execution_note_state(execution, NULL);
	if (runs) {
		actor_event(execution, (struct lease_event){.kind = LEASE_ACCEPTED});
		execution->state = EXECUTION_RUNNING;
		execution->begun = true;
		execution_note_state(execution, NULL);
	}
	actor_commit(execution);
	queue_started(execution);
	if (runs)
		actor_start_command(execution);
}

// Capacity and parts of cove that are not ready: no failure of the attempt.
static bool actor_is_no_room(const struct err *err)
{
	static const char *const early[] = {"no_warden", "starting", "box_starting", "not_adopted",
					    "capacity_unknown"};

	if (err_kind(err) == ERR_EXHAUSTED || !strcmp(err_reason(err), "host_disk"))
		return true;
	for (size_t i = 0; i < sizeof(early) / sizeof(*early); i++)
		if (err_kind(err) == ERR_UNAVAILABLE && !strcmp(err_reason(err), early[i]))
			return true;
	return false;
}

// Back to the queue when the sandbox is gone; the attempt does not count.
static void actor_start_over(struct execution *execution, const char *why)
{
	unsigned todo;

	execution->requeue = true;
	todo = actor_want_stop(execution, why);
	actor_commit(execution);
	queue_started(execution);
	actor_do(execution, todo);
}

static void actor_launch_failed(struct execution *execution, const struct err *err)
{
	struct attempt_end end = actor_end(OUTCOME_INFRA, err_reason(err));
	enum err_kind kind = err_kind(err);

	log_event(LOG_WARN, "execution.unready", "execution", execution->id, "trail",
		  err_trail(err), NULL);
	if (actor_is_no_room(err)) {
		actor_start_over(execution, err_reason(err));
		return;
	}
	if (kind == ERR_NO_SPACE)
		end.outcome = OUTCOME_STORAGE;
	// What the request asks for does not exist any more, or was forbidden: no other try helps.
	if (kind == ERR_INVALID || kind == ERR_NOT_FOUND || kind == ERR_FORBIDDEN)
		execution->retry = RETRY_NEVER;
	actor_finish(execution, end);
}

static bool actor_take_launch(struct execution *execution)
{
	auto_err err = OK;

	if (execution->launch != LAUNCH_ENDED || execution->lease.state != LEASE_STARTING)
		return false;
	execution_set_launch(execution, LAUNCH_NONE);
	err = take_ptr(execution->launch_err);
	if (err)
		actor_launch_failed(execution, err);
	else
		actor_become_ready(execution);
	return true;
}

// ------------------------------------------------------------------------------ its command

static void watch_task(void *arg)
{
	struct execution *execution = arg;
	struct proc *proc = execution->proc;

	proc_ref(proc);
	err_free(proc_wait(proc, CLOCK_NEVER));
	proc_unref(proc);
	execution->watching = false;
	condition_signal(&execution->wake);
	execution_unref(execution);
}

static void actor_watch(struct execution *execution)
{
	if (execution->watching || proc_is_over(execution->proc))
		return;
	execution_ref(execution);
	execution->watching = true;
	task_start(actor_loop(execution), "execution.watch", watch_task, execution);
}

static bool actor_take_end(struct execution *execution)
{
	if (execution->lease.state != LEASE_ACTIVE || !execution->proc)
		return false;
	if (!proc_is_over(execution->proc)) {
		actor_watch(execution);
		return false;
	}
	actor_finish(execution, actor_judge(execution));
	return true;
}

// --------------------------------------------------------------------------------- limits

// A look comes no later than the sandbox can have used up its budget.
static void actor_plan_look(struct execution *execution)
{
	uint64_t limit = execution->limits.cpu_time_ms, used = execution->usage.cpu_ms;
	uint64_t cpus = execution->limits.cpu_milli ? execution->limits.cpu_milli : 1000;
	int64_t wait = limit > used ? (int64_t)((limit - used) * 1000 / cpus) : 0;

	if (wait < LOOK_MIN_MS)
		wait = LOOK_MIN_MS;
	if (wait > LOOK_MAX_MS)
		wait = LOOK_MAX_MS;
	execution->look_at = loop_now(actor_loop(execution)) + wait;
}

// A command that goes on after the kernel killed a part of it has exceeded its memory all the same.
static bool actor_look_memory(struct execution *execution)
{
	if ((execution->lease.state != LEASE_READY && execution->lease.state != LEASE_ACTIVE) ||
	    loop_now(actor_loop(execution)) < execution->memory_at)
		return false;
	execution->memory_at = loop_now(actor_loop(execution)) + LOOK_MEMORY_MS;
	if (!sandbox_met_oom(execution))
		return false;
	actor_finish(execution, actor_end(OUTCOME_MEMORY, ""));
	return true;
}

static bool actor_look(struct execution *execution)
{
	char why[LEASE_ERROR_MAX] = "";
	enum lease_seen seen;

	if (execution->lease.state != LEASE_READY && execution->lease.state != LEASE_ACTIVE)
		return false;
	if (!execution->look_at)
		actor_plan_look(execution);
	if (loop_now(actor_loop(execution)) < execution->look_at)
		return false;
	seen = sandbox_observe(execution, why);
	if (seen == LEASE_SEES_NOTHING || seen == LEASE_SEES_OTHER) {
		actor_finish(execution, actor_end(OUTCOME_INFRA, "sandbox_lost"));
		return true;
	}
	sandbox_measure(execution);
	actor_plan_look(execution);
	if (execution->limits.cpu_time_ms &&
	    execution->usage.cpu_ms >= execution->limits.cpu_time_ms &&
	    !(execution->proc && proc_is_over(execution->proc)))
		actor_finish(execution, actor_end(OUTCOME_CPU_TIME, ""));
	return true;
}

// The budget that was used up is told, though the wall time has passed, too: on a busy host the
// counters may not have been looked at between the two.
static struct attempt_end actor_wall_end(struct execution *execution)
{
	uint64_t limit = execution->limits.cpu_time_ms;
	bool runs = execution->lease.state == LEASE_READY || execution->lease.state == LEASE_ACTIVE;

	if (limit && runs)
		sandbox_measure(execution);
	return actor_end(limit && runs && execution->usage.cpu_ms >= limit ? OUTCOME_CPU_TIME
									   : OUTCOME_TIMEOUT,
			 "");
}

static bool actor_see_deadlines(struct execution *execution)
{
	int64_t now = clock_steady_ms(), due = lease_deadline(&execution->lease);
	bool waits = execution->lease.state == LEASE_NONE && !execution->attempt_count;
	unsigned todo;

	if (execution_is_over(execution) || !execution->wall_at || now < execution->wall_at) {
		// Its wall time goes on.
	} else {
		actor_finish(execution, actor_wall_end(execution));
		return true;
	}
	if (!execution_is_over(execution) && waits && execution->queue_at &&
	    now >= execution->queue_at) {
		actor_finish(execution, actor_end(OUTCOME_QUEUE_TIMEOUT, ""));
		return true;
	}
	if (!due || now < due)
		return false;
	if (execution->lease.state == LEASE_STARTING) {
		actor_finish(execution, actor_end(OUTCOME_INFRA, "startup-failed"));
		return true;
	}
	todo = actor_event(execution, (struct lease_event){.kind = LEASE_TIME});
	actor_commit(execution);
	actor_do(execution, todo);
	return true;
}

// ------------------------------------------------------------------------ the sandbox is gone

static void actor_requeue(struct execution *execution)
{
	execution->requeue = false;
	execution->attempt_count--;
	execution->state = EXECUTION_QUEUED;
	execution->next_at = clock_steady_ms() + AGAIN_MS;
	execution_note_state(execution, execution->wait_reason);
}

// How long it took is told before it is durable: state and result have been for long.
static void actor_tell_gone(struct execution *execution)
{
	auto_buf record = BUF_INIT(4u << 20);
	struct json_out out = json_to(&record);

	execution->gone_ms = clock_steady_ms();
	execution_write(&out, execution);
	if (buf_ok(&record))
		execution_show(execution, &record);
	condition_signal(&execution->changed);
}

static bool actor_take_stopped(struct execution *execution)
{
	struct lease_event event = {
		.kind = LEASE_STOPPED,
		.seen = execution->stopped.seen,
		.error = execution->stopped.error,
	};
	char attempt[LEASE_ATTEMPT_LEN + 1];
	bool requeued, is_gone;
	unsigned todo;

	if (!execution->stopped.attempt[0])
		return false;
	memcpy(attempt, execution->stopped.attempt, sizeof(attempt));
	execution->stopped.attempt[0] = '\0';
	event.attempt = attempt;
	todo = actor_event(execution, event);
	is_gone = execution->lease.state == LEASE_NONE && execution_is_over(execution);
	requeued = execution->lease.state == LEASE_NONE && execution->requeue;
	if (requeued)
		actor_requeue(execution);
	if (is_gone)
		actor_tell_gone(execution);
	actor_write(execution, &(struct execution_write){.soon = is_gone});
	actor_do(execution, todo);
	if (requeued) {
		queue_give_back(execution);
		queue_join(execution);
	}
	if (is_gone)
		execution_unlist(execution);
	return true;
}

// --------------------------------------------------------------------- after a restart

static void actor_hold_slot(struct execution *execution)
{
	if (execution_has_slot(execution))
		return;
	execution_set_slot(execution, SLOT_HELD);
	execution->all->slots++;
}

// The stop attempt of an earlier daemon has ended with it: what is seen now is its result.
static void actor_adopt_stop(struct execution *execution)
{
	char why[LEASE_ERROR_MAX] = "";

	if (execution->lease.state != LEASE_STOPPING)
		return;
	execution->stopped.seen = sandbox_observe(execution, why);
	snprintf(execution->stopped.error, sizeof(execution->stopped.error), "%s", why);
	memcpy(execution->stopped.attempt, execution->lease.attempt,
	       sizeof(execution->stopped.attempt));
}

// Finds the command of a sandbox that is there. While it is unknown, nothing is begun or ended: the
// command may run, and a second one must not.
static bool actor_find_command(struct execution *execution)
{
	auto_err err = OK;

	if (execution->lease.state != LEASE_READY && execution->lease.state != LEASE_ACTIVE)
		return true;
	err = sandbox_find_proc(execution, &execution->proc);
	if (err)
		log_event(LOG_INFO, "execution.not_adopted", "execution", execution->id, "trail",
			  err_trail(err), NULL);
	return !err;
}

static void actor_adopt_command(struct execution *execution)
{
	if (execution->lease.state != LEASE_ACTIVE || !execution->has_command)
		actor_drop_proc(execution); // a client's own
	else if (!execution->proc)	    // committed, and not begun
		actor_start_command(execution);
}

static bool actor_adopt(struct execution *execution)
{
	char why[LEASE_ERROR_MAX] = "";
	enum lease_seen seen;

	if (execution->phase != EXECUTION_ADOPTING)
		return false;
	if (execution->lease.state == LEASE_NONE || lease_is_fenced(&execution->lease)) {
		execution->phase = EXECUTION_LIVE;
		actor_adopt_stop(execution);
		if (!execution_is_over(execution))
			queue_join(execution);
		return true;
	}
	seen = sandbox_observe(execution, why);
	if (seen == LEASE_SEES_FAILED ||
	    (seen == LEASE_SEES_MATCH && !actor_find_command(execution))) {
		err_free(task_sleep_until(loop_now(actor_loop(execution)) + AGAIN_MS));
		return true;
	}
	execution->phase = EXECUTION_LIVE;
	actor_hold_slot(execution);
	if (execution->lease.state == LEASE_STARTING && seen == LEASE_SEES_OTHER) {
		actor_start_over(execution,
				 "sandbox_lost"); // the daemon's fault, not the attempt's
	} else if (execution->lease.state == LEASE_STARTING) {
		execution->lease.deadline_ms = clock_steady_ms() + timer_ms(TIMER_EXECUTION_START);
		actor_launch(execution); // again from its first step
		execution_set_stored(execution);
	} else if (execution->intent) {
		actor_finish(execution, actor_end(execution->intent, execution->intent_reason));
	} else if (seen != LEASE_SEES_MATCH) {
		actor_finish(execution, actor_end(OUTCOME_INFRA, "sandbox_lost"));
	} else {
		actor_adopt_command(execution);
	}
	condition_signal(&execution->changed);
	return true;
}

// --------------------------------------------------------------------------------- the task

typedef bool actor_item(struct execution *execution);

// In this order: the first that is due is done. Evidence comes before deadlines.
static actor_item *const actor_items[] = {
	actor_adopt,	actor_take_stopped,  actor_serve_command, actor_take_launch,
	actor_take_end, actor_see_deadlines, actor_look_memory,	  actor_look,
	actor_pull,	actor_begin_attempt,
};

static bool actor_turn(struct execution *execution)
{
	for (size_t i = 0; i < sizeof(actor_items) / sizeof(*actor_items); i++) {
		if (execution->phase == EXECUTION_GONE)
			return true;
		if (actor_items[i](execution))
			return true;
	}
	return false;
}

static void actor_sooner(int64_t *until, int64_t at)
{
	if (at && at < *until)
		*until = at;
}

static int64_t actor_wake_at(const struct execution *execution)
{
	int64_t now = loop_now(actor_loop(execution)), steady = CLOCK_NEVER, until;
	bool is_over = execution_is_over(execution);

	actor_sooner(&steady, lease_deadline(&execution->lease));
	if (!is_over)
		actor_sooner(&steady, execution->wall_at);
	if (!is_over && !execution->attempt_count)
		actor_sooner(&steady, execution->queue_at);
	if (!is_over && execution->lease.state == LEASE_NONE && execution_has_slot(execution))
		actor_sooner(&steady, execution->next_at);
	until = steady == CLOCK_NEVER ? CLOCK_NEVER : now + steady - clock_steady_ms();
	if (execution->lease.state == LEASE_READY || execution->lease.state == LEASE_ACTIVE) {
		actor_sooner(&until, execution->look_at);
		actor_sooner(&until, execution->memory_at);
	}
	return until > now ? until : now + 1;
}

static void execution_actor(void *arg)
{
	struct execution *execution = arg;

	task_shield(true);
	if (execution->phase == EXECUTION_LIVE && execution->lease.state == LEASE_NONE)
		queue_join(execution);
	while (execution->phase != EXECUTION_GONE) {
		if (actor_turn(execution))
			continue;
		if (link_empty(&execution->commands) && !execution->stopped.attempt[0])
			err_free(condition_wait(&execution->wake, actor_wake_at(execution)));
	}
	execution->actor = NULL;
	while (!link_empty(&execution->commands)) {
		struct execution_command *command = link_of(execution->commands.next,
							    struct execution_command, link);

		link_drop(&command->link);
		actor_answer(command, actor_ended());
	}
	execution_unref(execution);
}

void actor_begin(struct execution *execution)
{
	if (execution->actor)
		return; // it was made before executions_start()
	execution_ref(execution);
	execution->actor = task_start(actor_loop(execution), "execution", execution_actor,
				      execution);
}
