// Client requests: show and list sessions, run, interrupt, answer, enter, delete. A request that
// changes a session queues a command for its actor and waits; only a new run is committed here,
// since the actor decides nothing by it.
#include <stdlib.h>

#include "agent/admission.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/publish.h"
#include "types/timers.h"

// ------------------------------------------------------------------------------- shown

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static void write_lease(struct json_out *out, const struct lease *lease)
{
	json_begin(out, '{');
	json_put_text(out, "state", lease_state_word(lease->state));
	json_put_text(out, "instance_id", or_null(lease->instance));
	runs_put_number(out, "generation", (int64_t)lease->generation);
	runs_put_number(out, "deadline_at", lease_deadline(lease));
	json_put_text(out, "reason", or_null(lease_reason_word(lease->reason)));
	json_put_int(out, "attempts", lease->attempts);
	json_put_text(out, "attempt_id", or_null(lease->attempt));
	json_put_text(out, "last_error", or_null(lease->error));
	runs_put_number(out, "pid", lease->place.pid);
	json_key(out, "cgroup");
	if (lease->place.exec_cgroup)
		json_add_int(out, lease->place.exec_cgroup - 1);
	else
		json_add_null(out);
	json_end(out, '}');
}

void agent_write(struct json_out *out, const struct agent_session *agent, const struct who *who)
{
	json_begin(out, '{');
	json_put_text(out, "id", agent_name(agent, who));
	if (agent->tenant[0])
		json_put_text(out, "tenant", agent->tenant);
	json_put_text(out, "status", agent->deletion ? "deleting" : "live");
	json_put_text(out, "org", agent->org);
	json_put_text(out, "user", agent->user);
	json_put_text(out, "bot", agent->bot);
	json_put_text(out, "sandbox", agent->sandbox);
	json_put_text(out, "sandbox_id", agent->box);
	json_put_text(out, "isolation", agent->route.kind == OWNER_SES ? "session" : "shared");
	json_put_text(out, "class", owner_class_word(agent->class));
	json_put_text(out, "directory", agent->directory);
	json_key(out, "aliases");
	json_begin(out, '[');
	for (size_t i = 0; i < agent->alias_count; i++)
		json_add_text(out, agent->aliases[i]);
	json_end(out, ']');
	choices_put(out, &agent->choices, true);
	json_put_int(out, "created_at", agent->created_ms);
	json_put_int(out, "used_at", agent->used_ms);
	json_key(out, "lease");
	write_lease(out, &agent->lease);
	json_key(out, "runs");
	json_begin(out, '[');
	list_each (at, &agent->runs)
		json_add_text(out, link_of(at, struct run, link)->id);
	json_end(out, ']');
	json_end(out, '}');
}

void agents_write_page(struct agent_sessions *agents, const struct who *who, struct str after,
		       size_t max, struct json_out *out)
{
	struct agent_session *start = after.len ? agents_named(agents, who, after) : NULL;
	bool begun = !after.len;

	// A session that the caller may not see is absent.
	if (start && !access_sees(who, start->tenant, ""))
		start = NULL;
	size_t count = 0;
	const char *last = NULL;

	json_begin(out, '{');
	json_key(out, "items");
	json_begin(out, '[');
	list_each (at, &agents->all) {
		struct agent_session *agent = link_of(at, struct agent_session, link);

		if (begun && agent_is_durable(agent) && !agent->lone &&
		    access_sees(who, agent->tenant, "")) {
			if (count++ == max) {
				json_end(out, ']');
				json_put_text(out, "cursor", last);
				json_end(out, '}');
				return;
			}
			last = agent_name(agent, who);
			agent_write(out, agent, who);
		}
		begun |= agent == start;
	}
	json_end(out, ']');
	json_put_text(out, "cursor", NULL);
	json_end(out, '}');
}

size_t agents_owned(const struct agent_sessions *agents, const char *tenant)
{
	size_t count = 0;

	list_each (at, &agents->all)
		count += strcmp(link_of(at, struct agent_session, link)->tenant, tenant) == 0;
	return count;
}

struct agents_view agents_look(const struct agent_sessions *agents)
{
	struct agents_view view = {
		.attempts = agents->attempts,
		.rejected = agents->rejected,
		.cleaned = agents->cleaned,
		.skipped = agents->skipped,
	};
	int64_t now = agents_now(agents);

	list_each (at, &agents->all) {
		const struct agent_session *agent = link_of(at, struct agent_session, link);
		const struct lease *lease = &agent->lease;
		bool runs = agent_running(agent) != NULL;

		view.leases[lease->state]++;
		view.unreadable += lease->reason == LEASE_FOR_RECORD_UNREADABLE;
		view.late += agent->loss == LOSS_LATE;
		view.stuck += agent->loss == LOSS_STUCK;
		view.running += runs;
		view.queued += agent->run_count - runs;
		if (lease->state != LEASE_STOP_NEEDED)
			continue;
		view.overdue += now - lease->requested_ms >= timer_ms(TIMER_ORPHAN);
		if (now - lease->requested_ms > view.oldest_stop_ms)
			view.oldest_stop_ms = now - lease->requested_ms;
	}
	return view;
}

// Reports to the janitor. Nothing is ended here: leases end runners by their own deadlines.
fallible agents_sweep(void *arg, struct sweep_round *round)
{
	struct agent_sessions *agents = arg;
	int64_t due = agents_now(agents) - timer_ms(TIMER_ORPHAN);
	bool overdue = false;

	list_each (at, &agents->all) {
		const struct lease *lease = &link_of(at, struct agent_session, link)->lease;

		overdue |= lease->state == LEASE_STOP_NEEDED && lease->requested_ms <= due;
	}
	round->scanned += agents->count;
	round->orphans_found += agents->orphans;
	round->orphans_terminated += agents->orphans_ended;
	round->stuck_terminated += agents->stuck_ended;
	agents->orphans = agents->orphans_ended = agents->stuck_ended = 0;
	if (overdue)
		alert_publish("stop_overdue", "warning", "session", NULL, OK);
	else
		alert_clear("stop_overdue", "session", NULL);
	return OK;
}

// -------------------------------------------------------------------------------- verbs

fallible agent_run(struct agent_session *agent, const struct who *who,
		   const struct agent_run_spec *spec, struct json_out *out)
{
	struct run *run;
	struct err *err;

	if (agent->agents->closing || agent->agents->draining)
		return agent_draining();
	if (agent->run_count >= AGENT_QUEUE_MAX)
		return err_hint(err_new(EXHAUSTED, "too_many_runs", "%d runs are already queued",
					AGENT_QUEUE_MAX),
				"wait for some of them to end");
	if (agent->share->bytes + spec->input.len > agent->agents->input_share)
		return err_hint(err_new(EXHAUSTED, "too_much_input",
					"the queued runs already have too much input"),
				"wait for some of them to end");
	if (!agent->prepared && agent->lease.state == LEASE_NONE)
		TRY(admission_ask(agent));
	run = runs_new(agent, spec);
	agent->used_ms = agents_now(agent->agents);
	err = persist_agent_run(run);
	if (!err && agent->deletion)
		err = agent_absent(str_of(agent->id));
	if (err) {
		runs_free(run);
		return err;
	}
	runs_list(run);
	runs_log_state(run);
	agent->recheck = true;
	runs_write(out, run, who);
	condition_signal(&agent->wake);
	return OK;
}

fallible agent_interrupt(struct agent_session *agent)
{
	struct command command = {.kind = COMMAND_INTERRUPT};

	return actor_ask(agent, &command);
}

fallible agent_answer(struct agent_session *agent, struct str question, struct str answer)
{
	struct command command = {.kind = COMMAND_ANSWER, .question = question, .answer = answer};

	return actor_ask(agent, &command);
}

#define ENTER_WAIT_MS 30000

fallible agent_enter(struct agent_session *agent)
{
	int64_t until = loop_now(agent->agents->loop) + ENTER_WAIT_MS;

	for (;;) {
		struct command command = {.kind = COMMAND_ENTER};
		auto_err err = actor_ask(agent, &command);

		if (!err || strcmp(err_reason(err), "runner_stopping") != 0)
			return take_ptr(err);
		auto_err late = condition_wait(&agent->changed, until);
		if (late)
			return err_kind(late) == ERR_TIMEOUT ? take_ptr(err) : take_ptr(late);
	}
}

#define DELETE_WAIT_MS 2000

fallible agent_delete(struct agent_session *agent, bool *out_gone)
{
	struct command command = {.kind = COMMAND_DELETE};
	int64_t until = loop_now(agent->agents->loop) + DELETE_WAIT_MS;

	TRY(actor_ask(agent, &command));
	while (agent_is_listed(agent)) {
		auto_err err = condition_wait(&agent->changed, until);

		if (err)
			break;
	}
	*out_gone = !agent_is_listed(agent);
	return OK;
}

void agent_write_logs(struct agent_session *agent, const struct who *who, struct json_out *out)
{
	const struct backend *backend = agent->agents->backend;
	struct backend_site local = agent_local(agent);

	json_begin(out, '{');
	json_put_text(out, "session", agent_name(agent, who));
	backend->logs(backend->arg, &local, &agent->lease, out);
	json_end(out, '}');
}
