// Steps in memory, written through to the key-value table: step/NAME. A snapshot has all files of
// its sandbox, on the pool those of the step before are shared: there only the difference is
// charged. What cannot be kept is left out, and the build goes on.
#include "manager/build_steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/access.h"
#include "manager/account.h"
#include "manager/pulled.h"
#include "manager/snapshots.h"
#include "store/kv.h"

#define ROW "step/"
#define ROW_MAX 1024
#define FORGET_MS 30000
#define LIST_MS 30000
#define TOUCH_MS 60000
#define UNUSED_MS (7 * 24 * 3600 * 1000ll)
#define STEPS_MAX 500 // of a tenant
#define CONFIGS_MAX 64
#define SHARE 4 // of the tenant's disk quota
#define TRIES 50
#define PAUSE_MS 100

struct step {
	char *name, *tenant;
	char root[TEMPLATE_NAME_MAX]; // the layer below; "": none
	char to[SHA256_HEX + 1];      // another key; "": it is a snapshot
	bool is_ready, moving, holds_root;
	bool is_kept;	// it could not be removed: left until the next round
	uint64_t bytes; // charged
	uint64_t whole; // with what it shares
	int64_t used_ms;
	uint32_t holds;
};

struct build_steps {
	struct map *by_name, *configs;
};

static void steps_name(const char *tenant, const char *key, char out[TEMPLATE_NAME_MAX])
{
	auto_free char *text = mem_fmt("%s/%s", tenant, key);
	char hex[SHA256_HEX + 1];
	struct sha256 hash;

	sha256_begin(&hash);
	sha256_add(&hash, text, strlen(text));
	sha256_end(&hash, hex);
	snprintf(out, TEMPLATE_NAME_MAX, ORDER_STEPS "%.*s", ORDER_LAYER_HEX, hex);
}

static struct step *step_named(const struct manager *manager, const char *name)
{
	return manager->steps ? map_get(manager->steps->by_name, str_of(name)) : NULL;
}

static struct step *step_of(const struct manager *manager, const char *tenant, const char *key)
{
	char name[TEMPLATE_NAME_MAX];

	steps_name(tenant, key, name);
	return step_named(manager, name);
}

static struct step *step_new(struct manager *manager, const char *tenant, const char *name)
{
	struct step *step = mem_new_of(struct step);

	step->name = mem_str(name);
	step->tenant = mem_str(tenant);
	map_put(manager->steps->by_name, str_of(name), step);
	return step;
}

static void step_free(struct step *step)
{
	free(step->name);
	free(step->tenant);
	free(step);
}

// ----------------------------------------------------------------------------------------- account

uint64_t build_steps_bytes(const struct manager *manager, const char *tenant)
{
	uint64_t sum = 0;
	struct str key;
	void *value;

	for (size_t at = 0;
	     manager->steps && map_next(manager->steps->by_name, &at, &key, &value);) {
		const struct step *step = value;

		if (!strcmp(step->tenant, tenant))
			sum += step->bytes;
	}
	return sum;
}

static void steps_account(struct manager *manager, const char *tenant)
{
	accounts_get(&manager->accounts, tenant)->used.steps = build_steps_bytes(manager, tenant);
}

// The layer of the image that the snapshot stands on.
static void step_hold_root(struct manager *manager, struct step *step, bool on)
{
	if (on == step->holds_root || (on && !pulled_layer(manager, step->root)))
		return;
	step->holds_root = on;
	pulled_hold(manager, step->tenant, step->root, on);
}

bool build_steps_known(const struct manager *manager, const char *name)
{
	return step_named(manager, name) != NULL;
}

bool build_steps_next(const struct manager *manager, size_t *at, const char **out_name)
{
	struct str key;
	void *value;

	while (manager->steps && map_next(manager->steps->by_name, at, &key, &value)) {
		const struct step *step = value;

		*out_name = step->name;
		if (step->is_ready && !step->moving && !step->to[0])
			return true;
	}
	return false;
}

// ------------------------------------------------------------------------------------------- rows

static void step_write(const struct step *step, struct buf *text)
{
	struct json_out json = json_to(text);

	json_begin(&json, '{');
	json_put_text(&json, "tenant", step->tenant);
	json_put_text(&json, "root", step->root);
	json_put_text(&json, "to", step->to);
	json_put_bool(&json, "ready", step->is_ready);
	json_put_int(&json, "bytes", (int64_t)step->bytes);
	json_put_int(&json, "whole", (int64_t)step->whole);
	json_put_int(&json, "used", step->used_ms);
	json_end(&json, '}');
}

static fallible step_store(struct manager *manager, const struct step *step)
{
	auto_free char *row = mem_fmt(ROW "%s", step->name);
	auto_buf text = BUF_INIT(ROW_MAX);

	step_write(step, &text);
	if (!manager->store)
		return OK;
	return buf_ok(&text) ? store_kv_put(manager->store, row, buf_view(&text))
			     : err_sys(0, "describe a step");
}

static void step_queue(struct manager *manager, const struct step *step)
{
	auto_free char *row = mem_fmt(ROW "%s", step->name);
	auto_buf text = BUF_INIT(ROW_MAX);

	step_write(step, &text);
	if (manager->store && buf_ok(&text))
		store_kv_queue(manager->store, row, buf_view(&text));
}

static fallible step_drop_row(struct manager *manager, const char *name)
{
	auto_free char *row = mem_fmt(ROW "%s", name);

	return manager->store ? store_kv_drop(manager->store, row) : OK;
}

static uint64_t step_number(const struct json *row, const char *key)
{
	uint64_t number = 0;

	err_free(json_u64(json_get(row, key), key, 0, 1ull << 53, &number));
	return number;
}

static void step_text(const struct json *row, const char *key, char *room, size_t size)
{
	struct str text = json_chars(json_get(row, key));

	snprintf(room, size, STR_FMT, STR_ARG(text));
}

static void step_read(struct manager *manager, const char *name, struct str text)
{
	char tenant[WHO_TENANT_MAX + 1];
	struct step *step;
	auto_json row = NULL;
	auto_err bad = json_read(text, &row);

	if (bad || json_type(row) != JSON_OBJECT || !order_is_step(str_of(name)))
		return; // settling removes its snapshot
	step_text(row, "tenant", tenant, sizeof(tenant));
	step = step_new(manager, tenant, name);
	step_text(row, "root", step->root, sizeof(step->root));
	step_text(row, "to", step->to, sizeof(step->to));
	err_free(json_bool(json_get(row, "ready"), "ready", &step->is_ready));
	step->bytes = step_number(row, "bytes");
	step->whole = step_number(row, "whole");
	step->used_ms = (int64_t)step_number(row, "used");
}

static void steps_take_over(struct manager *manager)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);) {
		struct step *step = value;

		step_hold_root(manager, step, true);
		steps_account(manager, step->tenant);
	}
}

fallible build_steps_open(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	if (manager->store)
		TRY(store_kv_load(manager->store, ROW, arena, &rows, &count));
	manager->steps = mem_new_of(struct build_steps);
	manager->steps->by_name = map_new();
	manager->steps->configs = map_new();
	for (size_t i = 0; i < count; i++)
		step_read(manager, rows[i].name + strlen(ROW), rows[i].value);
	steps_take_over(manager);
	return OK;
}

static void configs_free(struct map *configs)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(configs, &at, &key, &value);)
		free(value);
	map_free(configs);
}

void build_steps_done(struct manager *manager)
{
	struct str key;
	void *value;

	if (!manager->steps)
		return;
	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);)
		step_free(value);
	map_free(manager->steps->by_name);
	configs_free(manager->steps->configs);
	free(manager->steps);
	manager->steps = NULL;
}

// ------------------------------------------------------------------------------------------- find

static void step_touch(struct manager *manager, struct step *step)
{
	int64_t now = clock_wall_ms();

	if (now - step->used_ms < TOUCH_MS)
		return;
	step->used_ms = now;
	step_queue(manager, step);
}

bool build_steps_find(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
		      char out[TEMPLATE_NAME_MAX])
{
	struct step *step = step_of(manager, tenant, key);

	if (!step || !step->is_ready || step->moving || step->to[0])
		return false;
	step_touch(manager, step);
	step->holds++;
	snprintf(out, TEMPLATE_NAME_MAX, "%s", step->name);
	return true;
}

void build_steps_hold(struct manager *manager, const char *name)
{
	struct step *step = step_named(manager, name);

	if (step)
		step->holds++;
}

void build_steps_release(struct manager *manager, const char *name)
{
	struct step *step = step_named(manager, name);

	if (step && step->holds)
		step->holds--;
}

void build_steps_alias(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
		       const char to[SHA256_HEX + 1])
{
	char name[TEMPLATE_NAME_MAX];
	struct step *step;

	if (!manager->steps)
		return;
	steps_name(tenant, key, name);
	step = step_named(manager, name);
	if (!step)
		step = step_new(manager, tenant, name);
	snprintf(step->to, sizeof(step->to), "%s", to);
	step->is_ready = true;
	step->used_ms = clock_wall_ms();
	step_queue(manager, step);
}

bool build_steps_follow(struct manager *manager, const char *tenant, const char key[SHA256_HEX + 1],
			char out[SHA256_HEX + 1])
{
	struct step *step = step_of(manager, tenant, key);

	if (!step || !step->to[0])
		return false;
	step_touch(manager, step);
	memcpy(out, step->to, sizeof(step->to));
	return true;
}

const char *build_steps_config(const struct manager *manager, const char key[SHA256_HEX + 1])
{
	return manager->steps ? map_get(manager->steps->configs, str_of(key)) : NULL;
}

void build_steps_put_config(struct manager *manager, const char key[SHA256_HEX + 1],
			    struct str config)
{
	if (!manager->steps || map_get(manager->steps->configs, str_of(key)))
		return;
	if (map_count(manager->steps->configs) >= CONFIGS_MAX) {
		configs_free(manager->steps->configs);
		manager->steps->configs = map_new();
	}
	map_put(manager->steps->configs, str_of(key),
		mem_dup(config.at ? config.at : "", config.len));
}

// ----------------------------------------------------------------------------------------- remove

// A round of removals begins: those that an earlier one had to leave are tried again.
static void steps_begin_round(struct manager *manager)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);)
		((struct step *)value)->is_kept = false;
}

// Asks the warden to remove the snapshot, then drops the row. CONFLICT in_use: a sandbox is being
// made from it.
static fallible step_remove(struct manager *manager, struct step *step)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	auto_free char *tenant = mem_str(step->tenant);
	struct order order = {.kind = ORDER_FORGET};
	int none[ORDER_FDS_MAX];
	struct err *err = OK;

	snprintf(order.name, sizeof(order.name), "%s", step->name);
	step->moving = true;
	if (!step->to[0])
		err = ask_order(manager->ask, &order, answer, none,
				loop_now(manager->loop) + FORGET_MS);
	if (err && err_kind(err) == ERR_NOT_FOUND) {
		err_free(err);
		err = OK;
	}
	step->moving = false;
	TRY(err);
	TRY(step_drop_row(manager, order.name));
	step_hold_root(manager, step, false);
	step_free(map_take(manager->steps->by_name, str_of(order.name)));
	steps_account(manager, tenant);
	return OK;
}

// Removes it, or leaves it until the next round. Only a cancel ends a round.
static fallible step_try_remove(struct manager *manager, struct step *step)
{
	auto_free char *name = mem_str(step->name);
	struct err *err = step_remove(manager, step);

	if (!err || err_kind(err) == ERR_CANCELLED)
		return err;
	log_event(LOG_WARN, "build.step_left", "step", name, "reason", err_reason(err), "trail",
		  err_trail(err), NULL);
	err_free(err);
	step = step_named(manager, name);
	if (step)
		step->is_kept = true;
	return OK;
}

// The one that was not used for the longest time, before then; NULL: none.
static struct step *step_oldest(const struct manager *manager, const char *tenant,
				int64_t before_ms, uint32_t *out_count)
{
	struct step *found = NULL;
	struct str key;
	void *value;

	*out_count = 0;
	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);) {
		struct step *step = value;

		if (tenant && strcmp(step->tenant, tenant) != 0)
			continue;
		++*out_count;
		if (!step->holds && !step->moving && !step->is_kept && step->used_ms <= before_ms &&
		    (!found || step->used_ms < found->used_ms))
			found = step;
	}
	return found;
}

fallible build_steps_prune(struct manager *manager, const char *tenant, int64_t unused_ms,
			   uint64_t *out_bytes)
{
	int64_t before_ms = clock_wall_ms() - unused_ms;
	struct step *step;
	uint32_t count;

	*out_bytes = 0;
	if (!manager->steps)
		return OK;
	steps_begin_round(manager);
	while ((step = step_oldest(manager, tenant, before_ms, &count))) {
		auto_free char *name = mem_str(step->name);
		uint64_t bytes = step->bytes;

		TRY(step_try_remove(manager, step));
		if (!step_named(manager, name))
			*out_bytes += bytes;
	}
	return OK;
}

// Removes the oldest ones of a tenant with too many.
static fallible steps_trim(struct manager *manager, const char *tenant)
{
	struct step *step;
	uint32_t count;

	while ((step = step_oldest(manager, tenant, INT64_MAX, &count)) && count > STEPS_MAX)
		TRY(step_try_remove(manager, step));
	return OK;
}

static fallible steps_trim_all(struct manager *manager)
{
	struct map *counts = map_new();
	struct err *err = OK;
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);) {
		struct str tenant = str_of(((const struct step *)value)->tenant);
		uint32_t *count = map_get(counts, tenant);

		if (!count) {
			count = mem_new_of(uint32_t);
			map_put(counts, tenant, count);
		}
		++*count;
	}
	for (size_t at = 0; map_next(counts, &at, &key, &value); free(value)) {
		auto_free char *tenant = mem_dup(key.at, key.len);

		if (!err && *(uint32_t *)value > STEPS_MAX)
			err = steps_trim(manager, tenant);
	}
	map_free(counts);
	return err;
}

fallible build_steps_sweep(struct manager *manager)
{
	uint64_t bytes;

	if (!manager->steps || !manager->settled || manager->unknown)
		return OK;
	TRY(build_steps_prune(manager, NULL, UNUSED_MS, &bytes));
	return steps_trim_all(manager);
}

// ------------------------------------------------------------------------------------------- keep

// The most that steps of the tenant may take.
static uint64_t steps_room(const struct account *account)
{
	return account->tenant.quota.disk ? account->tenant.quota.disk / SHARE : UINT64_MAX;
}

// Removes the oldest ones until `bytes` more fit. False: they do not.
static bool steps_make_room(struct manager *manager, const char *tenant, uint64_t bytes)
{
	struct account *account = accounts_get(&manager->accounts, tenant);
	uint64_t room = steps_room(account);

	while (room != UINT64_MAX && build_steps_bytes(manager, tenant) + bytes > room) {
		uint32_t count;
		struct step *step = step_oldest(manager, tenant, INT64_MAX, &count);
		auto_err err = step ? step_try_remove(manager, step) : OK;

		if (!step || err)
			return false;
	}
	return account_disk_left(account) >= bytes;
}

// What may pass: the warden has as many jobs as it may, or another step of the sandbox runs.
static bool step_may_pass(const struct err *err)
{
	return !strcmp(err_reason(err), "too_many_imports") ||
	       !strcmp(err_reason(err), "box_changed");
}

static fallible step_snapshot(struct manager *manager, const struct who *who, const char *box,
			      const char *name, bool again, uint64_t *out_bytes)
{
	for (int i = 0;; i++) {
		struct err *err = snapshots_copy(manager, who, str_of(box), name, again, out_bytes);

		if (!err || i == TRIES || !step_may_pass(err))
			return err;
		err_free(err);
		TRY(task_sleep_until(loop_now(manager->loop) + PAUSE_MS));
	}
}

// The bytes that are charged: on the pool without those of the step that the sandbox began with.
static uint64_t step_charge(const struct manager *manager, const struct step *step,
			    const char *before)
{
	const struct order_host *host = ask_host(manager->ask);
	const struct step *parent = before[0] ? step_named(manager, before) : NULL;

	if (!parent || !host || strcmp(host->disk, "btrfs") != 0)
		return step->whole;
	return step->whole > parent->whole ? step->whole - parent->whole : 0;
}

static fallible step_make(struct manager *manager, const struct who *who, const char *box,
			  struct step *step, bool again, const char *before)
{
	const struct entry *entry = access_find(manager, who, str_of(box));

	snprintf(step->root, sizeof(step->root), "%s", entry ? entry->record.root : "");
	step->used_ms = clock_wall_ms();
	step_hold_root(manager, step, true);
	if (!again)
		TRY(step_store(manager, step)); // before the deed
	kill_point("daemon.build", "keep");
	TRY(step_snapshot(manager, who, box, step->name, again, &step->whole));
	step->bytes = step_charge(manager, step, before);
	step->is_ready = true;
	TRY(step_store(manager, step));
	steps_account(manager, step->tenant);
	return steps_make_room(manager, step->tenant, 0)
		       ? OK
		       : err_new(EXHAUSTED, "quota", "the step is larger than the cache may be");
}

fallible build_steps_keep(struct manager *manager, const struct who *who, const char *box,
			  const char key[SHA256_HEX + 1], bool again, char out[TEMPLATE_NAME_MAX])
{
	char name[TEMPLATE_NAME_MAX], before[TEMPLATE_NAME_MAX];
	struct step *step;
	struct err *err;

	snprintf(before, sizeof(before), "%s", out);
	out[0] = '\0';
	if (!manager->steps)
		return OK;
	steps_name(who->tenant, key, name);
	step = step_named(manager, name);
	if (step && (step->moving || !again || step->holds))
		return OK; // another build has made it, or makes it now
	if (!steps_make_room(manager, who->tenant, 0))
		return OK;
	if (!step) {
		step = step_new(manager, who->tenant, name);
		again = false;
	}
	step->moving = true;
	step->holds++;
	err = step_make(manager, who, box, step, again, before);
	step->moving = false;
	if (!err) {
		snprintf(out, TEMPLATE_NAME_MAX, "%s", name);
		return OK;
	}
	step->holds--;
	if (err_kind(err) == ERR_CANCELLED) {
		task_shield(true);
		err_free(step_remove(manager, step));
		task_shield(false);
		return err;
	}
	log_event(LOG_WARN, "build.not_cached", "sandbox", box, "trail", err_trail(err), NULL);
	err_free(err);
	err_free(step_remove(manager, step));
	return OK;
}

// ----------------------------------------------------------------------------------------- settle

static fallible steps_list(struct manager *manager, struct map *seen)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_LIST, .name = ORDER_STEPS};
	int none[ORDER_FDS_MAX];

	do {
		TRY(ask_order(manager->ask, &order, answer, none,
			      loop_now(manager->loop) + LIST_MS));
		for (uint32_t i = 0; i < answer->template_count; i++) {
			snprintf(order.name, sizeof(order.name), "%s", answer->templates[i].name);
			map_put(seen, str_of(order.name), manager);
		}
	} while (answer->template_count == ORDER_LIST_PAGE);
	return OK;
}

static fallible steps_forget_unknown(struct manager *manager, struct map *seen)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	int none[ORDER_FDS_MAX];
	struct str name;
	void *value;

	for (size_t at = 0; map_next(seen, &at, &name, &value);) {
		struct order order = {.kind = ORDER_FORGET};

		struct err *err;

		snprintf(order.name, sizeof(order.name), STR_FMT, STR_ARG(name));
		if (step_named(manager, order.name))
			continue;
		err = ask_order(manager->ask, &order, answer, none,
				loop_now(manager->loop) + FORGET_MS);
		if (err && err_kind(err) == ERR_CANCELLED)
			return err;
		if (err)
			log_event(LOG_WARN, "build.step_left", "step", order.name, "reason",
				  err_reason(err), "trail", err_trail(err), NULL);
		err_free(err);
	}
	return OK;
}

// One whose snapshot is not there, or not known to be whole.
static struct step *step_missing(const struct manager *manager, const struct map *seen)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->steps->by_name, &at, &key, &value);) {
		struct step *step = value;

		if (!step->moving && !step->holds && !step->to[0] && !step->is_kept &&
		    (!step->is_ready || !map_get(seen, key)))
			return step;
	}
	return NULL;
}

fallible build_steps_settle(struct manager *manager)
{
	struct map *seen;
	struct step *step;
	struct err *err;

	if (!manager->steps)
		return OK;
	seen = map_new();
	steps_begin_round(manager);
	err = steps_list(manager, seen);
	if (!err)
		err = steps_forget_unknown(manager, seen);
	while (!err && (step = step_missing(manager, seen)))
		err = step_try_remove(manager, step);
	map_free(seen);
	return err;
}
