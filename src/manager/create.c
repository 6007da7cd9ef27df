// Create. Name and ids are reserved before the first wait, so that two creates of one name never
// collide. Until pid 1 has greeted, the entry is in state creating: visible, but not usable and not
// deletable; requests for it wait for its condition. On failure the entry is removed;
// box_build() has undone its work by then.
#include "manager/create.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "manager/access.h"
#include "manager/budgets.h"
#include "manager/life.h"
#include "manager/named_secrets.h"
#include "manager/network_attach.h"
#include "manager/pull.h"
#include "manager/queue.h"
#include "manager/snapshot_note.h"
#include "manager/templates.h"
#include "manager/volumes.h"
#include "store/boxes.h"

#define START_MS 10000

static bool is_ending(const struct manager *manager)
{
	return manager->closing && !manager->leaving;
}

// After a start of the daemon, or of the warden, it takes a moment to learn which boxes exist.
// Creates wait for that, up to a bound; manager_create_ask_room() then reports what is missing.
fallible create_await_start(struct manager *manager)
{
	int64_t deadline = loop_now(manager->loop) + START_MS;
	struct err *err;

	if (!manager->queue_wait_ms || is_ending(manager) || manager->unknown ||
	    (ask_host(manager->ask) && manager->settled))
		return OK;
	err = ask_wait_linked(manager->ask, deadline);
	while (!err && !manager->settled && !manager->unknown && !is_ending(manager))
		err = condition_wait(&manager->left, deadline);
	if (err && err_kind(err) == ERR_CANCELLED)
		return err;
	err_free(err);
	return OK;
}

static fallible still_starting(void)
{
	return err_hint(
		err_new(UNAVAILABLE, "starting", "cove is starting and adopting its sandboxes"),
		"try again in a moment");
}

fallible create_find_made(struct manager *manager, const struct who *who, struct str id,
			  const struct record **out)
{
	int64_t deadline = loop_now(manager->loop) + START_MS;
	auto_entry entry = NULL;

	TRY(access_ask(who, ACCESS_READ));
	TRY(create_await_start(manager));
	if (!manager->settled)
		return still_starting();
	entry = access_find(manager, who, id);
	if (entry)
		entry_ref(entry);
	while (entry && entry->listed && (entry->moving || entry->record.state == STATE_CREATING)) {
		auto_err err = condition_wait(&entry->changed, deadline);

		if (err)
			return err_kind(err) == ERR_TIMEOUT ? still_starting() : take_ptr(err);
	}
	if (!entry || !entry->listed)
		return access_absent(id);
	*out = &entry->record;
	return OK;
}

static fallible manager_create_ask_room(struct manager *manager)
{
	const struct order_host *host = ask_host(manager->ask);
	size_t count = map_count(manager->by_id);

	if (is_ending(manager))
		return err_new(UNAVAILABLE, "draining", "cove is shutting down");
	if (!host)
		return err_new(UNAVAILABLE, "no_warden", "cove is starting; try again in a moment");
	if (manager->store)
		TRY(store_ready(manager->store));
	if (!manager->settled)
		return still_starting();
	if (count >= manager->boxes_max || count >= host->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"this host has as many sandboxes as it may have"),
				"delete some, or raise boxes-max");
	return OK;
}

// A default limit that this host cannot enforce is dropped; a requested one is refused.
static fallible fit_disk(const struct manager *manager, struct spec *spec)
{
	const struct order_host *host = ask_host(manager->ask);

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
		.net = attach_is_wanted(record),
		.mounts = (uint32_t)record->volumes.count,
		.volumes = &record->volumes,
	};

	snprintf(order.box, sizeof(order.box), "%s", record->id);
	snprintf(order.name, sizeof(order.name), "%s",
		 record->fork[0]   ? record->fork
		 : record->root[0] ? record->root
				   : record->template);
	snprintf(order.host, sizeof(order.host), "%s", record_host(record));
	return order;
}

// Refusals of the warden that may pass: some resources come back when the trash is emptied.
struct passing {
	const char *reason;
	int64_t pause_ms;
	int tries; // beyond the wait in the queue
};

static const struct passing *passing_of(const struct err *err)
{
	static const struct passing all[] = {
		{"no_ids", 100, 0},	 {"no_loop", 100, 0},	    {"host_full", 100, 0},
		{"volume_busy", 100, 0}, {"prebuilt_lost", 5, 100}, // its prebuilt box ended and is
								    // being removed
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && err_kind(err) == ERR_EXHAUSTED; i++)
		if (!strcmp(err_reason(err), all[i].reason))
			return &all[i];
	return NULL;
}

static fallible build_in_turn(struct entry *entry, const struct order *order, struct box **out)
{
	struct manager *manager = entry->manager;
	int64_t deadline = loop_now(manager->loop) + manager->queue_wait_ms;
	int late = 0;

	for (;;) {
		const struct passing *passing;
		struct err *err;

		TRY(queue_enter(manager, entry));
		err = box_build(manager->loop, manager->ask, order, manager->tapes_dir, out);
		queue_leave(manager);
		passing = err ? passing_of(err) : NULL;
		if (!passing)
			return err;
		if (loop_now(manager->loop) >= deadline && late++ >= passing->tries)
			return queue_explain(entry, err);
		err_free(err);
		TRY(task_sleep_until(loop_now(manager->loop) + passing->pause_ms));
	}
}

// box_build() has undone its work unless the outcome is unknown: then destroy whatever exists of
// the box, and only then remove the record.
static void undo(struct entry *entry, const struct err *err, bool foretold)
{
	struct manager *manager = entry->manager;

	if (!entry->listed)
		return;
	if (entry->box || err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_TIMEOUT ||
	    err_kind(err) == ERR_CANCELLED) {
		life_destroy(entry);
		return;
	}
	if (foretold) // the warden may never have got the order
		box_forget(manager->loop, manager->ask, entry->record.id);
	entry_publish(entry, EVENT_BOX_FAILED, err_reason(err), NULL);
	store_boxes_drop(manager->store, entry->record.id);
	table_remove(entry);
}

// The record of an owned box is written with the next commit of its owner.
static fallible create_put_record(struct entry *entry, const struct create_grant *grant)
{
	struct err *err;

	if (!grant->await_owner)
		return store_boxes_put(entry->manager->store, &entry->record);
	store_boxes_queue(entry->manager->store, &entry->record);
	err = grant->await_owner(grant->arg);
	if (err)
		store_boxes_drop(entry->manager->store, entry->record.id);
	return err;
}

// Ask the warden to mount the rootfs while the create record is being synced. The box has no owner
// until the record is durable.
static fallible write_and_build(struct entry *entry, const struct create_grant *grant)
{
	struct manager *manager = entry->manager;
	struct order order = create_order(&entry->record);
	uint32_t links = ask_links(manager->ask);
	// A queued create must not take resources yet.
	bool foretold = !queue_look(manager).waiting && box_foretell(manager->ask, &order);
	struct err *err = create_put_record(entry, grant);

	if (err) {
		if (foretold)
			box_forget(manager->loop, manager->ask, entry->record.id);
		table_remove(entry);
		return err;
	}
	entry_publish(entry, EVENT_BOX_CREATED, NULL, NULL);
	err = build_in_turn(entry, &order, &entry->box);
	if (!err && !box_is_alive(entry->box))
		err = err_new(UNAVAILABLE, "box_lost", "the sandbox ended during its create");
	if (!err) {
		entry_keep_output(entry);
		err = attach_take(entry, links, true);
	}
	if (!err)
		err = images_apply(entry);
	if (err)
		undo(entry, err, foretold);
	return err_while(err, "build %s", order.box);
}

// Reserves name, id and quota: the entry is visible from then on, and referenced.
static fallible create_reserve(struct manager *manager, struct spec *spec, struct entry **out)
{
	TRY(manager_create_ask_room(manager));
	TRY(budgets_ask(manager, spec->tenant, &spec->labels));
	TRY(fit_disk(manager, spec));
	TRY(attach_fit(manager, accounts_get(&manager->accounts, spec->tenant), spec));
	TRY(named_secrets_fill(manager, spec->tenant, spec->network));
	TRY(volumes_fill(manager, spec->tenant, &spec->volumes));
	TRY(table_add(manager, spec, out));
	entry_ref(*out);
	return OK;
}

static fallible create_build(struct entry *entry, const struct create_grant *grant)
{
	struct manager *manager = entry->manager;
	struct err *err = attach_seal(entry, entry->record.network);

	if (err)
		table_remove(entry);
	else
		err = write_and_build(entry, grant);
	if (err)
		return err;
	entry->record.started_ms = clock_wall_ms();
	entry->record.fork[0] = '\0'; // from now on its own disk counts
	manager->created++;
	entry_move(entry, STATE_RUNNING);
	box_on_loss(entry->box, life_lost, entry);
	return OK;
}

// The entry waits in state creating, without a record in the store: if the daemon ends, nothing is
// left of it, and the pull goes on.
static fallible create_await_pull(struct entry *entry, struct operation *pull)
{
	struct manager *manager = entry->manager;
	struct err *err;

	entry->pull = pull->id;
	err = pull_finish(manager, pull, &entry->record);
	entry->pull = NULL;
	queue_show(entry);
	entry->idle.busy_ms = loop_now(manager->loop);
	if (!err && !entry->listed)
		err = err_new(CANCELLED, "deleted", "the sandbox was deleted during its create");
	if (!err && is_ending(manager))
		err = err_new(UNAVAILABLE, "draining", "cove is shutting down");
	if (err)
		table_remove(entry);
	condition_signal(&entry->changed);
	return err;
}

// Counts the create. One that the client could have avoided is refused, and no failure. The time of
// a pull is not part of it.
static fallible create_measured(struct manager *manager, const struct create_grant *grant,
				struct spec *spec, struct operation *pull, struct entry **out)
{
	uint64_t waited = queue_look(manager).waited;
	int64_t began_us = clock_us();
	struct entry *entry = NULL;
	struct err *err = create_reserve(manager, spec, &entry);
	bool failed;

	if (pull && err)
		operation_drop(pull);
	else if (pull)
		err = create_await_pull(entry, pull);
	if (pull)
		began_us = clock_us();
	if (!err)
		err = create_build(entry, grant);
	if (!err)
		*out = entry;
	if (entry)
		entry_unref(entry); // the table still holds a reference
	failed = err && (err_http(err) >= 500 && err_http(err) != 507);
	metric_add(METRIC_BOXES_CREATED, !err ? "created" : failed ? "failed" : "refused", NULL, 1);
	if (!err)
		metric_observe(METRIC_BOX_CREATE,
			       queue_look(manager).waited > waited ? "queued" : "direct",
			       (double)(clock_us() - began_us) / 1e6);
	return err;
}

// CREATE_OR_GET replaces a failed box of that name.
static fallible clear_away(struct manager *manager, const struct who *who, const char *name)
{
	struct err *err = life_delete(manager, who, str_of(name), LIFE_WAITS);

	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		return OK;
	}
	return err;
}

// True for every state in which the box can be used, now or after a wake.
static bool is_there(enum state state)
{
	return state == STATE_RUNNING || state == STATE_PAUSED || state == STATE_FROZEN ||
	       state_is_stopped(state);
}

// The box of that name once it is known whether it will exist; NULL: there is none.
static fallible await_named(struct manager *manager, const struct who *who, const char *name,
			    struct entry **out)
{
	for (;;) {
		struct entry *entry = table_named(manager, who->tenant, str_of(name));
		struct err *err;

		if (!entry || is_there(entry->record.state)) {
			*out = entry;
			return OK;
		}
		if (entry->record.state == STATE_FAILED) {
			TRY(clear_away(manager, who, name),
			    "remove the failed sandbox of that name");
			continue;
		}
		entry_ref(entry);
		err = condition_wait(&entry->changed,
				     entry->pull ? pull_deadline(manager)
						 : loop_now(manager->loop) + BOX_READY_MS);
		entry_unref(entry);
		TRY(err, "wait for the sandbox of that name");
	}
}

// A tenant's template is looked up when its name is resolved, the operator's when it is used.
static fallible create_check_template(struct manager *manager, const struct who *who,
				      struct spec *spec)
{
	templates_default(manager, who, spec->template);
	if (!who->tenant[0] && strcmp(spec->template, "host") != 0) {
		struct template found;

		TRY(templates_get(manager, who, str_of(spec->template), &found));
	}
	return templates_resolve(manager, who, spec->template);
}

fallible create_check(struct manager *manager, const struct create_grant *grant, struct spec *spec)
{
	const struct who *who = grant->who;
	struct operation *pull = NULL; // none: the image is there
	bool pulled;
	snprintf(spec->tenant, sizeof(spec->tenant), "%s", who->tenant);
	if (!spec->image)
		TRY(create_check_template(manager, who, spec));
	TRY(attach_fit(manager, accounts_get(&manager->accounts, spec->tenant), spec));
	TRY(named_secrets_fill(manager, spec->tenant, spec->network));
	TRY(volumes_fill(manager, spec->tenant, &spec->volumes));
	if (!spec->image)
		return OK;
	TRY(pull_whole(manager, who, str_of(spec->image), pull_deadline(manager)));
	return pull_fill(manager, who, spec, &pulled, &pull);
}

// What `template`, `snapshot` or `image` of the spec stand for. *out_pull: an image that must be
// pulled first.
static fallible fill_template(struct manager *manager, const struct who *who, struct spec *spec,
			      struct operation **out_pull)
{
	bool pulled = false;

	templates_default(manager, who, spec->template);
	TRY(pull_fill(manager, who, spec, &pulled, out_pull));
	if (pulled || *out_pull)
		return OK;
	TRY(templates_resolve(manager, who, spec->template));
	return snapshot_note_fill(manager, spec);
}

// A sandbox that does not get ready does not stay.
static fallible create_launch(struct entry *entry)
{
	struct manager *manager = entry->manager;
	char tenant[RECORD_TENANT_MAX], id[ID_BOX_LEN + 1];
	auto_free char *text = entry->record.launch ? mem_str(entry->record.launch) : NULL;
	struct who cove = WHO_COVE;
	struct err *err;

	if (!text || !manager->launch)
		return OK;
	memcpy(tenant, entry->record.tenant, sizeof(tenant));
	memcpy(id, entry->record.id, sizeof(id));
	entry_ref(entry);
	err = manager->launch(manager, tenant, id, text);
	if (!err && !entry->listed)
		err = access_absent(str_of(id));
	entry_unref(entry);
	if (!err)
		return OK;
	task_shield(true);
	err_free(life_delete(manager, &cove, str_of(id), LIFE_WAITS | LIFE_FORCED));
	task_shield(false);
	return err;
}

fallible create_box(struct manager *manager, const struct create_grant *grant, struct spec *spec,
		    enum create_way way, const struct record **out, bool *out_made)
{
	const struct who *who = grant->who;
	struct entry *entry = NULL;
	bool made = false;

	snprintf(spec->tenant, sizeof(spec->tenant), "%s", who->tenant);
	TRY(create_await_start(manager));
	if (way == CREATE_OR_GET)
		TRY(await_named(manager, who, spec->name, &entry));
	if (!entry) {
		struct operation *pull = NULL;

		if (!spec->fork[0] && !spec->filled)
			TRY(fill_template(manager, who, spec, &pull));
		TRY(create_measured(manager, grant, spec, pull, &entry));
		made = true;
		if (manager->made)
			manager->made(entry);
		TRY(create_launch(entry));
	}
	*out = &entry->record;
	*out_made = made;
	return OK;
}
