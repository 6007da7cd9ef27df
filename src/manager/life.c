// The end of a box. One task per box destroys it: the task survives the client that asked, and
// retries until the warden has verified the end. Waiters use the entry's condition.
//
// A lost box ends the same way but stays in the table as failed, with its files where it has any. A
// delete is recorded in the store before it is done; the record is removed when the end is
// verified.
#include "manager/life.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "box/freeze.h"
#include "manager/access.h"
#include "manager/adopt_queue.h"
#include "manager/operations.h"
#include "manager/sampler.h"
#include "manager/unsynced.h"
#include "store/boxes.h"

#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 5000

// Files outlive the processes, unless the box is ephemeral or being deleted.
static bool life_keeps_files(const struct entry *entry)
{
	return entry->record.state != STATE_DELETING && !entry->record.ephemeral;
}

// OK: the end is verified. *out_files says whether the files are still there, *out_cpu_us what the
// cgroup had used.
static fallible life_end_once(struct entry *entry, bool *out_files, uint64_t *out_cpu_us)
{
	struct manager *manager = entry->manager;
	int64_t deadline = loop_now(manager->loop) + LIFE_DELETE_MS;
	auto_err err = OK;

	*out_files = life_keeps_files(entry);
	if (!*out_files)
		entry_need_box(entry);
	if (!*out_files) {
		TRY(box_destroy(entry->box, deadline));
		*out_cpu_us = box_ended_cpu_us(entry->box);
		return OK;
	}
	err = entry->box
		      ? box_stop(entry->box, deadline) // else it never ran under this daemon
		      : ask_end(manager->ask, ORDER_STOP, entry->record.id, deadline, out_cpu_us);
	if (!err && entry->box)
		*out_cpu_us = box_ended_cpu_us(entry->box);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		*out_files = false; // nothing of it exists
		return OK;
	}
	return take_ptr(err);
}

static bool end_until_verified(struct entry *entry)
{
	struct loop *loop = entry->manager->loop;
	int64_t pause = RETRY_MIN_MS;
	bool files = false;

	sampler_before_end(entry);
	for (;;) {
		uint64_t cpu_us = 0;
		auto_err err = life_end_once(entry, &files, &cpu_us);

		if (!err)
			sampler_ended(entry, cpu_us);
		// A delete came during the wait: the files go, too.
		if (!err && files && !life_keeps_files(entry))
			continue;
		if (!err)
			return files;
		log_event(LOG_WARN, "box.destroy_failed", "sandbox", entry->record.id, "reason",
			  err_reason(err), "trail", err_trail(err), NULL);
		if (ask_host(entry->manager->ask)) {
			err_free(task_sleep_until(loop_now(loop) + pause));
			pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
		} else {
			err_free(ask_wait_linked(entry->manager->ask, CLOCK_NEVER));
			pause = RETRY_MIN_MS;
		}
	}
}

static void manager_life_destroy(void *arg)
{
	struct entry *entry = arg;
	struct manager *manager = entry->manager;
	bool files;

	task_trace(entry->trace);
	task_shield(true);
	files = end_until_verified(entry);
	entry->destroying = false;
	entry->destroyed = !files;
	entry->record.disk_kept = files;
	log_event(LOG_DEBUG, "box.destroyed", "sandbox", entry->record.id, NULL);
	if (entry->record.state == STATE_DELETING) {
		metric_add(METRIC_BOXES_ENDED, "deleted", NULL, 1);
		store_boxes_drop(manager->store, entry->record.id);
		table_remove(entry);
	} else if (entry->record.state == STATE_FAILED) {
		entry_keep(entry);
	} else {
		// Stopped by the shutdown, not by a request: the next request starts the box again.
		if (files && manager->closing && !entry->record.reason[0])
			snprintf(entry->record.reason, sizeof(entry->record.reason),
				 "cove_stopped");
		entry_move(entry, files ? STATE_STOPPED : STATE_FAILED);
	}
	condition_signal(&entry->changed);
	condition_signal(&manager->left);
	task_trace(NULL);
	entry_unref(entry);
}

static void life_start_destroy(struct entry *entry)
{
	if (entry->destroying)
		return;
	entry_detach(entry);
	entry->destroying = true;
	snprintf(entry->trace, sizeof(entry->trace), "%s", log_trace_now());
	entry_ref(entry);
	task_start(entry->manager->loop, "destroy", manager_life_destroy, entry);
}

void life_lost(struct box *box, void *arg)
{
	struct entry *entry = arg;

	(void)box;
	if (!entry->listed || entry->record.state == STATE_DELETING)
		return;
	entry->manager->lost++;
	metric_add(METRIC_BOXES_ENDED, "failed", NULL, 1);
	snprintf(entry->record.reason, sizeof(entry->record.reason), "box_lost");
	entry_move(entry, STATE_FAILED);
	life_start_destroy(entry);
}

static void begin_end(struct entry *entry)
{
	if (entry->record.state == STATE_DELETING)
		return;
	entry_move(entry, STATE_DELETING);
	if (!entry->destroyed) {
		life_start_destroy(entry);
		return;
	}
	metric_add(METRIC_BOXES_ENDED, "deleted", NULL, 1);
	store_boxes_drop(entry->manager->store, entry->record.id);
	table_remove(entry);
}

void life_destroy(struct entry *entry)
{
	if (entry->record.state != STATE_DELETING)
		entry_move(entry, STATE_DELETING);
	life_start_destroy(entry);
}

void life_stop(struct entry *entry)
{
	life_start_destroy(entry);
}

static fallible life_await(struct entry *entry, int64_t deadline)
{
	struct err *err = condition_wait(&entry->changed, deadline);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(
			err_recast(err, ERR_TIMEOUT, "stuck", "the sandbox is not gone yet"),
			"cove goes on trying; ask again in a moment");
	return err;
}

static fallible life_await_stop(struct entry *entry, int64_t deadline)
{
	while (entry->listed && (entry->record.state == STATE_CREATING || entry->moving) &&
	       !adopt_is_put_off(entry))
		TRY(life_await(entry, deadline));
	return OK;
}

// The delete is durable before it is done: it holds after a crash. State changes of the box are no
// longer recorded.
static fallible intend_end(struct entry *entry, bool is_owned)
{
	struct err *err = OK;

	if (entry->record.state == STATE_DELETING || entry->ending)
		return OK;
	entry->ending = true;
	sampler_before_end(entry); // written with the record of the end
	if (!is_owned)
		err = store_boxes_end(entry->manager->store, &entry->record);
	if (err) {
		entry->ending = false;
		entry_keep(entry);
	}
	return err;
}

static fallible life_end(struct manager *manager, const struct who *who, struct str key,
			 unsigned flags, bool is_owned)
{
	int64_t deadline = loop_now(manager->loop) + LIFE_DELETE_MS;
	auto_entry entry = NULL;

	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	entry_ref(entry);
	if (entry->archiving)
		operation_cancel(entry->archiving);
	if (entry->pull) { // neither stored nor built: its create ends without it
		table_remove(entry);
		return OK;
	}
	TRY(life_await_stop(entry, deadline));
	if (!entry->listed)
		return access_absent(key);
	if (!(flags & LIFE_FORCED) && !entry->ending)
		TRY(unsynced_check(entry));
	TRY(intend_end(entry, is_owned));
	TRY(life_await_stop(entry, deadline));
	adopt_cancel(entry);
	if (entry->listed)
		begin_end(entry);
	while ((flags & LIFE_WAITS) && entry->listed)
		TRY(life_await(entry, deadline));
	return OK;
}

fallible life_delete(struct manager *manager, const struct who *who, struct str key, unsigned flags)
{
	return life_end(manager, who, key, flags, false);
}

fallible life_delete_owned(struct manager *manager, const struct who *who, struct str key)
{
	return life_end(manager, who, key, LIFE_WAITS | LIFE_FORCED, true);
}

// True when the box has no processes and no task works on it.
static bool life_has_stopped(const struct entry *entry)
{
	return !entry->destroying && !entry->moving &&
	       (state_is_stopped(entry->record.state) || entry->record.state == STATE_FAILED);
}

static void life_begin_stop(struct entry *entry)
{
	adopt_cancel(entry);
	if (entry->record.state == STATE_CREATING || entry->moving || life_has_stopped(entry))
		return;
	if (entry->record.ephemeral)
		begin_end(entry);
	else
		life_start_destroy(entry);
}

static bool life_stop_all(struct manager *manager)
{
	bool all = true;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		life_begin_stop(entry);
	}
	list_each (at, &manager->entries)
		all &= life_has_stopped(link_of(at, struct entry, link));
	return all;
}

fallible life_drain(struct manager *manager, int64_t deadline)
{
	manager->closing = true;
	while (!life_stop_all(manager)) {
		// A box in state creating signals only its own condition: check again periodically.
		int64_t soon = loop_now(manager->loop) + RETRY_MIN_MS;
		struct err *err = condition_wait(&manager->left, soon < deadline ? soon : deadline);

		if (err && (err_kind(err) != ERR_TIMEOUT || loop_now(manager->loop) >= deadline))
			return err_while(err, "wait for the end of %zu sandboxes",
					 map_count(manager->by_id));
		err_free(err);
	}
	return OK;
}
