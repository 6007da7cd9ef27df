// Deletion, restarts, records that were spoiled, and want of space.
#include <stdio.h>
#include <sys/stat.h>

#include "stage.h"

TASK_TEST(deleted, "a deletion stops the runner, then everything of the session goes")
{
	struct agent_session *agent, *found = NULL;
	bool gone = false;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	agent_ref(agent);
	CHECK_OK(agent_delete(agent, &gone));
	CHECK(gone && !find("s1") && !fake_of("s1") && machine.forgotten == 1);
	CHECK(machine.destroyed == 0);
	agent_unref(agent);
	CHECK_ERR(agents_find(agents, &me, STR("s1"), true, &found), NOT_FOUND);
	agent = make("s1"); // the id is used up
	CHECK(!agent);
	restart();
	CHECK(!find("s1"));
	teardown();
}

TASK_TEST(deletion_resumes, "a deletion that could not end goes on after a restart by itself")
{
	struct agent_session *agent, *found = NULL;
	struct command command = {.kind = COMMAND_DELETE};

	setup();
	agent = make("s1");
	machine.immortal = true;
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	CHECK_OK(actor_ask(agent, &command));
	CHECK_ERR(agents_find(agents, &me, STR("s1"), false, &found), NOT_FOUND);
	restart();
	CHECK(find("s1") && find("s1")->deletion);
	machine.immortal = false;
	for (int i = 0; i < 1000 && find("s1"); i++)
		inside_sleep(5);
	CHECK(!find("s1") && !fake_of("s1"));
	teardown();
}

TASK_TEST(no_actor,
	  "a session whose actor has not started is found, and no command reports success")
{
	struct command interrupt = {.kind = COMMAND_INTERRUPT}, end = {.kind = COMMAND_DELETE};
	struct task *actor;
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	actor = agent->actor;
	agent->actor = NULL;
	CHECK_ERR(actor_ask(agent, &interrupt), UNAVAILABLE);
	CHECK_ERR(actor_ask(agent, &end), UNAVAILABLE);
	CHECK(find("s1") && !agent->deletion);
	agent->actor = actor;
	CHECK_OK(actor_ask(agent, &interrupt));
	teardown();
}

TASK_TEST(adopted, "after a restart an active runner is adopted and its run completes once")
{
	struct agent_session *agent;
	uint64_t generation;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ask"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(20);
	generation = agent->lease.generation;
	restart();
	agent = find("s1");
	CHECK(agent && agent->lease.state == LEASE_ACTIVE);
	inside_sleep(timer_ms(TIMER_GRACE) * 3);
	CHECK_STR(fate("s1", run_id), "running");
	CHECK_OK(agent_answer(agent, STR("q1"), STR("1")));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(find("s1")->lease.generation == generation && machine.launches == 1);
	teardown();
}

// How often `word` stands in the log of a run.
static int said(const char *session, const char *run, const char *word)
{
	auto_free char *room = mem_new(65536);
	enum tape_stream stream;
	struct tape *tape = NULL;
	uint64_t offset = 0;
	size_t got = 1, len = 0;
	int count = 0;

	if (agent_log(find(session), str_of(run), &tape))
		return -1;
	while (got && len < 65535 && offset < tape_kept(tape)) {
		auto_err err = tape_read(tape, &offset, &stream, room + len, 65535 - len, &got, 0);

		if (err)
			break;
		len += got;
	}
	tape_unref(tape);
	room[len] = 0;
	for (const char *at = room; (at = strstr(at, word)); at++)
		count++;
	return count;
}

TASK_TEST(log_goes_on, "the log of a run that waited over a restart is whole")
{
	char first[LEASE_RUN_LEN + 1];
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ask"));
	memcpy(first, run_id, sizeof(first));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(20);
	CHECK(start_run(agent, "ok")); // it waits for the first one, and its log has begun
	restart();
	agent = find("s1");
	CHECK(said("s1", run_id, "queued") == 1);
	inside_sleep(timer_ms(TIMER_GRACE) * 3);
	CHECK_OK(agent_answer(agent, STR("q1"), STR("1")));
	CHECK_STR(await_fate("s1", first, 3000), "completed");
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(said("s1", run_id, "queued") == 1);
	CHECK(said("s1", run_id, "\"type\":\"end\"") == 1);
	teardown();
}

static void log_path(char *room, size_t size, const char *directory, const char *id,
		     const char *suffix)
{
	snprintf(room, size, "%s/%s/%s%s", place, directory, id, suffix);
}

TASK_TEST(log_shut, "a run whose log cannot be opened after a restart waits, and its log is whole")
{
	char path[256], aside[256];
	struct agent_session *agent;
	struct tape *tape = NULL;
	int answered = 0;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ask"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	for (int i = 0; i < 1000 && said("s1", run_id, "\"type\":\"question\"") != 1; i++)
		inside_sleep(2);
	log_path(path, sizeof(path), agent->directory, run_id, "");
	log_path(aside, sizeof(aside), agent->directory, run_id, ".aside");
	agents_stop(agents);
	agents_free(agents);
	CHECK(rename(path, aside) == 0 && mkdir(path, 0700) == 0);
	open_agents();
	CHECK_ERR(agent_log(find("s1"), str_of(run_id), &tape), INTERNAL);
	inside_sleep(timer_ms(TIMER_GRACE) * 3);
	CHECK_STR(fate("s1", run_id), "running");
	CHECK_ERR(agent_log(find("s1"), str_of(run_id), &tape), INTERNAL);
	CHECK(rmdir(path) == 0 && rename(aside, path) == 0);
	for (int i = 0; i < 1000 && !answered; i++) {
		auto_err err = agent_answer(find("s1"), STR("q1"), STR("1"));

		answered = !err;
		inside_sleep(5);
	}
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(said("s1", run_id, "queued") == 1);
	CHECK(said("s1", run_id, "\"type\":\"question\"") == 1);
	CHECK(said("s1", run_id, "\"type\":\"end\"") == 1);
	teardown();
}

TASK_TEST(evidence, "a result that was sent counts, though its runner died before it was read")
{
	struct agent_session *agent;
	struct fake *fake;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(10);
	agents_stop(agents);
	agents_free(agents);
	fake = fake_of("s1");
	fake_result(fake, "completed");
	fake_kill(fake);
	inside_sleep(5);
	open_agents();
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(await_state("s1", LEASE_WARM, 100) || find("s1")->lease.state == LEASE_NONE);
	teardown();
}

TASK_TEST(lost, "a runner that died with the daemon away: the run fails, the lease is none")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "hang"));
	CHECK(await_state("s1", LEASE_ACTIVE, 3000));
	inside_sleep(10);
	agents_stop(agents);
	agents_free(agents);
	fake_kill(fake_of("s1"));
	inside_sleep(5);
	open_agents();
	CHECK_STR(await_fate("s1", run_id, 5000), "failed runner_error_after_activity");
	CHECK(await_state("s1", LEASE_NONE, 1000));
	teardown();
}

static struct err *spoil(struct db *db, void *arg)
{
	return db_script(db, arg);
}

TASK_TEST(garbage, "row 27: a lease that does not parse is quarantined; other sessions go on")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	agents_stop(agents);
	agents_free(agents);
	CHECK_OK(store_do(store, spoil,
			  (char *)"UPDATE leases SET body = 'garbage' WHERE id = 's1'"));
	open_agents();
	CHECK(await_state("s1", LEASE_QUARANTINED, 100));
	agent = find("s1");
	CHECK(agent->lease.next_generation == 2);
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "failed cleanup_exhausted");
	CHECK(start_run(make("s2"), "ok"));
	CHECK_STR(await_fate("s2", run_id, 3000), "completed");
	fake_kill(fake_of("s1"));
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	CHECK(agent->lease.generation == 2);
	teardown();
}

TASK_TEST(orphan, "a lease without its session is kept until its runner is stopped")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	agents_stop(agents);
	agents_free(agents);
	CHECK_OK(store_do(store, spoil, (char *)"DELETE FROM sessions WHERE id = 's1'"));
	CHECK(fake_of("s1"));
	open_agents();
	CHECK(agents->alerts == 1);
	for (int i = 0; i < 500 && find("s1"); i++)
		inside_sleep(5);
	CHECK(!find("s1") && !fake_of("s1") && machine.destroyed == 0);
	teardown();
}

TASK_TEST(nameless, "a record without a sandbox derives it once and keeps it")
{
	char box[ID_BOX_LEN + 1];

	setup();
	memcpy(box, make("s1")->box, sizeof(box));
	agents_stop(agents);
	agents_free(agents);
	CHECK_OK(store_do(store, spoil, (char *)"UPDATE sessions SET box = ''"));
	open_agents();
	CHECK_STR(find("s1")->box, box);
	inside_sleep(20);
	restart();
	CHECK_STR(find("s1")->sandbox, box);
	CHECK(!find("s1")->derived);
	teardown();
}

TASK_TEST(quarantined_end, "a quarantined lease of a lone sandbox is ended by removing that, once")
{
	static const char *argv[] = {"/runner", NULL};
	struct agent_spec spec = {
		.owner = {.org = STR("acme"), .user = STR("u"), .session = STR("s1")},
		.argv = argv,
	};
	struct agent_session *agent;
	bool made, gone = false;

	setup();
	CHECK_OK(agents_create(agents, &(struct create_grant){.who = &me}, &spec, &agent, &made));
	CHECK(agent->route.kind == OWNER_SES && agent->class == OWNER_SMALL);
	machine.immortal = true;
	CHECK(start_run(agent, "bad"));
	CHECK(await_state("s1", LEASE_QUARANTINED, 15000));
	agent_ref(agent);
	CHECK_OK(agent_delete(agent, &gone));
	CHECK(gone && machine.destroyed >= 1 && !fake_of("s1"));
	agent_unref(agent);
	teardown();
}

TASK_TEST(retention, "a session that nobody used goes, but not while its stop is due")
{
	struct agent_session *agent;

	setup();
	agent = make("s1");
	CHECK(start_run(agent, "bad"));
	machine.immortal = true;
	CHECK_STR(await_fate("s1", run_id, 3000), "failed runner_failed");
	make("s2");
	timer_set(TIMER_RETENTION, 100);
	restart();
	for (int i = 0; i < 400 && find("s2"); i++)
		inside_sleep(5);
	CHECK(!find("s2"));
	CHECK(find("s1"));
	machine.immortal = false;
	for (int i = 0; i < 1000 && find("s1"); i++)
		inside_sleep(5);
	CHECK(!find("s1"));
	timer_set(TIMER_RETENTION, 0);
	teardown();
}

TASK_TEST(aliases, "aliases are unique per owner, and asking for one again resumes its session")
{
	static const char *argv[] = {"/runner", NULL};
	struct agent_spec spec = {
		.owner = {.user = STR("u")},
		.aliases = {STR("thread-1")},
		.alias_count = 1,
		.argv = argv,
	};
	struct agent_session *one, *two, *other;
	bool made;

	setup();
	CHECK_OK(agents_create(agents, &(struct create_grant){.who = &me}, &spec, &one, &made));
	CHECK(made);
	CHECK_OK(agents_create(agents, &(struct create_grant){.who = &me}, &spec, &two, &made));
	CHECK(!made && one == two);
	spec.owner.user = STR("v");
	CHECK_OK(agents_create(agents, &(struct create_grant){.who = &me}, &spec, &other, &made));
	CHECK(made && other != one);
	restart();
	spec.owner.user = STR("u");
	CHECK_OK(agents_create(agents, &(struct create_grant){.who = &me}, &spec, &two, &made));
	CHECK(!made);
	teardown();
}

struct rival {
	struct agent_session *agent;
	bool made, is_over;
	struct err *err;
};

static void rival_create(void *arg)
{
	static const char *argv[] = {"/runner", NULL};
	struct rival *rival = arg;
	struct agent_spec spec = {
		.owner = {.user = STR("u")},
		.aliases = {STR("thread-1")},
		.alias_count = 1,
		.argv = argv,
	};

	rival->err = agents_create(agents, &(struct create_grant){.who = &me}, &spec, &rival->agent,
				   &rival->made);
	rival->is_over = true;
}

TASK_TEST(rival_failed, "a create that waits for another of its alias, which fails, fails alone")
{
	struct rival first = {0}, second = {0};
	auto_json fault = NULL;

	setup();
	machine.host_free = 1 << 20;
	CHECK_OK(json_read(STR("{\"point\":\"capacity\",\"mode\":\"hang\"}"), &fault));
	CHECK_OK(faults_set(fault));
	task_start(inside_loop, "first", rival_create, &first);
	while (!agents->count)
		inside_sleep(1);
	task_start(inside_loop, "second", rival_create, &second);
	inside_sleep(5);
	CHECK(!second.is_over);
	faults_clear(); // the first create fails, and its session is freed
	for (int i = 0; i < 1000 && !second.is_over; i++)
		inside_sleep(1);
	CHECK(first.is_over && second.is_over);
	CHECK_ERR(first.err, NO_SPACE);
	CHECK_ERR(second.err, NO_SPACE);
	CHECK(!agents->count);
	teardown();
}

TEST(phases, "a session changes its phase and deletion only by the tables")
{
	static const struct {
		enum agent_change change;
		enum agent_phase phase;
		enum agent_deletion deletion;
	} life[] = {
		{AGENT_LISTED, AGENT_CREATING, DELETION_NONE},
		{AGENT_COMMITTED, AGENT_LIVE, DELETION_NONE},
		{AGENT_DELETE, AGENT_LIVE, DELETION_REQUESTED},
		{AGENT_DELETE_UNDONE, AGENT_LIVE, DELETION_NONE},
		{AGENT_DELETE, AGENT_LIVE, DELETION_REQUESTED},
		{AGENT_FORCE, AGENT_LIVE, DELETION_FORCED},
		{AGENT_FORCE_UNDONE, AGENT_LIVE, DELETION_REQUESTED},
		{AGENT_VERIFIED, AGENT_LIVE, DELETION_VERIFIED},
		{AGENT_UNLISTED, AGENT_GONE, DELETION_VERIFIED},
	};
	struct agent_session agent = {0};
	int rows = 0;

	for (size_t i = 0; i < sizeof(life) / sizeof(*life); i++) {
		CHECK(agent_move(&agent, life[i].change));
		CHECK(agent.phase == life[i].phase && agent.deletion == life[i].deletion);
	}
	for (int change = 0; change < AGENT_CHANGE_COUNT; change++)
		CHECK(!agent_move(&agent, (enum agent_change)change)); // gone for good
	for (int phase = 0; phase < AGENT_PHASE_COUNT; phase++) {
		for (int change = 0; change < AGENT_CHANGE_COUNT; change++) {
			agent.phase = (enum agent_phase)phase;
			rows += agent_move(&agent, (enum agent_change)change);
			CHECK(agent.deletion == DELETION_VERIFIED);
		}
	}
	CHECK(rows == 7); // of the phases; a verified deletion is the last
}

TASK_TEST(full, "too little space is refused after one cleanup, and promises count")
{
	struct agent_session *agent;

	setup();
	machine.host_free = 1ull << 30;
	agent = make("s1");
	CHECK(!agent);
	CHECK(agents->refusal.cleaned == 1 && agents->refusal.skipped == 2);
	CHECK(agents->refusal.threshold == 2048ull << 20 && agents->rejected == 1);
	machine.host_free = 5ull << 30;
	CHECK(make("s2") && make("s3"));
	CHECK(!make("s4"));
	teardown();
}

TASK_TEST(unwritable, "without a store that takes it nothing is launched, and it goes on by itself")
{
	struct agent_session *agent;
	auto_json fault = NULL;

	setup();
	agent = make("s1");
	CHECK_OK(json_read(STR("{\"point\":\"persist\",\"mode\":\"enospc\",\"count\":1000}"),
			   &fault));
	CHECK_OK(faults_set(fault));
	CHECK(!start_run(agent, "ok"));
	CHECK(machine.launches == 0);
	faults_clear();
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate("s1", run_id, 3000), "completed");
	teardown();
}

TASK_TEST(storm, "runs, interrupts and restarts at random: never two runners at once")
{
	struct agent_session *agent;

	setup();
	make("s1");
	srand(7);
	for (int i = 0; i < 120; i++) {
		static const char *const inputs[] = {"ok", "bad", "hang", "die"};

		agent = find("s1");
		switch (rand() % 6) {
		case 0:
			err_free(agent_interrupt(agent));
			break;
		case 1:
			if (fake_of("s1"))
				fake_kill(fake_of("s1"));
			break;
		case 2:
			restart();
			break;
		default:
			if (agent->run_count < 8)
				start_run(agent, inputs[rand() % 4]);
		}
		inside_sleep(rand() % 12);
		CHECK(alive_of("s1") <= 1 && machine.most <= 1);
	}
	// On a busy host the attempts to stop the runner may all be too late (10 s are 16 ms): then
	// the session is quarantined, and the deletion has to be asked for again.
	for (int i = 0; i < 1000 && (agent = find("s1")); i++) {
		bool gone;

		agent_ref(agent);
		err_free(agent_delete(agent, &gone));
		agent_unref(agent);
		inside_sleep(5);
	}
	CHECK(!find("s1") && !fake_of("s1"));
	teardown();
}
