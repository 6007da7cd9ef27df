#include "store/egress.h"

#include "loop/loop.h"
#include "tap.h"
#include "unit/store/writes.h"

static struct loop *loop;
static struct store *store;

static void open_all(void)
{
	err_free(loop_new(&loop));
	err_free(store_open(&(struct store_options){.loop = loop, .dir = -1}, &store));
}

static void close_all(void)
{
	store_close(store);
	loop_free(loop);
}

static struct err *add(struct db *db, void *arg)
{
	return store_egress_add_in(db, arg);
}

static struct err *put(const char *box, uint64_t serial, bool allowed, int64_t time_ms)
{
	struct store_egress_entry entry = {
		.tenant = "acme",
		.box = box,
		.serial = serial,
		.connections = allowed,
		.denied = !allowed,
		.row = {.time_ms = time_ms,
			.name = "a.test",
			.address = "192.0.2.1",
			.port = 443,
			.allowed = allowed,
			.rule = allowed ? "a.test" : "",
			.reason = allowed ? "" : "not_allowed",
			.requests = allowed,
			.bytes_out = allowed ? 10 : 0,
			.bytes_in = allowed ? 100 : 0,
			.duration_ms = 7},
	};

	return store_do(store, add, &entry);
}

TEST(rows, "rows are read back unchanged, in pages, numbered per box")
{
	struct store_egress_page page;
	auto_arena arena = arena_new();

	open_all();
	for (uint64_t i = 1; i <= 5; i++) {
		CHECK_OK(put("box-a", i, i != 3, 1000 + (int64_t)i));
		CHECK_OK(put("box-b", i, true, 1000));
	}
	CHECK_OK(store_egress_page(store, "box-a", 0, 3, arena, &page));
	CHECK(page.count == 3 && page.last == 3 && page.at[0].id == 1);
	CHECK(!page.at[2].allowed && page.at[2].duration_ms == 7 && page.at[2].time_ms == 1003);
	CHECK_STR(page.at[2].reason, "not_allowed");
	CHECK_STR(page.at[0].address, "192.0.2.1");
	CHECK_OK(store_egress_page(store, "box-a", page.last, 3, arena, &page));
	CHECK(page.count == 2 && page.last == 5);
	CHECK(page.sums.connections == 4 && page.sums.denied == 1 && page.sums.bytes_in == 400);
	close_all();
}

TEST(once, "a serial that is written several times is one row and counted once")
{
	struct store_egress_sums sums;

	open_all();
	for (int i = 0; i < 3; i++)
		CHECK_OK(put("box-a", 77, true, 1));
	CHECK_OK(store_egress_sums(store, "box-a", &sums));
	CHECK(sums.connections == 1 && sums.bytes_out == 10);
	close_all();
}

TEST(prune, "rows are removed by age and by number, sums stay; a removed box has neither")
{
	struct store_egress_page page;
	auto_arena arena = arena_new();
	uint64_t count = 0;

	open_all();
	for (uint64_t i = 1; i <= 1200; i++)
		CHECK_OK(put("box-a", i, true, (int64_t)i));
	CHECK_OK(store_egress_prune(store, 101, 1000, &count));
	CHECK(count == 200);
	CHECK_OK(store_egress_page(store, "box-a", 0, 2000, arena, &page));
	CHECK(page.count == 1000 && page.at[0].id == 201);
	CHECK(page.sums.connections == 1200);
	CHECK_OK(put("box-a", 5000, true, 5000));
	CHECK_OK(store_egress_page(store, "box-a", 1200, 10, arena, &page));
	CHECK(page.count == 1 && page.at[0].id == 1201);
	CHECK_OK(forget_egress(store, "box-a"));
	CHECK_OK(store_egress_page(store, "box-a", 0, 10, arena, &page));
	CHECK(page.count == 0 && page.sums.connections == 0);
	close_all();
}

TEST(denied, "N-10: allowed connections do not evict denied ones from the ledger")
{
	struct store_egress_page page;
	auto_arena arena = arena_new();
	uint64_t count = 0;

	open_all();
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_OK(put("box-a", i, false, 1000));
	for (uint64_t i = 4; i <= STORE_EGRESS_KEEP + 512; i++)
		CHECK_OK(put("box-a", i, true, 1000));
	CHECK_OK(store_egress_prune(store, 0, 1000, &count));
	CHECK_OK(store_egress_page(store, "box-a", 0, 10, arena, &page));
	CHECK(page.count == 10 && page.at[2].id == 3 && !page.at[2].allowed);
	CHECK(page.at[3].allowed && page.at[3].id == STORE_EGRESS_KEEP + 512 - 999);
	// Their own number is bounded, too.
	for (uint64_t i = 1; i <= STORE_EGRESS_KEEP + 512; i++)
		CHECK_OK(put("box-b", i, false, 1000));
	for (uint64_t i = 1; i <= STORE_EGRESS_KEEP + 256; i++)
		CHECK_OK(put("box-b", 100000 + i, true, 1000));
	CHECK_OK(store_egress_page(store, "box-b", 0, 100000, arena, &page));
	for (count = 0; count < page.count && !page.at[count].allowed;)
		count++;
	CHECK(count == STORE_EGRESS_KEEP_DENIED);
	close_all();
}
