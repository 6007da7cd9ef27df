// Records to the store and back, without a warden.
#include "fleet/keep.h"

#include "base/mem.h"
#include "fleet/adopt.h"
#include "fleet/fleet.h"
#include "store/boxes.h"
#include "tap.h"

struct house {
	struct loop *loop;
	struct store *store;
	struct admit *admit;
	struct ask *ask;
	struct fleet *fleet;
};

static void stop(void *arg)
{
	err_free(task_sleep_until(loop_now(arg) + 10));
	loop_stop(arg);
}

static void open_house(struct house *house)
{
	*house = (struct house){0};
	if (loop_new(&house->loop) || admit_open(&house->admit) ||
	    store_open(&(struct store_options){.loop = house->loop, .dir = -1}, &house->store))
		abort();
	house->ask = ask_open(house->loop, "/nonexistent/warden.sock");
	house->fleet = fleet_new(&(struct fleet_options){
		.loop = house->loop,
		.ask = house->ask,
		.admit = house->admit,
		.store = house->store,
		.sockets = "/nonexistent",
		.tapes_dir = -1,
		.boxes_max = 10,
		.output_max = 1 << 30,
	});
}

static void close_house(struct house *house)
{
	fleet_free(house->fleet);
	ask_close(house->ask);
	// The link's own task ends when the loop turns.
	task_start(house->loop, "stop", stop, house->loop);
	loop_run(house->loop);
	task_trim();
	store_close(house->store);
	admit_close(house->admit);
	loop_free(house->loop);
}

static struct record make(const char *name, enum state state, uint64_t seq)
{
	struct record record = {.state = state, .seq = seq, .terms = TERMS_DEFAULT};

	id_box(record.id);
	snprintf(record.name, sizeof(record.name), "%s", name);
	snprintf(record.tenant, sizeof(record.tenant), "acme");
	snprintf(record.template, sizeof(record.template), "host");
	return record;
}

TEST(known_again, "what was kept is in the table after a start, and nobody may work in it yet")
{
	on_exit_call(close_house) struct house house;
	struct record a = make("a", STATE_RUNNING, 4), b = make("b", STATE_CREATING, 9);
	auto_free char *id = mem_str(a.id);
	struct portbook ports = {0};
	struct entry *entry;

	open_house(&house);
	CHECK_OK(keep_intent(house.store, &a));
	keep_tell(house.store, &b);
	portbook_add(&ports, 8080, STR("web"));
	memcpy(ports.at[0].token, "mine", 5);
	ports.at[0].ends_ms = 77;
	CHECK_OK(keep_ports(house.store, a.id, &ports));
	portbook_done(&ports);
	adopt_load(house.fleet);
	CHECK(!house.fleet->unknown && !house.fleet->settled);
	CHECK(map_count(house.fleet->by_id) == 2 && house.fleet->next_seq == 9);
	entry = table_find(house.fleet, "acme", STR("a"));
	CHECK(entry && entry->moving && !entry->box);
	CHECK_STR(entry->record.id, id);
	CHECK(entry->ports.count == 1 && entry->ports.at[0].port == 8080);
	CHECK_STR(entry->ports.at[0].name, "web");
	CHECK_STR(entry->ports.at[0].token, "mine");
	CHECK(entry->ports.at[0].ends_ms == 77);
	CHECK(!fleet_is_ready(house.fleet));
}

TEST(forgotten, "an end that is written down stays, until the record goes with all that is its")
{
	on_exit_call(close_house) struct house house;
	struct record a = make("a", STATE_RUNNING, 1);
	struct store_boxes boxes = {0};

	open_house(&house);
	CHECK_OK(keep_intent(house.store, &a));
	CHECK_OK(keep_end(house.store, &a));
	CHECK_OK(store_boxes_load(house.store, &boxes));
	CHECK(boxes.count == 1 && boxes.at[0].state == STATE_DELETING);
	store_boxes_done(&boxes);
	keep_drop(house.store, a.id);
	CHECK_OK(store_boxes_load(house.store, &boxes));
	CHECK(boxes.count == 0);
	store_boxes_done(&boxes);
}

static struct err *garble(struct db *db, void *arg)
{
	(void)arg;
	return db_script(db, "UPDATE boxes SET id = 'nonsense' WHERE name = 'a';"
			     "UPDATE boxes SET body = 'nonsense' WHERE name = 'b'");
}

TEST(unreadable,
     "a record that cannot be read is failed; one without an id makes us doubt all cells")
{
	on_exit_call(close_house) struct house house;
	struct record a = make("a", STATE_RUNNING, 1), b = make("b", STATE_RUNNING, 2);
	struct entry *entry;

	open_house(&house);
	CHECK_OK(keep_intent(house.store, &a));
	CHECK_OK(keep_intent(house.store, &b));
	CHECK_OK(store_do(house.store, garble, NULL));
	adopt_load(house.fleet);
	CHECK(house.fleet->doubtful && map_count(house.fleet->by_id) == 1);
	entry = table_find(house.fleet, "acme", STR("b"));
	CHECK(entry && entry->unreadable && entry->record.state == STATE_FAILED && !entry->moving);
	CHECK_STR(entry->record.reason, "record_unreadable");
}
