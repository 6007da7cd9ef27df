// Adoption after a start: compares the store's records with the warden's boxes until they agree.
// manager_adopt_settle() has the table. Only the warden's statement that a box does not live ends
// it: after any other failure (no descriptor left, pid 1 silent, a tape that cannot be opened)
// adoption is retried, and requests for that box get 503 not_adopted. Nothing is decided while the
// warden is away. A box without a record is destroyed only if every record could be read.
//
// Entries are queued; a request moves its entry to the front (adopt_await()). A slow box delays no
// other: after LATE_MS without progress, the tasks under way count as late and startup completes
// without them. An entry is `moving` until it is settled; requests for it wait for its condition.
#include "manager/adopt.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/freeze.h"
#include "box/tape.h"
#include "manager/adopt_queue.h"
#include "manager/life.h"
#include "manager/named_secrets.h"
#include "manager/network_attach.h"
#include "manager/pools.h"
#include "manager/registry_logins.h"
#include "manager/templates.h"
#include "manager/usage.h"
#include "manager/volumes.h"
#include "store/boxes.h"

#define AGAIN_MS 200
#define LOAD_AGAIN_MS 1000
#define RECOVER_TRIES 50 // with EMFILE
#define ORDER_MS 20000
#define AT_ONCE 64
#define LATE_MS 1000
#define GOING_MS 5000

struct found {
	enum order_box_state state;
	bool known; // a record has this id
};

struct adopt {
	struct manager *manager;
	struct map *boxes; // id to struct found
	struct adopt_queue queue;
	uint32_t busy, late; // running tasks; those of them that startup no longer waits for
	uint32_t round;	     // tasks that began in an earlier round are late
	void (*done)(void *arg);
	void *arg;
};

// One attempt to adopt an entry.
struct attempt {
	struct adopt *adopt;
	struct adopting *item;
	struct entry *entry; // of the item
	bool is_there;
	enum order_box_state found;
};

// ------------------------------------------------------------------------------------------ load

// The entry and its row stay unchanged: a later version of the daemon may be able to read the row.
static void leave_alone(struct entry *entry, const char *reason)
{
	entry->unreadable = true;
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry->record.state = STATE_FAILED;
	entry_weigh(entry);
}

// A malformed id matches no box, so a box that seems to have no record may belong to this one.
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
	// Adoption continues without the ports.
	auto_err err = exposed_ports_load(manager->store, enter_ports, manager);
	if (err)
		log_event(LOG_WARN, "manager.no_ports", "trail", err_trail(err), NULL);
	return OK;
}

void adopt_load(struct manager *manager)
{
	auto_err err = OK;

	named_secrets_load(manager);
	registry_logins_load(manager);
	volumes_load(manager);
	pools_load(manager);
	err = manager_adopt_load(manager);
	manager->unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.unknown", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

// --------------------------------------------------------------------------------------- one box

static fallible manager_adopt_order_plain(struct manager *manager, const char *id,
					  enum order_kind kind)
{
	return ask_plain(manager->ask, &(struct order){.kind = kind}, id,
			 loop_now(manager->loop) + ORDER_MS);
}

// A frozen pid 1 cannot report its state: thaw it for the duration of the report.
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

	// The box then runs, which is harmless.
	if (err)
		log_event(LOG_WARN, "box.not_frozen", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
	return !err;
}

// The warden says that no box of this id lives.
static bool is_dead(const struct err *err)
{
	return err_kind(err) == ERR_NOT_FOUND && !strcmp(err_reason(err), "no_box");
}

// Waits while the warden is away: the next warden may give another answer.
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

static void adopt_set_state(struct entry *entry, enum state state, const char *reason)
{
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry_move(entry, state);
}

// Restores sessions, processes and tapes from the state files of an earlier daemon.
static void manager_adopt_recover(struct entry *entry)
{
	struct err *err = OK;

	entry_need_box(entry);
	for (int tries = 0; tries < RECOVER_TRIES; tries++) {
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

// Kills the remaining processes, and removes the files unless they are to be kept.
static void end_remains(struct entry *entry)
{
	life_stop(entry);
	while (entry->destroying)
		err_free(condition_wait(&entry->changed, CLOCK_NEVER));
}

// The box had failed, and its teardown was under way.
static void settle_failed(struct attempt *attempt)
{
	struct entry *entry = attempt->entry;

	entry->destroyed = !attempt->is_there;
	if (attempt->is_there &&
	    ((attempt->found != ORDER_BOX_KEPT && attempt->found != ORDER_BOX_ARCHIVED) ||
	     entry->record.ephemeral)) {
		end_remains(entry);
	} else if (attempt->is_there && !entry->record.disk_kept) {
		// The teardown was not recorded as verified: the files are still there.
		entry->record.disk_kept = true;
		entry_keep(entry);
	}
	manager_adopt_recover(entry);
}

// Packed before the daemon has written so.
static void settle_archived(struct entry *entry)
{
	struct order_usage usage = {.disk = ORDER_USAGE_UNKNOWN};

	usage_ask(entry->manager, entry->record.id, &usage);
	entry->record.archive_bytes = usage.disk == ORDER_USAGE_UNKNOWN ? entry->record.limits.disk
									: usage.disk;
	entry_move(entry, STATE_ARCHIVED);
}

static void settle_still(struct attempt *attempt)
{
	struct entry *entry = attempt->entry;
	bool was_still = entry->record.state == STATE_STOPPED;

	if (!attempt->is_there) {
		entry->destroyed = true;
		entry->record.disk_kept = false;
		adopt_set_state(entry, STATE_FAILED,
				entry->record.ephemeral ? "box_lost" : RECORD_FILES_LOST);
	} else if (attempt->found == ORDER_BOX_ARCHIVED) {
		entry->record.disk_kept = true;
		if (entry->record.state != STATE_ARCHIVED)
			settle_archived(entry);
	} else if (attempt->found != ORDER_BOX_KEPT || entry->record.ephemeral) {
		snprintf(entry->record.reason, sizeof(entry->record.reason), "box_lost");
		end_remains(entry);
	} else if (!was_still) {
		entry->record.disk_kept = true;
		adopt_set_state(entry, STATE_STOPPED, "host_restarted");
	}
	manager_adopt_recover(entry);
}

// False: the box could not be adopted yet.
static bool settle_living(struct attempt *attempt)
{
	struct entry *entry = attempt->entry;
	struct manager *manager = entry->manager;
	enum state was = entry->record.state;
	bool frozen = attempt->found == ORDER_BOX_FROZEN;
	auto_err err = take_up_linked(entry, frozen);

	if (err && is_dead(err)) {
		attempt->found = ORDER_BOX_DEAD; // the box died since the listing
		if (was == STATE_CREATING)
			life_destroy(entry);
		else
			settle_still(attempt);
		return true;
	}
	if (err) {
		if (strcmp(attempt->item->reason, err_reason(err)) != 0)
			log_event(LOG_WARN, "box.not_adopted", "sandbox", entry->record.id,
				  "reason", err_reason(err), "trail", err_trail(err), NULL);
		adopting_put_off(attempt->item, err_reason(err));
		return false;
	}
	if (attempt->item->tries)
		log_event(LOG_INFO, "box.adopted_late", "sandbox", entry->record.id, NULL);
	if (!entry->record.started_ms)
		entry->record.started_ms = clock_wall_ms();
	entry->attach_due = manager->egress && attach_is_wanted(&entry->record);
	frozen = frozen && freeze_again(entry);
	if (frozen && was == STATE_PAUSED)
		entry_move(entry, STATE_PAUSED); // with the reason that it has
	else if (frozen)
		adopt_set_state(entry, STATE_FROZEN, "");
	else
		adopt_set_state(entry, STATE_RUNNING, "");
	condition_signal(&manager->attach_changed); // the reconciler skipped the box while it was
						    // not running
	box_on_loss(entry->box, life_lost, entry);
	return true;
}

// The record        the warden's box   becomes
// deleting          any                destroyed; the record goes when that is verified
// creating          alive              adopted, running: the answer was lost, the box was not
// creating          else               destroyed, record removed: it was never acknowledged. After
//                                      a boot of the host as any other: it may have been
// any other         alive              adopted, running
// paused, frozen    frozen             adopted, state unchanged
// any other         frozen             adopted, frozen
// any other         dead               ended; stopped if it has files, else failed
// any other         kept               stopped
// any other         archived           archived
// any other         none               failed: its files are lost, as after a power cut; an
//                                      ephemeral box is removed
// any other         still ending       waited for, then as dead
// unreadable        any                failed, and left alone with all of its resources
static void manager_adopt_settle(void *arg)
{
	struct adopting *item = arg;
	struct entry *entry = item->entry;
	struct adopt *adopt = link_of(item->queue, struct adopt, queue);
	struct found *found = map_get(adopt->boxes, str_of(entry->record.id));
	struct attempt attempt = {
		.adopt = adopt, .item = item, .entry = entry, .is_there = found != NULL};
	uint32_t round = item->round;
	bool lives, settled = true;

	attempt.found = found ? found->state : ORDER_BOX_KEPT;
	lives = found && (attempt.found == ORDER_BOX_ALIVE || attempt.found == ORDER_BOX_FROZEN);
	task_shield(true);
	switch (entry->record.state) {
	case STATE_DELETING:
		life_destroy(entry);
		break;
	case STATE_CREATING:
		if (lives)
			settled = settle_living(&attempt);
		else if (adopt->manager->rebooted)
			settle_still(&attempt);
		else
			life_destroy(entry);
		break;
	case STATE_FAILED:
		settle_failed(&attempt);
		break;
	default:
		if (lives)
			settled = settle_living(&attempt);
		else
			settle_still(&attempt);
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

	for (size_t at = 0; map_next(adopt->boxes, &at, &key, &value);)
		free(value);
	map_free(adopt->boxes);
	adopt->boxes = map_new();
}

struct looking {
	struct adopt *adopt;
	bool going;
};

static void manager_adopt_see(void *arg, const struct order_box *box)
{
	struct looking *looking = arg;
	struct found *found = mem_new_of(struct found);

	found->state = box->state;
	looking->going |= box->state == ORDER_BOX_GOING;
	if (!map_put(looking->adopt->boxes, str_of(box->box), found))
		free(found);
}

// Waits until the state of every box is known, or until a teardown makes no progress.
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

// Waits until fewer than `most` tasks run.
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

// An entry with a box was created by this daemon and needs no adoption.
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
	auto_err err = admit_adopt(manager->admit, loop_now(manager->loop), attach_owed(manager));

	if (err) {
		adopting_put_off(item, err_reason(err));
		return;
	}
	item->round = adopt->round;
	adopt->busy++;
	task_start(manager->loop, "adopt", manager_adopt_settle, item);
}

// Returns when each entry was tried and all tasks have ended or are late.
static void manager_adopt_settle_all(struct adopt *adopt)
{
	int64_t next;

	while (adopt->queue.untried) {
		begin_one(adopt, adopt_queue_next(&adopt->queue, &next));
		await_some(adopt, AT_ONCE);
	}
	await_some(adopt, 1);
}

// Retries the entries that could not be adopted until none is left.
static void adopt_retry_all(struct adopt *adopt)
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

	for (size_t at = 0; map_next(adopt->boxes, &at, &key, &value);) {
		char id[ID_BOX_LEN + 1];
		auto_err err = OK;

		if (((struct found *)value)->known || map_get(manager->by_id, key))
			continue;
		snprintf(id, sizeof(id), STR_FMT, STR_ARG(key));
		log_event(LOG_WARN, "box.unrecorded", "sandbox", id, NULL);
		if (manager->doubtful)
			continue; // its record may be unreadable
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

// A box that ends during adoption loses its record, but is not leaked.
static void know_recorded(struct adopt *adopt)
{
	list_each (at, &adopt->manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		struct found *found = map_get(adopt->boxes, str_of(entry->record.id));

		if (found)
			found->known = true;
	}
}

// The janitor tries again.
static void settle_volumes(struct manager *manager)
{
	auto_err err = volumes_settle(manager);

	if (err)
		log_event(LOG_ERROR, "volume.left", "trail", err_trail(err), NULL);
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
	settle_volumes(manager); // before boxes that use them are made
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
	err_free(templates_count(manager)); // the next change of a template counts again
	if (!err)
		adopt_retry_all(adopt);
	list_each (at, &adopt->queue.items)
		adopting_end(link_of(at, struct adopting, link));
	drop_boxes(adopt);
	map_free(adopt->boxes);
	free(adopt);
}

void adopt_start(struct manager *manager, void (*done)(void *arg), void *arg)
{
	struct adopt *adopt = mem_new_of(struct adopt);

	*adopt = (struct adopt){.manager = manager, .boxes = map_new(), .done = done, .arg = arg};
	adopt_queue_init(&adopt->queue, manager->loop);
	task_start(manager->loop, "adopt.all", adopt_task, adopt);
}
