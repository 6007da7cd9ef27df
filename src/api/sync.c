// The manifest of the last sync of a sandbox: bytes of the client that synced it, kept out of the
// sandbox's reach, in the store, until the sandbox is deleted. The daemon does not parse them.
#include "api/handlers.h"
#include "base/mem.h"
#include "box/files.h"
#include "gateway/gateway.h"
#include "manager/access.h"
#include "manager/table.h"
#include "manager/unsynced.h"
#include "store/boxes.h"
#include "store/kv.h"

#define SYNC_MAX (64u << 20)
#define UNPACK_MS 60000

// The name of the row of a sandbox, in the request's arena.
static fallible sync_row(struct http *x, const char **out)
{
	const struct manager *manager = gateway_of(x)->manager;
	struct entry *entry = NULL;

	TRY(access_entry(manager, gateway_who(x), ACCESS_USE, x->params[0], &entry));
	if (!manager->store)
		return err_new(NOT_OFFERED, "no_store", "this daemon keeps no state");
	*out = arena_fmt(x->arena, STORE_BOX_SYNC "%s", entry->record.id);
	return OK;
}

// The sandbox of the request, after its last wait.
static fallible sync_entry(struct http *x, struct entry **out)
{
	return access_entry(gateway_of(x)->manager, gateway_who(x), ACCESS_USE, x->params[0], out);
}

// A sync begins with this request, and then reads the files: nothing of an earlier one, whose
// client may have been killed, may be written after that.
static fallible sync_wait(struct http *x)
{
	struct entry *entry = NULL;
	struct err *err;

	TRY(sync_entry(x, &entry));
	if (!entry->box)
		return OK;
	err = files_sync_wait(entry->box, loop_now(task_loop()) + UNPACK_MS);
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_recast(err, ERR_CONFLICT, "sync_running",
				  "the sandbox still unpacks what an earlier sync sent");
	return err;
}

fallible api_sync_get(struct http *x)
{
	auto_arena arena = arena_new();
	struct entry *entry = NULL;
	bool begins = false;
	struct store_kv *rows = NULL;
	const char *name = NULL;
	size_t count = 0;

	TRY(gateway_flag(x, "begin", &begins));
	TRY(sync_wait(x));
	TRY(sync_row(x, &name));
	TRY(sync_entry(x, &entry));
	if (begins)
		unsynced_begin(entry);
	TRY(store_kv_load(gateway_of(x)->manager->store, name, arena, &rows, &count));
	if (!count)
		return err_new(NOT_FOUND, "no_manifest", "the sandbox was never synced");
	return http_reply(x, 200, "application/octet-stream", rows[0].value);
}

fallible api_sync_put(struct http *x)
{
	struct store *store = gateway_of(x)->manager->store;
	const char *name = NULL;
	struct entry *entry = NULL;
	bool synced = false;
	struct str body;
	struct err *err;

	TRY(gateway_flag(x, "synced", &synced));
	TRY(sync_row(x, &name));
	TRY(http_body(x, SYNC_MAX, &body));
	TRY(sync_row(x, &name)); // it may have been deleted meanwhile
	TRY(store_kv_put(store, name, body));
	err = sync_row(x, &name);
	if (err) {
		store_kv_queue(store, name, (struct str){0});
		return err;
	}
	if (synced) {
		TRY(sync_entry(x, &entry));
		TRY(unsynced_settle(entry));
	}
	return http_reply_empty(x, 204);
}
