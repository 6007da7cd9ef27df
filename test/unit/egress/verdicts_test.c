#include "egress/verdicts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "store/egress.h"
#include "unit/loop/inside.h"

static int live_file(void)
{
	return memfd_create("live", MFD_CLOEXEC);
}

static struct store *store_of(struct loop *loop)
{
	struct store *store = NULL;

	err_free(store_open(&(struct store_options){.loop = loop, .dir = -1}, &store));
	return store;
}

static void fill(struct verdict *verdict, const char *name, uint64_t bytes)
{
	verdict->allowed = 1;
	verdict->connections = verdict->requests = 1;
	verdict->bytes_out = bytes;
	verdict->port = 443;
	verdict_set(verdict->name, sizeof(verdict->name), name);
}

// As a daemon that is killed: one connection is open, one has just ended, nothing was stored.
static void die_with_two(int live)
{
	if (fork() == 0) {
		struct verdicts *verdicts = NULL;
		struct loop *loop = NULL;
		struct verdict *first, *second;

		if (loop_new(&loop) || verdicts_open(loop, NULL, live, &verdicts))
			_exit(1);
		first = verdict_new(verdicts, "box-a", "acme");
		fill(first, "first.test", 100);
		second = verdict_new(verdicts, "box-a", "acme");
		fill(second, "second.test", 20);
		verdict_done(verdicts, second);
		first->bytes_out += 11;
		_exit(0);
	}
	wait(NULL);
}

TEST(after_a_kill, "what a killed daemon had not stored is in the ledger once, open or done")
{
	struct verdicts *verdicts = NULL;
	struct loop *loop = NULL;
	struct store *store;
	struct store_egress_page page = {0};
	auto_arena arena = arena_new();
	auto_fd live = live_file();

	CHECK_OK(loop_new(&loop));
	store = store_of(loop);
	die_with_two(live);
	for (int i = 0; i < 2; i++) { // the second start finds nothing
		CHECK_OK(verdicts_open(loop, store, live, &verdicts));
		verdicts_close(verdicts);
		CHECK_OK(store_egress_page(store, "box-a", 0, 10, arena, &page));
		CHECK(page.count == 2);
		CHECK(page.sums.bytes_out == 131 && page.sums.connections == 2);
	}
	CHECK_STR(page.at[0].name, "first.test");
	CHECK_STR(page.at[0].reason, "cut_off");
	CHECK_STR(page.at[1].reason, "");
	store_close(store);
	loop_free(loop);
}

TEST(twice, "a verdict that was stored, and is found again, is counted once")
{
	struct verdicts *verdicts = NULL;
	struct loop *loop = NULL;
	struct store *store;
	struct store_egress_sums sums;
	auto_fd live = live_file();
	size_t size;
	auto_free char *copy = NULL;

	CHECK_OK(loop_new(&loop));
	store = store_of(loop);
	die_with_two(live);
	size = (size_t)lseek(live, 0, SEEK_END);
	copy = mem_new(size);
	CHECK(pread(live, copy, size, 0) == (ssize_t)size);
	CHECK_OK(verdicts_open(loop, store, live, &verdicts));
	verdicts_close(verdicts);
	// As if it had been killed between the commit and the slot's end.
	CHECK(pwrite(live, copy, size, 0) == (ssize_t)size);
	CHECK_OK(verdicts_open(loop, store, live, &verdicts));
	verdicts_close(verdicts);
	CHECK_OK(store_egress_sums(store, "box-a", &sums));
	CHECK(sums.bytes_out == 131 && sums.requests == 2);
	store_close(store);
	loop_free(loop);
}

static uint64_t allocated(int fd)
{
	struct stat at;

	return fstat(fd, &at) ? UINT64_MAX : (uint64_t)at.st_blocks * 512;
}

TEST(small, "the file has blocks for the slots that were used, and is small before")
{
	struct verdicts *verdicts = NULL;
	struct verdict *open_ones[1000];
	struct loop *loop = NULL;
	// On a disk: a page of a memfd that was looked at through a mapping is allocated.
	auto_fd live = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	CHECK(live >= 0);
	CHECK_OK(loop_new(&loop));
	CHECK_OK(verdicts_open(loop, NULL, live, &verdicts));
	CHECK(allocated(live) <= 512 * 1024);
	for (int i = 0; i < 1000; i++)
		open_ones[i] = verdict_new(verdicts, "box-a", "t");
	CHECK(allocated(live) >= (uint64_t)1000 * sizeof(struct verdict));
	CHECK(allocated(live) <= 1280 * 1024);
	for (int i = 0; i < 1000; i++)
		verdict_done(verdicts, open_ones[i]);
	verdicts_close(verdicts);
	loop_free(loop);
}

TEST(garbage, "a file of another form, or full of noise, is no reason not to start")
{
	struct verdicts *verdicts = NULL;
	struct loop *loop = NULL;
	struct store *store;
	auto_fd live = live_file();
	char noise[4096];

	memset(noise, 0xa5, sizeof(noise));
	CHECK_OK(loop_new(&loop));
	store = store_of(loop);
	CHECK(write(live, noise, sizeof(noise)) == sizeof(noise));
	CHECK_OK(verdicts_open(loop, store, live, &verdicts));
	verdicts_close(verdicts);
	CHECK(pwrite(live, noise, sizeof(noise), 0) == sizeof(noise));
	CHECK_OK(verdicts_open(loop, store, live, &verdicts));
	verdicts_close(verdicts);
	store_close(store);
	loop_free(loop);
}

TASK_TEST(many, "ten thousand at once are all counted, more than there are slots")
{
	struct verdicts *verdicts = NULL;
	struct store *store = store_of(inside_loop);
	struct store_egress_sums sums;
	static struct verdict *all[10000];

	CHECK_OK(verdicts_open(inside_loop, store, -1, &verdicts));
	for (int i = 0; i < 10000; i++) {
		all[i] = verdict_new(verdicts, "box-a", "acme");
		fill(all[i], "many.test", 3);
	}
	for (int i = 0; i < 10000; i++)
		verdict_done(verdicts, all[i]);
	for (int i = 0; i < 1000 && verdicts_waiting(verdicts); i++)
		inside_sleep(10);
	CHECK(verdicts_waiting(verdicts) == 0);
	CHECK_OK(store_egress_sums(store, "box-a", &sums));
	CHECK(sums.connections == 10000 && sums.bytes_out == 30000);
	verdicts_close(verdicts);
	store_close(store);
}

TASK_TEST(subscribers,
	  "a subscriber of a box is signalled when its rows are in the store, and of no other box")
{
	struct verdicts *verdicts = NULL;
	struct store *store = store_of(inside_loop);
	struct store_egress_sums sums;
	auto_subscriber mine = NULL;
	auto_subscriber other = NULL;
	auto_subscriber again = NULL;

	CHECK_OK(verdicts_open(inside_loop, store, -1, &verdicts));
	mine = verdicts_subscribe(verdicts, "box-a");
	again = verdicts_subscribe(verdicts, "box-a");
	other = verdicts_subscribe(verdicts, "box-b");
	CHECK(mine == again && subscriber_count(mine) == 0);
	verdict_done(verdicts, verdict_new(verdicts, "box-a", "acme"));
	CHECK_OK(subscriber_wait(mine, 0, loop_now(inside_loop) + 10000));
	CHECK(subscriber_count(mine) == 1 && subscriber_count(other) == 0);
	CHECK_ERR(subscriber_wait(other, 0, loop_now(inside_loop) + 20), TIMEOUT);
	subscriber_free(take_ptr(again));
	verdict_done(verdicts, verdict_new(verdicts, "box-a", "acme"));
	verdicts_hurry(verdicts);
	CHECK_OK(store_flush(store)); // what was hurried is in it
	CHECK_OK(store_egress_sums(store, "box-a", &sums));
	CHECK_OK(subscriber_wait(mine, 1, loop_now(inside_loop) + 10000));
	verdicts_close(verdicts);
	subscriber_free(take_ptr(mine)); // after the room that it listened to
	store_close(store);
}

#define SLOTS_OLD 4096
#define SLOT_OLD 800

TEST(old_slots, "verdicts in the slots of cove 0.1.0 are in the ledger")
{
	struct verdicts *verdicts = NULL;
	struct loop *loop = NULL;
	struct store *store;
	struct store_egress_page page = {0};
	auto_arena arena = arena_new();
	auto_free struct verdict *old = mem_new_of(struct verdict);
	auto_fd live = live_file();

	CHECK_OK(loop_new(&loop));
	store = store_of(loop);
	old->state = VERDICT_DONE;
	old->serial = 9;
	verdict_set(old->box, sizeof(old->box), "box-a");
	fill(old, "old.test", 77);
	CHECK(!ftruncate(live, (off_t)SLOTS_OLD * SLOT_OLD));
	CHECK(pwrite(live, old, offsetof(struct verdict, secrets), 3 * SLOT_OLD) > 0);
	CHECK_OK(verdicts_open(loop, store, live, &verdicts));
	verdicts_close(verdicts);
	CHECK_OK(store_egress_page(store, "box-a", 0, 10, arena, &page));
	CHECK(page.count == 1 && page.sums.bytes_out == 77);
	CHECK_STR(page.at[0].name, "old.test");
	CHECK_STR(page.at[0].secrets, "");
	store_close(store);
	loop_free(loop);
}

TEST(sent_secrets, "a row names each secret that was sent once; + stands for those without room")
{
	struct verdict verdict = {0};
	char name[65];

	verdict_add_secret(&verdict, "ONE");
	verdict_add_secret(&verdict, "TWO");
	verdict_add_secret(&verdict, "ONE");
	CHECK_STR(verdict.secrets, "ONE,TWO");
	for (int i = 0; i < 8; i++) {
		memset(name, 'A' + i, 64);
		name[64] = 0;
		verdict_add_secret(&verdict, name);
	}
	CHECK(strlen(verdict.secrets) < sizeof(verdict.secrets));
	CHECK_STR(verdict.secrets + strlen(verdict.secrets) - 2, ",+");
}
