// Burial is a task of its own, one per box at most: it survives the client who asked, and tries
// again until the warden has verified the end. Those who want to know wait for the entry's bell.
//
// A lost box is buried the same way but stays in the table as failed; its delete then has only
// memory to free.
#include "fleet/life.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/access.h"

#define RETRY_MIN_MS 100
#define RETRY_MAX_MS 5000

fallible life_absent(void)
{
	return err_hint(err_new(NOT_FOUND, "no_sandbox", "there is no such sandbox"),
			"GET /v1/sandboxes lists those there are");
}

static void bury(void *arg)
{
	struct entry *entry = arg;
	struct loop *loop = entry->fleet->loop;
	int64_t pause = RETRY_MIN_MS;

	task_trace(entry->trace);
	task_shield(true);
	for (;;) {
		auto_err err = box_bury(entry->box, loop_now(loop) + LIFE_DELETE_MS);

		if (!err)
			break;
		log_event(LOG_WARN, "box.bury_failed", "sandbox", entry->record.id, "reason",
			  err_reason(err), "trail", err_trail(err), NULL);
		err_free(task_sleep_until(loop_now(loop) + pause));
		pause = pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
	}
	entry->burying = false;
	entry->buried = true;
	log_event(LOG_DEBUG, "box.buried", "sandbox", entry->record.id, NULL);
	if (entry->record.state == STATE_DELETING)
		table_remove(entry);
	bell_ring(&entry->changed);
	task_trace(NULL);
	entry_drop(entry);
}

static void start_burial(struct entry *entry)
{
	if (entry->burying)
		return;
	entry->burying = true;
	snprintf(entry->trace, sizeof(entry->trace), "%s", log_trace_now());
	entry_hold(entry);
	task_start(entry->fleet->loop, "bury", bury, entry);
}

void life_lost(struct box *box, void *arg)
{
	struct entry *entry = arg;

	(void)box;
	if (!entry->listed || entry->record.state == STATE_DELETING)
		return;
	entry->fleet->lost++;
	entry->record.reason = "box_lost";
	entry_move(entry, STATE_FAILED);
	start_burial(entry);
}

static void begin_end(struct entry *entry)
{
	if (entry->record.state == STATE_DELETING)
		return;
	entry_move(entry, STATE_DELETING);
	if (entry->buried)
		table_remove(entry);
	else
		start_burial(entry);
}

static fallible await(struct entry *entry, int64_t deadline)
{
	struct err *err = bell_wait(&entry->changed, deadline);

	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(
			err_recast(err, ERR_TIMEOUT, "stuck", "the sandbox is not gone yet"),
			"cove goes on trying; ask again in a moment");
	return err;
}

fallible life_delete(struct fleet *fleet, const struct who *who, struct str key, bool wait)
{
	int64_t deadline = loop_now(fleet->loop) + LIFE_DELETE_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = table_find(fleet, key);
	if (!entry)
		return life_absent();
	entry_hold(entry);
	while (entry->listed && entry->record.state == STATE_CREATING)
		TRY(await(entry, deadline));
	if (!entry->listed)
		return life_absent();
	begin_end(entry);
	while (wait && entry->listed)
		TRY(await(entry, deadline));
	return OK;
}

fallible life_drain(struct fleet *fleet, int64_t deadline)
{
	fleet->closing = true;
	while (!link_empty(&fleet->entries)) {
		list_each (at, &fleet->entries) {
			struct entry *entry = link_of(at, struct entry, link);

			if (entry->record.state != STATE_CREATING)
				begin_end(entry);
		}
		if (link_empty(&fleet->entries))
			break;
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
