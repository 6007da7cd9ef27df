// Writes box records and exposed ports to the store, and reads the ports back. persist_intent() and
// persist_end() are durable on return; persist_tell() and persist_drop() queue the write and do not
// fail. A row of ports that cannot be read is logged and skipped.
#include "manager/persist.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "store/boxes.h"
#include "store/egress.h"
#include "store/kv.h"

#define PORTS "ports/"
#define PORTS_BYTES (EXPOSED_PORTS_MAX * (EXPOSED_PORTS_NAME_MAX * 6 + 128))

static struct err *put(struct db *db, void *arg)
{
	return store_boxes_put_in(db, arg);
}

static struct err *manager_persist_drop(struct db *db, void *arg)
{
	auto_free char *ports = mem_fmt(PORTS "%s", (const char *)arg);

	TRY(store_boxes_drop_in(db, arg));
	TRY(store_egress_forget_in(db, arg));
	return store_kv_drop_in(db, ports);
}

fallible persist_intent(struct store *store, const struct record *record)
{
	on_exit_call(store_box_done) struct store_box box = {0};

	if (!store)
		return OK;
	store_box_of(record, &box);
	return err_while(store_do(store, put, &box), "record %s", record->id);
}

fallible persist_end(struct store *store, const struct record *record)
{
	on_exit_call(store_box_done) struct store_box box = {0};

	if (!store)
		return OK;
	store_box_of(record, &box);
	box.state = state_word(STATE_DELETING);
	return err_while(store_do_last(store, put, &box), "record the end of %s", record->id);
}

static void free_box(void *arg)
{
	store_box_done(arg);
	free(arg);
}

void persist_tell(struct store *store, const struct record *record)
{
	struct store_box *box;

	if (!store)
		return;
	box = mem_new_of(struct store_box);
	store_box_of(record, box);
	store_tell(store, put, box, free_box);
}

void persist_drop(struct store *store, const char *id)
{
	if (!store)
		return;
	store_tell(store, manager_persist_drop, mem_str(id), free);
}

fallible persist_ports(struct store *store, const char *id, const struct exposed_ports *ports)
{
	auto_free char *name = mem_fmt(PORTS "%s", id);
	auto_buf text = BUF_INIT(PORTS_BYTES);
	struct json_out out = json_to(&text);

	if (!store)
		return OK;
	json_begin(&out, '[');
	for (size_t i = 0; i < ports->count; i++) {
		json_begin(&out, '{');
		json_put_int(&out, "port", ports->at[i].port);
		json_put_text(&out, "name", ports->at[i].name);
		json_put_text(&out, "token", ports->at[i].token);
		json_put_int(&out, "ends", ports->at[i].ends_ms);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	return ports->count ? store_kv_put(store, name, buf_view(&text))
			    : store_kv_drop(store, name);
}

static fallible manager_persist_read_port(const struct json *one, struct exposed_ports *out)
{
	struct str name = {0}, token = {0};
	uint64_t port = 0, ends = 0;
	struct exposed_ports_entry *entry;

	TRY(json_want(one, "port", JSON_OBJECT));
	TRY(json_u64(json_get(one, "port"), "port", 1, 65535, &port));
	TRY(json_str(json_get(one, "name"), "name", &name));
	TRY(json_str(json_get(one, "token"), "token", &token));
	TRY(json_u64(json_get(one, "ends"), "ends", 0, INT64_MAX, &ends));
	if (!port || exposed_ports_find(out, (uint16_t)port))
		return OK;
	entry = exposed_ports_add(out, (uint16_t)port, name);
	// Entries written before tokens existed keep the random token they just got.
	if (entry && preview_token_is_token(token))
		snprintf(entry->token, sizeof(entry->token), STR_FMT, STR_ARG(token));
	if (entry)
		entry->ends_ms = (int64_t)ends;
	return OK;
}

static fallible read_ports(struct str text, struct exposed_ports *out)
{
	auto_json all = NULL;

	TRY(json_read(text, &all));
	TRY(json_want(all, "ports", JSON_ARRAY));
	for (size_t i = 0; i < json_count(all); i++)
		TRY(manager_persist_read_port(json_at(all, i), out));
	return OK;
}

fallible persist_load_ports(struct store *store,
			    void (*each)(void *arg, struct str id, struct exposed_ports *ports),
			    void *arg)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	TRY(store_kv_load(store, PORTS, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct exposed_ports ports = {0};
		auto_err err = read_ports(rows[i].value, &ports);

		if (err)
			log_event(LOG_WARN, "box.ports_unreadable", "name", rows[i].name, NULL);
		each(arg, str_skip(str_of(rows[i].name), strlen(PORTS)), &ports);
		exposed_ports_done(&ports);
	}
	return OK;
}
