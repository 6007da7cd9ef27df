// The store says what was promised, the warden what there is. For each record:
//
//	the record        its cell           becomes
//	deleting          any                buried; the record goes when that is verified
//	creating          alive              adopted, running: the answer was lost, the box was not
//	creating          else               buried, forgotten: it was never promised. But when the
//	                                     host was booted since: as any other, for it was perhaps
//	any other         alive              adopted, running
//	paused, frozen    frozen             adopted, and as it was
//	any other         frozen             adopted, frozen
//	any other         dead               ended; stopped if it has files, else failed
//	any other         kept               stopped
//	any other         none               failed: its files are lost, as after a power cut; an
//	                                     ephemeral one is gone
//	any other         still going        waited for, as one that is dead
//	cannot be read    any                failed, and left alone with whatever there is of it
//
// A cell without a record was never promised, and is buried; but only when every record could be
// read. Only the warden's word that a box does not live ends it. After any other failure (no
// descriptor is left, pid 1 does not answer, a tape cannot be opened) it is not yet adopted: it is
// tried again until it is, and a request for it is answered 503 not_adopted meanwhile. While the
// warden is away nothing is decided.
//
// The entries that are to be settled stand in a queue. A request for one of them puts it in front
// (adopt_await()). A box that keeps us waiting keeps nobody else: after LATE_MS without any
// progress those that are under way are late, the others go on, and the fleet is settled without
// them.
//
// An entry is `moving` until it is settled, so whoever wants it waits for its bell.
#include "fleet/adopt.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/rest.h"
#include "box/tape.h"
#include "fleet/adopt_queue.h"
#include "fleet/keep.h"
#include "fleet/life.h"
#include "fleet/templates.h"
#include "fleet/ways.h"
#include "store/boxes.h"

#define AGAIN_MS 200
#define LOAD_AGAIN_MS 1000
#define RECALLS 50 // while no descriptor is left
#define ORDER_MS 20000
#define AT_ONCE 64
#define LATE_MS 1000
#define GOING_MS 5000

struct found {
	enum order_cell_state state;
	bool known; // a record names it
};

struct adopt {
	struct fleet *fleet;
	struct map *cells; // id to struct found
	struct adopt_queue queue;
	uint32_t busy, late; // tasks under way, and those that nobody waits for any more
	uint32_t round;	     // those that began in an earlier one are late
	void (*done)(void *arg);
	void *arg;
};

// One try to settle an entry.
struct one {
	struct adopt *adopt;
	struct adopting *item;
	struct entry *entry; // the item's
	bool is_there;
	enum order_cell_state cell;
};

// ------------------------------------------------------------------------------------------ load

// It stays as it is, and so does its row: another daemon may be luckier.
static void leave_alone(struct entry *entry, const char *reason)
{
	entry->unreadable = true;
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry->record.state = STATE_FAILED;
	entry_weigh(entry);
}

// An id that is none names no cell, and a cell that seems to have no record may be its own.
static void fleet_adopt_enter(struct fleet *fleet, struct record *record, bool unreadable)
{
	struct entry *entry;

	if (!id_is_box(str_of(record->id))) {
		log_event(LOG_ERROR, "box.record_unreadable", "sandbox", record->id, NULL);
		fleet->doubtful = true;
		return;
	}
	entry = table_restore(fleet, record);
	way_unseal(entry);
	entry->moving = !unreadable;
	if (!unreadable)
		return;
	log_event(LOG_ERROR, "box.record_unreadable", "sandbox", entry->record.id, NULL);
	leave_alone(entry, "record_unreadable");
}

static void enter_ports(void *arg, struct str id, struct portbook *ports)
{
	struct fleet *fleet = arg;
	struct entry *entry = map_get(fleet->by_id, id);

	if (!entry || entry->ports.count)
		return;
	entry->ports = *ports;
	*ports = (struct portbook){0};
}

static fallible fleet_adopt_load(struct fleet *fleet)
{
	struct store_boxes boxes = {0};

	TRY(store_boxes_load(fleet->store, &boxes));
	for (size_t i = 0; i < boxes.count; i++)
		fleet_adopt_enter(fleet, &boxes.at[i], boxes.unreadable[i]);
	if (boxes.last_seq > fleet->next_seq)
		fleet->next_seq = boxes.last_seq;
	store_boxes_done(&boxes);
	fleet->unknown = false;
	// Boxes are known without their ports, too.
	auto_err err = keep_load_ports(fleet->store, enter_ports, fleet);
	if (err)
		log_event(LOG_WARN, "fleet.no_ports", "trail", err_trail(err), NULL);
	return OK;
}

void adopt_load(struct fleet *fleet)
{
	auto_err err = fleet_adopt_load(fleet);

	fleet->unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "fleet.unknown", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

// --------------------------------------------------------------------------------------- one box

static fallible fleet_adopt_order_plain(struct fleet *fleet, const char *id, enum order_kind kind)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = kind};
	int none[ORDER_FDS_MAX];

	snprintf(order.box, sizeof(order.box), "%s", id);
	return ask_order(fleet->ask, &order, answer, none, loop_now(fleet->loop) + ORDER_MS);
}

// A frozen pid 1 cannot say what it holds: it is thawed for a moment.
static fallible fleet_adopt_take_up(struct entry *entry, bool frozen)
{
	struct fleet *fleet = entry->fleet;
	struct box_return from = {
		.id = entry->record.id,
		.sockets = fleet->sockets,
		.tapes_dir = fleet->tapes_dir,
		.ephemeral = entry->record.ephemeral,
	};

	if (frozen)
		TRY(ask_unanswered(fleet_adopt_order_plain(fleet, entry->record.id, ORDER_THAW)),
		    "thaw it");
	TRY(box_adopt(fleet->loop, fleet->ask, &from, &entry->box));
	entry_keep_output(entry);
	return OK;
}

static bool freeze_again(struct entry *entry)
{
	auto_err err = box_pause(entry->box, loop_now(entry->fleet->loop) + ORDER_MS);

	// It runs then, which is no harm.
	if (err)
		log_event(LOG_WARN, "box.not_frozen", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
	return !err;
}

// The warden knows of no such box that lives.
static bool is_dead(const struct err *err)
{
	return err_kind(err) == ERR_NOT_FOUND && !strcmp(err_reason(err), "no_box");
}

// Waits while the warden is away: it may come back with another word.
static fallible take_up_linked(struct entry *entry, bool frozen)
{
	for (;;) {
		struct err *err = fleet_adopt_take_up(entry, frozen);

		if (!err || strcmp(err_reason(err), "no_warden") != 0)
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(entry->fleet->loop) + AGAIN_MS));
		TRY(ask_wait_linked(entry->fleet->ask, CLOCK_NEVER));
	}
}

static void say(struct entry *entry, enum state state, const char *reason)
{
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry_move(entry, state);
}

// What an earlier daemon wrote down of it is known again.
static void fleet_adopt_recall(struct entry *entry)
{
	struct err *err = OK;

	entry_need_box(entry);
	for (int tries = 0; tries < RECALLS; tries++) {
		err = box_recall(entry->box);
		if (!err || err_kind(err) != ERR_EXHAUSTED)
			break;
		err_free(take_ptr(err));
		err_free(task_sleep_until(loop_now(entry->fleet->loop) + AGAIN_MS));
	}
	if (err)
		log_event(LOG_WARN, "box.not_recalled", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
	err_free(err);
}

// Whatever is left of its processes, and of its files if they are not to stay.
static void end_remains(struct entry *entry)
{
	life_rest(entry);
	while (entry->burying)
		err_free(bell_wait(&entry->changed, CLOCK_NEVER));
}

// It was given up for lost, and its end was under way.
static void settle_failed(struct one *one)
{
	struct entry *entry = one->entry;

	entry->buried = !one->is_there;
	if (one->is_there && (one->cell != ORDER_CELL_KEPT || entry->record.ephemeral)) {
		end_remains(entry);
	} else if (one->is_there && !entry->record.disk_kept) {
		// Its end was verified by nobody who could write that down: its files are there.
		entry->record.disk_kept = true;
		entry_keep(entry);
	}
	fleet_adopt_recall(entry);
}

static void settle_still(struct one *one)
{
	struct entry *entry = one->entry;
	bool was_still = entry->record.state == STATE_STOPPED;

	if (!one->is_there) {
		entry->buried = true;
		entry->record.disk_kept = false;
		say(entry, STATE_FAILED, entry->record.ephemeral ? "box_lost" : RECORD_FILES_LOST);
	} else if (one->cell != ORDER_CELL_KEPT || entry->record.ephemeral) {
		snprintf(entry->record.reason, sizeof(entry->record.reason), "box_lost");
		end_remains(entry);
	} else if (!was_still) {
		entry->record.disk_kept = true;
		say(entry, STATE_STOPPED, "host_restarted");
	}
	fleet_adopt_recall(entry);
}

// False: it could not be taken up yet.
static bool settle_living(struct one *one)
{
	struct entry *entry = one->entry;
	struct fleet *fleet = entry->fleet;
	enum state was = entry->record.state;
	bool frozen = one->cell == ORDER_CELL_FROZEN;
	auto_err err = take_up_linked(entry, frozen);

	if (err && is_dead(err)) {
		one->cell = ORDER_CELL_DEAD; // since we looked
		if (was == STATE_CREATING)
			life_bury(entry);
		else
			settle_still(one);
		return true;
	}
	if (err) {
		if (strcmp(one->item->reason, err_reason(err)) != 0)
			log_event(LOG_WARN, "box.not_adopted", "sandbox", entry->record.id,
				  "reason", err_reason(err), "trail", err_trail(err), NULL);
		adopting_put_off(one->item, err_reason(err));
		return false;
	}
	if (one->item->tries)
		log_event(LOG_INFO, "box.adopted_late", "sandbox", entry->record.id, NULL);
	if (!entry->record.started_ms)
		entry->record.started_ms = clock_wall_ms();
	entry->way_due = fleet->egress && way_is_wanted(&entry->record);
	if (frozen && freeze_again(entry))
		say(entry, was == STATE_PAUSED ? STATE_PAUSED : STATE_FROZEN, "");
	else
		say(entry, STATE_RUNNING, "");
	bell_ring(&fleet->ways); // which passed it over while it was not known to run
	box_on_loss(entry->box, life_lost, entry);
	return true;
}

static void fleet_adopt_settle(void *arg)
{
	struct adopting *item = arg;
	struct entry *entry = item->entry;
	struct adopt *adopt = link_of(item->queue, struct adopt, queue);
	struct found *found = map_get(adopt->cells, str_of(entry->record.id));
	struct one one = {.adopt = adopt, .item = item, .entry = entry, .is_there = found != NULL};
	uint32_t round = item->round;
	bool lives, settled = true;

	one.cell = found ? found->state : ORDER_CELL_KEPT;
	lives = found && (one.cell == ORDER_CELL_ALIVE || one.cell == ORDER_CELL_FROZEN);
	task_shield(true);
	switch (entry->record.state) {
	case STATE_DELETING:
		life_bury(entry);
		break;
	case STATE_CREATING:
		if (lives)
			settled = settle_living(&one);
		else if (adopt->fleet->rebooted)
			settle_still(&one);
		else
			life_bury(entry);
		break;
	case STATE_FAILED:
		settle_failed(&one);
		break;
	default:
		if (lives)
			settled = settle_living(&one);
		else
			settle_still(&one);
	}
	if (settled) {
		entry->moving = false;
		adopting_end(item);
	}
	--*(round == adopt->round ? &adopt->busy : &adopt->late);
	bell_ring(&adopt->queue.changed);
}

// ------------------------------------------------------------------------------------------- all

static void drop_cells(struct adopt *adopt)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(adopt->cells, &at, &key, &value);)
		free(value);
	map_free(adopt->cells);
	adopt->cells = map_new();
}

struct looking {
	struct adopt *adopt;
	bool going;
};

static void fleet_adopt_see(void *arg, const struct order_cell *cell)
{
	struct looking *looking = arg;
	struct found *found = mem_new_of(struct found);

	found->state = cell->state;
	looking->going |= cell->state == ORDER_CELL_GOING;
	if (!map_put(looking->adopt->cells, str_of(cell->box), found))
		free(found);
}

// Until it is known of every cell what it is, or that it does not come to its end.
static fallible fleet_adopt_look(struct adopt *adopt)
{
	struct fleet *fleet = adopt->fleet;
	int64_t patience = loop_now(fleet->loop) + GOING_MS;

	for (;;) {
		struct looking looking = {.adopt = adopt};
		auto_err err = OK;

		TRY(ask_wait_linked(fleet->ask, CLOCK_NEVER));
		drop_cells(adopt);
		err = ask_cells(fleet->ask, fleet_adopt_see, &looking,
				loop_now(fleet->loop) + ORDER_MS);
		if (!err && (!looking.going || loop_now(fleet->loop) >= patience))
			return OK;
		if (err)
			log_event(LOG_WARN, "fleet.cells_unknown", "trail", err_trail(err), NULL);
		TRY(task_sleep_until(loop_now(fleet->loop) + AGAIN_MS));
	}
}

// Until fewer than `most` are at it.
static void await_some(struct adopt *adopt, uint32_t most)
{
	while (adopt->busy >= most) {
		auto_err err = bell_wait(&adopt->queue.changed,
					 loop_now(adopt->fleet->loop) + LATE_MS);

		if (!err)
			continue;
		adopt->late += adopt->busy;
		adopt->busy = 0;
		adopt->round++;
	}
}

// One that has a box was made by us, whatever befalls it now.
static void enqueue_all(struct adopt *adopt)
{
	list_each (at, &adopt->fleet->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (entry->moving && !entry->adopting && !entry->box)
			adopt_queue_add(&adopt->queue, entry);
	}
}

static void begin_one(struct adopt *adopt, struct adopting *item)
{
	struct fleet *fleet = adopt->fleet;
	auto_err err = admit_adopt(fleet->admit, loop_now(fleet->loop));

	if (err) {
		adopting_put_off(item, err_reason(err));
		return;
	}
	item->round = adopt->round;
	adopt->busy++;
	task_start(fleet->loop, "adopt", fleet_adopt_settle, item);
}

// Until each was tried, and the tasks have ended or are late.
static void fleet_adopt_settle_all(struct adopt *adopt)
{
	int64_t next;

	while (adopt->queue.untried) {
		begin_one(adopt, adopt_queue_next(&adopt->queue, &next));
		await_some(adopt, AT_ONCE);
	}
	await_some(adopt, 1);
}

// Those that could not be taken up are tried again, until there are none.
static void settle_rest(struct adopt *adopt)
{
	while (adopt->late || adopt->busy || !link_empty(&adopt->queue.items)) {
		int64_t next = CLOCK_NEVER;
		struct adopting *item = adopt->busy < AT_ONCE
						? adopt_queue_next(&adopt->queue, &next)
						: NULL;

		if (item)
			begin_one(adopt, item);
		else
			err_free(bell_wait(&adopt->queue.changed, next));
	}
}

static void bury_strays(struct adopt *adopt)
{
	struct fleet *fleet = adopt->fleet;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(adopt->cells, &at, &key, &value);) {
		char id[ID_BOX_LEN + 1];
		auto_err err = OK;

		if (((struct found *)value)->known || map_get(fleet->by_id, key))
			continue;
		snprintf(id, sizeof(id), STR_FMT, STR_ARG(key));
		log_event(LOG_WARN, "box.unrecorded", "sandbox", id, NULL);
		if (fleet->doubtful)
			continue; // it may be one whose record cannot be read
		err = fleet_adopt_order_plain(fleet, id, ORDER_BURY);
		if (err && err_kind(err) != ERR_NOT_FOUND)
			log_event(LOG_ERROR, "box.bury_failed", "sandbox", id, "trail",
				  err_trail(err), NULL);
	}
}

static bool has_record(const char *name, void *arg)
{
	const struct fleet *fleet = arg;

	return map_get(fleet->by_id, str_of(name)) != NULL;
}

// A box that ends while others are settled loses its record, and is no stray for that.
static void know_recorded(struct adopt *adopt)
{
	list_each (at, &adopt->fleet->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		struct found *found = map_get(adopt->cells, str_of(entry->record.id));

		if (found)
			found->known = true;
	}
}

static fallible adopt_all(struct adopt *adopt)
{
	struct fleet *fleet = adopt->fleet;

	while (fleet->unknown) {
		if (store_health(fleet->store) == STORE_CORRUPT)
			return store_ready(fleet->store);
		TRY(task_sleep_until(loop_now(fleet->loop) + LOAD_AGAIN_MS));
		err_free(fleet_adopt_load(fleet));
	}
	enqueue_all(adopt);
	TRY(fleet_adopt_look(adopt));
	know_recorded(adopt);
	if (!fleet->doubtful)
		tape_remove_strays(fleet->loop, fleet->tapes_dir, has_record, fleet);
	fleet_adopt_settle_all(adopt);
	bury_strays(adopt);
	return OK;
}

static void adopt_task(void *arg)
{
	struct adopt *adopt = arg;
	struct fleet *fleet = adopt->fleet;
	int64_t begin = clock_ms();
	auto_err err = adopt_all(adopt);
	char boxes[24], ms[24];

	fleet->settled = !err;
	fleet->changes++;
	bell_ring(&fleet->left);
	snprintf(boxes, sizeof(boxes), "%zu", map_count(fleet->by_id));
	snprintf(ms, sizeof(ms), "%lld", (long long)(clock_ms() - begin));
	if (err)
		log_event(LOG_ERROR, "fleet.unsettled", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
	else
		log_event(LOG_INFO, "fleet.settled", "boxes", boxes, "ms", ms, NULL);
	if (adopt->done)
		adopt->done(adopt->arg);
	err_free(templates_count(fleet)); // which is made good by the next change of a template
	if (!err)
		settle_rest(adopt);
	list_each (at, &adopt->queue.items)
		adopting_end(link_of(at, struct adopting, link));
	drop_cells(adopt);
	map_free(adopt->cells);
	free(adopt);
}

void adopt_start(struct fleet *fleet, void (*done)(void *arg), void *arg)
{
	struct adopt *adopt = mem_new_of(struct adopt);

	*adopt = (struct adopt){.fleet = fleet, .cells = map_new(), .done = done, .arg = arg};
	adopt_queue_init(&adopt->queue, fleet->loop);
	task_start(fleet->loop, "adopt.all", adopt_task, adopt);
}
