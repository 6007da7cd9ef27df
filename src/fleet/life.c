// Burial is a task of its own, one per box at most: it survives the client who asked, and tries
// again until the warden has verified the end. Those who want to know wait for the entry's bell.
//
// A lost box is ended the same way but stays in the table as failed, with its files where it has
// any; its delete then has little left to do. A delete is written down before it is done, and the
// record goes when the end is verified.
#include "fleet/life.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/rest.h"
#include "fleet/access.h"
#include "fleet/adopt_queue.h"
#include "fleet/keep.h"

#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 5000

fallible life_absent(struct str key)
{
	return err_hint(err_absent("no_sandbox", "sandbox", key),
			"GET /v1/sandboxes lists those there are");
}

// Files outlast the processes, unless it was made to leave nothing, or is deleted.
static bool leaves_files(const struct entry *entry)
{
	return entry->record.state != STATE_DELETING && !entry->record.ephemeral;
}

// Of a box that this daemon has never known alive.
static fallible stop_unknown(struct entry *entry, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_STOP};
	int none[ORDER_FDS_MAX];

	snprintf(order.box, sizeof(order.box), "%s", entry->record.id);
	return ask_order(entry->fleet->ask, &order, answer, none, deadline);
}

// Verified on OK: *out_files says whether its files are still there.
static fallible life_end_once(struct entry *entry, bool *out_files)
{
	struct fleet *fleet = entry->fleet;
	int64_t deadline = loop_now(fleet->loop) + LIFE_DELETE_MS;
	auto_err err = OK;

	*out_files = leaves_files(entry);
	if (!*out_files)
		entry_need_box(entry);
	if (!*out_files)
		return box_bury(entry->box, deadline);
	err = entry->box ? box_stop(entry->box, deadline) : stop_unknown(entry, deadline);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		*out_files = false; // there is nothing left of it
		return OK;
	}
	return take_ptr(err);
}

static bool end_until_verified(struct entry *entry)
{
	struct loop *loop = entry->fleet->loop;
	int64_t pause = RETRY_MIN_MS;
	bool files = false;

	for (;;) {
		auto_err err = life_end_once(entry, &files);

		// Asked for meanwhile: the files go, too.
		if (!err && files && !leaves_files(entry))
			continue;
		if (!err)
			return files;
		log_event(LOG_WARN, "box.bury_failed", "sandbox", entry->record.id, "reason",
			  err_reason(err), "trail", err_trail(err), NULL);
		if (ask_host(entry->fleet->ask)) {
			err_free(task_sleep_until(loop_now(loop) + pause));
			pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
		} else {
			err_free(ask_wait_linked(entry->fleet->ask, CLOCK_NEVER));
			pause = RETRY_MIN_MS;
		}
	}
}

static void fleet_life_bury(void *arg)
{
	struct entry *entry = arg;
	struct fleet *fleet = entry->fleet;
	bool files;

	task_trace(entry->trace);
	task_shield(true);
	files = end_until_verified(entry);
	entry->burying = false;
	entry->buried = !files;
	entry->record.disk_kept = files;
	log_event(LOG_DEBUG, "box.buried", "sandbox", entry->record.id, NULL);
	if (entry->record.state == STATE_DELETING) {
		keep_drop(fleet->store, entry->record.id);
		table_remove(entry);
	} else if (entry->record.state == STATE_FAILED) {
		entry_keep(entry);
	} else {
		// Nobody asked for it: the next request, or a visitor, starts it again.
		if (files && fleet->closing && !entry->record.reason[0])
			snprintf(entry->record.reason, sizeof(entry->record.reason),
				 "cove_stopped");
		entry_move(entry, files ? STATE_STOPPED : STATE_FAILED);
	}
	bell_ring(&entry->changed);
	bell_ring(&fleet->left);
	task_trace(NULL);
	entry_drop(entry);
}

static void start_burial(struct entry *entry)
{
	if (entry->burying)
		return;
	entry_shut_way(entry);
	entry->burying = true;
	snprintf(entry->trace, sizeof(entry->trace), "%s", log_trace_now());
	entry_hold(entry);
	task_start(entry->fleet->loop, "bury", fleet_life_bury, entry);
}

void life_lost(struct box *box, void *arg)
{
	struct entry *entry = arg;

	(void)box;
	if (!entry->listed || entry->record.state == STATE_DELETING)
		return;
	entry->fleet->lost++;
	snprintf(entry->record.reason, sizeof(entry->record.reason), "box_lost");
	entry_move(entry, STATE_FAILED);
	start_burial(entry);
}

static void begin_end(struct entry *entry)
{
	if (entry->record.state == STATE_DELETING)
		return;
	entry_move(entry, STATE_DELETING);
	if (!entry->buried) {
		start_burial(entry);
		return;
	}
	keep_drop(entry->fleet->store, entry->record.id);
	table_remove(entry);
}

void life_bury(struct entry *entry)
{
	if (entry->record.state != STATE_DELETING)
		entry_move(entry, STATE_DELETING);
	start_burial(entry);
}

void life_rest(struct entry *entry)
{
	start_burial(entry);
}

static fallible life_await(struct entry *entry, int64_t deadline)
{
	struct err *err = bell_wait(&entry->changed, deadline);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(
			err_recast(err, ERR_TIMEOUT, "stuck", "the sandbox is not gone yet"),
			"cove goes on trying; ask again in a moment");
	return err;
}

static fallible await_rest(struct entry *entry, int64_t deadline)
{
	while (entry->listed && (entry->record.state == STATE_CREATING || entry->moving) &&
	       !adopt_is_put_off(entry))
		TRY(life_await(entry, deadline));
	return OK;
}

// Written down before it is done: whoever stops us, it is gone after the next start. What befalls
// the box meanwhile is no longer worth a word.
static fallible intend_end(struct entry *entry)
{
	struct err *err;

	if (entry->record.state == STATE_DELETING || entry->ending)
		return OK;
	entry->ending = true;
	err = keep_end(entry->fleet->store, &entry->record);
	if (err) {
		entry->ending = false;
		entry_keep(entry);
	}
	return err;
}

fallible life_delete(struct fleet *fleet, const struct who *who, struct str key, bool wait)
{
	int64_t deadline = loop_now(fleet->loop) + LIFE_DELETE_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	entry_hold(entry);
	TRY(await_rest(entry, deadline));
	if (!entry->listed)
		return life_absent(key);
	TRY(intend_end(entry));
	TRY(await_rest(entry, deadline));
	adopt_cancel(entry);
	if (entry->listed)
		begin_end(entry);
	while (wait && entry->listed)
		TRY(life_await(entry, deadline));
	return OK;
}

// True when nothing is left to be done for it.
static bool is_at_rest(const struct entry *entry)
{
	return !entry->burying && !entry->moving &&
	       (entry->record.state == STATE_STOPPED || entry->record.state == STATE_FAILED);
}

static void begin_rest(struct entry *entry)
{
	adopt_cancel(entry);
	if (entry->record.state == STATE_CREATING || entry->moving || is_at_rest(entry))
		return;
	if (entry->record.ephemeral)
		begin_end(entry);
	else
		start_burial(entry);
}

static bool rest_all(struct fleet *fleet)
{
	bool all = true;

	list_each (at, &fleet->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		begin_rest(entry);
	}
	list_each (at, &fleet->entries)
		all &= is_at_rest(link_of(at, struct entry, link));
	return all;
}

fallible life_drain(struct fleet *fleet, int64_t deadline)
{
	fleet->closing = true;
	while (!rest_all(fleet)) {
		// A box that is being made rings only its own bell: look again now and then.
		int64_t soon = loop_now(fleet->loop) + RETRY_MIN_MS;
		struct err *err = bell_wait(&fleet->left, soon < deadline ? soon : deadline);

		if (err && (err_kind(err) != ERR_TIMEOUT || loop_now(fleet->loop) >= deadline))
			return err_while(err, "wait for the end of %zu sandboxes",
					 map_count(fleet->by_id));
		err_free(err);
	}
	return OK;
}
