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
#include "manager/adopt.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/freeze.h"
#include "box/tape.h"
#include "manager/adopt_queue.h"
#include "manager/life.h"
#include "manager/network_attach.h"
#include "manager/persist.h"
#include "manager/templates.h"
#include "store/boxes.h"

#define AGAIN_MS 200
#define LOAD_AGAIN_MS 1000
#define RECALLS 50 // while no descriptor is left
#define ORDER_MS 20000
#define AT_ONCE 64
#define LATE_MS 1000
#define GOING_MS 5000

struct found {
	enum order_box_state state;
	bool known; // a record names it
};

struct adopt {
	struct manager *manager;
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
	enum order_box_state cell;
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
static void manager_adopt_enter(struct manager *manager, struct record *record, bool unreadable)
{
	struct entry *entry;

	if (!id_is_box(str_of(record->id))) {
		log_event(LOG_ERROR, "box.record_unreadable", "sandbox", record->id, NULL);
		manager->doubtful = true;
		return;
	}
	entry = table_restore(manager, record);
	attach_unseal(entry);
	entry->moving = !unreadable;
	if (!unreadable)
		return;
	log_event(LOG_ERROR, "box.record_unreadable", "sandbox", entry->record.id, NULL);
	leave_alone(entry, "record_unreadable");
}

static void enter_ports(void *arg, struct str id, struct exposed_ports *ports)
{
	struct manager *manager = arg;
	struct entry *entry = map_get(manager->by_id, id);

	if (!entry || entry->ports.count)
		return;
	entry->ports = *ports;
	*ports = (struct exposed_ports){0};
}

static fallible manager_adopt_load(struct manager *manager)
{
	struct store_boxes boxes = {0};

	TRY(store_boxes_load(manager->store, &boxes));
	for (size_t i = 0; i < boxes.count; i++)
		manager_adopt_enter(manager, &boxes.at[i], boxes.unreadable[i]);
	if (boxes.last_seq > manager->next_seq)
		manager->next_seq = boxes.last_seq;
	store_boxes_done(&boxes);
	manager->unknown = false;
	// Boxes are known without their ports, too.
	auto_err err = persist_load_ports(manager->store, enter_ports, manager);
	if (err)
		log_event(LOG_WARN, "manager.no_ports", "trail", err_trail(err), NULL);
	return OK;
}

void adopt_load(struct manager *manager)
{
	auto_err err = manager_adopt_load(manager);

	manager->unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.unknown", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

// --------------------------------------------------------------------------------------- one box

static fallible manager_adopt_order_plain(struct manager *manager, const char *id,
					  enum order_kind kind)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = kind};
	int none[ORDER_FDS_MAX];

	snprintf(order.box, sizeof(order.box), "%s", id);
	return ask_order(manager->ask, &order, answer, none, loop_now(manager->loop) + ORDER_MS);
}

// A frozen pid 1 cannot say what it holds: it is thawed for a moment.
static fallible manager_adopt_take_up(struct entry *entry, bool frozen)
{
	struct manager *manager = entry->manager;
	struct box_return from = {
		.id = entry->record.id,
		.sockets = manager->sockets,
		.tapes_dir = manager->tapes_dir,
		.ephemeral = entry->record.ephemeral,
	};

	if (frozen)
		TRY(ask_unanswered(
			    manager_adopt_order_plain(manager, entry->record.id, ORDER_THAW)),
		    "thaw it");
	TRY(box_adopt(manager->loop, manager->ask, &from, &entry->box));
	entry_keep_output(entry);
	return OK;
}

static bool freeze_again(struct entry *entry)
{
	auto_err err = box_pause(entry->box, loop_now(entry->manager->loop) + ORDER_MS);

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
		struct err *err = manager_adopt_take_up(entry, frozen);

		if (!err || strcmp(err_reason(err), "no_warden") != 0)
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(entry->manager->loop) + AGAIN_MS));
		TRY(ask_wait_linked(entry->manager->ask, CLOCK_NEVER));
	}
}

static void say(struct entry *entry, enum state state, const char *reason)
{
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry_move(entry, state);
}

// What an earlier daemon wrote down of it is known again.
static void manager_adopt_recover(struct entry *entry)
{
	struct err *err = OK;

	entry_need_box(entry);
	for (int tries = 0; tries < RECALLS; tries++) {
		err = box_recover(entry->box);
		if (!err || err_kind(err) != ERR_EXHAUSTED)
			break;
		err_free(take_ptr(err));
		err_free(task_sleep_until(loop_now(entry->manager->loop) + AGAIN_MS));
	}
	if (err)
		log_event(LOG_WARN, "box.not_recovered", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
	err_free(err);
}

// Whatever is left of its processes, and of its files if they are not to stay.
static void end_remains(struct entry *entry)
{
	life_freeze(entry);
	while (entry->burying)
		err_free(condition_wait(&entry->changed, CLOCK_NEVER));
}

// It was given up for lost, and its end was under way.
static void settle_failed(struct one *one)
{
	struct entry *entry = one->entry;

	entry->destroyed = !one->is_there;
	if (one->is_there && (one->cell != ORDER_BOX_KEPT || entry->record.ephemeral)) {
		end_remains(entry);
	} else if (one->is_there && !entry->record.disk_kept) {
		// Its end was verified by nobody who could write that down: its files are there.
		entry->record.disk_kept = true;
		entry_keep(entry);
	}
	manager_adopt_recover(entry);
}

static void settle_still(struct one *one)
{
	struct entry *entry = one->entry;
	bool was_still = entry->record.state == STATE_STOPPED;

	if (!one->is_there) {
		entry->destroyed = true;
		entry->record.disk_kept = false;
		say(entry, STATE_FAILED, entry->record.ephemeral ? "box_lost" : RECORD_FILES_LOST);
	} else if (one->cell != ORDER_BOX_KEPT || entry->record.ephemeral) {
		snprintf(entry->record.reason, sizeof(entry->record.reason), "box_lost");
		end_remains(entry);
	} else if (!was_still) {
		entry->record.disk_kept = true;
		say(entry, STATE_STOPPED, "host_restarted");
	}
	manager_adopt_recover(entry);
}

// False: it could not be taken up yet.
static bool settle_living(struct one *one)
{
	struct entry *entry = one->entry;
	struct manager *manager = entry->manager;
	enum state was = entry->record.state;
	bool frozen = one->cell == ORDER_BOX_FROZEN;
	auto_err err = take_up_linked(entry, frozen);

	if (err && is_dead(err)) {
		one->cell = ORDER_BOX_DEAD; // since we looked
		if (was == STATE_CREATING)
			life_destroy(entry);
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
	entry->way_due = manager->egress && attach_is_wanted(&entry->record);
	if (frozen && freeze_again(entry))
		say(entry, was == STATE_PAUSED ? STATE_PAUSED : STATE_FROZEN, "");
	else
		say(entry, STATE_RUNNING, "");
	condition_signal(&manager->ways); // which passed it over while it was not known to run
	box_on_loss(entry->box, life_lost, entry);
	return true;
}

static void manager_adopt_settle(void *arg)
{
	struct adopting *item = arg;
	struct entry *entry = item->entry;
	struct adopt *adopt = link_of(item->queue, struct adopt, queue);
	struct found *found = map_get(adopt->cells, str_of(entry->record.id));
	struct one one = {.adopt = adopt, .item = item, .entry = entry, .is_there = found != NULL};
	uint32_t round = item->round;
	bool lives, settled = true;

	one.cell = found ? found->state : ORDER_BOX_KEPT;
	lives = found && (one.cell == ORDER_BOX_ALIVE || one.cell == ORDER_BOX_FROZEN);
	task_shield(true);
	switch (entry->record.state) {
	case STATE_DELETING:
		life_destroy(entry);
		break;
	case STATE_CREATING:
		if (lives)
			settled = settle_living(&one);
		else if (adopt->manager->rebooted)
			settle_still(&one);
		else
			life_destroy(entry);
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
	condition_signal(&adopt->queue.changed);
}

// ------------------------------------------------------------------------------------------- all

static void drop_boxes(struct adopt *adopt)
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

static void manager_adopt_see(void *arg, const struct order_box *cell)
{
	struct looking *looking = arg;
	struct found *found = mem_new_of(struct found);

	found->state = cell->state;
	looking->going |= cell->state == ORDER_BOX_GOING;
	if (!map_put(looking->adopt->cells, str_of(cell->box), found))
		free(found);
}

// Until it is known of every cell what it is, or that it does not come to its end.
static fallible manager_adopt_look(struct adopt *adopt)
{
	struct manager *manager = adopt->manager;
	int64_t patience = loop_now(manager->loop) + GOING_MS;

	for (;;) {
		struct looking looking = {.adopt = adopt};
		auto_err err = OK;

		TRY(ask_wait_linked(manager->ask, CLOCK_NEVER));
		drop_boxes(adopt);
		err = ask_boxes(manager->ask, manager_adopt_see, &looking,
				loop_now(manager->loop) + ORDER_MS);
		if (!err && (!looking.going || loop_now(manager->loop) >= patience))
			return OK;
		if (err)
			log_event(LOG_WARN, "manager.boxes_unknown", "trail", err_trail(err), NULL);
		TRY(task_sleep_until(loop_now(manager->loop) + AGAIN_MS));
	}
}

// Until fewer than `most` are at it.
static void await_some(struct adopt *adopt, uint32_t most)
{
	while (adopt->busy >= most) {
		auto_err err = condition_wait(&adopt->queue.changed,
					      loop_now(adopt->manager->loop) + LATE_MS);

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
	list_each (at, &adopt->manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (entry->moving && !entry->adopting && !entry->box)
			adopt_queue_add(&adopt->queue, entry);
	}
}

static void begin_one(struct adopt *adopt, struct adopting *item)
{
	struct manager *manager = adopt->manager;
	auto_err err = admit_adopt(manager->admit, loop_now(manager->loop));

	if (err) {
		adopting_put_off(item, err_reason(err));
		return;
	}
	item->round = adopt->round;
	adopt->busy++;
	task_start(manager->loop, "adopt", manager_adopt_settle, item);
}

// Until each was tried, and the tasks have ended or are late.
static void manager_adopt_settle_all(struct adopt *adopt)
{
	int64_t next;

	while (adopt->queue.untried) {
		begin_one(adopt, adopt_queue_next(&adopt->queue, &next));
		await_some(adopt, AT_ONCE);
	}
	await_some(adopt, 1);
}

// Those that could not be taken up are tried again, until there are none.
static void settle_freeze(struct adopt *adopt)
{
	while (adopt->late || adopt->busy || !link_empty(&adopt->queue.items)) {
		int64_t next = CLOCK_NEVER;
		struct adopting *item = adopt->busy < AT_ONCE
						? adopt_queue_next(&adopt->queue, &next)
						: NULL;

		if (item)
			begin_one(adopt, item);
		else
			err_free(condition_wait(&adopt->queue.changed, next));
	}
}

static void destroy_leaked_all(struct adopt *adopt)
{
	struct manager *manager = adopt->manager;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(adopt->cells, &at, &key, &value);) {
		char id[ID_BOX_LEN + 1];
		auto_err err = OK;

		if (((struct found *)value)->known || map_get(manager->by_id, key))
			continue;
		snprintf(id, sizeof(id), STR_FMT, STR_ARG(key));
		log_event(LOG_WARN, "box.unrecorded", "sandbox", id, NULL);
		if (manager->doubtful)
			continue; // it may be one whose record cannot be read
		err = manager_adopt_order_plain(manager, id, ORDER_DESTROY);
		if (err && err_kind(err) != ERR_NOT_FOUND)
			log_event(LOG_ERROR, "box.destroy_failed", "sandbox", id, "trail",
				  err_trail(err), NULL);
	}
}

static bool has_record(const char *name, void *arg)
{
	const struct manager *manager = arg;

	return map_get(manager->by_id, str_of(name)) != NULL;
}

// A box that ends while others are settled loses its record, and is no stray for that.
static void know_recorded(struct adopt *adopt)
{
	list_each (at, &adopt->manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		struct found *found = map_get(adopt->cells, str_of(entry->record.id));

		if (found)
			found->known = true;
	}
}

static fallible adopt_all(struct adopt *adopt)
{
	struct manager *manager = adopt->manager;

	while (manager->unknown) {
		if (store_health(manager->store) == STORE_CORRUPT)
			return store_ready(manager->store);
		TRY(task_sleep_until(loop_now(manager->loop) + LOAD_AGAIN_MS));
		err_free(manager_adopt_load(manager));
	}
	enqueue_all(adopt);
	TRY(manager_adopt_look(adopt));
	know_recorded(adopt);
	if (!manager->doubtful)
		tape_remove_leaked_all(manager->loop, manager->tapes_dir, has_record, manager);
	manager_adopt_settle_all(adopt);
	destroy_leaked_all(adopt);
	return OK;
}

static void adopt_task(void *arg)
{
	struct adopt *adopt = arg;
	struct manager *manager = adopt->manager;
	int64_t begin = clock_ms();
	auto_err err = adopt_all(adopt);
	char boxes[24], ms[24];

	manager->settled = !err;
	manager->changes++;
	condition_signal(&manager->left);
	snprintf(boxes, sizeof(boxes), "%zu", map_count(manager->by_id));
	snprintf(ms, sizeof(ms), "%lld", (long long)(clock_ms() - begin));
	if (err)
		log_event(LOG_ERROR, "manager.unsettled", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
	else
		log_event(LOG_INFO, "manager.settled", "boxes", boxes, "ms", ms, NULL);
	if (adopt->done)
		adopt->done(adopt->arg);
	err_free(templates_count(manager)); // which is made good by the next change of a template
	if (!err)
		settle_freeze(adopt);
	list_each (at, &adopt->queue.items)
		adopting_end(link_of(at, struct adopting, link));
	drop_boxes(adopt);
	map_free(adopt->cells);
	free(adopt);
}

void adopt_start(struct manager *manager, void (*done)(void *arg), void *arg)
{
	struct adopt *adopt = mem_new_of(struct adopt);

	*adopt = (struct adopt){.manager = manager, .cells = map_new(), .done = done, .arg = arg};
	adopt_queue_init(&adopt->queue, manager->loop);
	task_start(manager->loop, "adopt.all", adopt_task, adopt);
}
