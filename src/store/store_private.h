// Batches of deeds: the writer's half of the store. All functions run on the writer's thread,
// except batch_open(), before it starts, and batch_close(), after it has ended.
#pragma once

#include "base/map.h"
#include "store/store.h"

struct job {
	struct link link;
	store_deed *deed;
	void *arg;
	void (*drop)(void *arg); // of a told deed
	struct task *task;	 // that waits; NULL: told, or a thread waits
	bool told, last, asks;
	bool settled; // done or failed for good
	bool done;    // the waiter may continue
	struct err *err;
	int64_t since_ms; // when it was queued
};

struct batch {
	const struct db_driver *driver;
	int dir; // -1: in memory
	const char *name;
	struct db *db;	 // NULL: could not be opened
	struct err *why; // the last error of the disk
	enum store_health health;
	bool has_reserve;
	int64_t reopened_ms; // the last attempt to reopen
	uint64_t commits, failures, lost, deeds;
};

fallible batch_open(struct batch *batch);
void batch_close(struct batch *batch);
// Settles every job of the list, except told ones while the state cannot be written: give those
// again. With an empty list it probes whether the state can be written.
void batch_run(struct batch *batch, struct link *jobs);
