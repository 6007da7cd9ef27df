// Box records: columns for lookups, and the rest as JSON, so that a new field needs no schema
// change. A field that is absent in an older row has its default. Unreadable rows are reported,
// never dropped.
#include "store/boxes.h"

#include <stdio.h>

#include "codec/json.h"

#define OLD_IDEMPOTENCY "pledge" // the key in records of schema 4 and before

#define BODY_MAX (4 << 20)

static void put_pairs(struct json_out *out, const char *key, const struct env_map *env_map)
{
	json_key(out, key);
	env_map_write(out, env_map);
}

static void store_boxes_put_limits(struct json_out *out, const struct limits *limits)
{
	json_key(out, "limits");
	json_begin(out, '{');
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		json_put_int(out, limit_rows[i].stored, (int64_t)limit_of(limits, i));
	json_end(out, '}');
}

static void put_retention(struct json_out *out, const struct retention *terms)
{
	json_key(out, "terms");
	json_begin(out, '{');
	json_put_int(out, "sleepAfter", (int64_t)terms->sleep_after_ms);
	json_put_bool(out, "keepAlive", terms->keep_alive);
	json_put_int(out, "get", (int64_t)terms->waits.instance_get_ms);
	json_put_int(out, "port", (int64_t)terms->waits.port_ready_ms);
	json_put_int(out, "interval", (int64_t)terms->waits.wait_interval_ms);
	json_put_text(out, "base", terms->base_url);
	json_put_int(out, "tokenTurn", (int64_t)terms->token_turn);
	json_end(out, '}');
}

void store_box_of(const struct record *record, struct store_box *out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = json_to(&body);

	json_begin(&json, '{');
	json_put_text(&json, "template", record->template);
	json_put_text(&json, "reason", record->reason);
	store_boxes_put_limits(&json, &record->limits);
	put_pairs(&json, "env", &record->env);
	json_put_text(&json, "user", record->user);
	if (record->workdir)
		json_put_text(&json, "workdir", record->workdir);
	put_pairs(&json, "labels", &record->labels);
	put_retention(&json, &record->retention);
	if (record->network) {
		json_key(&json, "network");
		policy_save(&json, record->network);
	}
	json_put_int(&json, "created", record->created_ms);
	json_put_int(&json, "started", record->started_ms);
	json_put_int(&json, "ends", record->ends_ms);
	json_put_int(&json, "failed", record->failed_ms);
	json_put_bool(&json, "ephemeral", record->ephemeral);
	json_put_bool(&json, "diskKept", record->disk_kept);
	json_put_text(&json, "idempotency", record->idempotency);
	json_end(&json, '}');
	*out = (struct store_box){.state = record->state, .seq = record->seq};
	memcpy(out->id, record->id, sizeof(out->id));
	memcpy(out->tenant, record->tenant, sizeof(out->tenant));
	memcpy(out->name, record->name, sizeof(out->name));
	out->body = buf_take(&body);
}

void store_box_done(struct store_box *box)
{
	free(take_ptr(box->body));
}

static fallible read_pairs(const struct json *object, struct env_map *out)
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

static fallible read_u64(const struct json *object, const char *key, uint64_t *out)
{
	return json_u64(json_get(object, key), key, 0, 1ull << 53, out);
}

static fallible store_boxes_read_limits(const struct json *from, struct limits *out)
{
	TRY(json_want(from, "limits", JSON_OBJECT));
	for (enum limit i = 0; i < LIMIT_COUNT; i++)
		TRY(read_u64(from, limit_rows[i].stored, limit_at(out, i)));
	return OK;
}

static fallible read_retention(const struct json *from, struct retention *out)
{
	struct str base = {0};

	*out = RETENTION_DEFAULT;
	TRY(json_want(from, "terms", JSON_OBJECT));
	TRY(read_u64(from, "sleepAfter", &out->sleep_after_ms));
	TRY(json_bool(json_get(from, "keepAlive"), "keepAlive", &out->keep_alive));
	TRY(read_u64(from, "get", &out->waits.instance_get_ms));
	TRY(read_u64(from, "port", &out->waits.port_ready_ms));
	TRY(read_u64(from, "interval", &out->waits.wait_interval_ms));
	TRY(json_str(json_get(from, "base"), "base", &base));
	if (json_get(from, "tokenTurn")) // absent before tokens could be rotated
		TRY(read_u64(from, "tokenTurn", &out->token_turn));
	out->base_url = base.at ? mem_dup(base.at, base.len) : NULL;
	return OK;
}

static fallible read_word(const struct json *from, const char *key, char *room, size_t size)
{
	struct str text = {0};

	TRY(json_str(json_get(from, key), key, &text));
	if (text.len >= size)
		return err_new(INVALID, "bad_field", "'%s' is too long", key);
	memcpy(room, text.at ? text.at : "", text.len);
	room[text.len] = '\0';
	return OK;
}

static fallible read_workdir(const struct json *from, struct record *out)
{
	struct str path = {0};

	TRY(json_str(json_get(from, "workdir"), "workdir", &path));
	if (path.len)
		out->workdir = mem_dup(path.at, path.len);
	return read_word(from, "user", out->user, sizeof(out->user));
}

static fallible read_time(const struct json *from, const char *key, int64_t *out)
{
	uint64_t ms = 0;

	TRY(read_u64(from, key, &ms));
	*out = (int64_t)ms;
	return OK;
}

static fallible store_boxes_read_network(const struct json *saved, struct policy **out)
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);

	if (!saved)
		return OK;
	TRY(policy_load(saved, &policy));
	*out = policy_new(&policy);
	return OK;
}

static fallible store_boxes_read_body(struct str text, struct record *out)
{
	auto_json body = NULL;

	TRY(json_read_any(text, &body));
	TRY(json_want(body, "record", JSON_OBJECT));
	TRY(read_word(body, "template", out->template, sizeof(out->template)));
	TRY(read_word(body, "reason", out->reason, sizeof(out->reason)));
	TRY(read_word(body, json_get(body, OLD_IDEMPOTENCY) ? OLD_IDEMPOTENCY : "idempotency",
		      out->idempotency, sizeof(out->idempotency)));
	if (!json_get(body, "limits") || !json_get(body, "terms"))
		return err_new(INVALID, "bad_field", "the record has neither limits nor terms");
	TRY(store_boxes_read_limits(json_get(body, "limits"), &out->limits));
	TRY(read_retention(json_get(body, "terms"), &out->retention));
	TRY(read_pairs(json_get(body, "env"), &out->env));
	TRY(read_workdir(body, out));
	TRY(read_pairs(json_get(body, "labels"), &out->labels));
	TRY(store_boxes_read_network(json_get(body, "network"), &out->network));
	TRY(read_time(body, "created", &out->created_ms));
	TRY(read_time(body, "started", &out->started_ms));
	TRY(read_time(body, "ends", &out->ends_ms));
	TRY(read_time(body, "failed", &out->failed_ms));
	TRY(json_bool(json_get(body, "ephemeral"), "ephemeral", &out->ephemeral));
	return json_bool(json_get(body, "diskKept"), "diskKept", &out->disk_kept);
}

static bool store_boxes_take_word(struct query *query, char *room, size_t size)
{
	struct str text = query_take(query);
	bool fits = text.len < size && !(text.len && memchr(text.at, 0, text.len));

	if (fits && text.len)
		memcpy(room, text.at, text.len);
	return fits;
}

static bool store_boxes_read_state(struct str word, enum state *out)
{
#define X(name, text)                                                                              \
	if (str_is(word, text)) {                                                                  \
		*out = STATE_##name;                                                               \
		return true;                                                                       \
	}
	STATES(X)
#undef X
	return false;
}

// False: unreadable. Fields that could be read are set.
static bool store_boxes_read_row(struct query *query, struct record *out)
{
	bool good = store_boxes_take_word(query, out->id, sizeof(out->id));
	struct err *err;

	out->seq = (uint64_t)query_take_int(query);
	good &= store_boxes_take_word(query, out->tenant, sizeof(out->tenant));
	good &= store_boxes_take_word(query, out->name, sizeof(out->name));
	out->state = STATE_FAILED;
	good &= store_boxes_read_state(query_take(query), &out->state);
	err = store_boxes_read_body(query_take(query), out);
	good &= !err && !query->bad;
	err_free(err);
	snprintf(out->short_id, sizeof(out->short_id), "%.*s", ID_SHORT_LEN,
		 strlen(out->id) > 4 ? out->id + 4 : "");
	return good;
}

static fallible keep_seq(struct db *db, uint64_t seq)
{
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO counters (name, value) VALUES ('box_seq', $1) ON CONFLICT"
		       " (name) DO UPDATE SET value = excluded.value WHERE excluded.value >"
		       " counters.value",
		       &query));
	query_put_int(&query, (int64_t)seq);
	return query_run(&query, NULL);
}

fallible store_boxes_put_in(struct db *db, const struct store_box *box)
{
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO boxes (id, seq, tenant, name, state, body) VALUES ($1, $2, $3,"
		       " $4, $5, $6) ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, tenant ="
		       " excluded.tenant, name = excluded.name, state = excluded.state, body ="
		       " excluded.body",
		       &query));
	query_put_text(&query, box->id);
	query_put_int(&query, (int64_t)box->seq);
	query_put_text(&query, box->tenant);
	query_put_text(&query, box->name);
	query_put_text(&query, state_word(box->state));
	query_put_text(&query, box->body);
	TRY(query_run(&query, NULL));
	return box->state == STATE_CREATING ? keep_seq(db, box->seq) : OK;
}

fallible store_boxes_drop_in(struct db *db, const char *id)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM boxes WHERE id = $1", &query));
	query_put_text(&query, id);
	return query_run(&query, NULL);
}

static fallible load_seq(struct db *db, struct store_boxes *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT value FROM counters WHERE name = 'box_seq'", &query));
	TRY(query_step(&query, &found));
	if (found)
		out->last_seq = (uint64_t)query_take_int(&query);
	for (size_t i = 0; i < out->count; i++)
		if (out->at[i].seq > out->last_seq)
			out->last_seq = out->at[i].seq;
	return OK;
}

static struct err *boxes_query_load(struct db *db, void *arg)
{
	struct store_boxes *out = arg;
	auto_query query = {0};
	size_t room = 0;
	bool found;

	store_boxes_done(out);
	TRY(query_open(db, "SELECT id, seq, tenant, name, state, body FROM boxes ORDER BY seq",
		       &query));
	for (;;) {
		TRY(query_step(&query, &found));
		if (!found)
			break;
		if (out->count == room) {
			room = room ? room * 2 : 64;
			out->at = mem_grow(out->at, room, sizeof(*out->at));
			out->unreadable = mem_grow(out->unreadable, room, sizeof(bool));
		}
		out->at[out->count] = (struct record){0};
		out->unreadable[out->count] = !store_boxes_read_row(&query, &out->at[out->count]);
		out->count++;
	}
	return load_seq(db, out);
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
