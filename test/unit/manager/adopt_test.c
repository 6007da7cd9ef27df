// Records to the store and back, without a warden.
#include "manager/adopt.h"

#include "base/log.h"
#include "base/mem.h"
#include "manager/manager.h"
#include "store/boxes.h"
#include "store/events.h"
#include "tap.h"

struct app {
	struct loop *loop;
	struct store *store;
	struct admit *admit;
	struct ask *ask;
	struct manager *manager;
};

static void stop(void *arg)
{
	err_free(task_sleep_until(loop_now(arg) + 10));
	loop_stop(arg);
}

static void open_house(struct app *app)
{
	*app = (struct app){0};
	if (loop_new(&app->loop) || admit_open(&app->admit) ||
	    store_open(&(struct store_options){.loop = app->loop, .dir = -1}, &app->store))
		abort();
	app->ask = ask_open(app->loop, "/nonexistent/warden.sock");
	app->manager = manager_new(&(struct manager_options){
		.loop = app->loop,
		.ask = app->ask,
		.admit = app->admit,
		.store = app->store,
		.sockets = "/nonexistent",
		.tapes_dir = -1,
		.boxes_max = 10,
		.output_max = 1 << 30,
	});
}

static void turn(struct app *app)
{
	task_start(app->loop, "stop", stop, app->loop);
	loop_run(app->loop);
}

static void close_house(struct app *app)
{
	// A written event signals the manager.
	err_free(store_flush(app->store));
	turn(app);
	manager_free(app->manager);
	ask_close(app->ask);
	turn(app); // the connection's task ends
	task_trim();
	store_close(app->store);
	admit_close(app->admit);
	loop_free(app->loop);
}

static struct record make(const char *name, enum state state, uint64_t seq)
{
	struct record record = {.state = state, .seq = seq, .retention = RETENTION_DEFAULT};

	id_box(record.id);
	snprintf(record.name, sizeof(record.name), "%s", name);
	snprintf(record.tenant, sizeof(record.tenant), "acme");
	snprintf(record.template, sizeof(record.template), "host");
	return record;
}

TEST(known_again, "stored boxes are in the table after a start, and cannot be used yet")
{
	on_exit_call(close_house) struct app app;
	struct record a = make("a", STATE_RUNNING, 4), b = make("b", STATE_CREATING, 9);
	auto_free char *id = mem_str(a.id);
	struct exposed_ports ports = {0};
	struct entry *entry;

	open_house(&app);
	CHECK_OK(store_boxes_put(app.store, &a));
	store_boxes_queue(app.store, &b);
	exposed_ports_add(&ports, 8080, STR("web"));
	memcpy(ports.at[0].token, "mine", 5);
	ports.at[0].ends_ms = 77;
	CHECK_OK(exposed_ports_save(app.store, a.id, &ports));
	exposed_ports_done(&ports);
	adopt_load(app.manager);
	CHECK(!app.manager->unknown && !app.manager->settled);
	CHECK(map_count(app.manager->by_id) == 2 && app.manager->next_seq == 9);
	entry = table_find(app.manager, "acme", STR("a"));
	CHECK(entry && entry->moving && !entry->box);
	CHECK_STR(entry->record.id, id);
	CHECK(entry->ports.count == 1 && entry->ports.at[0].port == 8080);
	CHECK_STR(entry->ports.at[0].name, "web");
	CHECK_STR(entry->ports.at[0].token, "mine");
	CHECK(entry->ports.at[0].ends_ms == 77);
	CHECK(!manager_is_ready(app.manager));
}

TEST(forgotten, "a recorded delete stays until the record is removed with all its rows")
{
	on_exit_call(close_house) struct app app;
	struct record a = make("a", STATE_RUNNING, 1);
	struct store_boxes boxes = {0};

	open_house(&app);
	CHECK_OK(store_boxes_put(app.store, &a));
	CHECK_OK(store_boxes_end(app.store, &a));
	CHECK_OK(store_boxes_load(app.store, &boxes));
	CHECK(boxes.count == 1 && boxes.at[0].state == STATE_DELETING);
	store_boxes_done(&boxes);
	store_boxes_drop(app.store, a.id);
	CHECK_OK(store_boxes_load(app.store, &boxes));
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
	on_exit_call(close_house) struct app app;
	struct record a = make("a", STATE_RUNNING, 1), b = make("b", STATE_RUNNING, 2);
	struct entry *entry;

	open_house(&app);
	CHECK_OK(store_boxes_put(app.store, &a));
	CHECK_OK(store_boxes_put(app.store, &b));
	CHECK_OK(store_do(app.store, garble, NULL));
	adopt_load(app.manager);
	CHECK(app.manager->doubtful && map_count(app.manager->by_id) == 1);
	entry = table_find(app.manager, "acme", STR("b"));
	CHECK(entry && entry->unreadable && entry->record.state == STATE_FAILED && !entry->moving);
	CHECK_STR(entry->record.reason, "record_unreadable");
}

TEST(events, "an event is published by event_publish(), never by a log line of its name")
{
	on_exit_call(close_house) struct app app;
	auto_arena arena = arena_new();
	struct record a = make("a", STATE_RUNNING, 1);
	auto_free char *id = mem_str(a.id);
	struct store_events events = {0};

	open_house(&app);
	table_restore(app.manager, &a);
	log_event(LOG_INFO, "key.made", "key", "k", "tenant", "acme", NULL);
	event_publish(EVENT_PORT_EXPOSED, "sandbox", id, "port", "8080", "name", NULL, NULL);
	event_publish(EVENT_KEY_MADE, "key", "k", "tenant", "other", NULL);
	CHECK_OK(
		store_events_page(app.store, &(struct store_events_ask){.max = 9}, arena, &events));
	CHECK(events.count == 2);
	CHECK_STR(events.at[0].kind, "port.exposed");
	CHECK_STR(events.at[0].sandbox, id);
	CHECK_STR(events.at[0].tenant, "acme"); // that of the sandbox
	CHECK_STR(events.at[0].fields, "{\"port\":8080}");
	CHECK_STR(events.at[1].tenant, "other");
	CHECK_STR(events.at[1].fields, "{\"key\":\"k\"}");
}
