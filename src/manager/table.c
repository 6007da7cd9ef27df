// The table of boxes: lookups by id, short id and name, reference counts, state changes.
// entry_move() changes a state: it updates the tenant's account, publishes the event, queues the
// record for the store and wakes the waiters.
#include "manager/table.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "box/freeze.h"
#include "egress/egress.h"
#include "store/boxes.h"
#include "types/foreign_name.h"

// Output that every box may keep without counting in the tenant's quota.
#define OUTPUT_FLOOR (1ull << 20)
#define OUTPUT_PART 64 // or this part of the box's disk

#define NAME_KEY_MAX (RECORD_TENANT_MAX + ID_NAME_MAX + 2)

void entry_ref(struct entry *entry)
{
	entry->holds++;
}

void entry_unref(struct entry *entry)
{
	if (--entry->holds)
		return;
	egress_box_free(entry->egress);
	if (entry->box)
		box_free(entry->box);
	record_done(&entry->record);
	exposed_ports_done(&entry->ports);
	free(entry->port_scan);
	free(entry->sampled);
	free(entry->meter);
	free(entry);
}

void entry_keep_output(struct entry *entry)
{
	const struct limits *limits = &entry->record.limits;
	uint64_t floor = limits->disk / OUTPUT_PART;

	box_keep_output(entry->box, limits_kept_output(limits),
			floor > OUTPUT_FLOOR ? floor : OUTPUT_FLOOR,
			entry->account ? &entry->account->output : NULL);
}

void entry_need_box(struct entry *entry)
{
	struct manager *manager = entry->manager;

	if (entry->box)
		return;
	entry->box = box_stopped(manager->loop, manager->ask, entry->record.id, manager->tapes_dir);
	entry_keep_output(entry);
}

void entry_detach(struct entry *entry)
{
	entry->attach_link = 0;
	entry->has_ca = false;
	if (entry->egress)
		err_free(egress_box_sockets(entry->egress, -1, -1)); // closing cannot fail
}

// The weight of a box follows from its state, and is updated at every change.
static enum account_weight weight_of(const struct entry *entry)
{
	if (!entry->listed)
		return ACCOUNT_NONE;
	switch (entry->record.state) {
	case STATE_STOPPED:
	case STATE_ARCHIVED:
	case STATE_FAILED:
		return entry->starting ? ACCOUNT_RUNNING : ACCOUNT_KEPT;
	default:
		return ACCOUNT_RUNNING;
	}
}

// The limits that its tenant is charged: while they change, the larger of both.
static struct limits entry_charged(const struct entry *entry)
{
	struct limits charged = entry->record.limits;

	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		if (limit_of(&entry->record.next, i) > limit_of(&charged, i))
			*limit_at(&charged, i) = limit_of(&entry->record.next, i);
	if (entry->record.state == STATE_ARCHIVED && !entry->starting)
		charged.disk = entry->record.archive_bytes;
	return charged;
}

void entry_set_limits(struct entry *entry, const struct limits *limits, const struct limits *next)
{
	const struct limits was = entry->charged, none = {0};

	entry->record.limits = *limits;
	entry->record.next = next ? *next : none;
	entry->charged = entry_charged(entry);
	account_move(entry->account, &was, entry->weight, ACCOUNT_NONE);
	account_move(entry->account, &entry->charged, ACCOUNT_NONE, entry->weight);
	entry->manager->changes++;
}

void entry_weigh(struct entry *entry)
{
	enum account_weight weight = weight_of(entry);
	const struct limits charged = entry_charged(entry);

	int more = (weight == ACCOUNT_RUNNING) - (entry->weight == ACCOUNT_RUNNING);

	if (entry->account) {
		account_move(entry->account, &entry->charged, entry->weight, ACCOUNT_NONE);
		account_move(entry->account, &charged, ACCOUNT_NONE, weight);
	}
	entry->charged = charged;
	entry->manager->running += (uint32_t)more;
	entry->manager->inoded += entry->record.limits.inodes ? (uint32_t)more : 0;
	entry->weight = weight;
}

bool entry_is_alive(const struct entry *entry)
{
	return entry->record.state == STATE_RUNNING && entry->box && box_is_alive(entry->box);
}

void entry_publish(const struct entry *entry, enum event_kind kind, const char *reason,
		   const char *from)
{
	const struct record *record = &entry->record;

	event_publish(kind, "tenant", record->tenant, "sandbox", record->id, "name",
		      record->name[0] ? record->name : NULL, "reason",
		      reason && *reason ? reason : NULL, "from", from, NULL);
}

// The event for a change of state, if there is one.
static void entry_publish_move(const struct entry *entry, enum state before)
{
	static const struct {
		bool is_event, has_reason, has_from;
		enum event_kind kind;
	} moves[STATE_COUNT] = {
		[STATE_RUNNING] = {true, false, false, EVENT_BOX_RUNNING},
		[STATE_PAUSED] = {true, false, false, EVENT_BOX_PAUSED},
		[STATE_FROZEN] = {true, false, false, EVENT_BOX_FROZEN},
		[STATE_STOPPED] = {true, true, true, EVENT_BOX_STOPPED},
		[STATE_ARCHIVED] = {true, false, false, EVENT_BOX_ARCHIVED},
		[STATE_DELETING] = {true, false, true, EVENT_BOX_DELETING},
		[STATE_FAILED] = {true, true, true, EVENT_BOX_FAILED},
	};
	enum state now = entry->record.state;
	const char *from = state_word(before);

	if (now == before || !moves[now].is_event)
		return;
	if (now == STATE_RUNNING &&
	    (before == STATE_PAUSED || before == STATE_FROZEN || state_is_stopped(before)))
		entry_publish(entry, EVENT_BOX_WOKEN, NULL, from);
	else
		entry_publish(entry, moves[now].kind,
			      moves[now].has_reason ? entry->record.reason : NULL,
			      moves[now].has_from ? from : NULL);
}

void entry_move(struct entry *entry, enum state state)
{
	enum state before = entry->record.state;

	if (state == STATE_FAILED && before != STATE_FAILED)
		entry->record.failed_ms = clock_steady_ms();
	if (state_is_stopped(state) && !state_is_stopped(before))
		entry->record.stopped_ms = clock_steady_ms();
	entry->record.state = state;
	entry->idle.busy_ms = loop_now(entry->manager->loop);
	entry->idle.look_ms = 0;
	entry->manager->changes++;
	entry_weigh(entry);
	entry_keep(entry);
	if (entry->listed) {
		live_log_record(entry->manager->live_log, &entry->live);
		entry_publish_move(entry, before);
	}
	condition_signal(&entry->changed);
}

void entry_close_files(struct entry *entry, bool hard)
{
	if (entry->box && !entry->visits && box_freeze_files(entry->box, hard))
		entry->idle.cpu_us = box_cpu_us(entry->box);
}

bool table_close_files(struct manager *manager, const struct err *shortage)
{
	if (!shortage || strcmp(err_reason(shortage), ASK_NO_FILES) != 0)
		return false;
	list_each (at, &manager->entries)
		entry_close_files(link_of(at, struct entry, link), true);
	admit_recount(manager->admit);
	return true;
}

void entry_keep(struct entry *entry)
{
	// A delete is recorded before it begins; an unreadable row is not overwritten.
	if (entry->listed && !entry->unreadable && !entry->ending &&
	    entry->record.state != STATE_DELETING)
		store_boxes_queue(entry->manager->store, &entry->record);
}

fallible entry_keep_now(struct entry *entry)
{
	if (entry->listed)
		live_log_record(entry->manager->live_log, &entry->live);
	if (!entry->manager->store)
		return OK;
	entry_keep(entry);
	return store_flush(entry->manager->store);
}

// "TENANT/NAME": every tenant has its own names.
static struct str name_key(char room[NAME_KEY_MAX], const char *tenant, struct str name)
{
	int len = snprintf(room, NAME_KEY_MAX, "%s/" STR_FMT, tenant, STR_ARG(name));

	return (struct str){room, len < NAME_KEY_MAX ? (size_t)len : 0};
}

static void manager_table_put_name(struct manager *manager, struct entry *entry)
{
	char room[NAME_KEY_MAX];

	if (entry->record.name[0])
		map_put(manager->by_name,
			name_key(room, entry->record.tenant, str_of(entry->record.name)), entry);
}

static void take_name(struct manager *manager, struct entry *entry)
{
	char room[NAME_KEY_MAX];

	if (entry->record.name[0])
		map_take(manager->by_name,
			 name_key(room, entry->record.tenant, str_of(entry->record.name)));
}

struct entry *table_named(const struct manager *manager, const char *tenant, struct str name)
{
	char room[NAME_KEY_MAX];
	struct str key = name_key(room, tenant, name);

	return key.len ? map_get(manager->by_name, key) : NULL;
}

fallible table_rename(struct entry *entry, const char *name)
{
	if (table_named(entry->manager, entry->record.tenant, str_of(name)))
		return err_hint(
			err_new(CONFLICT, "name_taken", "there is a sandbox named '%s'", name),
			"choose another name");
	take_name(entry->manager, entry);
	snprintf(entry->record.name, sizeof(entry->record.name), "%s", name);
	manager_table_put_name(entry->manager, entry);
	return OK;
}

// 48 random bits hardly ever collide, but a short id must never name two boxes.
static void settle_short_id(struct manager *manager, struct entry *entry)
{
	struct record *record = &entry->record;
	const char *hex = record->id + strlen("box-");
	size_t len = ID_SHORT_LEN;

	while (!map_put(manager->by_short, str_of(record->short_id), entry)) {
		len++;
		snprintf(record->short_id, sizeof(record->short_id), "%.*s", (int)len, hex);
	}
}

fallible table_add(struct manager *manager, struct spec *spec, struct entry **out)
{
	struct account *account = accounts_get(&manager->accounts, spec->tenant);
	char id[ID_BOX_LEN + 1];
	struct entry *entry;

	if (spec->name[0] && table_named(manager, spec->tenant, str_of(spec->name)))
		return err_hint(err_new(CONFLICT, "name_taken", "there is a sandbox named '%s'",
					spec->name),
				"choose another name, or PUT /v1/sandboxes/%s to get that one",
				spec->name);
	TRY(account_ask(account, &spec->limits, ACCOUNT_NONE, ACCOUNT_RUNNING));
	if (spec->id[0] && map_get(manager->by_id, str_of(spec->id)))
		return err_new(CONFLICT, "id_taken", "a sandbox with this id exists");
	entry = mem_new_of(struct entry);
	memcpy(id, spec->id, sizeof(id));
	do {
		if (!spec->id[0])
			ask_name_box(manager->ask, id);
	} while (!map_put(manager->by_id, str_of(id), entry));
	record_init(&entry->record, spec, id);
	settle_short_id(manager, entry);
	manager_table_put_name(manager, entry);
	condition_init(&entry->changed);
	link_init(&entry->readers);
	entry->manager = manager;
	entry->idle.busy_ms = loop_now(manager->loop);
	entry->record.seq = ++manager->next_seq;
	entry->holds = 1;
	entry->listed = true;
	entry->account = account;
	entry_weigh(entry);
	link_add(&manager->entries, &entry->link);
	manager->changes++;
	live_log_record(manager->live_log, &entry->live);
	*out = entry;
	return OK;
}

struct entry *table_restore(struct manager *manager, struct record *record)
{
	struct entry *entry = mem_new_of(struct entry);

	entry->record = *record;
	*record = (struct record){0};
	entry->manager = manager;
	entry->restored = true;
	entry->idle.busy_ms = loop_now(manager->loop);
	if (state_is_stopped(entry->record.state) && entry->record.stopped_ms)
		entry->idle.busy_ms -= clock_steady_ms() - entry->record.stopped_ms;
	map_put(manager->by_id, str_of(entry->record.id), entry);
	settle_short_id(manager, entry);
	manager_table_put_name(manager, entry);
	condition_init(&entry->changed);
	link_init(&entry->readers);
	entry->holds = 1;
	entry->listed = true;
	entry->account = accounts_get(&manager->accounts, entry->record.tenant);
	entry_weigh(entry);
	link_add(&manager->entries, &entry->link);
	if (entry->record.seq > manager->next_seq)
		manager->next_seq = entry->record.seq;
	manager->changes++;
	return entry;
}

void table_remove(struct entry *entry)
{
	struct manager *manager = entry->manager;

	if (!entry->listed)
		return;
	entry->listed = false;
	if (entry->record.state == STATE_DELETING)
		entry_publish(entry, EVENT_BOX_DELETED, NULL, NULL);
	map_take(manager->by_id, str_of(entry->record.id));
	map_take(manager->by_short, str_of(entry->record.short_id));
	take_name(manager, entry);
	link_drop(&entry->link);
	live_log_remove(manager->live_log, &entry->live, &entry->record);
	manager->changes++;
	entry_weigh(entry);
	condition_signal(&entry->changed);
	if (entry->gone)
		entry->gone(entry);
	condition_signal(&manager->left);
	if (manager->egress)
		egress_ring(manager->egress, entry->record.id);
	entry_unref(entry);
}

// Any prefix of an id with at least the digits of its short id names the box.
static struct entry *find_short(const struct manager *manager, struct str key)
{
	for (size_t len = ID_SHORT_LEN; len <= key.len; len++) {
		struct entry *entry = map_get(manager->by_short, (struct str){key.at, len});

		if (entry && !memcmp(entry->record.id + strlen("box-"), key.at, key.len))
			return entry;
	}
	return NULL;
}

struct entry *table_find(const struct manager *manager, const char *tenant, struct str key)
{
	char form[FOREIGN_NAME_MAX + 2];
	struct entry *found;

	if (id_is_box(key))
		return map_get(manager->by_id, key);
	if (id_is_short(key) && (found = find_short(manager, key)))
		return found;
	if (!id_is_name(key) && foreign_name_write(key, id_is_name, form))
		key = str_of(form);
	return table_named(manager, tenant, key);
}
