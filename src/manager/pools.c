// Pools in memory, beside their terms in the store. A task looks every second, and when a claim or
// a request says so, at the sandboxes that have the label of a pool: it makes those that are
// missing, asks ready ones again, and deletes what is of other terms, lost or too many. After a
// restart the labels say all that there is to know: a member without the label of a ready one is
// deleted.
#include "manager/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "manager/admit.h"
#include "manager/box_launch.h"
#include "manager/box_ref.h"
#include "manager/change.h"
#include "manager/create.h"
#include "manager/life.h"
#include "manager/queue.h"
#include "manager/templates.h"
#include "store/kv.h"
#include "types/pool.h"

#define KV "pool/"
#define LABEL_TERMS POOL_LABEL "-terms"
#define LABEL_READY POOL_LABEL "-ready"
#define ROUND_MS 1000
#define TERMS_MS 2000  // between two looks at the template
#define CHECK_MS 30000 // between two looks at a ready member
#define PROBE_MS 2000
#define MAKING_MAX 4 // of a pool at a time
#define BACKOFF_MS 1000
#define BACKOFF_MAX_MS 60000
#define SPEC_MAX (1 << 20)

enum member_state {
	MEMBER_MAKING,
	MEMBER_FOUND, // of an earlier daemon: ready then, to be asked again
	MEMBER_READY,
	MEMBER_CLAIMED,
	MEMBER_BAD, // to be deleted
};

struct member {
	char id[ID_BOX_LEN + 1];
	struct link link; // pool->members
	enum member_state state;
	int64_t checked_ms;
	bool checking, seen;
};

struct pool {
	struct manager *manager;
	char tenant[WHO_TENANT_MAX + 1], name[ID_NAME_MAX + 1];
	char *body;
	struct pool_terms terms;
	char version[17]; // of the terms and the template; "": not known yet
	int64_t terms_ms; // when the template was looked at
	struct link members;
	uint32_t holds; // of the table and of tasks
	bool gone;
	uint32_t making;
	uint64_t hits, misses;
	int64_t claim_us, refill_ms; // of the last one
	int64_t retry_ms, backoff_ms;
	char error[64]; // why the last member could not be made; ""
};

struct pools {
	struct map *by_key; // "TENANT/NAME"
	struct condition changed;
	bool unknown; // they could not be read
	bool opened;
};

static char *pool_key(const char *tenant, struct str name)
{
	return mem_fmt("%s/" STR_FMT, tenant, STR_ARG(name));
}

static struct pool *pool_named(const struct manager *manager, const char *tenant, struct str name)
{
	auto_free char *key = pool_key(tenant, name);

	return manager->pools ? map_get(manager->pools->by_key, str_of(key)) : NULL;
}

static void pool_release(struct pool *pool)
{
	list_each (at, &pool->members)
		free(link_of(at, struct member, link));
	pool_terms_done(&pool->terms);
	free(pool->body);
	free(pool);
}

static void pool_drop(struct pool *pool)
{
	if (!--pool->holds)
		pool_release(pool);
}

static struct who pool_owner(const struct pool *pool)
{
	struct who owner = WHO_COVE;

	snprintf(owner.tenant, sizeof(owner.tenant), "%s", pool->tenant);
	return owner;
}

static struct member *member_find(const struct pool *pool, const char *id)
{
	list_each (at, &pool->members) {
		struct member *member = link_of(at, struct member, link);

		if (!strcmp(member->id, id))
			return member;
	}
	return NULL;
}

static struct member *member_add(struct pool *pool, const char *id, enum member_state state)
{
	struct member *member = mem_new_of(struct member);

	*member = (struct member){.state = state};
	snprintf(member->id, sizeof(member->id), "%s", id);
	link_add(&pool->members, &member->link);
	return member;
}

static uint64_t pool_count(const struct pool *pool, enum member_state state)
{
	uint64_t count = 0;

	list_each (at, &pool->members)
		count += link_of(at, struct member, link)->state == state;
	return count;
}

// ------------------------------------------------------------------------------------------ making

static fallible pool_spec(const struct pool *pool, const struct json *change, const char *name,
			  struct spec *out)
{
	static const char *const keys[] = {"labels", "ttl", "network"};
	auto_buf text = BUF_INIT(SPEC_MAX);
	struct json_out json = json_to(&text);
	auto_json object = NULL;

	json_begin(&json, '{');
	pool_terms_put_spec(&json, &pool->terms);
	if (name[0])
		json_put_text(&json, "name", name);
	for (size_t i = 0; change && i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *value = json_get(change, keys[i]);

		if (!value)
			continue;
		json_key(&json, keys[i]);
		json_add_value(&json, value);
	}
	json_end(&json, '}');
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "body_too_large", "the request is too large");
	TRY(json_read(buf_view(&text), &object));
	return spec_read(object, &pool->manager->bounds, out);
}

static void pool_delete_box(struct manager *manager, const char *id)
{
	struct who cove = WHO_COVE;
	auto_err err = life_delete(manager, &cove, str_of(id), false);

	if (err && err_kind(err) != ERR_NOT_FOUND)
		log_event(LOG_WARN, "pool.member_left", "sandbox", id, "trail", err_trail(err),
			  NULL);
}

static fallible member_build(struct pool *pool, struct member *member)
{
	struct manager *manager = pool->manager;
	struct who owner = pool_owner(pool);
	struct create_grant grant = {.who = &owner};
	const struct record *record = NULL;
	auto_spec spec = {0};
	bool made;

	TRY(pool_spec(pool, NULL, "", &spec));
	memcpy(spec.id, member->id, sizeof(spec.id));
	spec.retention.keep_alive = true;
	env_map_set(&spec.labels, STR(POOL_LABEL), str_of(pool->name));
	env_map_set(&spec.labels, STR(LABEL_TERMS), str_of(pool->version));
	TRY(create_box(manager, &grant, &spec, CREATE_NEW, &record, &made));
	kill_point("daemon.pool", "made");
	TRY(change_own_label(manager, &owner, str_of(member->id), LABEL_READY, "1", &record));
	kill_point("daemon.pool", "ready");
	return OK;
}

struct making {
	struct pool *pool;
	struct member *member;
};

static void member_make(void *arg)
{
	struct making *making = arg;
	struct pool *pool = making->pool;
	struct member *member = making->member;
	struct manager *manager = pool->manager;
	int64_t began_ms = loop_now(manager->loop);
	auto_err err = member_build(pool, member);

	free(making);
	task_shield(true);
	pool->making--;
	if (err) {
		member->state = MEMBER_BAD;
		snprintf(pool->error, sizeof(pool->error), "%s", err_reason(err));
		pool->backoff_ms = pool->backoff_ms ? 2 * pool->backoff_ms : BACKOFF_MS;
		if (pool->backoff_ms > BACKOFF_MAX_MS)
			pool->backoff_ms = BACKOFF_MAX_MS;
		pool->retry_ms = loop_now(manager->loop) + pool->backoff_ms;
		log_event(LOG_WARN, "pool.not_filled", "tenant", pool->tenant, "pool", pool->name,
			  "reason", err_reason(err), "trail", err_trail(err), NULL);
	} else {
		member->state = MEMBER_READY;
		member->checked_ms = loop_now(manager->loop);
		pool->refill_ms = member->checked_ms - began_ms;
		pool->backoff_ms = 0;
		pool->error[0] = '\0';
	}
	condition_signal(&manager->pools->changed);
	pool_drop(pool);
}

static void member_begin(struct pool *pool)
{
	struct making *making = mem_new_of(struct making);
	char id[ID_BOX_LEN + 1];

	ask_name_box(pool->manager->ask, id);
	*making = (struct making){pool, member_add(pool, id, MEMBER_MAKING)};
	pool->holds++;
	pool->making++;
	task_start(pool->manager->loop, "pool", member_make, making);
}

// Whether the sandbox is ready, by what it was made with.
static fallible pool_ask_ready(const struct pool *pool, const char *id, bool *out)
{
	const struct entry *entry = table_find(pool->manager, pool->tenant, str_of(id));
	auto_free char *text = entry && entry->record.launch ? mem_str(entry->record.launch) : NULL;

	return box_launch_ask(pool->manager, pool->tenant, id, text, out, NULL);
}

static void member_check(void *arg)
{
	struct making *making = arg;
	struct pool *pool = making->pool;
	char id[ID_BOX_LEN + 1];
	struct member *member;
	bool ready = false;
	auto_err err = OK;

	memcpy(id, making->member->id, sizeof(id));
	free(making);
	err = pool_ask_ready(pool, id, &ready);
	member = member_find(pool, id);
	if (member) {
		bool bad = !ready || (err && err_kind(err) != ERR_CANCELLED);

		member->checking = false;
		member->checked_ms = loop_now(pool->manager->loop);
		if (member->state == MEMBER_FOUND || (bad && member->state == MEMBER_READY))
			member->state = bad ? MEMBER_BAD : MEMBER_READY;
	}
	condition_signal(&pool->manager->pools->changed);
	pool_drop(pool);
}

static void member_ask_again(struct pool *pool, struct member *member)
{
	struct making *making = mem_new_of(struct making);

	*making = (struct making){pool, member};
	member->checking = true;
	pool->holds++;
	task_start(pool->manager->loop, "pool", member_check, making);
}

// ----------------------------------------------------------------------------------------- rounds

// What a member must have been made from: the terms, and the template as it is now.
static void pool_look_template(struct pool *pool)
{
	struct who owner = pool_owner(pool);
	auto_free struct template *template = mem_new_of(struct template);
	auto_free char *text = NULL;
	uint8_t hash[SECRET_HASH];
	auto_err err = templates_get(pool->manager, &owner, pool->terms.template, template);

	pool->terms_ms = loop_now(pool->manager->loop);
	if (err && err_kind(err) != ERR_NOT_FOUND)
		return; // not known: nothing is deleted for it
	if (err) {
		snprintf(pool->error, sizeof(pool->error), "%s", err_reason(err));
		snprintf(pool->version, sizeof(pool->version), "none");
		return;
	}
	text = mem_fmt("%lld %s", (long long)template->created_ms, pool->body);
	secret_sha256(text, strlen(text), hash);
	for (size_t i = 0; i < 8; i++)
		snprintf(pool->version + 2 * i, 3, "%02x", hash[i]);
}

static bool entry_is_of(const struct entry *entry, const char *key, const char *value)
{
	const char *label = env_map_get(&entry->record.labels, str_of(key));

	return label && !strcmp(label, value);
}

// Whether a sandbox with the label of a pool is to be deleted.
static bool entry_is_stale(struct manager *manager, struct entry *entry, const char *name)
{
	struct pool *pool = pool_named(manager, entry->record.tenant, str_of(name));
	struct member *member;

	if (entry->ending || entry->moving || entry->record.state == STATE_CREATING)
		return false;
	if (!pool)
		return true;
	if (!pool->version[0])
		return false;
	member = member_find(pool, entry->record.id);
	if (!member && entry_is_of(entry, LABEL_READY, "1"))
		member = member_add(pool, entry->record.id, MEMBER_FOUND);
	if (!member || member->state == MEMBER_BAD)
		return true;
	member->seen = true;
	if (member->state == MEMBER_MAKING || member->state == MEMBER_CLAIMED)
		return false;
	return entry->record.state != STATE_RUNNING ||
	       !entry_is_of(entry, LABEL_TERMS, pool->version);
}

static void pool_forget_unseen(struct pool *pool)
{
	list_each (at, &pool->members) {
		struct member *member = link_of(at, struct member, link);

		if (!member->seen && !member->checking && member->state != MEMBER_MAKING) {
			link_drop(&member->link);
			free(member);
		}
	}
}

// One ready member less, to be deleted in this round.
static bool pool_shed(struct pool *pool)
{
	list_each (at, &pool->members) {
		struct member *member = link_of(at, struct member, link);

		if (member->state == MEMBER_READY && !member->checking) {
			member->state = MEMBER_BAD;
			return true;
		}
	}
	return false;
}

static void pool_fill(struct pool *pool)
{
	struct manager *manager = pool->manager;
	int64_t now = loop_now(manager->loop);
	auto_err full = admit_ask(manager->admit, now);
	uint64_t there = pool_count(pool, MEMBER_READY) + pool_count(pool, MEMBER_FOUND);

	list_each (at, &pool->members) {
		struct member *member = link_of(at, struct member, link);
		bool due = member->state == MEMBER_FOUND ||
			   (member->state == MEMBER_READY && now >= member->checked_ms + CHECK_MS);

		if (due && !member->checking)
			member_ask_again(pool, member);
	}
	if (full && !strcmp(err_reason(full), "host_memory"))
		pool_shed(pool);
	for (; there > pool->terms.size && pool_shed(pool); there--)
		;
	if (full || now < pool->retry_ms || !strcmp(pool->version, "none") || !pool->version[0])
		return;
	while (there + pool->making < pool->terms.size && pool->making < MAKING_MAX &&
	       !queue_look(manager).waiting)
		member_begin(pool);
}

// The pools of now, held.
static struct pool **pools_held(const struct manager *manager, size_t *out_count)
{
	struct pool **all = mem_new((map_count(manager->pools->by_key) + 1) * sizeof(void *));
	size_t at = 0, count = 0;
	struct str key;
	void *value;

	while (map_next(manager->pools->by_key, &at, &key, &value)) {
		all[count] = value;
		all[count++]->holds++;
	}
	*out_count = count;
	return all;
}

// Ids of sandboxes that are to go.
static char (*pools_stale(struct manager *manager, size_t *out_count))[ID_BOX_LEN + 1]
{
	char(*ids)[ID_BOX_LEN + 1] = NULL;
	size_t count = 0;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		const char *name = env_map_get(&entry->record.labels, STR(POOL_LABEL));

		if (!name || !entry->listed || !entry_is_stale(manager, entry, name))
			continue;
		ids = mem_grow(ids, count + 1, sizeof(*ids));
		memcpy(ids[count++], entry->record.id, sizeof(*ids));
	}
	*out_count = count;
	return ids;
}

static void pools_round(struct manager *manager)
{
	size_t count = 0, stale = 0;
	auto_free struct pool **all = pools_held(manager, &count);
	auto_free char(*ids)[ID_BOX_LEN + 1] = NULL;

	for (size_t i = 0; i < count; i++) {
		list_each (at, &all[i]->members)
			link_of(at, struct member, link)->seen = false;
		if (!all[i]->version[0] || loop_now(manager->loop) >= all[i]->terms_ms + TERMS_MS)
			pool_look_template(all[i]);
	}
	for (size_t i = 0; i < count; i++)
		if (!all[i]->gone)
			pool_fill(all[i]);
	ids = pools_stale(manager, &stale);
	for (size_t i = 0; i < count; i++) {
		pool_forget_unseen(all[i]);
		pool_drop(all[i]);
	}
	for (size_t i = 0; i < stale; i++)
		pool_delete_box(manager, ids[i]);
}

static void pools_run(void *arg)
{
	struct manager *manager = arg;

	for (;;) {
		struct err *err = condition_wait(&manager->pools->changed,
						 loop_now(manager->loop) + ROUND_MS);
		bool over = err && err_kind(err) != ERR_TIMEOUT;

		err_free(err);
		if (over || manager->closing)
			return;
		if (manager->settled && !manager->unknown && !manager->pools->unknown &&
		    ask_host(manager->ask))
			pools_round(manager);
	}
}

// ------------------------------------------------------------------------------------------ terms

static fallible pools_ready(const struct manager *manager)
{
	if (manager->pools && !manager->pools->unknown)
		return OK;
	return err_hint(err_new(UNAVAILABLE, "state_corrupt", "the pools could not be read"),
			"the operator's log has the cause: manager.no_pools");
}

static fallible pool_absent(struct str name)
{
	return err_hint(err_absent("no_pool", "pool", name), "'cove pool ls' lists them");
}

static struct pool *pool_new(struct manager *manager, const char *tenant, struct str name)
{
	struct pool *pool = mem_new_of(struct pool);

	*pool = (struct pool){.manager = manager, .holds = 1};
	snprintf(pool->tenant, sizeof(pool->tenant), "%s", tenant);
	snprintf(pool->name, sizeof(pool->name), STR_FMT, STR_ARG(name));
	link_init(&pool->members);
	return pool;
}

static void pool_keep(struct pool *pool, struct str body, struct pool_terms *terms)
{
	free(pool->body);
	pool->body = mem_dup(body.at, body.len);
	pool_terms_done(&pool->terms);
	pool->terms = *terms;
	*terms = (struct pool_terms){0};
	pool->version[0] = '\0';
	pool->error[0] = '\0';
	pool->retry_ms = pool->backoff_ms = 0;
}

// Tasks use the terms of a pool while they wait: changed terms are another pool of that name.
static struct pool *pool_replace(struct manager *manager, const char *tenant, struct str name)
{
	auto_free char *key = pool_key(tenant, name);
	struct pool *old = map_take(manager->pools->by_key, str_of(key));
	struct pool *pool = pool_new(manager, tenant, name);

	if (old) {
		pool->hits = old->hits;
		pool->misses = old->misses;
		old->gone = true;
		pool_drop(old);
	}
	map_put(manager->pools->by_key, str_of(key), pool);
	return pool;
}

static fallible pool_check(struct manager *manager, const struct who *who,
			   const struct create_grant *grant, struct str name,
			   const struct pool_terms *terms)
{
	struct pool draft = {.manager = manager, .terms = *terms};
	auto_spec spec = {0};
	uint64_t count = 0;

	if (!id_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is not a name for a pool"),
				"1 to %d of a-z, 0-9 and -, beginning with no -", ID_NAME_MAX);
	for (size_t at = 0; pools_next(manager, who, &at);)
		count++;
	if (!pool_named(manager, who->tenant, name) && count >= POOLS_OF_TENANT_MAX)
		return err_new(EXHAUSTED, "quota", "a tenant has at most %d pools",
			       POOLS_OF_TENANT_MAX);
	TRY(pool_spec(&draft, NULL, "", &spec));
	return create_check(manager, grant, &spec);
}

fallible pools_set(struct manager *manager, const struct who *who, struct str name, struct str body,
		   const struct pool **out, bool *out_made)
{
	auto_pool_terms terms = {0};
	auto_free char *key = NULL;
	struct create_grant grant;
	struct pool *pool;

	TRY(access_create(who, &grant));
	TRY(pools_ready(manager));
	TRY(pool_terms_read(body, &terms));
	TRY(pool_check(manager, who, &grant, name, &terms));
	key = mem_fmt(KV "%s/" STR_FMT, who->tenant, STR_ARG(name));
	if (manager->store)
		TRY(store_kv_put(manager->store, key, body), "record a pool");
	*out_made = !pool_named(manager, who->tenant, name);
	pool = pool_replace(manager, who->tenant, name);
	pool_keep(pool, body, &terms);
	condition_signal(&manager->pools->changed);
	*out = pool;
	return OK;
}

fallible pools_get(struct manager *manager, const struct who *who, struct str name,
		   const struct pool **out)
{
	TRY(access_ask(who, ACCESS_READ));
	TRY(pools_ready(manager));
	*out = who->box[0] ? NULL : pool_named(manager, who->tenant, name);
	return *out ? OK : pool_absent(name);
}

const struct pool *pools_next(const struct manager *manager, const struct who *who, size_t *at)
{
	struct str key;
	void *value;

	while (manager->pools && !who->box[0] &&
	       map_next(manager->pools->by_key, at, &key, &value)) {
		const struct pool *pool = value;

		if (!strcmp(pool->tenant, who->tenant))
			return pool;
	}
	return NULL;
}

bool pools_are_of(const struct manager *manager, const char *tenant)
{
	struct who who = WHO_COVE;
	size_t at = 0;

	snprintf(who.tenant, sizeof(who.tenant), "%s", tenant);
	return pools_next(manager, &who, &at) != NULL;
}

fallible pools_delete(struct manager *manager, const struct who *who, struct str name)
{
	auto_free char *stored = NULL, *key = NULL;
	struct pool *pool;

	TRY(access_ask(who, ACCESS_MAKE));
	TRY(pools_ready(manager));
	if (who->box[0] || !pool_named(manager, who->tenant, name))
		return pool_absent(name);
	stored = mem_fmt(KV "%s/" STR_FMT, who->tenant, STR_ARG(name));
	if (manager->store)
		TRY(store_kv_drop(manager->store, stored), "drop a pool");
	key = pool_key(who->tenant, name);
	pool = map_take(manager->pools->by_key, str_of(key));
	if (pool) {
		pool->gone = true;
		pool_drop(pool);
	}
	condition_signal(&manager->pools->changed);
	return OK;
}

void pools_put(struct json_out *out, const struct manager *manager, const struct pool *pool)
{
	static const char *const keys[] = {"template", "size", "limits", "env", "start", "ready"};

	(void)manager;
	json_begin(out, '{');
	json_put_text(out, "name", pool->name);
	json_put_begin(out, "terms", '{');
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json *value = json_get(pool->terms.body, keys[i]);

		if (!value)
			continue;
		json_key(out, keys[i]);
		json_add_value(out, value);
	}
	json_end(out, '}');
	json_put_int(out, "size", (int64_t)pool->terms.size);
	json_put_int(out, "ready", (int64_t)pool_count(pool, MEMBER_READY));
	json_put_int(out, "preparing", pool->making);
	json_put_int(out, "hits", (int64_t)pool->hits);
	json_put_int(out, "misses", (int64_t)pool->misses);
	json_key(out, "claimMs");
	json_add_double(out, (double)pool->claim_us / 1000);
	json_put_int(out, "refillMs", pool->refill_ms);
	json_put_text(out, "error", pool->error[0] ? pool->error : NULL);
	json_end(out, '}');
}

struct pools_sums pools_sum(const struct manager *manager, const struct who *who)
{
	struct pools_sums sums = {0};
	const struct pool *pool;
	size_t at = 0;
	struct str key;
	void *value;

	while (manager->pools && map_next(manager->pools->by_key, &at, &key, &value)) {
		pool = value;
		if (!access_sees(who, pool->tenant, ""))
			continue;
		sums.ready += pool_count(pool, MEMBER_READY);
		sums.hits += pool->hits;
		sums.misses += pool->misses;
	}
	return sums;
}

// ------------------------------------------------------------------------------------------ claims

// Whether the member answers: its sandbox may have been lost a moment ago.
static fallible member_probe(struct pool *pool, const char *id)
{
	struct who owner = pool_owner(pool);
	struct files files = {.user = "", .base = "/"};
	auto_box_ref ref = {0};

	TRY(box_ref_begin(pool->manager, &owner, str_of(id), &ref));
	files.box = ref.box;
	files.deadline = loop_now(pool->manager->loop) + PROBE_MS;
	return files_probe(&files);
}

static struct member *pool_take_ready(struct pool *pool)
{
	list_each (at, &pool->members) {
		struct member *member = link_of(at, struct member, link);
		struct entry *entry = table_find(pool->manager, pool->tenant, str_of(member->id));

		if (member->state != MEMBER_READY || !entry || !entry_is_alive(entry) ||
		    entry->moving || entry->ending ||
		    !entry_is_of(entry, LABEL_TERMS, pool->version))
			continue;
		member->state = MEMBER_CLAIMED; // before the first wait
		return member;
	}
	return NULL;
}

// The sandbox stops being a member in the write that makes it the caller's.
static fallible member_give(struct pool *pool, struct entry *entry,
			    const struct create_grant *grant, const struct pool_claim *claim,
			    const struct record **out)
{
	struct record *record = &entry->record;
	auto_buf text = BUF_INIT(SPEC_MAX);
	struct json_out json = json_to(&text);
	auto_json change = NULL;
	struct str key;
	struct json *value;
	struct err *err;

	json_begin(&json, '{');
	for (size_t at = 0; json_next(claim->change, &at, &key, &value);) {
		auto_free char *name = mem_dup(key.at, key.len);

		json_key(&json, name);
		json_add_value(&json, value);
	}
	json_put_bool(&json, "keepAlive", false);
	json_end(&json, '}');
	TRY(json_read(buf_view(&text), &change));
	if (claim->name[0])
		TRY(table_rename(entry, claim->name));
	env_map_drop(&record->labels, STR(POOL_LABEL));
	env_map_drop(&record->labels, STR(LABEL_TERMS));
	env_map_drop(&record->labels, STR(LABEL_READY));
	snprintf(record->idempotency, sizeof(record->idempotency), "%s", claim->idempotency);
	kill_point("daemon.pool", "claim");
	err = change_box(pool->manager, grant->who, str_of(record->id), change, out);
	if (!err || !entry->listed)
		return err;
	// Nothing was changed: it is a member as before.
	env_map_set(&record->labels, STR(POOL_LABEL), str_of(pool->name));
	env_map_set(&record->labels, STR(LABEL_TERMS), str_of(pool->version));
	env_map_set(&record->labels, STR(LABEL_READY), STR("1"));
	record->idempotency[0] = '\0';
	err_free(table_rename(entry, "")); // no other one has that name
	return err;
}

// *out_taken is false if no member was ready.
static fallible pool_claim_member(struct pool *pool, const struct create_grant *grant,
				  const struct pool_claim *claim, const struct record **out,
				  bool *out_taken)
{
	struct manager *manager = pool->manager;
	int64_t began_us = clock_us();
	struct member *member;

	*out_taken = false;
	while ((member = pool_take_ready(pool))) {
		char id[ID_BOX_LEN + 1];
		auto_entry entry = NULL;
		struct err *err;

		memcpy(id, member->id, sizeof(id));
		err = member_probe(pool, id);
		entry = table_find(manager, pool->tenant, str_of(id));
		if (entry)
			entry_ref(entry);
		if (err || !entry) {
			if (entry)
				log_event(LOG_WARN, "pool.member_lost", "sandbox", id, "trail",
					  err_trail(err), NULL);
			err_free(err);
			member = member_find(pool, id);
			if (member)
				member->state = MEMBER_BAD;
			continue;
		}
		err = member_give(pool, entry, grant, claim, out);
		member = member_find(pool, id);
		if (err) {
			if (member)
				member->state = MEMBER_READY;
			return err;
		}
		pool->hits++;
		pool->claim_us = clock_us() - began_us;
		*out_taken = true;
		return OK;
	}
	return OK;
}

// What a member would have been, made now.
static fallible pool_make_cold(struct pool *pool, const struct create_grant *grant,
			       const struct pool_claim *claim, const struct record **out)
{
	struct manager *manager = pool->manager;
	auto_spec spec = {0};
	bool made;

	TRY(pool_spec(pool, claim->change, claim->name, &spec));
	snprintf(spec.id, sizeof(spec.id), "%s", claim->id);
	snprintf(spec.idempotency, sizeof(spec.idempotency), "%s", claim->idempotency);
	return create_box(manager, grant, &spec, CREATE_NEW, out, &made);
}

fallible pools_claim(struct manager *manager, const struct create_grant *grant,
		     const struct pool_claim *claim, const struct record **out, bool *out_from_pool)
{
	struct pool *pool;
	struct err *err;

	TRY(pools_ready(manager));
	TRY(create_await_start(manager));
	pool = pool_named(manager, grant->who->tenant, claim->pool);
	if (!pool)
		return pool_absent(claim->pool);
	pool->holds++;
	err = pool_claim_member(pool, grant, claim, out, out_from_pool);
	if (!err && !*out_from_pool) {
		pool->misses++;
		event_publish(EVENT_POOL_EMPTY, "tenant", pool->tenant, "pool", pool->name, NULL);
		err = pool_make_cold(pool, grant, claim, out);
	}
	condition_signal(&manager->pools->changed);
	pool_drop(pool);
	return err;
}

// -------------------------------------------------------------------------------------------- load

static fallible pools_take_row(struct manager *manager, const struct store_kv *row)
{
	struct str name = str_of(row->name + strlen(KV)), tenant;
	auto_pool_terms terms = {0};
	auto_free char *owner = NULL;

	str_cut(&name, '/', &tenant);
	if (tenant.len > WHO_TENANT_MAX || !id_is_name(name))
		return err_new(INVALID, "bad_field", "the row of the pool %s is damaged",
			       row->name);
	TRY(pool_terms_read(row->value, &terms));
	owner = mem_dup(tenant.at, tenant.len);
	pool_keep(pool_replace(manager, owner, name), row->value, &terms);
	return OK;
}

void pools_load(struct manager *manager)
{
	struct pools *pools = mem_new_of(struct pools);
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	auto_err err = OK;
	size_t count = 0;

	*pools = (struct pools){.by_key = map_new()};
	condition_init(&pools->changed);
	manager->pools = pools;
	if (manager->store)
		err = store_kv_load(manager->store, KV, arena, &rows, &count);
	for (size_t i = 0; !err && i < count; i++)
		err = pools_take_row(manager, &rows[i]);
	pools->unknown = err != NULL;
	if (err)
		log_event(LOG_ERROR, "manager.no_pools", "reason", err_reason(err), "trail",
			  err_trail(err), NULL);
}

void pools_open(struct manager *manager)
{
	if (!manager->pools || manager->pools->opened)
		return;
	manager->pools->opened = true;
	task_start(manager->loop, "pools", pools_run, manager);
}

void pools_free(struct manager *manager)
{
	size_t at = 0;
	struct str key;
	void *value;

	if (!manager->pools)
		return;
	while (map_next(manager->pools->by_key, &at, &key, &value))
		pool_drop(value);
	map_free(manager->pools->by_key);
	free(manager->pools);
}
