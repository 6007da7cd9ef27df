// PATCH of a sandbox: reads the whole body into copies first, then swaps them in, so that an
// invalid field changes nothing. The new record is durable before the answer.
#include "manager/change.h"

#include "base/clock.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/exec.h"
#include "manager/life.h"
#include "manager/limits.h"
#include "manager/network_attach.h"
#include "manager/sampler.h"
#include "manager/unsynced.h"
#include "store/store.h"

static void change_swap(struct env_map *a, struct env_map *b)
{
	struct env_map held = *a;

	*a = *b;
	*b = held;
}

fallible change_retention(struct manager *manager, const struct who *who, struct str key,
			  const struct json *object)
{
	struct entry *entry = NULL;

	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	TRY(retention_read(object, &entry->record.retention));
	return entry_keep_now(entry);
}

static void free_policy(struct policy **policy)
{
	policy_free(*policy);
}

// The change is durable before the answer. A policy is already in force: if the network attach
// fails, the reconciler retries it, and the change itself succeeds. Waits.
static fallible change_settle(struct entry *entry)
{
	struct err *err;

	entry_ref(entry);
	if (entry->box)
		sessions_settle(entry->box);
	err = entry_keep_now(entry);
	if (!err && entry->listed)
		attach_mend(entry);
	if (!err && !entry->listed)
		err = access_absent(str_of(entry->record.id));
	entry_unref(entry);
	return err;
}

// They take effect in steps that wait, so they are changed alone.
static fallible change_box_limits(struct entry *entry, const struct json *object,
				  const struct record **out)
{
	auto_entry held = entry;

	entry_ref(entry);
	if (json_count(object) > 1)
		return err_hint(err_new(INVALID, "bad_field",
					"'limits' and other members are changed by requests of "
					"their own"),
				"send one request with 'limits' alone");
	TRY(limits_change(entry, json_get(object, "limits")));
	if (!held->listed)
		return access_absent(str_of(held->record.id));
	*out = &entry->record;
	return OK;
}

fallible change_box(struct manager *manager, const struct who *who, struct str key,
		    const struct json *object, const struct record **out)
{
	static const char *const known[] = {
		"labels",  "env", "sleepAfter", "archiveAfter", "keepAlive", "containerTimeouts",
		"baseUrl", "ttl", "network",	"rotateToken",	"unsynced",  "limits",
		NULL};
	on_exit_call(free_policy) struct policy *network = NULL;
	auto_pairs labels = {0}, env = {0};
	struct entry *entry = NULL;
	uint64_t ttl_ms = 0;
	bool rotate = false, unsynced;

	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	unsynced = entry->record.unsynced_ms;
	if (object) {
		if (manager->store)
			TRY(store_ready(manager->store));
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		if (json_get(object, "limits"))
			return change_box_limits(entry, object, out);
		env_map_add(&labels, &entry->record.labels);
		env_map_add(&env, &entry->record.env);
		TRY(env_map_change_labels(json_get(object, "labels"), &labels));
		TRY(env_map_change_env(json_get(object, "env"), &env));
		TRY(retention_read_span(json_get(object, "ttl"), "ttl", &ttl_ms));
		TRY(json_bool(json_get(object, "rotateToken"), "rotateToken", &rotate));
		TRY(json_bool(json_get(object, "unsynced"), "unsynced", &unsynced));
		if (unsynced)
			TRY(unsynced_may(entry));
		if (json_get(object, "network"))
			TRY(attach_read(entry, json_get(object, "network"), &network));
		TRY(retention_read(object, &entry->record.retention));
		entry->record.retention.token_turn += rotate;
		if (!unsynced)
			entry->record.unsynced_ms = 0;
		else if (json_get(object, "unsynced"))
			unsynced_mark(entry);
		if (ttl_ms)
			entry->record.ends_ms = clock_steady_ms() + (int64_t)ttl_ms;
		entry->idle.ends_ms = 0;
		entry->idle.busy_ms = loop_now(manager->loop);
		entry->idle.look_ms = 0;
		sampler_settle(entry);
		change_swap(&labels, &entry->record.labels);
		change_swap(&env, &entry->record.env);
		if (entry->box)
			shells_set_env(entry->box, &entry->record.env, json_get(object, "env"));
		if (network)
			attach_change(entry, &network);
		manager->changes++;
		TRY(change_settle(entry), "keep what was changed");
	}
	*out = &entry->record;
	return OK;
}

fallible change_own_label(struct manager *manager, const struct who *who, struct str key,
			  const char *name, const char *value, const struct record **out)
{
	struct entry *entry = NULL;

	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	if (manager->store)
		TRY(store_ready(manager->store));
	if (value)
		env_map_set(&entry->record.labels, str_of(name), str_of(value));
	else
		env_map_drop(&entry->record.labels, str_of(name));
	entry->idle.look_ms = 0;
	manager->changes++;
	TRY(change_settle(entry), "keep what was changed");
	*out = &entry->record;
	return OK;
}
