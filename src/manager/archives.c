// Archiving as an operation. The task holds the sandbox like a step of manager/pause; a request
// that needs the sandbox cancels it. After a restart the operation goes on: the warden succeeds at
// once if the archive is complete.
#include "manager/archives.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/pause.h"
#include "store/store.h"

struct archiving {
	struct manager *manager;
	struct operation *operation;
};

static fallible archive_held(struct entry *entry, struct operation *operation)
{
	struct err *err;

	TRY(pause_hold(entry));
	entry->archiving = operation;
	operation->state = OPERATION_RUNNING;
	operation->phase = "pack";
	operation_changed(operation);
	err = pause_archive(entry);
	entry->archiving = NULL;
	// The answer must hold after a crash; a failed write stays queued in the store.
	if (!err && entry->manager->store)
		err_free(store_flush(entry->manager->store));
	pause_release(entry);
	return err;
}

static void archives_run(void *arg)
{
	struct archiving *archiving = arg;
	struct operation *operation = archiving->operation;
	struct entry *entry = map_get(archiving->manager->by_id, str_of(operation->reference));
	struct err *err;

	if (entry) {
		entry_ref(entry);
		err = archive_held(entry, operation);
		entry_unref(entry);
	} else {
		err = access_absent(str_of(operation->reference));
	}
	if (err)
		log_event(LOG_INFO, "archive.failed", "sandbox", operation->reference, "reason",
			  err_reason(err), "trail", err_trail(err), NULL);
	operations_end(archiving->manager, operation, err);
	free(archiving);
}

static void archives_go(struct manager *manager, struct operation *operation)
{
	struct archiving *archiving = mem_new_of(struct archiving);

	*archiving = (struct archiving){manager, operation};
	operation->task = task_start(manager->loop, "archive", archives_run, archiving);
}

static struct operation *archives_find(struct manager *manager, const char *box)
{
	struct operation *operation;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		if (operation->kind == OPERATION_ARCHIVE && !operation_has_ended(operation) &&
		    !strcmp(operation->reference, box))
			return operation;
	return NULL;
}

// An archive under way is joined.
static fallible archives_open(struct entry *entry, struct operation **out)
{
	struct manager *manager = entry->manager;
	struct operation *operation = archives_find(manager, entry->record.id);
	struct err *err;

	if (operation) {
		operation->holds++;
		*out = operation;
		return OK;
	}
	operation = mem_new_of(struct operation);
	operation->manager = manager;
	operation->kind = OPERATION_ARCHIVE;
	operation->reference = mem_str(entry->record.id);
	operation->platform = mem_str("");
	operation->name = mem_str("");
	snprintf(operation->tenant, sizeof(operation->tenant), "%s", entry->record.tenant);
	err = operations_add(manager, operation);
	if (err)
		return err;
	operation->holds++;
	archives_go(manager, operation);
	*out = operation;
	return OK;
}

fallible archives_begin(struct manager *manager, const struct who *who, struct str key,
			struct operation **out)
{
	struct entry *entry = NULL;

	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	if (!manager->operations)
		return err_new(NOT_OFFERED, "not_offered", "sandboxes cannot be archived here");
	return archives_open(entry, out);
}

fallible archives_idle(struct entry *entry)
{
	struct operation *operation = NULL;

	entry->idle.busy_ms = loop_now(entry->manager->loop); // else tried again at once
	if (!entry->manager->operations)
		return OK;
	TRY(archives_open(entry, &operation));
	operation_drop(operation);
	return OK;
}

void archives_resume(struct manager *manager)
{
	struct operation *operation;

	for (size_t at = 0; operations_next(manager, &at, &operation);) {
		if (operation->kind != OPERATION_ARCHIVE || operation_has_ended(operation) ||
		    operation->task)
			continue;
		operation->manager = manager;
		archives_go(manager, operation);
	}
}
