// Operations whose store refuses them while another request waits for them.
#include "manager/operations.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/manager.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "tap.h"

struct app {
	struct manager manager;
	struct operation *joined;
	struct err *added, *seen;
};

static struct err *drop_table(struct db *db, void *arg)
{
	(void)arg;
	return db_script(db, "DROP TABLE operations");
}

static void add_one(void *arg)
{
	struct app *app = arg;
	struct operation *operation = mem_new_of(struct operation);

	operation->reference = mem_str("host/app:latest");
	operation->platform = mem_str("");
	operation->name = mem_str("app");
	app->added = operations_add(&app->manager, operation);
}

static void join_it(void *arg)
{
	struct app *app = arg;
	size_t at = 0;

	if (operations_next(&app->manager, &at, &app->joined)) {
		app->joined->holds++;
		while (!operation_has_ended(app->joined) && !app->seen)
			app->seen = condition_wait(&app->joined->changed,
						   loop_now(app->manager.loop) + 60000);
		if (!app->seen)
			app->seen = operation_failure(app->joined);
		operation_drop(app->joined);
	}
	loop_stop(app->manager.loop);
}

TEST(joined, "an operation that the store refuses ends as failed for who has joined it")
{
	struct app app = {0};

	CHECK_OK(loop_new(&app.manager.loop));
	CHECK_OK(store_open(&(struct store_options){.loop = app.manager.loop,
						    .dir = -1,
						    .driver = &sqlite_driver},
			    &app.manager.store));
	CHECK_OK(operations_open(&app.manager));
	CHECK_OK(store_do(app.manager.store, drop_table, NULL));
	task_start(app.manager.loop, "add", add_one, &app);
	task_start(app.manager.loop, "join", join_it, &app);
	loop_run(app.manager.loop);
	CHECK(app.added && app.joined && app.seen);
	CHECK_STR(err_reason(app.seen), err_reason(app.added));
	CHECK(app.joined->state == OPERATION_FAILED && app.joined->ended_ms && !app.joined->holds);
	err_free(app.added);
	err_free(app.seen);
	operations_done(&app.manager);
	store_close(app.manager.store);
	loop_free(app.manager.loop);
}
