// Loads sessions with their leases and open runs from the store, and starts, maintains and stops
// all agent sessions. Unreadable is never treated as absent: an unreadable lease is quarantined, a
// lease without a session is kept until its runner is gone.
#include <stdio.h>
#include <stdlib.h>

#include "agent/admission.h"
#include "agent/fallback_box.h"
#include "agent/faults.h"
#include "agent/logs.h"
#include "agent/persist.h"
#include "agent/private.h"
#include "agent/runs.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "types/event.h"
#include "types/timers.h"

#define SETTLE_MS 50

static void alert(const struct agent_session *agent, const char *what)
{
	agent->agents->alerts++;
	log_event(LOG_ERROR, "alert", "alert", what, "severity", "critical", "session", agent->id,
		  "sandbox", agent->box, NULL);
	event_publish(EVENT_ALERT, "alert", what, "severity", "critical", "session", agent->id,
		      "sandbox", agent->box, NULL);
}

// The stored sandbox id. A record of an older version has none: it is derived from the owner, and
// then stored.
static bool load_place(struct agent_session *agent, const char *box)
{
	enum owner_kind kind;

	if (!box[0]) {
		struct owner owner = {str_of(agent->org), str_of(agent->user), str_of(agent->bot),
				      str_of(agent->key)};

		owner_derive(&owner, agent->route.kind == OWNER_SES, str_of(agent->route.tag),
			     &agent->route);
		agent->sandbox = mem_str(agent->route.id);
		memcpy(agent->box, agent->route.id, sizeof(agent->box));
		owner_class_of(str_of(agent->box), &agent->class);
		return true;
	}
	agent->sandbox = mem_str(box);
	if (owner_is_id(str_of(box), &kind)) {
		memcpy(agent->box, box, sizeof(agent->box));
		memcpy(agent->route.id, box, sizeof(agent->route.id));
	} else {
		owner_legacy_id(str_of(box), agent->box);
		agent->route.kind = OWNER_LEGACY;
	}
	if (!owner_class_of(str_of(box), &agent->class))
		log_event(LOG_ERROR, "agent_session.bad_sandbox", "session", agent->id, NULL);
	return false;
}

static void load_name(struct agent_session *agent, const struct store_agent *row)
{
	snprintf(agent->tenant, sizeof(agent->tenant), "%s", row->tenant);
	agent->key = mem_str(row->id);
	agent->id = mem_str(agent_id_of(agent->tenant, agent->key));
}

static fallible load_sessions(struct agent_sessions *agents)
{
	auto_arena arena = arena_new();
	struct store_agent *rows = NULL;
	size_t count = 0;

	TRY(store_agent_load(agents->store, STORE_SESSION, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct agent_session *agent = agent_new(agents);
		bool whole = persist_agent_read_session(&rows[i], agent);

		load_name(agent, &rows[i]);
		agent->version = rows[i].version;
		agent->lone = !whole; // never launch a runner for an unreadable record
		if (!whole)
			owner_directory(str_of(agent->key), agent->directory);
		agent->derived = load_place(agent, rows[i].box);
		// A missing lease row is not "no lease": the previous state is unknown.
		agent->lease.next_generation = (uint64_t)agents_now(agents);
		if (agent_list(agent, AGENT_LOADED))
			logs_open(agent);
		if (!whole)
			alert(agent, "session_unreadable");
	}
	return OK;
}

static struct agent_session *orphan(struct agent_sessions *agents, const struct store_agent *row,
				    const char *what)
{
	struct agent_session *agent = agent_new(agents);

	load_name(agent, row);
	agent->lone = true;
	agent_move(agent, AGENT_DELETE);
	agent->route.kind = OWNER_LEGACY; // its sandbox is never destroyed for it
	owner_directory(str_of(agent->key), agent->directory);
	load_place(agent, row->box);
	if (agent_list(agent, AGENT_LOADED))
		logs_open(agent);
	alert(agent, what);
	return agent;
}

static fallible load_leases(struct agent_sessions *agents)
{
	auto_arena arena = arena_new();
	struct store_agent *rows = NULL;
	size_t count = 0;

	TRY(store_agent_load(agents->store, STORE_LEASE, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct agent_session *agent = map_get(agents->by_key, str_of(rows[i].id));
		struct lease_event event = {
			.kind = LEASE_UNREADABLE,
			.now_ms = agents_now(agents),
			.error = "the stored lease does not parse",
		};

		if (!agent)
			agent = orphan(agents, &rows[i], "lease_without_session");
		agent->lease_version = rows[i].version;
		if (persist_agent_read_lease(&rows[i], &agent->lease)) {
			lease_clamp(&agent->lease, event.now_ms);
		} else {
			lease_handle(&agent->lease, &event, &agent->lease);
			alert(agent, "lease_unreadable");
		}
	}
	return OK;
}

static fallible load_runs(struct agent_sessions *agents)
{
	auto_arena arena = arena_new();
	struct store_agent *rows = NULL;
	size_t count = 0;

	TRY(store_agent_load(agents->store, STORE_RUN, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct agent_session *agent = map_get(agents->by_key, str_of(rows[i].session));
		struct run *run;

		if (!agent || strcmp(rows[i].state, runs_state_word(RUN_COMPLETED)) == 0 ||
		    strcmp(rows[i].state, runs_state_word(RUN_FAILED)) == 0 ||
		    strcmp(rows[i].state, runs_state_word(RUN_INTERRUPTED)) == 0)
			continue;
		run = mem_new_of(struct run);
		run->agent = agent;
		run->log_state = RUN_LOG_CLOSED;
		if (persist_agent_read_run(&rows[i], run) && !runs_is_over(run)) {
			runs_weigh(run);
			runs_list(run);
		} else {
			log_event(LOG_ERROR, "run.unreadable", "session", agent->id, "run",
				  rows[i].id, NULL);
			runs_free(run);
		}
	}
	return OK;
}

static int by_age(const void *a, const void *b)
{
	const struct run *one = *(struct run *const *)a, *two = *(struct run *const *)b;

	if (one->state != two->state) // the running one first
		return one->state > two->state ? -1 : 1;
	return one->created_ms < two->created_ms ? -1 : one->created_ms > two->created_ms;
}

// Rows are sorted by id, runs by age.
static void sort_runs(struct agent_session *agent)
{
	auto_free struct run **all = mem_new((agent->run_count + 1) * sizeof(void *));
	size_t count = 0;

	list_each (at, &agent->runs)
		all[count++] = link_of(at, struct run, link);
	qsort(all, count, sizeof(void *), by_age);
	for (size_t i = 0; i < count; i++) {
		link_drop(&all[i]->link);
		link_add(&agent->runs, &all[i]->link);
	}
}

static fallible load_load(struct agent_sessions *agents)
{
	TRY(fallback_load(agents), "load routes");
	TRY(load_sessions(agents), "load sessions");
	TRY(load_leases(agents), "load leases");
	TRY(load_runs(agents), "load runs");
	list_each (at, &agents->all)
		sort_runs(link_of(at, struct agent_session, link));
	return OK;
}

void agents_configure(struct agent_sessions *agents, const struct agents_options *options)
{
	free(agents->isolate);
	free(agents->tag);
	agents->isolate = mem_str(options->isolate ? options->isolate : "");
	agents->tag = mem_str(options->tag ? options->tag : "");
	agents->threshold = options->threshold ? options->threshold : ADMISSION_THRESHOLD;
	agents->input_share = options->input_share ? options->input_share : AGENT_INPUT_SHARE;
	memcpy(agents->class_max, options->class_max, sizeof(agents->class_max));
}

fallible agents_open(const struct agents_options *options, struct agent_sessions **out)
{
	struct agent_sessions *agents = mem_new_of(struct agent_sessions);
	struct err *err;

	agents->loop = options->loop;
	agents->store = options->store;
	agents->backend = options->backend;
	agents->dir = options->dir;
	agents->output_of = options->output_of;
	agents->output_arg = options->output_arg;
	agents_configure(agents, options);
	agents->by_key = map_new();
	agents->by_alias = map_new();
	agents->shares = map_new();
	link_init(&agents->all);
	condition_init(&agents->admitted);
	condition_init(&agents->idle);
	agents->wall_base = clock_steady_ms();
	agents->mono_base = clock_ms();
	// Connection numbers are never reused, not even by the next daemon.
	agents->connections = (uint64_t)agents->wall_base;
	err = load_load(agents);
	if (err) {
		agents_free(agents);
		return err;
	}
	*out = agents;
	return OK;
}

// ----------------------------------------------------------------------------- maintenance

static bool is_forgotten(const struct agent_session *agent)
{
	int64_t age = agents_now(agent->agents) - agent->used_ms;

	return agent_is_durable(agent) && !agent->deletion && !agent->run_count &&
	       age >= timer_ms(TIMER_RETENTION);
}

static void load_pass(struct agent_sessions *agents)
{
	list_each (at, &agents->all) {
		struct agent_session *agent = link_of(at, struct agent_session, link);
		struct command command = {.kind = COMMAND_DELETE};

		if (!is_forgotten(agent) || !agent->actor)
			continue;
		log_event(LOG_INFO, "agent_session.expired", "session", agent->id, NULL);
		agent_ref(agent);
		err_free(actor_ask(agent, &command));
		agent_unref(agent);
		return; // the list may have changed: the rest is for the next pass
	}
}

static bool load_is_busy(const struct agent_sessions *agents)
{
	list_each (at, &agents->all)
		if (link_of(at, struct agent_session, link)->lease.state != LEASE_NONE)
			return true;
	return false;
}

static int64_t pause_ms(const struct agent_sessions *agents)
{
	int64_t pause = timer_ms(load_is_busy(agents) ? TIMER_MAINTAIN_BUSY : TIMER_MAINTAIN_IDLE);
	int64_t retention = timer_ms(TIMER_RETENTION) / 4;

	if (retention < pause)
		pause = retention;
	return pause > timer_ms(TIMER_MAINTAIN_LEAST) ? pause : timer_ms(TIMER_MAINTAIN_LEAST);
}

static void maintain(void *arg)
{
	struct agent_sessions *agents = arg;

	while (!agents->closing) {
		auto_err err = task_sleep_until(loop_now(agents->loop) + pause_ms(agents));

		if (err)
			break;
		load_pass(agents);
	}
	agents->maintainer = NULL;
	agents_end(agents);
}

// Stores the derived sandbox id.
static void keep_derived(struct agent_session *agent)
{
	auto_err err = OK;

	if (!agent->derived)
		return;
	err = persist_agent_commit(agent, &(struct persist_agent_change){.session = true});
	agent->derived = err != NULL;
}

// A runner without any record gets a lease, which finds it and has it stopped.
static void load_take_in(const struct backend_site *at, void *of)
{
	struct agent_sessions *agents = of;
	char key[AGENT_KEY_MAX + 1];
	struct store_agent row = {.id = key, .tenant = at->tenant, .box = at->sandbox};
	struct agent_session *agent;

	auto_err err = owner_check_part(str_of(at->session), "session");

	if (err || agents->closing || !agent_key(at->tenant, str_of(at->session), key) ||
	    map_get(agents->by_key, str_of(key)))
		return;
	agent = orphan(agents, &row, "runner_without_lease");
	agent->lease.next_generation = (uint64_t)agents_now(agents);
	actor_start(agent);
}

static void take_in_leaked_all(struct agent_sessions *agents)
{
	const struct backend *backend = agents->backend;

	while (backend->sessions && !agents->closing) {
		auto_err err = backend->sessions(backend->arg, load_take_in, agents);

		if (!err)
			return;
		err_free(task_sleep_until(loop_now(agents->loop) + SETTLE_MS));
	}
}

static void load_begin(void *arg)
{
	struct agent_sessions *agents = arg;

	task_shield(true);
	logs_count(agents);
	list_each (at, &agents->all)
		keep_derived(link_of(at, struct agent_session, link));
	list_each (at, &agents->all) {
		struct agent_session *agent = link_of(at, struct agent_session, link);

		if (agent_is_durable(agent) && !agent->actor)
			actor_start(agent);
	}
	take_in_leaked_all(agents);
	agents_end(agents);
}

void agents_start(struct agent_sessions *agents)
{
	agents_begin(agents);
	agents_begin(agents);
	task_start(agents->loop, "agents.start", load_begin, agents);
	agents->maintainer = task_start(agents->loop, "agents.maintain", maintain, agents);
}

void agents_stop(struct agent_sessions *agents)
{
	agents->closing = true;
	faults_clear(); // release hanging tasks at shutdown
	if (agents->maintainer)
		task_cancel(agents->maintainer);
	list_each (at, &agents->all)
		condition_signal(&link_of(at, struct agent_session, link)->wake);
	while (agents->tasks)
		err_free(condition_wait(&agents->idle, CLOCK_NEVER));
}

void agents_free(struct agent_sessions *agents)
{
	struct str name;
	void *share;

	if (!agents)
		return;
	agents->closing = true;
	list_each (at, &agents->all)
		agent_unlist(link_of(at, struct agent_session, link));
	fallback_free(agents);
	map_free(agents->by_key);
	map_free(agents->by_alias);
	for (size_t at = 0; map_next(agents->shares, &at, &name, &share);)
		free(share);
	map_free(agents->shares);
	free(agents->isolate);
	free(agents->tag);
	free(agents);
}

fallible agents_drain(struct agent_sessions *agents, int64_t deadline)
{
	agents->draining = true;
	for (;;) {
		size_t left = 0;

		list_each (at, &agents->all) {
			struct agent_session *agent = link_of(at, struct agent_session, link);
			struct command command = {.kind = COMMAND_STOP, .reason = LEASE_FOR_DRAIN};

			if (agent->lease.state == LEASE_NONE ||
			    agent->lease.state == LEASE_QUARANTINED)
				continue;
			left++;
			if (lease_is_owned(&agent->lease) && agent->actor) {
				agent_ref(agent);
				err_free(actor_ask(agent, &command));
				agent_unref(agent);
				break; // the list may have changed
			}
		}
		if (!left)
			return OK;
		if (loop_now(agents->loop) >= deadline)
			return err_new(TIMEOUT, "runners_left", "%zu runners did not end", left);
		TRY(task_sleep_until(loop_now(agents->loop) + 20));
	}
}
