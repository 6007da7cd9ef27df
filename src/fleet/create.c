// The name and the ids are reserved before the first wait, so two creates of one name never meet.
// Until pid 1 has greeted, the entry is in state creating: visible, but neither used nor deleted;
// whoever wants to do that waits for its bell. A failure takes the entry out again; box_build() has
// by then undone what it had done.
#include "fleet/create.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/access.h"
#include "fleet/life.h"

static fallible ask_room(struct fleet *fleet)
{
	const struct order_host *host = ask_host(fleet->ask);
	size_t count = map_count(fleet->by_id);

	if (fleet->closing)
		return err_new(UNAVAILABLE, "draining", "cove is shutting down");
	if (!host)
		return err_new(UNAVAILABLE, "no_warden", "cove is starting; try again in a moment");
	if (count >= fleet->boxes_max || count >= host->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"there are %zu sandboxes, and no more are allowed", count),
				"delete some, or raise boxes-max");
	return admit_ask(fleet->admit, loop_now(fleet->loop));
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
	if (!host->can_limit_disk)
		spec->limits.disk = 0;
	return OK;
}

static struct order order_of(const struct record *record)
{
	struct order order = {
		.kind = ORDER_BUILD,
		.limits = record->limits,
		// A box lives no longer than its daemon: none of its files is owed to the disk.
		.ephemeral = true,
	};

	snprintf(order.box, sizeof(order.box), "%s", record->id);
	snprintf(order.name, sizeof(order.name), "%s", record->template);
	snprintf(order.host, sizeof(order.host), "%s", record_host(record));
	return order;
}

static fallible build(struct fleet *fleet, struct spec *spec, struct entry **out)
{
	struct entry *entry = NULL;
	struct box *box = NULL;
	struct order order;
	struct err *err;

	TRY(ask_room(fleet));
	TRY(fit_disk(fleet, spec));
	TRY(table_add(fleet, spec, &entry));
	order = order_of(&entry->record);
	entry_hold(entry);
	err = box_build(fleet->loop, fleet->ask, &order, fleet->tapes_dir, &box);
	if (err) {
		table_remove(entry);
		err = err_while(err, "build %s", order.box);
		entry_drop(entry);
		return err;
	}
	entry->box = box;
	entry->record.started_ms = clock_wall_ms();
	fleet->created++;
	entry_move(entry, STATE_RUNNING);
	box_on_loss(box, life_lost, entry);
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

// The box of that name, once it is settled whether there will be one; NULL: there is none.
static fallible await_named(struct fleet *fleet, const struct who *who, const char *name,
			    struct entry **out)
{
	for (;;) {
		struct entry *entry = map_get(fleet->by_name, str_of(name));
		struct err *err;

		if (!entry || entry->record.state == STATE_RUNNING) {
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

fallible create_box(struct fleet *fleet, const struct who *who, struct spec *spec,
		    enum create_way way, const struct record **out, bool *out_made)
{
	struct entry *entry = NULL;
	bool made = false;

	TRY(access_ask(who, ACCESS_MAKE));
	if (way == CREATE_OR_GET)
		TRY(await_named(fleet, who, spec->name, &entry));
	if (!entry) {
		TRY(build(fleet, spec, &entry));
		made = true;
	}
	*out = &entry->record;
	*out_made = made;
	return OK;
}
