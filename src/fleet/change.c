#include "fleet/change.h"

#include "base/clock.h"
#include "base/mem.h"
#include "fleet/access.h"
#include "fleet/life.h"
#include "fleet/shells.h"
#include "fleet/ways.h"
#include "store/store.h"

static void copy(struct pairs *to, const struct pairs *from)
{
	for (size_t i = 0; i < from->count; i++)
		pairs_set(to, str_of(from->at[i].name), str_of(from->at[i].value));
}

static void change_swap(struct pairs *a, struct pairs *b)
{
	struct pairs held = *a;

	*a = *b;
	*b = held;
}

fallible change_terms(struct fleet *fleet, const struct who *who, struct str key,
		      const struct json *object)
{
	struct entry *entry = NULL;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	TRY(terms_read(object, &entry->record.terms));
	return entry_keep_now(entry);
}

static void free_policy(struct policy **policy)
{
	policy_free(*policy);
}

// The answer says that it is so, also after a crash. A policy is in force already: a way that does
// not follow at once is mended, and nobody is told that his change had failed. Waits.
static fallible change_settle(struct entry *entry)
{
	struct err *err;

	entry_hold(entry);
	if (entry->box)
		sessions_settle(entry->box);
	err = entry_keep_now(entry);
	if (!err && entry->listed)
		way_mend(entry);
	if (!err && !entry->listed)
		err = life_absent(str_of(entry->record.id));
	entry_drop(entry);
	return err;
}

fallible change_box(struct fleet *fleet, const struct who *who, struct str key,
		    const struct json *object, const struct record **out)
{
	static const char *const known[] = {
		"labels",  "env", "sleepAfter", "keepAlive",   "containerTimeouts",
		"baseUrl", "ttl", "network",	"rotateToken", NULL};
	on_exit_call(free_policy) struct policy *network = NULL;
	auto_pairs labels = {0}, env = {0};
	struct entry *entry = NULL;
	uint64_t ttl_ms = 0;
	bool rotate = false;

	TRY(access_ask(who, ACCESS_MAKE));
	entry = access_find(fleet, who, key);
	if (!entry)
		return life_absent(key);
	if (object) {
		if (fleet->store)
			TRY(store_ready(fleet->store));
		TRY(json_want(object, "body", JSON_OBJECT));
		TRY(json_only(object, known));
		copy(&labels, &entry->record.labels);
		copy(&env, &entry->record.env);
		TRY(pairs_change_labels(json_get(object, "labels"), &labels));
		TRY(pairs_change_env(json_get(object, "env"), &env));
		TRY(terms_read_span(json_get(object, "ttl"), "ttl", &ttl_ms));
		TRY(json_bool(json_get(object, "rotateToken"), "rotateToken", &rotate));
		if (json_get(object, "network"))
			TRY(way_read(entry, json_get(object, "network"), &network));
		TRY(terms_read(object, &entry->record.terms));
		entry->record.terms.token_turn += rotate;
		if (ttl_ms)
			entry->record.ends_ms = clock_steady_ms() + (int64_t)ttl_ms;
		entry->idle.ends_ms = 0;
		entry->idle.busy_ms = loop_now(fleet->loop);
		entry->idle.look_ms = 0;
		change_swap(&labels, &entry->record.labels);
		change_swap(&env, &entry->record.env);
		if (entry->box)
			shells_tell_env(entry->box, &entry->record.env, json_get(object, "env"));
		if (network)
			way_change(entry, &network);
		fleet->changes++;
		TRY(change_settle(entry), "keep what was changed");
	}
	*out = &entry->record;
	return OK;
}
