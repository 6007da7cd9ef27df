#include "manager/queue.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "manager/manager.h"
#include "tap.h"

#define CROWD 100

struct app {
	struct loop *loop;
	struct admit *admit;
	struct ask *ask;
	struct manager *manager;
	char order[CROWD + 8]; // tenants in order of their turns
	int turns;
};

struct guest {
	struct app *app;
	struct entry *entry;
	int64_t stay_ms;
	char reason[40];
	char message[256];
};

static void open_house(struct app *app, int64_t wait_ms)
{
	struct manager_options options = {
		.boxes_max = 1000, .tapes_dir = -1, .queue_wait_ms = wait_ms};

	if (loop_new(&app->loop) || admit_open(&app->admit))
		abort();
	app->ask = ask_open(app->loop, "/nonexistent/warden.sock");
	options.loop = app->loop;
	options.admit = app->admit;
	options.ask = app->ask;
	app->manager = manager_new(&options);
}

static void leave(void *arg)
{
	struct app *app = arg;

	ask_close(app->ask);
	err_free(task_sleep_until(loop_now(app->loop) + 5)); // the task frees it
	loop_stop(app->loop);
}

static void close_house(struct app *app)
{
	manager_free(app->manager);
	task_start(app->loop, "leave", leave, app);
	loop_run(app->loop);
	admit_close(app->admit);
	loop_free(app->loop);
}

static struct entry *add(struct app *app, const char *tenant)
{
	struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host"};
	struct entry *entry = NULL;

	snprintf(spec.tenant, sizeof(spec.tenant), "%s", tenant);
	if (table_add(app->manager, &spec, &entry))
		abort();
	return entry;
}

static void come(void *arg)
{
	struct guest *guest = arg;
	struct app *app = guest->app;
	auto_err err = queue_enter(app->manager, guest->entry);

	if (err) {
		snprintf(guest->reason, sizeof(guest->reason), "%s", err_reason(err));
		snprintf(guest->message, sizeof(guest->message), "%s", err_message(err));
		return;
	}
	app->order[app->turns++] = guest->entry->record.tenant[0];
	err_free(task_sleep_until(loop_now(app->loop) + guest->stay_ms));
	queue_leave(app->manager);
}

static void stop(void *arg)
{
	struct app *app = arg;

	while (queue_look(app->manager).waiting || queue_look(app->manager).building)
		err_free(task_sleep_until(loop_now(app->loop) + 5));
	err_free(task_sleep_until(loop_now(app->loop) + 20));
	loop_stop(app->loop);
}

TEST(turns, "A-21 many builds of one tenant delay another tenant's by one turn at most")
{
	struct app app = {0};
	struct guest crowd[CROWD], late = {.app = &app, .stay_ms = 1};
	struct queue_view view;

	open_house(&app, 5000);
	late.entry = add(&app, "b");
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = (struct guest){.app = &app, .entry = add(&app, "a"), .stay_ms = 5};
		task_start(app.loop, "come", come, &crowd[i]);
	}
	task_start(app.loop, "come", come, &late);
	task_start(app.loop, "stop", stop, &app);
	loop_run(app.loop);
	CHECK(app.turns == CROWD + 1);
	CHECK(strchr(app.order, 'b') - app.order <= QUEUE_BUILDS + 1);
	view = queue_look(app.manager);
	CHECK(view.building == 0 && view.waiting == 0 && view.waited > 0 && view.refused == 0);
	close_house(&app);
}

static void block_loop(void *arg)
{
	struct app *app = arg;

	err_free(task_sleep_until(loop_now(app->loop) + 50));
	usleep(150000);
}

TEST(late, "a build that is granted its turn as its time ends keeps it")
{
	struct app app = {0};
	struct guest guests[QUEUE_BUILDS], late = {.app = &app, .stay_ms = 1};

	open_house(&app, 100);
	for (int i = 0; i < QUEUE_BUILDS; i++) {
		guests[i] = (struct guest){.app = &app, .entry = add(&app, "a"), .stay_ms = 99};
		task_start(app.loop, "come", come, &guests[i]);
	}
	late.entry = add(&app, "b");
	task_start(app.loop, "come", come, &late);
	task_start(app.loop, "block", block_loop, &app);
	task_start(app.loop, "stop", stop, &app);
	loop_run(app.loop);
	CHECK_STR(late.reason, "");
	CHECK(app.turns == QUEUE_BUILDS + 1 && queue_look(app.manager).building == 0);
	close_house(&app);
}

// Last in the file: a lowered hard limit stays lowered.
TEST(shortage, "a build that waited in vain reports the reason and its position")
{
	struct rlimit files = {100, 100};
	struct app app = {0};
	struct guest guests[3];

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	open_house(&app, 200);
	for (int i = 0; i < 3; i++) {
		guests[i] = (struct guest){.app = &app, .entry = add(&app, i < 2 ? "a" : "b")};
		task_start(app.loop, "come", come, &guests[i]);
	}
	task_start(app.loop, "stop", stop, &app);
	loop_run(app.loop);
	CHECK(app.turns == 0);
	for (int i = 0; i < 3; i++)
		CHECK_STR(guests[i].reason, "daemon_files");
	CHECK(strstr(guests[0].message, "position 1"));
	CHECK(strstr(guests[1].message, "position"));
	CHECK(strstr(guests[2].message, "position 1"));
	CHECK(queue_look(app.manager).refused == 3);
	close_house(&app);
}
