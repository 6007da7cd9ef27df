// Operations in memory, by id, written through to the store at their begin and at their end.
// Progress is in memory alone: after a restart it is counted anew.
#include "manager/operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/json.h"
#include "manager/access.h"
#include "store/images.h"

#define KEPT_MS (24 * 3600 * 1000ll)
#define BODY_MAX (64 * 1024)

struct operations {
	struct map *by_id;
};

static const char *const words[] = {
	[OPERATION_QUEUED] = "queued",	     [OPERATION_RUNNING] = "running",
	[OPERATION_SUCCEEDED] = "succeeded", [OPERATION_FAILED] = "failed",
	[OPERATION_CANCELLED] = "cancelled",
};

void operation_free(struct operation *operation)
{
	if (!operation)
		return;
	registry_credential_done(&operation->credential);
	free(operation->reference);
	free(operation->platform);
	free(operation->name);
	free(operation->layers);
	err_free(operation->err);
	free(operation);
}

bool operation_has_ended(const struct operation *operation)
{
	return operation->state > OPERATION_RUNNING;
}

void operation_changed(struct operation *operation)
{
	struct manager *manager = operation->manager;

	operation->version++;
	if (manager && manager->operation_changed.waiters.next) {
		operation->changed_at = ++manager->operation_changes;
		condition_signal(&manager->operation_changed);
	}
	condition_signal(&operation->changed);
}

// ------------------------------------------------------------------------------------------- JSON

static void put_error(struct json_out *out, const struct err *err)
{
	json_begin(out, '{');
	json_put_text(out, "kind", err_word(err));
	json_put_int(out, "status", err_http(err));
	json_put_text(out, "reason", err_reason(err));
	json_put_text(out, "message",
		      err_kind(err) == ERR_INTERNAL ? "cove failed" : err_message(err));
	if (err_hint_of(err))
		json_put_text(out, "hint", err_hint_of(err));
	json_end(out, '}');
}

static const char *const kinds[] = {
	[OPERATION_PULL] = "pull", [OPERATION_BUILD] = "build", [OPERATION_ARCHIVE] = "archive"};

// {bytes, total, layers} of a pull.
static void put_layers(struct json_out *out, const struct operation *operation)
{
	uint64_t bytes = 0, total = 0;

	for (size_t i = 0; i < operation->layer_count; i++) {
		bytes += operation->layers[i].bytes;
		total += operation->layers[i].total;
	}
	json_put_int(out, "bytes", (int64_t)bytes);
	json_put_int(out, "total", (int64_t)total);
	json_put_begin(out, "layers", '[');
	for (size_t i = 0; i < operation->layer_count; i++) {
		json_begin(out, '{');
		json_put_text(out, "digest", operation->layers[i].digest);
		json_put_int(out, "bytes", (int64_t)operation->layers[i].bytes);
		json_put_int(out, "total", (int64_t)operation->layers[i].total);
		json_put_text(out, "state", operation->layers[i].state);
		json_end(out, '}');
	}
	json_end(out, ']');
}

void operation_write_progress(struct json_out *out, const struct operation *operation)
{
	json_begin(out, '{');
	json_put_text(out, "phase", operation->phase);
	if (operation->kind == OPERATION_BUILD) {
		json_put_int(out, "step", operation->step);
		json_put_int(out, "steps", operation->steps);
		json_put_int(out, "cached", operation->cached);
		json_put_int(out, "logBytes", (int64_t)operation->log_bytes);
	}
	if (operation->kind == OPERATION_PULL || operation->pulling)
		put_layers(out, operation->pulling ? operation->pulling : operation);
	json_end(out, '}');
}
void operation_write(struct json_out *out, const struct operation *operation)
{
	json_begin(out, '{');
	json_put_text(out, "id", operation->id);
	json_put_text(out, "kind", kinds[operation->kind]);
	json_put_text(out, "state", words[operation->state]);
	if (operation->kind == OPERATION_PULL)
		json_put_text(out, "image", operation->reference);
	if (operation->kind == OPERATION_ARCHIVE)
		json_put_text(out, "sandbox", operation->reference);
	json_put_text(out, "template",
		      operation->kind == OPERATION_ARCHIVE ? NULL : operation->name);
	json_key(out, "progress");
	operation_write_progress(out, operation);
	json_key(out, "error");
	if (operation->err)
		put_error(out, operation->err);
	else
		json_add_null(out);
	json_put_time(out, "createdAt", operation->created_ms);
	if (operation->ended_ms)
		json_put_time(out, "endedAt", operation->ended_ms);
	else
		json_put_text(out, "endedAt", NULL);
	json_end(out, '}');
}

// ------------------------------------------------------------------------------------------- store

static fallible operation_store(struct manager *manager, const struct operation *operation)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	if (!manager->store)
		return OK;
	json_begin(&out, '{');
	json_put_text(&out, "kind", kinds[operation->kind]);
	json_put_int(&out, "step", operation->step);
	json_put_int(&out, "steps", operation->steps);
	json_put_int(&out, "cached", operation->cached);
	json_put_int(&out, "logBytes", (int64_t)operation->log_bytes);
	json_put_text(&out, "reference", operation->reference);
	json_put_text(&out, "platform", operation->platform);
	json_put_text(&out, "name", operation->name);
	json_put_int(&out, "state", operation->state);
	json_put_bool(&out, "cache", operation->is_cache);
	json_put_bool(&out, "byOperator", operation->by_operator);
	json_put_bool(&out, "hasCredential", operation->has_credential);
	if (operation->err) {
		json_put_int(&out, "errorKind", err_kind(operation->err));
		json_put_text(&out, "reason", err_reason(operation->err));
		json_put_text(&out, "message", err_message(operation->err));
		json_put_text(&out, "hint", err_hint_of(operation->err));
	}
	json_end(&out, '}');
	buf_char(&body, 0);
	if (!buf_ok(&body))
		return err_sys(0, "describe an operation");
	return store_operations_put(manager->store, &(struct store_operation){
							    .id = operation->id,
							    .tenant = operation->tenant,
							    .created_ms = operation->created_ms,
							    .ended_ms = operation->ended_ms,
							    .body = body.at,
						    });
}

static char *operation_text(const struct json *body, const char *key)
{
	struct str text = json_chars(json_get(body, key));

	return mem_dup(text.at ? text.at : "", text.len);
}

static uint64_t operation_number(const struct json *body, const char *key)
{
	uint64_t number = 0;

	err_free(json_u64(json_get(body, key), key, 0, 1ull << 53, &number));
	return number;
}

static bool operation_flag(const struct json *body, const char *key)
{
	bool flag = false;

	err_free(json_bool(json_get(body, key), key, &flag));
	return flag;
}

static struct operation *operation_read_row(const struct store_operation *row)
{
	struct operation *operation;
	auto_json body = NULL;
	auto_err err = json_read(str_of(row->body), &body);

	if (err || json_type(body) != JSON_OBJECT)
		return NULL;
	operation = mem_new_of(struct operation);
	condition_init(&operation->changed);
	snprintf(operation->id, sizeof(operation->id), "%s", row->id);
	snprintf(operation->tenant, sizeof(operation->tenant), "%s", row->tenant);
	operation->reference = operation_text(body, "reference");
	operation->platform = operation_text(body, "platform");
	operation->name = operation_text(body, "name");
	operation->created_ms = row->created_ms;
	operation->ended_ms = row->ended_ms;
	if (str_is(json_chars(json_get(body, "kind")), kinds[OPERATION_BUILD]))
		operation->kind = OPERATION_BUILD;
	if (str_is(json_chars(json_get(body, "kind")), kinds[OPERATION_ARCHIVE]))
		operation->kind = OPERATION_ARCHIVE;
	operation->step = (uint32_t)operation_number(body, "step");
	operation->steps = (uint32_t)operation_number(body, "steps");
	operation->cached = (uint32_t)operation_number(body, "cached");
	operation->log_bytes = operation_number(body, "logBytes");
	operation->is_cache = operation_flag(body, "cache");
	operation->by_operator = operation_flag(body, "byOperator");
	operation->has_credential = operation_flag(body, "hasCredential");
	operation->state = row->ended_ms ? (enum operation_state)operation_number(body, "state")
					 : OPERATION_QUEUED;
	if (operation->state > OPERATION_CANCELLED)
		operation->state = OPERATION_FAILED;
	operation->phase = row->ended_ms ? "ended" : "queued";
	if (json_get(body, "reason")) {
		auto_free char *reason = operation_text(body, "reason");
		auto_free char *message = operation_text(body, "message");
		auto_free char *hint = operation_text(body, "hint");
		uint64_t kind = operation_number(body, "errorKind");

		operation->err = err_from(kind <= ERR_NO_SPACE ? (enum err_kind)kind : ERR_INTERNAL,
					  reason, message, hint[0] ? hint : NULL);
	}
	return operation;
}

fallible operations_open(struct manager *manager)
{
	auto_arena arena = arena_new();
	struct store_pulled rows = {0};

	manager->operations = mem_new_of(struct operations);
	manager->operations->by_id = map_new();
	if (!manager->store)
		return OK;
	TRY(store_images_load(manager->store, arena, &rows));
	for (size_t i = 0; i < rows.operation_count; i++) {
		struct operation *operation = operation_read_row(&rows.operations[i]);

		if (!operation)
			continue;
		operation->earlier = true;
		map_put(manager->operations->by_id, str_of(operation->id), operation);
	}
	return OK;
}

void operations_done(struct manager *manager)
{
	struct str key;
	void *value;

	if (!manager->operations)
		return;
	for (size_t at = 0; map_next(manager->operations->by_id, &at, &key, &value);)
		operation_free(value);
	map_free(manager->operations->by_id);
	free(manager->operations);
	manager->operations = NULL;
}

fallible operations_add(struct manager *manager, struct operation *operation)
{
	memcpy(operation->id, "op-", 3);
	secret_hex(operation->id + 3, (OPERATION_ID - 4) / 2);
	condition_init(&operation->changed);
	operation->created_ms = clock_wall_ms();
	operation->phase = "queued";
	// Known before the wait: another request of the image joins it.
	map_put(manager->operations->by_id, str_of(operation->id), operation);
	operation->holds++;
	struct err *err = operation_store(manager, operation);

	operation->holds--;
	if (err && operation->holds) {
		// Who joined it sees the failure; a later prune frees it.
		operation->state = OPERATION_FAILED;
		operation->err = err_from(err_kind(err), err_reason(err), err_message(err),
					  err_hint_of(err));
		operation->phase = "ended";
		operation->ended_ms = clock_wall_ms();
		registry_credential_done(&operation->credential);
		operation_changed(operation);
	} else if (err) {
		map_take(manager->operations->by_id, str_of(operation->id));
		operation_free(operation);
	}
	return err;
}

void operations_end(struct manager *manager, struct operation *operation, struct err *err)
{
	bool cancelled = operation->cancelled || (err && err_kind(err) == ERR_CANCELLED);

	operation->state = !err	       ? OPERATION_SUCCEEDED
			   : cancelled ? OPERATION_CANCELLED
				       : OPERATION_FAILED;
	if (err && cancelled) {
		err_free(err);
		err = err_new(CANCELLED, "cancelled", "the operation was cancelled");
	}
	operation->err = err;
	operation->phase = "ended";
	operation->ended_ms = clock_wall_ms();
	registry_credential_done(&operation->credential);
	auto_err lost = operation_store(manager, operation);

	if (lost)
		log_event(LOG_WARN, "operation.not_kept", "trail", err_trail(lost), NULL);
	operation->task = NULL;
	operation_changed(operation);
}

bool operations_sees(const struct who *who, const struct operation *operation)
{
	return access_sees(who, operation->tenant, "");
}

fallible operations_find(struct manager *manager, const struct who *who, struct str id,
			 struct operation **out)
{
	struct operation *found = NULL;

	TRY(access_ask(who, ACCESS_READ));
	if (manager->operations)
		found = map_get(manager->operations->by_id, id);
	if (!found || !operations_sees(who, found))
		return err_hint(err_absent("no_operation", "operation", id),
				"operations are kept for a day after their end");
	*out = found;
	return OK;
}

bool operations_next(const struct manager *manager, size_t *at, struct operation **out)
{
	struct str key;
	void *value;

	if (!manager->operations || !map_next(manager->operations->by_id, at, &key, &value))
		return false;
	*out = value;
	return true;
}

void operation_drop(struct operation *operation)
{
	operation->holds--;
}

fallible operation_await(struct operation *operation, int64_t deadline)
{
	while (!operation_has_ended(operation)) {
		struct err *err = condition_wait(&operation->changed, deadline);

		if (err && err_kind(err) == ERR_TIMEOUT && operation->kind == OPERATION_PULL)
			return err_hint(err_recast(err, ERR_TIMEOUT, "pull_wait",
						   "the pull of %s is still under way",
						   operation->reference),
					"it goes on: GET /v1/operations/%s", operation->id);
		TRY(err);
	}
	return operation_failure(operation);
}

void operation_cancel(struct operation *operation)
{
	if (operation_has_ended(operation))
		return;
	operation->cancelled = true;
	if (operation->task)
		task_cancel(operation->task);
}

fallible operation_failure(const struct operation *operation)
{
	const struct err *err = operation->err;

	if (!err)
		return OK;
	return err_from(err_kind(err), err_reason(err), err_message(err), err_hint_of(err));
}

static struct operation *operation_old(struct manager *manager, int64_t before_ms)
{
	struct operation *operation;

	for (size_t at = 0; operations_next(manager, &at, &operation);)
		if (operation_has_ended(operation) && operation->ended_ms < before_ms &&
		    !operation->holds && !operation->task)
			return operation;
	return NULL;
}

fallible operations_prune(struct manager *manager)
{
	int64_t before_ms = clock_wall_ms() - KEPT_MS;
	struct operation *operation;

	while ((operation = operation_old(manager, before_ms))) {
		map_take(manager->operations->by_id, str_of(operation->id));
		operation_free(operation);
	}
	return manager->store ? store_operations_prune(manager->store, before_ms) : OK;
}
