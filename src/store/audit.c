// A row's hash is taken over the hash before it and the row's own text: every field with its length
// before it, so that no two rows have one text. It is computed where the row is written, by the one
// thread that writes, so the chain has no forks.
#include "store/audit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "store/counters.h"
#include "store/rows.h"

#define ROW_MAX (4 << 20)
#define PAGE 500 // rows that are checked at a time
#define COLUMNS "id, " WORDS
#define WORDS "time, tenant, who, action, target, outcome, fields, hash"

static const char *or_none(const char *text)
{
	return text ? text : "";
}

static void add_field(struct buf *out, const char *text)
{
	text = or_none(text);
	buf_fmt(out, "%zu:%s\n", strlen(text), text);
}

static fallible chain(const uint8_t before[SECRET_HASH], const struct store_audit *row,
		      uint8_t out[SECRET_HASH])
{
	auto_buf text = BUF_INIT(ROW_MAX);

	buf_add(&text, before, SECRET_HASH);
	buf_fmt(&text, "%llu\n%lld\n", (unsigned long long)row->id, (long long)row->time_ms);
	add_field(&text, row->tenant);
	add_field(&text, row->who);
	add_field(&text, row->action);
	add_field(&text, row->target);
	add_field(&text, row->outcome);
	add_field(&text, row->fields);
	if (!buf_ok(&text))
		return err_new(TOO_LARGE, "audit_too_large", "the row is too large");
	secret_sha256(text.at, text.len, out);
	return OK;
}

static fallible read_head(struct db *db, uint64_t *out_id, uint8_t out[SECRET_HASH])
{
	auto_query query = {0};
	bool found = false;
	struct str hash;

	*out_id = 0;
	memset(out, 0, SECRET_HASH);
	TRY(query_open(db, "SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1", &query));
	TRY(query_step(&query, &found));
	if (!found)
		return OK;
	*out_id = (uint64_t)query_take_int(&query);
	hash = query_take(&query);
	if (hash.len == SECRET_HASH) // else the chain is broken there already, and verify says so
		memcpy(out, hash.at, SECRET_HASH);
	return OK;
}

// The length of the chain is kept beside it, so that an end that was cut off shows as well.
static fallible keep_length(struct db *db, uint64_t id)
{
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO counters (name, value) VALUES ('audit', $1) ON CONFLICT (name)"
		       " DO UPDATE SET value = excluded.value",
		       &query));
	query_put_int(&query, (int64_t)id);
	return query_run(&query, NULL);
}

fallible store_audit_add_in(struct db *db, const struct store_audit *row, uint64_t *out_id)
{
	uint8_t before[SECRET_HASH];
	struct store_audit full = *row;
	auto_query query = {0};
	uint64_t own = 0;

	if (!full.fields)
		full.fields = "{}";
	TRY(read_head(db, &full.id, before));
	full.id++;
	TRY(chain(before, &full, full.hash));
	TRY(counter_next(db, "audit", or_none(full.tenant), &own));
	TRY(query_open(db,
		       "INSERT INTO audit (" COLUMNS ", own) VALUES ($1, $2, $3, $4, $5, $6, $7,"
		       " $8, $9, $10)",
		       &query));
	query_put_int(&query, (int64_t)full.id);
	query_put_int(&query, full.time_ms);
	query_put_text(&query, or_none(full.tenant));
	query_put_text(&query, or_none(full.who));
	query_put_text(&query, or_none(full.action));
	query_put_text(&query, or_none(full.target));
	query_put_text(&query, or_none(full.outcome));
	query_put_text(&query, full.fields);
	query_put_bytes(&query, full.hash, SECRET_HASH);
	query_put_int(&query, (int64_t)own);
	TRY(query_run(&query, NULL));
	TRY(keep_length(db, full.id));
	if (out_id)
		*out_id = full.id;
	return OK;
}

struct adding {
	struct store_audit row;
	uint64_t id;
	struct arena *arena; // of a told one: holds it all
	void (*done)(void *arg);
	void *arg;
};

static struct err *add(struct db *db, void *arg)
{
	struct adding *adding = arg;

	return store_audit_add_in(db, &adding->row, &adding->id);
}

fallible store_audit_add(struct store *store, const struct store_audit *row, uint64_t *out_id)
{
	struct adding adding = {.row = *row};

	TRY(store_do(store, add, &adding), "write the audit log");
	if (out_id)
		*out_id = adding.id;
	return OK;
}

static void drop_adding(void *arg)
{
	struct adding *adding = arg;

	if (adding->done)
		adding->done(adding->arg);
	arena_free(adding->arena);
}

static const char *copy(struct arena *arena, const char *text)
{
	return text ? arena_dup(arena, text, strlen(text)) : NULL;
}

void store_audit_tell(struct store *store, const struct store_audit *row, void (*done)(void *arg),
		      void *arg)
{
	struct arena *arena = arena_new();
	struct adding *adding = arena_take(arena, sizeof(*adding));

	*adding = (struct adding){.row = *row, .arena = arena, .done = done, .arg = arg};
	adding->row.tenant = copy(arena, row->tenant);
	adding->row.who = copy(arena, row->who);
	adding->row.action = copy(arena, row->action);
	adding->row.target = copy(arena, row->target);
	adding->row.outcome = copy(arena, row->outcome);
	adding->row.fields = copy(arena, row->fields);
	store_tell(store, add, adding, drop_adding);
}

static void read_row(struct query *query, struct arena *arena, struct store_audit *out)
{
	struct str hash;

	out->id = (uint64_t)query_take_int(query);
	out->time_ms = query_take_int(query);
	out->tenant = query_take_text(query, arena);
	out->who = query_take_text(query, arena);
	out->action = query_take_text(query, arena);
	out->target = query_take_text(query, arena);
	out->outcome = query_take_text(query, arena);
	out->fields = query_take_text(query, arena);
	hash = query_take(query);
	if (hash.len == SECRET_HASH)
		memcpy(out->hash, hash.at, SECRET_HASH);
	else
		query->bad = true;
}

struct paging {
	uint64_t after;
	const char *tenant;
	bool own;
	size_t max;
	struct rows rows;
	struct store_audit *at;
};

static struct err *page(struct db *db, void *arg)
{
	struct paging *paging = arg;
	auto_query query = {0};
	bool found;

	paging->rows.count = 0;
	TRY(query_open(db,
		       paging->own	? "SELECT own, " WORDS " FROM audit WHERE own > $1 AND"
					  " tenant = $2 ORDER BY own LIMIT $3"
		       : paging->tenant ? "SELECT " COLUMNS " FROM audit WHERE id > $1 AND"
					  " tenant = $2 ORDER BY id LIMIT $3"
					: "SELECT " COLUMNS " FROM audit WHERE id > $1 ORDER BY id"
					  " LIMIT $2",
		       &query));
	query_put_int(&query, (int64_t)paging->after);
	if (paging->tenant)
		query_put_text(&query, paging->tenant);
	query_put_int(&query, (int64_t)paging->max);
	for (;;) {
		struct store_audit *row;
		void *at = paging->at;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		row = rows_next(&paging->rows, &at, sizeof(*row));
		paging->at = at;
		read_row(&query, paging->rows.arena, row);
	}
}

fallible store_audit_page(struct store *store, uint64_t after, const char *tenant, bool own,
			  size_t max, struct arena *arena, struct store_audit **out,
			  size_t *out_count)
{
	struct paging paging = {
		.after = after, .tenant = tenant, .own = own, .max = max, .rows = {.arena = arena}};

	TRY(store_ask(store, page, &paging), "read the audit log");
	*out = paging.at;
	*out_count = paging.rows.count;
	return OK;
}

struct proof {
	uint64_t bad, count;
	uint8_t head[SECRET_HASH];
	bool done;
};

static fallible read_length(struct db *db, uint64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT value FROM counters WHERE name = 'audit'", &query));
	TRY(query_step(&query, &found));
	*out = found ? (uint64_t)query_take_int(&query) : 0;
	return OK;
}

// One row more. False: it does not follow.
static fallible follow(struct proof *proof, struct query *query, struct arena *arena, bool *out)
{
	uint8_t want[SECRET_HASH];
	struct store_audit row = {0};

	read_row(query, arena, &row);
	TRY(chain(proof->head, &row, want));
	*out = !query->bad && row.id == proof->count + 1 &&
	       memcmp(want, row.hash, SECRET_HASH) == 0;
	if (*out) {
		memcpy(proof->head, row.hash, SECRET_HASH);
		proof->count++;
	} else {
		proof->bad = row.id ? row.id : proof->count + 1;
	}
	return OK;
}

// The next page. What is written meanwhile is part of a later one: how long the chain must be is
// read in the same look as its end.
static struct err *verify(struct db *db, void *arg)
{
	struct proof proof = *(struct proof *)arg;
	auto_arena arena = arena_new();
	auto_query query = {0};
	uint64_t length = 0, from = proof.count;
	bool found = true, good = true;

	TRY(db_script(db, "SAVEPOINT look"));
	TRY(read_length(db, &length));
	TRY(query_open(db, "SELECT " COLUMNS " FROM audit WHERE id > $1 ORDER BY id LIMIT $2",
		       &query));
	query_put_int(&query, (int64_t)from);
	query_put_int(&query, PAGE);
	while (good) {
		TRY(query_step(&query, &found));
		if (!found)
			break;
		arena_reset(arena);
		TRY(follow(&proof, &query, arena, &good));
	}
	query_close(&query);
	TRY(db_script(db, "RELEASE SAVEPOINT look"));
	proof.done = proof.bad || proof.count - from < PAGE;
	if (!proof.bad && proof.done && proof.count != length)
		proof.bad = proof.count + 1;
	*(struct proof *)arg = proof;
	return OK;
}

fallible store_audit_verify(struct store *store, uint64_t *out_bad, uint64_t *out_count,
			    uint8_t out_head[SECRET_HASH])
{
	struct proof proof = {0};

	while (!proof.done)
		TRY(store_look(store, verify, &proof), "read the audit log");
	*out_bad = proof.bad;
	*out_count = proof.count;
	memcpy(out_head, proof.head, SECRET_HASH);
	return OK;
}
