// Box records: columns for lookups, and the rest as JSON, so that a new field needs no schema
// change. A field that is absent in an older row has its default. Unreadable rows are reported,
// never dropped.
#include "store/boxes.h"

#include <stdio.h>

#include "codec/json.h"
#include "store/egress.h"
#include "store/kv.h"

#define BODY_MAX (4 << 20)
#define SEQ "box_seq" // the counter of records
#define NUMBER_MAX (1ull << 53)

struct box_row {
	char id[ID_BOX_LEN + 1];
	char tenant[RECORD_TENANT_MAX];
	char name[ID_NAME_MAX + 1];
	const char *state; // its word
	uint64_t seq;
	char *body; // JSON: all other fields
};

// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,     "id",     ROOM) \
	FIRST(2, seq,    "seq",    INT) \
	NEXT(3,  tenant, "tenant", ROOM) \
	NEXT(4,  name,   "name",   ROOM) \
	NEXT(5,  state,  "state",  TEXT) \
	NEXT(6,  body,   "body",   TEXT)
// clang-format on
static const struct db_column box_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct box_row, field, type)
	ROW(F, F, F){0}
#undef F
};

// The fields of the body, in order.
enum body_type {
	BODY_WORD,    // char[]
	BODY_TEXT,    // char *; NULL is null
	BODY_PATH,    // char *; NULL is absent
	BODY_NUMBER,  // uint64_t or int64_t, from 0 on
	BODY_FLAG,    // bool
	BODY_PAIRS,   // struct env_map
	BODY_LIMITS,  // struct limits; must be there
	BODY_NEXT,    // struct limits; memory 0 is absent
	BODY_POLICY,  // struct policy *; NULL is absent
	BODY_VOLUMES, // struct volume_mounts; none is absent
	BODY_OBJECT,  // a struct with fields of its own; must be there
};
struct body_field {
	const char *key;
	enum body_type type;
	uint16_t offset, size; // the size of a word
	const char *old;       // its key in records of schema 4 and before; NULL: the same
	const struct body_field *fields; // of an object
};
#define FIELD(of, word, kind, field, ...)                                                          \
	{                                                                                          \
		.key = word, .type = BODY_##kind, .offset = offsetof(struct of, field),            \
		__VA_ARGS__                                                                        \
	}
#define SIZE(of, field) .size = sizeof(((struct of *)NULL)->field)

// clang-format off
static const struct body_field retention_fields[] = {
	FIELD(retention, "sleepAfter", NUMBER, sleep_after_ms),
	FIELD(retention, "archiveAfter", NUMBER, archive_after_ms),
	FIELD(retention, "keepAlive",  FLAG,   keep_alive),
#define F(field, key, stored, ...) FIELD(retention, stored, NUMBER, waits.field),
	RETENTION_WAITS(F)
#undef F
	FIELD(retention, "base",       TEXT,   base_url),
	FIELD(retention, "tokenTurn",  NUMBER, token_turn),
	{0},
};
static const struct body_field record_fields[] = {
	FIELD(record, "template",    WORD,   template, SIZE(record, template)),
	FIELD(record, "root",        WORD,   root, SIZE(record, root)),
	FIELD(record, "image",       PATH,   image),
	FIELD(record, "reason",      WORD,   reason, SIZE(record, reason)),
	FIELD(record, "limits",      LIMITS, limits),
	FIELD(record, "limitsNext",  NEXT,   next),
	FIELD(record, "env",         PAIRS,  env),
	FIELD(record, "user",        WORD,   user, SIZE(record, user)),
	FIELD(record, "workdir",     PATH,   workdir),
	FIELD(record, "launch",      PATH,   launch),
	FIELD(record, "labels",      PAIRS,  labels),
	FIELD(record, "terms",       OBJECT, retention, .fields = retention_fields),
	FIELD(record, "network",     POLICY, network),
	FIELD(record, "volumes",     VOLUMES, volumes),
	FIELD(record, "created",     NUMBER, created_ms),
	FIELD(record, "started",     NUMBER, started_ms),
	FIELD(record, "ends",        NUMBER, ends_ms),
	FIELD(record, "failed",      NUMBER, failed_ms),
	FIELD(record, "stopped",     NUMBER, stopped_ms),
	FIELD(record, "unsynced",    NUMBER, unsynced_ms),
	FIELD(record, "archiveBytes", NUMBER, archive_bytes),
	FIELD(record, "ephemeral",   FLAG,   ephemeral),
	FIELD(record, "diskKept",    FLAG,   disk_kept),
	FIELD(record, "idempotency", WORD,   idempotency, SIZE(record, idempotency), .old = "pledge"),
	{0},
};
// clang-format on

static void body_put(struct json_out *out, const struct body_field *fields, const void *from);

static void body_put_limits(struct json_out *out, const struct limits *limits)
{
	json_begin(out, '{');
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		json_put_int(out, limit_rows[i].stored, (int64_t)limit_of(limits, i));
	json_end(out, '}');
}

static void body_put_field(struct json_out *out, const struct body_field *field, const void *at)
{
	const struct policy *policy;

	switch (field->type) {
	case BODY_WORD:
		json_put_text(out, field->key, at);
		break;
	case BODY_PATH:
		if (*(char *const *)at)
			json_put_text(out, field->key, *(char *const *)at);
		break;
	case BODY_TEXT:
		json_put_text(out, field->key, *(char *const *)at);
		break;
	case BODY_NUMBER:
		json_put_int(out, field->key, *(const int64_t *)at);
		break;
	case BODY_FLAG:
		json_put_bool(out, field->key, *(const bool *)at);
		break;
	case BODY_PAIRS:
		json_key(out, field->key);
		env_map_write(out, at);
		break;
	case BODY_NEXT:
		if (!((const struct limits *)at)->memory)
			break;
		__attribute__((fallthrough));
	case BODY_LIMITS:
		json_key(out, field->key);
		body_put_limits(out, at);
		break;
	case BODY_POLICY:
		policy = *(struct policy *const *)at;
		if (!policy)
			break;
		json_key(out, field->key);
		policy_save(out, policy);
		break;
	case BODY_VOLUMES:
		if (!((const struct volume_mounts *)at)->count)
			break;
		json_key(out, field->key);
		volume_mounts_write(out, at);
		break;
	case BODY_OBJECT:
		json_key(out, field->key);
		body_put(out, field->fields, at);
	}
}

static void body_put(struct json_out *out, const struct body_field *fields, const void *from)
{
	json_begin(out, '{');
	for (const struct body_field *field = fields; field->key; field++)
		body_put_field(out, field, (const char *)from + field->offset);
	json_end(out, '}');
}

static struct box_row *box_row_new(const struct record *record)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);
	struct box_row *row = mem_new_of(struct box_row);

	body_put(&json, record_fields, record);
	row->state = state_word(record->state);
	row->seq = record->seq;
	memcpy(row->id, record->id, sizeof(row->id));
	memcpy(row->tenant, record->tenant, sizeof(row->tenant));
	memcpy(row->name, record->name, sizeof(row->name));
	row->body = buf_take(&body);
	return row;
}

static void box_row_free(void *arg)
{
	struct box_row *row = arg;

	free(row->body);
	free(row);
}

static void auto_box_row_(struct box_row **row)
{
	if (*row)
		box_row_free(*row);
}
#define auto_box_row on_exit_call(auto_box_row_) struct box_row *

static struct err *boxes_query_put(struct db *db, void *arg)
{
	const struct box_row *row = arg;

	TRY(db_put(db, DB_UPSERT("boxes", "id", ROW), box_columns, row, NULL));
	if (strcmp(row->state, state_word(STATE_CREATING)) != 0)
		return OK;
	return counter_raise(db, SEQ, row->seq);
}

fallible store_boxes_put(struct store *store, const struct record *record)
{
	auto_box_row row = NULL;

	if (!store)
		return OK;
	row = box_row_new(record);
	return err_while(store_do(store, boxes_query_put, row), "record %s", record->id);
}

fallible store_boxes_end(struct store *store, const struct record *record)
{
	auto_box_row row = NULL;

	if (!store)
		return OK;
	row = box_row_new(record);
	row->state = state_word(STATE_DELETING);
	return err_while(store_do_last(store, boxes_query_put, row), "record the end of %s",
			 record->id);
}

void store_boxes_queue(struct store *store, const struct record *record)
{
	if (store)
		store_queue(store, boxes_query_put, box_row_new(record), box_row_free);
}

static struct err *boxes_query_drop(struct db *db, void *arg)
{
	auto_free char *ports = mem_fmt(STORE_BOX_PORTS "%s", (const char *)arg);
	auto_free char *sync = mem_fmt(STORE_BOX_SYNC "%s", (const char *)arg);

	TRY(db_run(db, "DELETE FROM boxes WHERE id = $1", DB_WITH(db_text(arg)), NULL));
	TRY(db_run(db, "DELETE FROM usage_meters WHERE sandbox = $1", DB_WITH(db_text(arg)), NULL));
	TRY(store_egress_forget_in(db, arg));
	TRY(store_kv_drop_in(db, sync));
	return store_kv_drop_in(db, ports);
}

void store_boxes_drop(struct store *store, const char *id)
{
	if (store)
		store_queue(store, boxes_query_drop, mem_str(id), free);
}

static fallible body_read(const struct json *from, const struct body_field *fields, void *out);

static fallible body_read_pairs(const struct json *object, struct env_map *out)
{
	struct json *value;
	struct str key;
	size_t at = 0;

	if (!object)
		return OK;
	TRY(json_want(object, "pairs", JSON_OBJECT));
	while (json_next(object, &at, &key, &value))
		env_map_set(out, key, json_chars(value));
	return OK;
}

static fallible body_read_limits(const struct json *from, struct limits *out)
{
	TRY(json_want(from, "limits", JSON_OBJECT));
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		TRY(json_u64(json_get(from, limit_rows[i].stored), limit_rows[i].stored, 0,
			     NUMBER_MAX, limit_at(out, i)));
	return OK;
}

static fallible body_read_policy(const struct json *saved, struct policy **out)
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	if (!saved)
		return OK;
	TRY(policy_load(saved, &policy));
	*out = policy_new(&policy);
	return OK;
}

static fallible body_read_field(const struct json *value, const struct body_field *field, void *at)
{
	struct str text = {0};

	if (!value && (field->type == BODY_LIMITS || field->type == BODY_OBJECT))
		return err_new(INVALID, "bad_field", "the record has no %s", field->key);
	switch (field->type) {
	case BODY_WORD:
		TRY(json_str(value, field->key, &text));
		if (text.len >= field->size)
			return err_new(INVALID, "bad_field", "'%s' is too long", field->key);
		memcpy(at, text.at ? text.at : "", text.len);
		return OK;
	case BODY_TEXT:
	case BODY_PATH:
		TRY(json_str(value, field->key, &text));
		*(char **)at = text.len ? mem_dup(text.at, text.len) : NULL;
		return OK;
	case BODY_NUMBER:
		return json_u64(value, field->key, 0, NUMBER_MAX, at);
	case BODY_FLAG:
		return json_bool(value, field->key, at);
	case BODY_PAIRS:
		return body_read_pairs(value, at);
	case BODY_NEXT:
		return value ? body_read_limits(value, at) : OK;
	case BODY_LIMITS:
		return body_read_limits(value, at);
	case BODY_POLICY:
		return body_read_policy(value, at);
	case BODY_VOLUMES:
		return volume_mounts_load(value, at);
	case BODY_OBJECT:
		return body_read(value, field->fields, at);
	}
	return OK;
}

static fallible body_read(const struct json *from, const struct body_field *fields, void *out)
{
	TRY(json_want(from, "record", JSON_OBJECT));
	for (const struct body_field *field = fields; field->key; field++) {
		const struct json *value = json_get(from, field->key);

		if (!value && field->old)
			value = json_get(from, field->old);
		TRY(body_read_field(value, field, (char *)out + field->offset));
	}
	return OK;
}

static bool store_boxes_read_state(const char *word, enum state *out)
{
	for (enum state i = 0; i < STATE_COUNT; i++)
		if (!strcmp(word, state_word(i))) {
			*out = i;
			return true;
		}
	return false;
}

// False: unreadable. Fields that could be read are set.
static bool store_boxes_read_row(struct query *query, struct arena *arena, struct record *out)
{
	struct box_row row = {0};
	auto_json body = NULL;
	struct err *err;
	bool good;

	query_take_row(query, box_columns, arena, &row);
	*out = (struct record){
		.state = STATE_FAILED, .seq = row.seq, .retention = RETENTION_DEFAULT};
	memcpy(out->id, row.id, sizeof(out->id));
	memcpy(out->tenant, row.tenant, sizeof(out->tenant));
	memcpy(out->name, row.name, sizeof(out->name));
	good = store_boxes_read_state(row.state, &out->state);
	err = json_read_any(str_of(row.body), &body);
	if (!err)
		err = body_read(body, record_fields, out);
	good &= !err && !query->bad;
	err_free(err);
	snprintf(out->short_id, sizeof(out->short_id), "%.*s", ID_SHORT_LEN,
		 strlen(out->id) > 4 ? out->id + 4 : "");
	return good;
}

static struct err *boxes_query_load(struct db *db, void *arg)
{
	struct store_boxes *out = arg;
	auto_arena arena = arena_new();
	auto_query query = {0};
	size_t room = 0;
	bool found;

	store_boxes_done(out);
	TRY(db_number(db, "SELECT value FROM counters WHERE name = '" SEQ "'", NULL,
		      &out->last_seq));
	TRY(query_open(db, "SELECT " DB_NAMES(ROW) " FROM boxes ORDER BY seq", &query));
	for (;;) {
		struct record *record;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		if (out->count == room) {
			room = room ? room * 2 : 64;
			out->at = mem_grow(out->at, room, sizeof(*out->at));
			out->unreadable = mem_grow(out->unreadable, room, sizeof(bool));
		}
		record = &out->at[out->count];
		arena_reset(arena);
		out->unreadable[out->count++] = !store_boxes_read_row(&query, arena, record);
		if (record->seq > out->last_seq)
			out->last_seq = record->seq;
	}
}

fallible store_boxes_load(struct store *store, struct store_boxes *out)
{
	struct store_boxes boxes = {0};
	struct err *err = store_ask(store, boxes_query_load, &boxes);

	if (err) {
		store_boxes_done(&boxes);
		return err_while(err, "load the sandboxes");
	}
	*out = boxes;
	return OK;
}

void store_boxes_done(struct store_boxes *boxes)
{
	for (size_t i = 0; i < boxes->count; i++)
		record_done(&boxes->at[i]);
	free(boxes->at);
	free(boxes->unreadable);
	*boxes = (struct store_boxes){0};
}
