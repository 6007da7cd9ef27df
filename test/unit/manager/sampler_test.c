#include "manager/sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "loop/offload.h"
#include "manager/manager.h"
#include "tap.h"

#define BOXES 100

struct app {
	struct loop *loop;
	struct admit *admit;
	struct ask *ask;
	struct manager *manager;
	struct entry *entries[BOXES];
	int samples[BOXES];
	bool done;
};

#define STALLED 5

static atomic_int stalled_reads, reads;
static int gate[2]; // a stalled read ends when this pipe has a byte
static char stalled[STALLED][ID_BOX_LEN + 1];

static bool is_stalled(const char *box)
{
	bool found = false;

	for (int i = 0; i < STALLED; i++)
		found |= !strcmp(box, stalled[i]);
	return found;
}

static void read_or_stall(const struct cgroup_files *files, const char *box, bool full,
			  struct counters *out)
{
	char byte;

	(void)files;
	(void)full;
	*out = counters_unknown();
	out->cgroup = 7;
	out->cpu_us = (uint64_t)atomic_fetch_add(&reads, 1) * 1000;
	out->memory_charged = out->memory_working = 1 << 20;
	out->pids = 2;
	if (is_stalled(box) && atomic_fetch_add(&stalled_reads, 1) < STALLED)
		CHECK(read(gate[0], &byte, 1) == 1);
}

static void on_sample(void *arg, const struct entry *entry, const struct sample *before,
		      const struct sample *now)
{
	struct app *app = arg;

	CHECK(now->epoch == 1 && now->time_ms >= before->time_ms);
	for (int i = 0; i < BOXES; i++)
		app->samples[i] += app->entries[i] == entry;
}

static int seen(const struct app *app)
{
	int count = 0;

	for (int i = 0; i < BOXES; i++)
		count += app->samples[i] > 0;
	return count;
}

static void watch(void *arg)
{
	struct app *app = arg;
	struct who cove = WHO_COVE;
	struct sampler_sums sums;

	while (seen(app) < BOXES - STALLED)
		err_free(task_sleep_until(loop_now(app->loop) + 20));
	for (int i = 0; i < STALLED; i++)
		CHECK(app->samples[i * 20] == 0); // still with their threads
	sums = sampler_sum(app->manager, &cove);
	CHECK(sums.memory == (BOXES - STALLED) * (1ull << 20));
	CHECK(sums.pids == (BOXES - STALLED) * 2 && sums.states[STATE_RUNNING] == BOXES);
	sampler_refresh(app->entries[1], 0); // one that waits for a single sandbox
	CHECK(app->samples[1] >= 2);
	CHECK(write(gate[1], "12345", STALLED) == STALLED);
	while (seen(app) < BOXES)
		err_free(task_sleep_until(loop_now(app->loop) + 20));
	app->done = true;
	sampler_refresh(app->entries[0], 0);
	CHECK(app->samples[0] >= 2);
	ask_close(app->ask);
	err_free(task_sleep_until(loop_now(app->loop) + 20)); // its task ends in the next turn
	loop_stop(app->loop);
}

TEST(stall, "five reads that stall delay no other sandbox, and are taken when they end")
{
	struct app app = {0};
	struct manager_options options = {.boxes_max = 1000, .tapes_dir = -1};

	CHECK(pipe(gate) == 0);
	if (loop_new(&app.loop) || admit_open(&app.admit) || offload_open(app.loop, 2))
		abort();
	app.ask = ask_open(app.loop, "/nonexistent/warden.sock");
	options.loop = app.loop;
	options.admit = app.admit;
	options.ask = app.ask;
	app.manager = manager_new(&options);
	sampler_open(&(struct sampler_options){
		.manager = app.manager, .boot = "boot", .read = read_or_stall});
	sampler_subscribe(app.manager, on_sample, &app);
	for (int i = 0; i < BOXES; i++) {
		struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host"};

		if (table_add(app.manager, &spec, &app.entries[i]))
			abort();
		app.entries[i]->record.state = STATE_RUNNING;
	}
	for (int i = 0; i < STALLED; i++)
		memcpy(stalled[i], app.entries[i * 20]->record.id, sizeof(stalled[i]));
	task_start(app.loop, "watch", watch, &app);
	loop_run(app.loop);
	CHECK(app.done);
	offload_close();
}
