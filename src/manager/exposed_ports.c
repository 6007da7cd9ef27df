// The register of exposed ports of one box: an array sorted by port number, and its stored form. A
// stored register that cannot be read is logged and skipped.
#include "manager/exposed_ports.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "store/boxes.h"
#include "store/kv.h"

#define SAVED_BYTES (EXPOSED_PORTS_MAX * (EXPOSED_PORTS_NAME_MAX * 6 + 128))

static size_t exposed_ports_place_of(const struct exposed_ports *book, uint16_t port)
{
	size_t i = 0;

	while (i < book->count && book->at[i].port < port)
		i++;
	return i;
}

const struct exposed_ports_entry *exposed_ports_find(const struct exposed_ports *book,
						     uint16_t port)
{
	size_t i = exposed_ports_place_of(book, port);

	return i < book->count && book->at[i].port == port ? &book->at[i] : NULL;
}

struct exposed_ports_entry *exposed_ports_get(struct exposed_ports *book, uint16_t port)
{
	return (struct exposed_ports_entry *)exposed_ports_find(book, port);
}

bool exposed_ports_has_token(const struct exposed_ports *book, struct str token, uint16_t but_port)
{
	for (size_t i = 0; i < book->count; i++)
		if (book->at[i].port != but_port && str_is(token, book->at[i].token))
			return true;
	return false;
}

struct exposed_ports_entry *exposed_ports_add(struct exposed_ports *book, uint16_t port,
					      struct str name)
{
	size_t i = exposed_ports_place_of(book, port);

	if (book->count >= EXPOSED_PORTS_MAX)
		return NULL;
	book->at = mem_grow(book->at, book->count + 1, sizeof(*book->at));
	memmove(book->at + i + 1, book->at + i, (book->count - i) * sizeof(*book->at));
	book->at[i] = (struct exposed_ports_entry){
		.port = port,
		.name = name.len ? mem_dup(name.at, name.len) : NULL,
	};
	preview_token_make(book->at[i].token);
	book->count++;
	return &book->at[i];
}

bool exposed_ports_drop(struct exposed_ports *book, uint16_t port)
{
	size_t i = exposed_ports_place_of(book, port);

	if (i == book->count || book->at[i].port != port)
		return false;
	free(book->at[i].name);
	book->count--;
	memmove(book->at + i, book->at + i + 1, (book->count - i) * sizeof(*book->at));
	return true;
}

void exposed_ports_done(struct exposed_ports *book)
{
	for (size_t i = 0; i < book->count; i++)
		free(book->at[i].name);
	free(book->at);
	*book = (struct exposed_ports){0};
}

fallible exposed_ports_save(struct store *store, const char *id, const struct exposed_ports *ports)
{
	auto_free char *name = mem_fmt(STORE_BOX_PORTS "%s", id);
	auto_buf text = BUF_INIT(SAVED_BYTES);
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

static fallible exposed_ports_read_one(const struct json *one, struct exposed_ports *out)
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

static fallible exposed_ports_read(struct str text, struct exposed_ports *out)
{
	auto_json all = NULL;

	TRY(json_read(text, &all));
	TRY(json_want(all, "ports", JSON_ARRAY));
	for (size_t i = 0; i < json_count(all); i++)
		TRY(exposed_ports_read_one(json_at(all, i), out));
	return OK;
}

fallible exposed_ports_load(struct store *store,
			    void (*each)(void *arg, struct str id, struct exposed_ports *ports),
			    void *arg)
{
	auto_arena arena = arena_new();
	struct store_kv *rows = NULL;
	size_t count = 0;

	TRY(store_kv_load(store, STORE_BOX_PORTS, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct exposed_ports ports = {0};
		auto_err err = exposed_ports_read(rows[i].value, &ports);

		if (err)
			log_event(LOG_WARN, "box.ports_unreadable", "name", rows[i].name, NULL);
		each(arg, str_skip(str_of(rows[i].name), strlen(STORE_BOX_PORTS)), &ports);
		exposed_ports_done(&ports);
	}
	return OK;
}
