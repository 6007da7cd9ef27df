// Volumes in memory, by TENANT/NAME, beside their rows. A create and a delete write the row first,
// then order the deed, then write the row again or drop it: a daemon that dies in between leaves a
// row that says what is to be undone, and volumes_settle() does it, as it does when the warden
// could not be asked. A volume is in use while the record of a sandbox names it, whatever the state
// of that sandbox.
#include "manager/volumes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/access.h"
#include "store/volumes.h"

#define MIB (1ull << 20)
#define SIZE_MAX_MB (1ull << 24)
#define ORDER_MS 60000
#define MEASURE_MS 5000
#define SETTLE_MS 30000

static const char *const state_words[] = {"creating", "ready", "deleting"};

static char *volume_key(const char *tenant, struct str name)
{
	return mem_fmt("%s/" STR_FMT, tenant, STR_ARG(name));
}

const struct volume *volumes_next(const struct manager *manager, size_t *at)
{
	struct str key;
	void *value;

	return map_next(manager->volumes, at, &key, &value) ? value : NULL;
}

static struct volume *volume_named(const struct manager *manager, const char *tenant,
				   struct str name)
{
	auto_free char *key = volume_key(tenant, name);

	return map_get(manager->volumes, str_of(key));
}

static const struct volume *volume_by_id(const struct manager *manager, struct str id)
{
	const struct volume *volume;
	size_t at = 0;

	while ((volume = volumes_next(manager, &at)))
		if (str_is(id, volume->id))
			return volume;
	return NULL;
}

bool volumes_known(const struct manager *manager, const char *id)
{
	return volume_by_id(manager, str_of(id)) != NULL;
}

bool volumes_are_of(const struct manager *manager, const char *tenant)
{
	const struct volume *volume;
	size_t at = 0;

	while ((volume = volumes_next(manager, &at)))
		if (!strcmp(volume->tenant, tenant))
			return true;
	return false;
}

static void volume_count(struct manager *manager, const char *tenant)
{
	const struct volume *volume;
	uint64_t sum = 0;
	size_t at = 0;

	while ((volume = volumes_next(manager, &at)))
		sum += strcmp(volume->tenant, tenant) ? 0 : volume->size;
	accounts_get(&manager->accounts, tenant)->used.volumes = sum;
}

static struct volume *volume_keep(struct manager *manager, const struct volume *from)
{
	auto_free char *key = volume_key(from->tenant, str_of(from->name));
	struct volume *volume = mem_new_of(struct volume);

	*volume = *from;
	map_put(manager->volumes, str_of(key), volume);
	volume_count(manager, volume->tenant);
	return volume;
}

static void volume_take(struct manager *manager, struct volume *volume)
{
	auto_free char *key = volume_key(volume->tenant, str_of(volume->name));
	char tenant[WHO_TENANT_MAX + 1];

	memcpy(tenant, volume->tenant, sizeof(tenant));
	map_take(manager->volumes, str_of(key));
	free(volume);
	volume_count(manager, tenant);
}

static fallible volumes_ready(const struct manager *manager)
{
	if (!manager->volumes_unknown)
		return OK;
	return err_hint(err_new(UNAVAILABLE, "state_corrupt", "the volumes could not be read"),
			"the operator's log has the cause: manager.no_volumes");
}

static fallible volume_absent(struct str key)
{
	return err_hint(err_absent("no_volume", "volume", key), "'cove volume ls' lists them");
}

static bool entry_has(const struct entry *entry, const struct volume *volume)
{
	for (size_t i = 0; i < entry->record.volumes.count; i++)
		if (!strcmp(entry->record.volumes.at[i].id, volume->id))
			return true;
	return false;
}

void volumes_put(struct json_out *out, const struct manager *manager, const struct volume *volume)
{
	json_begin(out, '{');
	json_put_text(out, "id", volume->id);
	json_put_text(out, "name", volume->name);
	json_put_text(out, "state", state_words[volume->state]);
	json_key(out, "sizeMB");
	if (volume->size)
		json_add_int(out, (int64_t)(volume->size / MIB));
	else
		json_add_null(out);
	json_key(out, "bytes");
	if (volume->used != ORDER_USAGE_UNKNOWN)
		json_add_int(out, (int64_t)volume->used);
	else
		json_add_null(out);
	json_put_begin(out, "usedBy", '[');
	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry_has(entry, volume))
			json_add_text(out, entry->record.id);
	}
	json_end(out, ']');
	json_put_time(out, "createdAt", volume->created_ms);
	json_end(out, '}');
}

static fallible volume_write(struct manager *manager, const struct volume *volume)
{
	if (!manager->store)
		return OK;
	return store_volumes_put(manager->store, &(struct store_volume){
							 .id = volume->id,
							 .tenant = volume->tenant,
							 .name = volume->name,
							 .state = state_words[volume->state],
							 .size = (int64_t)volume->size,
							 .created_ms = volume->created_ms,
						 });
}

static fallible volume_order(struct manager *manager, enum order_kind kind, const char *id,
			     uint64_t size)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = kind, .size = size};
	int none[ORDER_FDS_MAX];

	snprintf(order.volume, sizeof(order.volume), "%s", id);
	return ask_unanswered(
		ask_order(manager->ask, &order, answer, none, loop_now(manager->loop) + ORDER_MS));
}

// ------------------------------------------------------------------------------------------ create

static fallible volume_read(const struct manager *manager, const struct json *body,
			    struct volume *out)
{
	static const char *const known[] = {"name", "sizeMB", NULL};
	const struct order_host *host = ask_host(manager->ask);
	const struct json *size = json_get(body, "sizeMB");
	struct str name = {0};
	uint64_t mb = 0;

	TRY(json_want(body, "body", JSON_OBJECT));
	TRY(json_only(body, known));
	TRY(json_str(json_get(body, "name"), "name", &name));
	if (!volume_is_name(name))
		return volume_bad_name();
	if (size)
		TRY(json_u64(size, "sizeMB", 4, SIZE_MAX_MB, &mb));
	if (!host)
		return err_new(UNAVAILABLE, "no_warden", "cove is starting; try again in a moment");
	if (mb && !host->can_limit_disk)
		return err_hint(err_new(INVALID, "no_disk_limit",
					"this host cannot keep a limit on the size of a volume"),
				"leave sizeMB out; 'cove doctor' tells what is missing");
	snprintf(out->name, sizeof(out->name), STR_FMT, STR_ARG(name));
	out->size = mb ? mb * MIB : host->can_limit_disk ? LIMITS_DEFAULT.disk : 0;
	return OK;
}

static fallible volume_ask_room(struct manager *manager, const struct volume *volume)
{
	const struct volume *other;
	size_t at = 0, count = 0;

	if (volume_named(manager, volume->tenant, str_of(volume->name)))
		return err_hint(err_new(CONFLICT, "volume_exists", "there is a volume named '%s'",
					volume->name),
				"choose another name, or delete that one");
	while ((other = volumes_next(manager, &at)))
		count += !strcmp(other->tenant, volume->tenant);
	if (count >= VOLUMES_OF_TENANT_MAX)
		return err_hint(err_new(EXHAUSTED, "quota", "a tenant has at most %d volumes",
					VOLUMES_OF_TENANT_MAX),
				"delete one: cove volume rm NAME");
	return account_ask_disk(accounts_get(&manager->accounts, volume->tenant), volume->size);
}

static fallible volume_remove_parts(struct manager *manager, const struct volume *volume)
{
	TRY(volume_order(manager, ORDER_UNVOLUME, volume->id, 0), "remove the files of a volume");
	kill_point("daemon.volume", "removed");
	return manager->store ? err_while(store_volumes_drop(manager->store, volume->id),
					  "drop the row of a volume")
			      : OK;
}

// The warden's part, then the row. A failure leaves the row for the next try.
static fallible volume_remove(struct manager *manager, struct volume *volume)
{
	struct err *err;

	volume->busy = true;
	err = volume_remove_parts(manager, volume);
	volume->busy = false;
	if (!err)
		volume_take(manager, volume);
	condition_signal(&manager->volume_changed);
	return err;
}

static fallible volume_build(struct manager *manager, struct volume *volume)
{
	TRY(volume_write(manager, volume), "record a volume");
	kill_point("daemon.volume", "recorded");
	TRY(volume_order(manager, ORDER_VOLUME, volume->id, volume->size), "make a volume");
	kill_point("daemon.volume", "made");
	volume->state = VOLUME_READY;
	return volume_write(manager, volume);
}

static void volume_undo(struct manager *manager, struct volume *volume)
{
	auto_err err = OK;

	volume->state = VOLUME_DELETING;
	err = volume_remove(manager, volume);
	if (err)
		log_event(LOG_ERROR, "volume.left", "volume", volume->id, "trail", err_trail(err),
			  NULL);
}

// A volume of that name that is being made or removed, also by what a killed daemon began, is
// waited for: it says nothing about the request that comes after it.
static void volume_wait_settled(struct manager *manager, const struct volume *like)
{
	int64_t deadline = loop_now(manager->loop) + SETTLE_MS;
	const struct volume *volume;

	while ((volume = volume_named(manager, like->tenant, str_of(like->name))) &&
	       (volume->busy || volume->state != VOLUME_READY)) {
		auto_err err = condition_wait(&manager->volume_changed, deadline);

		if (err)
			return;
	}
}

fallible volumes_create(struct manager *manager, const struct who *who, const struct json *body,
			const struct volume **out)
{
	struct volume from = {
		.created_ms = clock_wall_ms(), .used = ORDER_USAGE_UNKNOWN, .busy = true};
	struct create_grant grant;
	struct volume *volume;
	struct err *err;

	TRY(access_create(who, &grant));
	TRY(volumes_ready(manager));
	snprintf(from.tenant, sizeof(from.tenant), "%s", who->tenant);
	TRY(volume_read(manager, body, &from));
	volume_wait_settled(manager, &from);
	TRY(volume_ask_room(manager, &from));
	id_volume(from.id);
	volume = volume_keep(manager, &from);
	task_shield(true);
	err = volume_build(manager, volume);
	if (err)
		volume_undo(manager, volume);
	else
		volume->busy = false;
	condition_signal(&manager->volume_changed);
	task_shield(false);
	TRY(err);
	event_publish(EVENT_VOLUME_MADE, "tenant", volume->tenant, "volume", volume->name, NULL);
	*out = volume;
	return OK;
}

// --------------------------------------------------------------------------------------------- use

// NULL: none that the caller may know of.
static struct volume *volume_seen(const struct manager *manager, const struct who *who,
				  struct str key)
{
	const struct volume *volume = NULL;

	if (who->box[0])
		return NULL;
	if (id_is_volume(key))
		volume = volume_by_id(manager, key);
	else if (volume_is_name(key))
		volume = volume_named(manager, who->tenant, key);
	return volume && access_sees(who, volume->tenant, "") ? (struct volume *)volume : NULL;
}

static void volume_measure(void *arg, const struct order_volume *row)
{
	struct volume *volume = (struct volume *)volume_by_id(arg, str_of(row->volume));

	if (volume)
		volume->used = row->bytes;
}

// Without an answer the last numbers stay.
static void volumes_measure(struct manager *manager)
{
	auto_err err = ask_volumes(manager->ask, volume_measure, manager,
				   loop_now(manager->loop) + MEASURE_MS);

	if (err)
		log_event(LOG_WARN, "volume.not_measured", "trail", err_trail(err), NULL);
}

fallible volumes_get(struct manager *manager, const struct who *who, struct str key,
		     const struct volume **out)
{
	struct volume *volume;

	TRY(access_ask(who, ACCESS_READ));
	TRY(volumes_ready(manager));
	if (!volume_seen(manager, who, key))
		return volume_absent(key);
	volumes_measure(manager);
	volume = volume_seen(manager, who, key); // the wait may have ended it
	if (!volume)
		return volume_absent(key);
	*out = volume;
	return OK;
}

static int volume_compare_names(const void *a, const void *b)
{
	const struct volume *const *one = a, *const *two = b;

	return strcmp((*one)->name, (*two)->name);
}

fallible volumes_all(struct manager *manager, const struct who *who, const struct volume ***out,
		     size_t *out_count)
{
	const struct volume **all, *volume;
	size_t at = 0, count = 0;

	TRY(access_ask(who, ACCESS_READ));
	TRY(volumes_ready(manager));
	volumes_measure(manager);
	all = mem_new((map_count(manager->volumes) + 1) * sizeof(void *));
	while (!who->box[0] && (volume = volumes_next(manager, &at)))
		if (!strcmp(volume->tenant, who->tenant))
			all[count++] = volume;
	qsort(all, count, sizeof(void *), volume_compare_names);
	*out = all;
	*out_count = count;
	return OK;
}

static fallible volume_ask_unused(const struct manager *manager, const struct volume *volume)
{
	if (volume->busy)
		return err_new(UNAVAILABLE, "being_changed", "the volume is being made or deleted");
	if (manager->unknown || manager->doubtful)
		return err_new(UNAVAILABLE, "state_corrupt",
			       "it is unknown which sandboxes have the volume");
	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);

		if (entry->unreadable && !strcmp(entry->record.tenant, volume->tenant))
			return err_new(CONFLICT, "in_use",
				       "the sandbox %s, whose record is damaged, may have it",
				       entry->record.short_id);
		if (entry_has(entry, volume))
			return err_hint(err_new(CONFLICT, "in_use",
						"the sandbox %s has the volume '%s'",
						entry->record.short_id, volume->name),
					"delete the sandboxes that 'usedBy' of the volume lists, "
					"also stopped ones");
	}
	return OK;
}

// Waits while the volume is being made or removed. *out NULL: it is gone since the call.
static fallible volume_wait_idle(struct manager *manager, const struct who *who, struct str key,
				 struct volume **out)
{
	int64_t deadline = loop_now(manager->loop) + SETTLE_MS;
	struct volume *volume = volume_seen(manager, who, key);
	char id[sizeof(volume->id)];

	if (!volume)
		return volume_absent(key);
	memcpy(id, volume->id, sizeof(id));
	while (volume && volume->busy && loop_now(manager->loop) < deadline) {
		struct err *err = condition_wait(&manager->volume_changed, deadline);

		if (err && err_kind(err) != ERR_TIMEOUT)
			return err;
		err_free(err);
		volume = (struct volume *)volume_by_id(manager, str_of(id));
	}
	*out = volume;
	return OK;
}

fallible volumes_delete(struct manager *manager, const struct who *who, struct str key)
{
	char tenant[WHO_TENANT_MAX + 1], name[ID_NAME_MAX + 1];
	enum volume_state before;
	struct volume *volume = NULL;
	struct err *err;

	TRY(access_ask(who, ACCESS_MAKE));
	TRY(volumes_ready(manager));
	TRY(volume_wait_idle(manager, who, key, &volume));
	if (!volume)
		return OK;
	TRY(volume_ask_unused(manager, volume));
	memcpy(tenant, volume->tenant, sizeof(tenant));
	memcpy(name, volume->name, sizeof(name));
	before = volume->state;
	volume->state = VOLUME_DELETING;
	volume->busy = true;
	task_shield(true);
	err = volume_write(manager, volume);
	kill_point("daemon.volume", "deleting");
	if (err) {
		volume->state = before; // nothing was done
		volume->busy = false;
		condition_signal(&manager->volume_changed);
	} else {
		err = volume_remove(manager, volume);
	}
	task_shield(false);
	TRY(err, "delete a volume");
	event_publish(EVENT_VOLUME_GONE, "tenant", tenant, "volume", name, NULL);
	return OK;
}

fallible volumes_fill(const struct manager *manager, const char *tenant,
		      struct volume_mounts *mounts)
{
	for (size_t i = 0; mounts->at && i < mounts->count; i++) {
		struct str key = str_of(mounts->at[i].name);
		const struct volume *volume;

		TRY(volumes_ready(manager));
		volume = id_is_volume(key) ? volume_by_id(manager, key)
					   : volume_named(manager, tenant, key);
		if (volume && strcmp(volume->tenant, tenant) != 0)
			volume = NULL;
		if (!volume || volume->state != VOLUME_READY || volume->busy)
			return volume_absent(str_of(mounts->at[i].name));
		memcpy(mounts->at[i].id, volume->id, sizeof(mounts->at[i].id));
		memcpy(mounts->at[i].name, volume->name, sizeof(mounts->at[i].name));
	}
	return OK;
}

// -------------------------------------------------------------------------------------------- load

static fallible volume_load(struct manager *manager, const struct store_volume *row)
{
	struct volume volume = {.size = (uint64_t)row->size,
				.created_ms = row->created_ms,
				.used = ORDER_USAGE_UNKNOWN,
				.state = VOLUME_DELETING};

	if (!id_is_volume(str_of(row->id)) || !volume_is_name(str_of(row->name)) ||
	    strlen(row->tenant) > WHO_TENANT_MAX || row->size < 0)
		return err_new(INVALID, "bad_field", "the row of the volume %s is damaged",
			       row->id);
	snprintf(volume.id, sizeof(volume.id), "%s", row->id);
	snprintf(volume.tenant, sizeof(volume.tenant), "%s", row->tenant);
	snprintf(volume.name, sizeof(volume.name), "%s", row->name);
	if (!strcmp(row->state, state_words[VOLUME_READY]))
		volume.state = VOLUME_READY;
	volume_keep(manager, &volume);
	return OK;
}

void volumes_load(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_volume *rows = NULL;
	auto_err err = OK;
	size_t count = 0;

	if (manager->store)
		err = store_volumes_load(manager->store, arena, &rows, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = volume_load(manager, &rows[i]);
	manager->volumes_unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.no_volumes", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

struct unrecorded {
	const struct manager *manager;
	char (*ids)[ID_BOX_LEN + 1];
	size_t count;
};

static void volume_see(void *arg, const struct order_volume *row)
{
	struct unrecorded *found = arg;
	char id[sizeof(row->volume)];

	memcpy(id, row->volume, sizeof(id));
	if (volumes_known(found->manager, id))
		return;
	found->ids = mem_grow(found->ids, found->count + 1, sizeof(*found->ids));
	memcpy(found->ids[found->count++], id, sizeof(id));
}

fallible volumes_settle(struct manager *manager)
{
	struct unrecorded found = {.manager = manager};
	struct err *err = OK;

	if (manager->volumes_unknown || !manager->store)
		return OK;
	for (;;) {
		struct volume *left = NULL;
		const struct volume *volume;
		size_t at = 0;

		while (!left && (volume = volumes_next(manager, &at)))
			if (volume->state != VOLUME_READY && !volume->busy)
				left = (struct volume *)volume;
		if (!left)
			break;
		err = volume_remove(manager, left);
		if (err)
			break;
	}
	if (!err)
		err = ask_volumes(manager->ask, volume_see, &found,
				  loop_now(manager->loop) + ORDER_MS);
	for (size_t i = 0; !err && i < found.count; i++) {
		log_event(LOG_WARN, "volume.unrecorded", "volume", found.ids[i], NULL);
		err = volume_order(manager, ORDER_UNVOLUME, found.ids[i], 0);
	}
	free(found.ids);
	return err_while(err, "remove what is left of volumes");
}

void volumes_free(struct manager *manager)
{
	size_t at = 0;
	struct str key;
	void *value;

	while (map_next(manager->volumes, &at, &key, &value))
		free(value);
	map_free(manager->volumes);
}
