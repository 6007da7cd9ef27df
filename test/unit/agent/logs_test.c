// Logs of runs on disk: bounded per agent session, counted for its tenant, over restarts too.
#include <sys/stat.h>
#include <time.h>

#include "stage.h"

#define BLOCK 4096

static bool log_is_there(const struct agent_session *agent, const char *run)
{
	auto_free char *path = mem_fmt("%s/%s/%s", place, agent->directory, run);
	struct stat st;

	return stat(path, &st) == 0;
}

static bool await_log_gone(const struct agent_session *agent, const char *run)
{
	for (int i = 0; i < 1000 && log_is_there(agent, run); i++)
		inside_sleep(5);
	return !log_is_there(agent, run);
}

// Files that are written in one tick of the kernel's clock have one time.
static void await_tick(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &before);
	do {
		inside_sleep(1);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

static void run_to_end(struct agent_session *agent, char out[LEASE_RUN_LEN + 1])
{
	CHECK(start_run(agent, "ok"));
	CHECK_STR(await_fate(agent->id, run_id, 3000), "completed");
	memcpy(out, run_id, sizeof(run_id));
	await_tick();
}

TASK_TEST(oldest, "a log that finds no room has the oldest ended log of its session removed")
{
	char runs[4][LEASE_RUN_LEN + 1];
	struct agent_session *agent;
	uint64_t used;

	setup();
	agent = make("s1");
	for (int i = 0; i < 3; i++)
		run_to_end(agent, runs[i]);
	used = tape_budget_used(agent->logs);
	CHECK(used > 0 && log_is_there(agent, runs[0]));
	tape_budget_set(agent->logs, used, 0, &stage_quota);
	CHECK(stage_quota.used == used);
	run_to_end(agent, runs[3]);
	CHECK(await_log_gone(agent, runs[0]));
	CHECK(log_is_there(agent, runs[2]) && log_is_there(agent, runs[3]));
	CHECK(tape_budget_used(agent->logs) <= used);
	teardown();
	CHECK(stage_quota.used == 0);
}

TASK_TEST(counted, "what an earlier daemon left is counted, and a session's end gives it back")
{
	char run[LEASE_RUN_LEN + 1];
	struct agent_session *agent;
	bool gone;

	setup();
	agent = make("s2");
	run_to_end(agent, run);
	CHECK(tape_budget_used(agent->logs) > 0);
	restart();
	agent = find("s2");
	for (int i = 0; i < 1000 && !agent->actor; i++)
		inside_sleep(5);
	CHECK(tape_budget_used(agent->logs) == BLOCK);
	tape_budget_set(agent->logs, 1 << 20, 0, &stage_quota);
	CHECK(stage_quota.used == BLOCK);
	agent_ref(agent);
	CHECK_OK(agent_delete(agent, &gone));
	for (int i = 0; i < 1000 && find("s2"); i++)
		inside_sleep(5);
	CHECK(!find("s2") && stage_quota.used == 0);
	agent_unref(agent);
	teardown();
}
