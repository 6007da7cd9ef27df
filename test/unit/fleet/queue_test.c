#include "fleet/queue.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fleet/fleet.h"
#include "tap.h"

#define CROWD 100

struct house {
	struct loop *loop;
	struct admit *admit;
	struct ask *ask;
	struct fleet *fleet;
	char order[CROWD + 8]; // of whose turn it was
	int turns;
};

struct guest {
	struct house *house;
	struct entry *entry;
	int64_t stay_ms;
	char reason[40];
	char message[256];
};

static void open_house(struct house *house, int64_t wait_ms)
{
	struct fleet_options options = {
		.boxes_max = 1000, .tapes_dir = -1, .queue_wait_ms = wait_ms};

	if (loop_new(&house->loop) || admit_open(&house->admit))
		abort();
	house->ask = ask_open(house->loop, "/nonexistent/warden.sock");
	options.loop = house->loop;
	options.admit = house->admit;
	options.ask = house->ask;
	house->fleet = fleet_new(&options);
}

static void leave(void *arg)
{
	struct house *house = arg;

	ask_close(house->ask);
	err_free(task_sleep_until(loop_now(house->loop) + 5)); // its task frees it
	loop_stop(house->loop);
}

static void close_house(struct house *house)
{
	fleet_free(house->fleet);
	task_start(house->loop, "leave", leave, house);
	loop_run(house->loop);
	admit_close(house->admit);
	loop_free(house->loop);
}

static struct entry *add(struct house *house, const char *tenant)
{
	struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host"};
	struct entry *entry = NULL;

	snprintf(spec.tenant, sizeof(spec.tenant), "%s", tenant);
	if (table_add(house->fleet, &spec, &entry))
		abort();
	return entry;
}

static void come(void *arg)
{
	struct guest *guest = arg;
	struct house *house = guest->house;
	auto_err err = queue_enter(house->fleet, guest->entry);

	if (err) {
		snprintf(guest->reason, sizeof(guest->reason), "%s", err_reason(err));
		snprintf(guest->message, sizeof(guest->message), "%s", err_message(err));
		return;
	}
	house->order[house->turns++] = guest->entry->record.tenant[0];
	err_free(task_sleep_until(loop_now(house->loop) + guest->stay_ms));
	queue_leave(house->fleet);
}

static void stop(void *arg)
{
	struct house *house = arg;

	while (queue_look(house->fleet).waiting || queue_look(house->fleet).building)
		err_free(task_sleep_until(loop_now(house->loop) + 5));
	err_free(task_sleep_until(loop_now(house->loop) + 20));
	loop_stop(house->loop);
}

TEST(turns, "A-21 a crowd of one tenant's is before another's by one turn at most")
{
	struct house house = {0};
	struct guest crowd[CROWD], late = {.house = &house, .stay_ms = 1};
	struct queue_view view;

	open_house(&house, 5000);
	late.entry = add(&house, "b");
	for (int i = 0; i < CROWD; i++) {
		crowd[i] = (struct guest){.house = &house, .entry = add(&house, "a"), .stay_ms = 5};
		task_start(house.loop, "come", come, &crowd[i]);
	}
	task_start(house.loop, "come", come, &late);
	task_start(house.loop, "stop", stop, &house);
	loop_run(house.loop);
	CHECK(house.turns == CROWD + 1);
	CHECK(strchr(house.order, 'b') - house.order <= QUEUE_BUILDS + 1);
	view = queue_look(house.fleet);
	CHECK(view.building == 0 && view.waiting == 0 && view.waited > 0 && view.refused == 0);
	close_house(&house);
}

static void block_loop(void *arg)
{
	struct house *house = arg;

	err_free(task_sleep_until(loop_now(house->loop) + 50));
	usleep(150000);
}

TEST(late, "who is called in the turn in which the time is over has its turn")
{
	struct house house = {0};
	struct guest guests[QUEUE_BUILDS], late = {.house = &house, .stay_ms = 1};

	open_house(&house, 100);
	for (int i = 0; i < QUEUE_BUILDS; i++) {
		guests[i] = (struct guest){
			.house = &house, .entry = add(&house, "a"), .stay_ms = 99};
		task_start(house.loop, "come", come, &guests[i]);
	}
	late.entry = add(&house, "b");
	task_start(house.loop, "come", come, &late);
	task_start(house.loop, "block", block_loop, &house);
	task_start(house.loop, "stop", stop, &house);
	loop_run(house.loop);
	CHECK_STR(late.reason, "");
	CHECK(house.turns == QUEUE_BUILDS + 1 && queue_look(house.fleet).building == 0);
	close_house(&house);
}

// The last of the file: a hard limit that was lowered stays so.
TEST(shortage, "who waits for room in vain is told for what, and where it stood")
{
	struct rlimit files = {100, 100};
	struct house house = {0};
	struct guest guests[3];

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	open_house(&house, 200);
	for (int i = 0; i < 3; i++) {
		guests[i] = (struct guest){.house = &house,
					   .entry = add(&house, i < 2 ? "a" : "b")};
		task_start(house.loop, "come", come, &guests[i]);
	}
	task_start(house.loop, "stop", stop, &house);
	loop_run(house.loop);
	CHECK(house.turns == 0);
	for (int i = 0; i < 3; i++)
		CHECK_STR(guests[i].reason, "daemon_files");
	CHECK(strstr(guests[0].message, "position 1"));
	CHECK(strstr(guests[1].message, "position"));
	CHECK(strstr(guests[2].message, "position 1"));
	CHECK(queue_look(house.fleet).refused == 3);
	close_house(&house);
}
