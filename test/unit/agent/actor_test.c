// The actor: runs, stops, and failures of both.
#include "stage.h"

TASK_TEST(one_run, "rows 1 4 8 9 16: a run from none by way of warm to none, then a new generation")
{
	struct agent_session *agent;
	char first[LEASE_RUN_LEN + 1];

	setup();
	agent = make("s1");
	CHECK(agent && agent->lease.state == LEASE_NONE);
	CHECK(start_run(agent, "ok"));
	memcpy(first, run_id, sizeof(first));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(agent->lease.state == LEASE_WARM && agent->lease.generation == 1);
	CHECK(await_state("s1", LEASE_NONE, 3000));
	CHECK(!fake_of("s1"));
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(agent->lease.generation == 2 && machine.launches == 2 && machine.most == 1);
	CHECK_STR(fate("s1", first), "completed");
	teardown();
}

TASK_TEST(reuse, "row 13: a second run within keep-warm has the same instance")
{
	char instance[LEASE_INSTANCE_LEN + 1];
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	memcpy(instance, agent->lease.instance, sizeof(instance));
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK_STR(agent->lease.instance, instance);
	CHECK(machine.launches == 1);
	teardown();
}

TASK_TEST(dead_warm, "row 14: a warm runner that died is replaced, and the client sees no error")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	fake_kill(fake_of("s1"));
	inside_sleep(5);
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(agent->lease.generation == 2 && machine.most == 1);
	teardown();
}

TASK_TEST(leaked,
	  "row 15: with a second runner of the session both are ended, then the run goes on")
{
	struct agent_session *agent;
	int fd;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	plant("s1", "", 0, &fd);
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 5000), "completed");
	CHECK(agent->lease.generation == 2 && alive_of("s1") == 1);
	close(fd);
	teardown();
}

TASK_TEST(failed, "row 10: a run that fails takes its runner with it")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "bad"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed runner_failed");
	CHECK(await_state("s1", LEASE_NONE, 3000));
	CHECK(!fake_of("s1"));
	teardown();
}

TASK_TEST(stuck, "a run without heartbeats ends after its time, by its lease, and is "
		 "counted once it is gone")
{
	struct sweep_round round = {0};
	struct agent_session *agent;

	setup();
	timer_set(TIMER_STUCK, 200);
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed stuck");
	CHECK(await_state("s1", LEASE_NONE, 3000));
	CHECK_OK(agents_sweep(agents, &round));
	CHECK(round.stuck_terminated == 1);
	CHECK_OK(agents_sweep(agents, &round));
	CHECK(round.stuck_terminated == 1);
	timer_set(TIMER_STUCK, 0);
	teardown();
}

TASK_TEST(share, "queued input of a tenant is bounded, and released as runs end")
{
	struct agents_options options = {.isolate = "", .tag = "", .input_share = 3000};
	struct agent_session *agent;

	setup();
	agents_configure(agents, &options);
	agent = make("s1");
	CHECK(start_run(agent, "hang")); // the next waits
	CHECK(start_run(agent, "ok"));
	CHECK(agent->share->bytes > 2000);
	auto_free char *more = mem_new(1001);
	memset(more, 'x', 1000);
	CHECK(!start_run(agent, more));
	CHECK_STR(await_fate("s1", run_id, 8000), "completed");
	for (int i = 0; i < 300 && agent->share->bytes; i++)
		inside_sleep(10); // the store has heard of it first
	CHECK(agent->share->bytes == 0);
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	teardown();
}

TASK_TEST(silent, "silence, death and a broken protocol fail the run with their codes")
{
	static const struct {
		const char *input, *fate;
	} rows[] = {
		{"hang", "failed runner_no_output"},
		{"die", "failed runner_error_after_activity"},
		{"babble", "failed runner_protocol_error"},
	};

	setup();
	for (size_t i = 0; i < 3; i++) {
		char session[8];
		struct agent_session *agent;

		snprintf(session, sizeof(session), "s%zu", i);
		agent = make(session);
		CHECK(start_run(agent, rows[i].input));
		CHECK_STR(await_fate(session, run_id, 5000), rows[i].fate);
		CHECK(await_state(session, LEASE_NONE, 5000));
		CHECK(!fake_of(session));
	}
	teardown();
}

TASK_TEST(stopped, "a stopped runner fails by its ping and is killed by force")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(10);
	fake_of("s1")->deaf = true;
	CHECK_STR(await_fate("s1", run_id, 5000), "failed runner_ping_timeout");
	CHECK(await_state("s1", LEASE_NONE, 5000));
	CHECK(!fake_of("s1") && machine.kills > 0);
	teardown();
}

TASK_TEST(human, "an open question is not silence, and the answer continues the run")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ask"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(timer_ms(TIMER_NO_OUTPUT) * 2);
	CHECK_STR(fate("s1", run_id), "running");
	CHECK_ERR(agent_answer(agent, STR("q2"), STR("1")), CONFLICT);
	CHECK_OK(agent_answer(agent, STR("q1"), STR("\"yes\"")));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	teardown();
}

TASK_TEST(waiting, "messages of a queued run are not acknowledged, those of an ended one are")
{
	static const char over[] = "run_00000000000000000000000000000000";
	char first[LEASE_RUN_LEN + 1];
	struct fake *fake;
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "mum"));
	memcpy(first, run_id, sizeof(first));
	CHECK(start_run(agent, "ok"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	fake = fake_of("s1");
	fake->acked[0] = '\0';
	// As a daemon hears it that was started after another had told the runner of the run.
	for (int i = 0; i < 2; i++) {
		auto_free char *word = mem_fmt(
			"{\"type\":\"result\",\"run\":\"%s\",\"run_generation\":1,"
			"\"connection\":1,\"seq\":1,\"status\":\"completed\"}\n",
			i ? over : run_id);

		fake_say(fake, word);
		for (int tries = 0; tries < 100 && !(i && fake->acked[0]); tries++)
			inside_sleep(i ? 5 : 1);
		CHECK_STR(fake->acked, i ? over : "");
	}
	CHECK_STR(fate("s1", first), "running");
	teardown();
}

TASK_TEST(away, "a run outlives any number of launches that found no warden")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	machine.away = 8;
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 5000), "completed");
	CHECK(machine.away == 0 && machine.launches == 9 && machine.most == 1);
	teardown();
}

TASK_TEST(interrupt, "row 12: an interrupt ends the run and the runner")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK_ERR(agent_interrupt(agent), CONFLICT);
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	CHECK_OK(agent_interrupt(agent));
	CHECK_STR(fate("s1", run_id), "interrupted user_interrupt");
	CHECK(await_state("s1", LEASE_NONE, 5000));
	CHECK(!fake_of("s1"));
	teardown();
}

TASK_TEST(ladder, "five attempts, quarantine, refusal, and recovery")
{
	struct agent_session *agent;
	char held[LEASE_RUN_LEN + 1];

	setup();
	agent = make("s1");
	machine.immortal = true;
	CHECK(start_run(agent, "bad"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed runner_failed");
	CHECK(start_run(agent, "ok"));
	memcpy(held, run_id, sizeof(held));
	CHECK_STR(fate("s1", held), "queued");
	CHECK(await_state("s1", LEASE_QUARANTINED, 15000));
	CHECK(agent->lease.attempts == 5 && agents->attempts == 5 && agents->alerts == 1);
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed cleanup_exhausted");
	CHECK(machine.most == 1);
	fake_kill(fake_of("s1"));
	// A look that was under way may have seen it yet.
	CHECK(await_state("s1", LEASE_NONE, 5000));
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(agent->lease.generation == 2);
	teardown();
}

TASK_TEST(held, "queued work is held while a stop is due and drains by itself")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	machine.immortal = true;
	CHECK(start_run(agent, "bad"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed runner_failed");
	CHECK(start_run(agent, "ok"));
	inside_sleep(30);
	CHECK_STR(fate("s1", run_id), "queued");
	machine.immortal = false;
	CHECK_STR(await_fate("s1", run_id, 8000), "completed");
	CHECK(machine.most == 1);
	teardown();
}

TASK_TEST(blind, "row 3: a failed observation is not absence: nothing is launched")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	machine.blind = true;
	CHECK(start_run(agent, "ok"));
	inside_sleep(30);
	CHECK(agent->lease.reason == LEASE_FOR_OBSERVATION_FAILED);
	CHECK(machine.launches == 1);
	machine.blind = false;
	CHECK_STR(await_fate("s1", run_id, 8000), "completed");
	CHECK(machine.most == 1 && agent->lease.generation == 2);
	teardown();
}

TASK_TEST(late, "row 24: an attempt that hangs past its deadline changes nothing when it returns")
{
	struct agent_session *agent;
	auto_json fault = NULL;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	CHECK_OK(json_read(STR("{\"point\":\"stop\",\"mode\":\"hang\",\"count\":1}"), &fault));
	CHECK_OK(faults_set(fault));
	CHECK_OK(agent_interrupt(agent));
	CHECK(await_state("s1", LEASE_STOPPING, 1000));
	CHECK(await_state("s1", LEASE_STOP_NEEDED, 1000));
	CHECK_STR(agent->lease.error, "attempt deadline expired");
	CHECK(agent->lease.attempts == 1);
	CHECK(await_state("s1", LEASE_NONE, 3000));
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	faults_clear(); // the first attempt goes on, late
	inside_sleep(50);
	CHECK(agent->lease.state == LEASE_ACTIVE && fake_of("s1"));
	teardown();
}

TASK_TEST(launching, "a launch that fails is tried three times for its run, then the run fails")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	machine.refuses = true;
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 8000), "failed no_launch");
	CHECK(machine.launches == 4);
	machine.refuses = false;
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	teardown();
}

TASK_TEST(impostor, "a runner with another identity is stopped, never used")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	machine.impostor = true;
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 8000), "failed readiness_failed");
	CHECK(await_state("s1", LEASE_NONE, 3000));
	CHECK(!fake_of("s1"));
	teardown();
}
