// Fixture of agent sessions: a real store in memory, real timers scaled by 600, and a test double
// of the backend. A restart opens new agent sessions on the same store and the same double.
#pragma once

#include <fcntl.h>

#include "double.h"

#define SCALE 600 // 5 min are 500 ms, 10 s are 16 ms

static struct who me = WHO_COVE;
static struct store *store;
static struct agent_sessions *agents;
static char place[] = "/tmp/agent-test-XXXXXX";
static int dir = -1;

static struct tape_quota stage_quota;

static struct tape_quota *stage_output(void *arg, const char *tenant)
{
	(void)tenant;
	return arg;
}

static void open_agents(void)
{
	struct agents_options options = {
		.loop = inside_loop,
		.store = store,
		.backend = &backend_double,
		.dir = dir,
		.isolate = "acme",
		.output_of = stage_output,
		.output_arg = &stage_quota,
	};
	auto_err err = agents_open(&options, &agents);

	if (err) {
		printf("# %s\n", err_trail(err));
		abort();
	}
	agents_start(agents);
}

static void setup(void)
{
	memset(&machine, 0, sizeof(machine));
	machine.loop = inside_loop;
	machine.host_free = 1ull << 40;
	timers_scale(SCALE);
	if (dir < 0 && (!mkdtemp(place) || (dir = open(place, O_RDONLY | O_DIRECTORY)) < 0))
		abort();
	faults_open(inside_loop);
	if (offload_open(inside_loop, 2) ||
	    store_open(&(struct store_options){.loop = inside_loop, .dir = -1}, &store))
		abort();
	open_agents();
}

__attribute__((unused)) static void restart(void)
{
	agents_stop(agents);
	agents_free(agents);
	open_agents();
}

static void teardown(void)
{
	faults_clear();
	machine.immortal = machine.blind = false;
	agents_stop(agents);
	agents_free(agents);
	for (int i = 0; i < FAKES_MAX; i++) {
		struct fake *fake = &machine.fakes[i];

		if (!fake->used)
			continue;
		fake_kill(fake);
		close(fake->kept);
	}
	inside_sleep(20);
	store_close(store);
	offload_close();
}

static struct agent_session *make(const char *session)
{
	static const char *argv[] = {"/runner", NULL};
	struct agent_spec spec = {
		.owner = {.user = STR("u"), .session = str_of(session)},
		.argv = argv,
	};
	struct agent_session *agent = NULL;
	bool made;
	auto_err err = agents_create(agents, &(struct create_grant){.who = &me}, &spec, &agent,
				     &made);

	if (err)
		printf("# %s\n", err_trail(err));
	return agent;
}

static char run_id[LEASE_RUN_LEN + 1];

static bool start_run(struct agent_session *agent, const char *input)
{
	auto_buf buf = BUF_INIT(1 << 16);
	struct json_out out = json_to(&buf);
	auto_free char *text = mem_fmt("\"%s\"", input);
	auto_err err = agent_run(agent, &me, &(struct agent_run_spec){.input = str_of(text)}, &out);
	auto_json tree = NULL;
	struct str id = {0};

	if (err) {
		printf("# run: %s\n", err_trail(err));
		return false;
	}
	err_free(json_read(buf_view(&buf), &tree));
	err_free(json_str(json_get(tree, "id"), "id", &id));
	snprintf(run_id, sizeof(run_id), STR_FMT, STR_ARG(id));
	return true;
}

static struct agent_session *find(const char *session)
{
	return map_get(agents->by_key, str_of(session));
}

// Of the run, by the store: "completed", or "failed runner_no_output".
static const char *fate(const char *session, const char *id)
{
	static char word[128];
	auto_buf buf = BUF_INIT(1 << 16);
	struct json_out out = json_to(&buf);
	struct agent_session *agent = find(session);
	auto_json tree = NULL;
	struct str state = {0}, code = {0};

	if (!agent)
		return "no session";
	agent_ref(agent);
	err_free(agent_write_run(agent, &me, str_of(id), &out));
	agent_unref(agent);
	err_free(json_read(buf_view(&buf), &tree));
	if (!tree)
		return "no run";
	err_free(json_str(json_get(tree, "state"), "state", &state));
	if (json_get(tree, "error"))
		err_free(json_str(json_get(json_get(tree, "error"), "code"), "code", &code));
	snprintf(word, sizeof(word), STR_FMT "%s" STR_FMT, STR_ARG(state), code.len ? " " : "",
		 STR_ARG(code));
	return word;
}

static const char *await_fate(const char *session, const char *id, int64_t ms)
{
	int64_t until = inside_now() + ms;
	const char *word;

	do {
		inside_sleep(2);
		word = fate(session, id);
	} while ((!strcmp(word, "queued") || !strcmp(word, "running")) && inside_now() < until);
	return word;
}

__attribute__((unused)) static bool await_state(const char *session, enum lease_state state,
						int64_t ms)
{
	int64_t until = inside_now() + ms;
	struct agent_session *agent;

	do {
		agent = find(session);
		if (agent && agent->lease.state == state)
			return true;
		inside_sleep(1);
	} while (inside_now() < until);
	printf("# it is %s, not %s\n", agent ? lease_state_word(agent->lease.state) : "gone",
	       lease_state_word(state));
	return false;
}
