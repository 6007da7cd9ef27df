// The houses of the store's tests: every question is asked of every backend, in the same words.
#pragma once

#include <stdlib.h>

#include "scratch.h"
#include "store/events.h"
#include "store/sqlite.h"
#include "tap.h"

struct house {
	struct loop *loop;
	const struct db_driver *driver;
	int dir;
	struct store *store;
	struct arena *arena;
};

static void open_store(struct house *house)
{
	err_free(store_open(&(struct store_options){.loop = house->loop,
						    .dir = house->dir,
						    .driver = house->driver},
			    &house->store));
}

static void open_house(struct house *house, const struct db_driver *driver, bool on_disk)
{
	*house = (struct house){.driver = driver, .dir = -1, .arena = arena_new()};
	err_free(loop_new(&house->loop));
	if (on_disk) {
		char name[32];
		static int count;

		snprintf(name, sizeof(name), "state%d", count++);
		mkdirat(scratch, name, 0700);
		house->dir = openat(scratch, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	open_store(house);
}

// As after a restart; what is in memory only is gone then, and is not asked.
__attribute__((unused)) static void reopen(struct house *house)
{
	if (house->dir < 0)
		return;
	store_close(house->store);
	house->store = NULL;
	open_store(house);
}

static void close_house(struct house *house)
{
	store_close(house->store);
	loop_free(house->loop);
	arena_free(house->arena);
	if (house->dir >= 0)
		close(house->dir);
}

// The drivers: what stands behind the questions. Another database is another row.
//	  word      name in the sentence  driver           keeps it over a restart
#define BACKENDS(X, fn, sentence)                                                                  \
	X(fn, sentence, file, "sqlite file: ", &sqlite_driver, true)                               \
	X(fn, sentence, memory, "sqlite memory: ", &sqlite_driver, false)

#define ONE_BACKEND(fn, sentence, word, name, its_driver, on_disk)                                 \
	TEST(fn##_##word, name sentence)                                                           \
	{                                                                                          \
		on_exit_call(close_house) struct house house;                                      \
		open_house(&house, its_driver, on_disk);                                           \
		CHECK(house.store != NULL);                                                        \
		fn(&house);                                                                        \
	}
#define EACH_BACKEND(fn, sentence)                                                                 \
	static void fn(struct house *house);                                                       \
	BACKENDS(ONE_BACKEND, fn, sentence)                                                        \
	static void fn(struct house *house)

static struct err *run_script(struct db *db, void *arg)
{
	return db_script(db, arg);
}

__attribute__((unused)) static struct err *garble(struct store *store, const char *sql)
{
	return store_do(store, run_script, (void *)sql);
}

__attribute__((unused)) static struct store_events page_of(struct house *house,
							   struct store_events_ask ask)
{
	struct store_events page = {.count = 999};

	if (!ask.max)
		ask.max = 9;
	err_free(store_events_page(house->store, &ask, house->arena, &page));
	return page;
}
#define PAGE(...) page_of(house, (struct store_events_ask){__VA_ARGS__})
