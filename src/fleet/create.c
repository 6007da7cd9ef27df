// The name and the ids are reserved before the first wait, so two creates of one name never meet.
// Until pid 1 has greeted, the entry is in state creating: visible, but neither used nor deleted;
// whoever wants to do that waits for its bell. A failure takes the entry out again; box_build() has
// by then undone what it had done.
#include "fleet/create.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/access.h"
#include "fleet/images.h"
#include "fleet/keep.h"
#include "fleet/life.h"
#include "fleet/queue.h"
#include "fleet/templates.h"
#include "fleet/ways.h"

#define START_MS 10000

static bool is_ending(const struct fleet *fleet)
{
	return fleet->closing && !fleet->leaving;
}

// After a start it takes a moment to find out what there is, and so it does when the warden was
// replaced: whoever comes then waits, as those before him wait for the daemon. Only as long as it
// may last; fleet_create_ask_room() says what is missing.
fallible create_await_start(struct fleet *fleet)
{
	int64_t deadline = loop_now(fleet->loop) + START_MS;
	struct err *err;

	if (!fleet->queue_wait_ms || is_ending(fleet) || fleet->unknown ||
	    (ask_host(fleet->ask) && fleet->settled))
		return OK;
	err = ask_wait_linked(fleet->ask, deadline);
	while (!err && !fleet->settled && !fleet->unknown && !is_ending(fleet))
		err = bell_wait(&fleet->left, deadline);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_free(err);
	return OK;
}

static fallible still_starting(void)
{
	return err_hint(
		err_new(UNAVAILABLE, "starting", "cove is taking up the sandboxes that there are"),
		"try again in a moment");
}

fallible create_find_made(struct fleet *fleet, const struct who *who, struct str id,
			  const struct record **out)
{
	int64_t deadline = loop_now(fleet->loop) + START_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_READ));
	TRY(create_await_start(fleet));
	if (!fleet->settled)
		return still_starting();
	entry = access_find(fleet, who, id);
	if (entry)
		entry_hold(entry);
	while (entry && entry->listed && (entry->moving || entry->record.state == STATE_CREATING)) {
		auto_err err = bell_wait(&entry->changed, deadline);

		if (err)
			return err_kind(err) == ERR_TIMEOUT ? still_starting() : take_ptr(err);
	}
	if (!entry || !entry->listed)
		return life_absent(id);
	*out = &entry->record;
	return OK;
}

static fallible fleet_create_ask_room(struct fleet *fleet)
{
	const struct order_host *host = ask_host(fleet->ask);
	size_t count = map_count(fleet->by_id);

	if (is_ending(fleet))
		return err_new(UNAVAILABLE, "draining", "cove is shutting down");
	if (!host)
		return err_new(UNAVAILABLE, "no_warden", "cove is starting; try again in a moment");
	if (fleet->store)
		TRY(store_ready(fleet->store));
	if (!fleet->settled)
		return still_starting();
	if (count >= fleet->boxes_max || count >= host->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"this host has as many sandboxes as it may have"),
				"delete some, or raise boxes-max");
	return OK;
}

// A default limit that this host cannot keep is shown as absent; one that was asked for is refused.
static fallible fit_disk(const struct fleet *fleet, struct spec *spec)
{
	const struct order_host *host = ask_host(fleet->ask);

	if (!host->can_limit_disk && spec->disk_asked)
		return err_hint(err_new(INVALID, "no_disk_limit",
					"this host cannot keep a limit on disk space"),
				"leave diskMB out; 'cove doctor' tells what is missing");
	if (!host->can_limit_inodes && spec->limits.inodes)
		return err_hint(err_new(INVALID, "no_inode_limit",
					"this host cannot keep a limit on inodes"),
				"leave inodes out; 'cove doctor' tells what is missing");
	if (spec->limits.io && strcmp(host->cgroup, "v2") != 0)
		return err_hint(err_new(INVALID, "no_io_limit",
					"this host cannot keep a limit on disk bandwidth"),
				"leave ioMBps out: cgroup v1 does not cover buffered writes");
	if (!host->can_limit_disk)
		spec->limits.disk = 0;
	return OK;
}

struct order create_order(const struct record *record)
{
	struct order order = {
		.kind = ORDER_BUILD,
		.limits = record->limits,
		.ephemeral = record->ephemeral,
		.net = way_is_wanted(record),
	};

	snprintf(order.box, sizeof(order.box), "%s", record->id);
	snprintf(order.name, sizeof(order.name), "%s", record->template);
	snprintf(order.host, sizeof(order.host), "%s", record_host(record));
	return order;
}

// What the warden refuses now and may do in a moment: some of what it is short of comes back when
// trash is emptied.
struct passing {
	const char *reason;
	int64_t pause_ms;
	int tries; // beyond the time that anybody waits in the queue
};

static const struct passing *passing_of(const struct err *err)
{
	static const struct passing all[] = {
		{"no_ids", 100, 0},
		{"no_loop", 100, 0},
		{"host_full", 100, 0},
		{"berth_lost", 5, 100}, // laid ahead for it, and ended: it is being cleared away
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && err_kind(err) == ERR_EXHAUSTED; i++)
		if (!strcmp(err_reason(err), all[i].reason))
			return &all[i];
	return NULL;
}

static fallible build_in_turn(struct entry *entry, const struct order *order, struct box **out)
{
	struct fleet *fleet = entry->fleet;
	int64_t deadline = loop_now(fleet->loop) + fleet->queue_wait_ms;
	int late = 0;

	for (;;) {
		const struct passing *passing;
		struct err *err;

		TRY(queue_enter(fleet, entry));
		err = box_build(fleet->loop, fleet->ask, order, fleet->tapes_dir, out);
		queue_leave(fleet);
		passing = err ? passing_of(err) : NULL;
		if (!passing)
			return err;
		if (loop_now(fleet->loop) >= deadline && late++ >= passing->tries)
			return queue_explain(entry, err);
		err_free(err);
		TRY(task_sleep_until(loop_now(fleet->loop) + passing->pause_ms));
	}
}

// box_build() has undone what it did, unless it could not know: then whatever there may be of the
// box is ended, and only then its record goes.
static void undo(struct entry *entry, const struct err *err, bool foretold)
{
	struct fleet *fleet = entry->fleet;

	if (!entry->listed)
		return;
	if (entry->box || err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_TIMEOUT ||
	    err_kind(err) == ERR_CANCELLED) {
		life_bury(entry);
		return;
	}
	if (foretold) // and perhaps never asked for
		box_forget(fleet->loop, fleet->ask, entry->record.id);
	tell_box(&fleet->tell, EVENT_BOX_FAILED, &entry->record, err_reason(err), NULL);
	keep_drop(fleet->store, entry->record.id);
	table_remove(entry);
}

// The warden brings the goods while the intent is written: nothing of them is anybody's before.
static fallible write_and_build(struct entry *entry)
{
	struct fleet *fleet = entry->fleet;
	struct order order = create_order(&entry->record);
	uint32_t links = ask_links(fleet->ask);
	// Who stands in line takes nothing yet.
	bool foretold = !queue_look(fleet).waiting && box_foretell(fleet->ask, &order);
	struct err *err = keep_intent(fleet->store, &entry->record);

	if (err) {
		if (foretold)
			box_forget(fleet->loop, fleet->ask, entry->record.id);
		table_remove(entry);
		return err;
	}
	tell_box(&fleet->tell, EVENT_BOX_CREATED, &entry->record, NULL, NULL);
	err = build_in_turn(entry, &order, &entry->box);
	if (!err && !box_is_alive(entry->box))
		err = err_new(UNAVAILABLE, "box_lost", "the sandbox ended as it was made");
	if (!err) {
		entry_keep_output(entry);
		err = way_take(entry, links, true);
	}
	if (!err)
		err = images_apply(entry);
	if (err)
		undo(entry, err, foretold);
	return err_while(err, "build %s", order.box);
}

static fallible fleet_create_build(struct fleet *fleet, struct spec *spec, struct entry **out)
{
	struct entry *entry = NULL;
	struct err *err;

	TRY(fleet_create_ask_room(fleet));
	TRY(fit_disk(fleet, spec));
	TRY(ways_fit(fleet, accounts_get(&fleet->accounts, spec->tenant), spec));
	TRY(table_add(fleet, spec, &entry));
	entry_hold(entry);
	err = way_seal(entry, entry->record.network);
	if (err)
		table_remove(entry);
	else
		err = write_and_build(entry);
	if (err) {
		entry_drop(entry);
		return err;
	}
	entry->record.started_ms = clock_wall_ms();
	fleet->created++;
	entry_move(entry, STATE_RUNNING);
	box_on_loss(entry->box, life_lost, entry);
	entry_drop(entry); // the table still holds it
	*out = entry;
	return OK;
}

// Who asks for a box by name wants one that works: the remains of one that failed make room.
static fallible clear_away(struct fleet *fleet, const struct who *who, const char *name)
{
	struct err *err = life_delete(fleet, who, str_of(name), true);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

// Whatever it does now: it is there to be used.
static bool is_there(enum state state)
{
	return state == STATE_RUNNING || state == STATE_PAUSED || state == STATE_FROZEN ||
	       state == STATE_STOPPED;
}

// The box of that name, once it is settled whether there will be one; NULL: there is none.
static fallible await_named(struct fleet *fleet, const struct who *who, const char *name,
			    struct entry **out)
{
	for (;;) {
		struct entry *entry = table_named(fleet, who->tenant, str_of(name));
		struct err *err;

		if (!entry || is_there(entry->record.state)) {
			*out = entry;
			return OK;
		}
		if (entry->record.state == STATE_FAILED) {
			TRY(clear_away(fleet, who, name), "remove the failed sandbox of that name");
			continue;
		}
		entry_hold(entry);
		err = bell_wait(&entry->changed, loop_now(fleet->loop) + BOX_READY_MS);
		entry_drop(entry);
		TRY(err, "wait for the sandbox of that name");
	}
}

fallible create_ask(const struct who *who)
{
	TRY(access_ask(who, ACCESS_MAKE));
	if (who->box[0])
		return err_hint(err_new(FORBIDDEN, "not_allowed",
					"this key is for one sandbox, and may make no other"),
				"use a key of the tenant");
	return OK;
}

fallible create_box(struct fleet *fleet, const struct who *who, struct spec *spec,
		    enum create_way way, const struct record **out, bool *out_made)
{
	struct entry *entry = NULL;
	bool made = false;

	TRY(create_ask(who));
	snprintf(spec->tenant, sizeof(spec->tenant), "%s", who->tenant);
	TRY(create_await_start(fleet));
	if (way == CREATE_OR_GET)
		TRY(await_named(fleet, who, spec->name, &entry));
	if (!entry) {
		TRY(templates_resolve(fleet, who, spec->template));
		TRY(fleet_create_build(fleet, spec, &entry));
		made = true;
		if (fleet->made)
			fleet->made(entry);
	}
	*out = &entry->record;
	*out_made = made;
	return OK;
}
