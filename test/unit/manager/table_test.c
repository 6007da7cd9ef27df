#include "base/mem.h"
#include "manager/access.h"
#include "manager/manager.h"
#include "tap.h"

static const struct who operator_who = {
	.role = WHO_OPERATOR, .scopes = WHO_MAY_ALL, .may_host = true, .name = "operator"};

struct app {
	struct loop *loop;
	struct admit *admit;
	struct ask *ask;
	struct manager *manager;
};

// A manager without a warden.
static void open_house(struct app *app)
{
	struct manager_options options = {.boxes_max = 10, .output_max = 1 << 30, .tapes_dir = -1};

	if (loop_new(&app->loop) || admit_open(&app->admit))
		abort();
	app->ask = ask_open(app->loop, "/nonexistent/warden.sock");
	options.loop = app->loop;
	options.admit = app->admit;
	options.ask = app->ask;
	app->manager = manager_new(&options);
	app->manager->queue_wait_ms = 0; // do not wait: there is no task here
}

static void stop(void *arg)
{
	err_free(task_sleep_until(loop_now(arg) + 10));
	loop_stop(arg);
}

static void close_house(struct app *app)
{
	manager_free(app->manager);
	ask_close(app->ask);
	// The connection's task ends when the loop turns.
	task_start(app->loop, "stop", stop, app->loop);
	loop_run(app->loop);
	admit_close(app->admit);
	loop_free(app->loop);
}
#define auto_app on_exit_call(close_house) struct app

static struct entry *add(struct manager *manager, const char *name)
{
	struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host"};
	struct entry *entry = NULL;

	snprintf(spec.name, sizeof(spec.name), "%s", name);
	err_free(table_add(manager, &spec, &entry));
	return entry;
}

TEST(found, "a box is found by id, short id, longer beginning and name")
{
	auto_app app = {0};
	struct entry *entry;
	const char *id;

	open_house(&app);
	entry = add(app.manager, "web");
	id = entry->record.id;
	CHECK(table_find(app.manager, "", str_of(id)) == entry);
	CHECK(table_find(app.manager, "", str_of(entry->record.short_id)) == entry);
	CHECK(table_find(app.manager, "", (struct str){id + 4, 20}) == entry);
	CHECK(table_find(app.manager, "", (struct str){id + 4, 48}) == entry);
	CHECK(table_find(app.manager, "", STR("web")) == entry);
	CHECK(!table_find(app.manager, "", (struct str){id + 4, 11}));
	CHECK(!table_find(app.manager, "", STR("wob")));
	CHECK(!table_find(app.manager, "", STR("")));
}

TEST(names, "a name is taken until its box has left")
{
	auto_app app = {0};
	struct spec spec = {.limits = LIMITS_DEFAULT, .name = "web"};
	struct entry *entry, *other;

	open_house(&app);
	entry = add(app.manager, "web");
	CHECK_ERR(table_add(app.manager, &spec, &other), CONFLICT);
	table_remove(entry);
	CHECK(!table_find(app.manager, "", STR("web")));
	CHECK_OK(table_add(app.manager, &spec, &other));
}

TEST(tenants, "every tenant has its own names, and finds no other's")
{
	auto_app app = {0};
	const struct who a = {.role = WHO_TENANT, .tenant = "a", .scopes = WHO_MAY_ALL};
	const struct who b = {.role = WHO_TENANT, .tenant = "b", .scopes = WHO_MAY_ALL};
	struct spec spec = {.limits = LIMITS_DEFAULT, .name = "web", .tenant = "a"};
	struct spec twin = {.limits = LIMITS_DEFAULT, .name = "web", .tenant = "b"};
	struct entry *one = NULL, *two = NULL;
	const struct record *record;

	open_house(&app);
	CHECK_OK(table_add(app.manager, &spec, &one));
	CHECK_OK(table_add(app.manager, &twin, &two));
	CHECK(access_find(app.manager, &a, STR("web")) == one);
	CHECK(access_find(app.manager, &b, STR("web")) == two);
	CHECK(!access_find(app.manager, &operator_who, STR("web")));
	CHECK(access_find(app.manager, &operator_who, str_of(one->record.id)) == one);
	CHECK(!access_find(app.manager, &b, str_of(one->record.id)));
	CHECK(!access_find(app.manager, &b, str_of(one->record.short_id)));
	CHECK_ERR(manager_get(app.manager, &b, str_of(one->record.id), &record), NOT_FOUND);
	CHECK_OK(manager_get(app.manager, &a, str_of(one->record.id), &record));
	CHECK_STR(record->tenant, "a");
	CHECK(manager_look_own(app.manager, &a).boxes == 1);
}

TEST(disk_quota, "output and templates count in a tenant's disk beside the limits of its boxes")
{
	auto_app app = {0};
	struct limits limits = {.disk = 100};
	struct account *account;

	open_house(&app);
	account = accounts_get(&app.manager->accounts, "stores");
	CHECK(account->output.left(&account->output) == UINT64_MAX);
	account->tenant.quota = (struct quota){.disk = 250};
	account_move(account, &limits, ACCOUNT_NONE, ACCOUNT_KEPT);
	account->output.used = 30;
	account->used.templates = 10;
	CHECK(account_disk(account) == 140 && account->output.left(&account->output) == 110);
	CHECK_OK(account_ask(account, &limits, ACCOUNT_NONE, ACCOUNT_KEPT));
	account->output.used = 60;
	CHECK_ERR(account_ask(account, &limits, ACCOUNT_NONE, ACCOUNT_KEPT), EXHAUSTED);
	CHECK_ERR(account_ask_disk(account, 81), EXHAUSTED);
	CHECK_OK(account_ask_disk(account, 80));
	account->output.used = 300; // a quota that was lowered
	CHECK(account_disk_left(account) == 0);
}

TEST(quotas, "the weight of a box follows its state, and a quota holds")
{
	auto_app app = {0};
	struct account *account;
	struct entry *one = NULL, *two = NULL;

	open_house(&app);
	account = accounts_get(&app.manager->accounts, "");
	account->tenant.quota = (struct quota){.boxes = 2, .memory = LIMITS_DEFAULT.memory};
	one = add(app.manager, "one");
	CHECK(account->used.boxes == 1 && account->used.memory == LIMITS_DEFAULT.memory);
	CHECK(!add(app.manager, "two"));
	entry_move(one, STATE_STOPPED);
	CHECK(account->used.boxes == 1 && account->used.memory == 0 &&
	      account->used.disk == LIMITS_DEFAULT.disk);
	two = add(app.manager, "two");
	CHECK(two && !add(app.manager, "three"));
	CHECK_ERR(account_ask(account, &one->record.limits, ACCOUNT_KEPT, ACCOUNT_RUNNING),
		  EXHAUSTED);
	table_remove(two);
	CHECK_OK(account_ask(account, &one->record.limits, ACCOUNT_KEPT, ACCOUNT_RUNNING));
	table_remove(one);
	CHECK(account->used.boxes == 0 && account->used.disk == 0 && account->used.cpu_milli == 0);
	CHECK(account->refused == 3);
}

TEST(pages, "the list comes in order of creation, in pages that meet without gap or overlap")
{
	auto_app app = {0};
	const struct record *room[3];
	auto_pairs labels = {0};
	uint64_t after = 0;
	size_t count = 0, sum = 0;

	open_house(&app);
	for (int i = 0; i < 7; i++)
		add(app.manager, "");
	do {
		CHECK_OK(manager_page(app.manager, &operator_who, &labels, after, 3, room, &count,
				      &after));
		for (size_t i = 0; i < count; i++)
			CHECK(room[i]->seq == ++sum);
	} while (after);
	CHECK(sum == 7);
	env_map_set(&labels, STR("a"), STR("b"));
	CHECK_OK(manager_page(app.manager, &operator_who, &labels, 0, 3, room, &count, &after));
	CHECK(count == 0 && after == 0);
}

TEST(strangers, "a caller without rights is refused alike for existing and absent boxes")
{
	auto_app app = {0};
	const struct who nobody = {.role = WHO_NOBODY};
	const struct record *record;

	open_house(&app);
	add(app.manager, "web");
	CHECK_ERR(manager_get(app.manager, &nobody, STR("web"), &record), FORBIDDEN);
	CHECK_ERR(manager_get(app.manager, NULL, STR("web"), &record), FORBIDDEN);
	CHECK_ERR(manager_get(app.manager, &nobody, STR("wob"), &record), FORBIDDEN);
	CHECK_OK(manager_get(app.manager, &operator_who, STR("web"), &record));
	CHECK_ERR(manager_get(app.manager, &operator_who, STR("wob"), &record), NOT_FOUND);
}

TEST(no_warden, "without a warden a create is UNAVAILABLE and leaves no entry")
{
	auto_app app = {0};
	struct spec spec = {.limits = LIMITS_DEFAULT, .template = "host", .name = "web"};
	const struct record *record;
	bool made;

	open_house(&app);
	CHECK_ERR(create_box(app.manager, &(struct create_grant){.who = &operator_who}, &spec,
			     CREATE_NEW, &record, &made),
		  UNAVAILABLE);
	CHECK(map_count(app.manager->by_id) == 0 && !table_find(app.manager, "", STR("web")));
}

TEST(room, "the host has capacity, and reports it")
{
	struct admit *admit = NULL;
	struct admit_view view;

	CHECK_OK(admit_open(&admit));
	view = admit_look(admit, 1);
	CHECK(view.memory_free > 0 && view.memory_free <= admit_memory(admit));
	CHECK(view.tasks > 0 && view.tasks < view.tasks_max);
	CHECK(view.files >= 3 && view.files < view.files_max);
	CHECK_OK(admit_ask(admit, 1));
	admit_close(admit);
}

static void count_gone(void *arg, const struct live_gone *gone)
{
	(void)gone;
	++*(size_t *)arg;
}

TEST(live, "changes have one order, each sandbox is in it once, and those that left are remembered")
{
	auto_app app = {0};
	struct live_log *log;
	struct entry *a, *b;
	uint64_t seen, whole;
	size_t gone = 0;

	open_house(&app);
	log = app.manager->live_log;
	CHECK(!live_log_first(log, 0) && live_log_version(log) == 0);
	a = add(app.manager, "a");
	b = add(app.manager, "b");
	seen = live_log_version(log);
	CHECK(live_log_first(log, 0) == &a->live && live_log_next(log, &a->live) == &b->live);
	CHECK(!live_log_next(log, &b->live) && !live_log_first(log, seen));
	live_log_record(log, &a->live);
	live_log_record(log, &a->live);
	CHECK(live_log_first(log, 0) == &b->live && live_log_first(log, seen) == &a->live);
	CHECK(live_mark_version(&a->live) == live_log_version(log));
	whole = live_log_version(log);
	table_remove(b);
	live_log_gone(log, whole, live_log_version(log), count_gone, &gone);
	CHECK(gone == 1 && live_log_first(log, 0) == &a->live);
	live_log_gone(log, live_log_version(log), UINT64_MAX, count_gone, &gone);
	CHECK(gone == 1 && live_log_is_whole(log, whole));
	for (int i = 0; i < LIVE_GONE_MAX; i++)
		table_remove(add(app.manager, "x"));
	CHECK(!live_log_is_whole(log, whole));
	CHECK(live_log_is_whole(log, live_log_version(log)));
}
