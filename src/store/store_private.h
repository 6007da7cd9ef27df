// Deeds made durable together: the writer's half of the store. Everything here runs on the writer's
// thread, but for batch_open(), which comes before there is one, and batch_close(), which comes
// after.
#pragma once

#include "base/map.h"
#include "store/store.h"

struct job {
	struct link link;
	store_deed *deed;
	void *arg;
	void (*drop)(void *arg); // of a told one
	struct task *task;	 // that waits for it; NULL: told, or its thread waits
	bool told, last, asks;
	bool settled; // it was done or has failed, once and for all
	bool done;    // and whoever waits may know
	struct err *err;
	int64_t since_ms; // when it was handed over
};

struct batch {
	const struct db_driver *driver;
	int dir; // -1: in memory
	const char *name;
	struct db *db;	 // NULL: it could not be opened
	struct err *why; // of the last trouble
	enum store_health health;
	bool has_reserve;
	int64_t reopened_ms; // when that was last tried
	uint64_t commits, failures, lost, deeds;
};

fallible batch_open(struct batch *batch);
void batch_close(struct batch *batch);
// Settles every job of the list, but those that were told while the state cannot be written: they
// are to be given again. With an empty list it looks whether the state can be written.
void batch_run(struct batch *batch, struct link *jobs);
