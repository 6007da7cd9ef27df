// The audit log as a hash chain. A row's hash covers the previous hash and the row's text, each
// field preceded by its length, so that no two rows have one text. The writer's thread computes it
// when it writes the row, so that the chain has no forks.
#include "store/audit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "codec/text.h"
#include "store/kv.h"

#define ROW_MAX (4 << 20)
#define PAGE 500 // rows that are checked at a time
// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,      "id",      INT) \
	FIRST(2, time_ms, "time",    INT) \
	NEXT(3,  tenant,  "tenant",  TEXT) \
	NEXT(4,  who,     "who",     TEXT) \
	NEXT(5,  action,  "action",  TEXT) \
	NEXT(6,  target,  "target",  TEXT) \
	NEXT(7,  outcome, "outcome", TEXT) \
	NEXT(8,  fields,  "fields",  TEXT) \
	NEXT(9,  hash,    "hash",    HASH) \
	NEXT(10, own,     "own",     INT)
// clang-format on
#define COLUMNS DB_NAMES(ROW)
static const struct db_column audit_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_audit, field, type)
	ROW(F, F, F){0}
#undef F
};

static void add_field(struct buf *out, const char *text)
{
	text = text ? text : "";
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

static fallible audit_read_head(struct db *db, uint64_t *out_id, uint8_t out[SECRET_HASH])
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
	if (hash.len ==
	    SECRET_HASH) // otherwise the chain is already broken there, and verify reports it
		memcpy(out, hash.at, SECRET_HASH);
	return OK;
}

// The length of the chain is stored separately, so that a truncation is detected.
static fallible keep_length(struct db *db, uint64_t id)
{
	return db_run(db,
		      "INSERT INTO counters (name, value) VALUES ('audit', $1) ON CONFLICT (name)"
		      " DO UPDATE SET value = excluded.value",
		      DB_WITH(db_int((int64_t)id)), NULL);
}

fallible store_audit_add_in(struct db *db, const struct store_audit *row, uint64_t *out_id)
{
	uint8_t before[SECRET_HASH];
	struct store_audit full = *row;

	if (!full.fields)
		full.fields = "{}";
	TRY(audit_read_head(db, &full.id, before));
	full.id++;
	TRY(chain(before, &full, full.hash));
	TRY(counter_next(db, "audit", full.tenant ? full.tenant : "", &full.own));
	TRY(db_put(db, "INSERT INTO audit (" COLUMNS ") VALUES (" DB_PLACES(ROW) ")", audit_columns,
		   &full, NULL));
	TRY(keep_length(db, full.id));
	if (out_id)
		*out_id = full.id;
	return OK;
}

struct adding {
	struct store_audit row;
	struct arena *arena; // owns all of it
	void (*done)(void *arg);
	void *arg;
};

static struct err *audit_add(struct db *db, void *arg)
{
	return store_audit_add_in(db, &((struct adding *)arg)->row, NULL);
}

static void drop_adding(void *arg)
{
	struct adding *adding = arg;

	if (adding->done)
		adding->done(adding->arg);
	arena_free(adding->arena);
}

void store_audit_queue(struct store *store, const struct store_audit *row, void (*done)(void *arg),
		       void *arg)
{
	struct arena *arena = arena_new();
	struct adding *adding = arena_take(arena, sizeof(*adding));

	*adding = (struct adding){.row = *row, .arena = arena, .done = done, .arg = arg};
	db_copy_texts(audit_columns, arena, &adding->row);
	store_queue(store, audit_add, adding, drop_adding);
}

struct paging {
	uint64_t after;
	const char *tenant;
	bool own;
	size_t max;
	struct rows rows;
};

static struct err *audit_page(struct db *db, void *arg)
{
	static const struct db_table table = {audit_columns, sizeof(struct store_audit), NULL};
	struct paging *paging = arg;
	int64_t after = (int64_t)paging->after, max = (int64_t)paging->max;

	return db_rows(db,
		       paging->own ? "SELECT " COLUMNS " FROM audit WHERE own > $1 AND tenant = $2"
				     " ORDER BY own LIMIT $3"
		       : paging->tenant ? "SELECT " COLUMNS
					  " FROM audit WHERE id > $1 AND tenant = $2"
					  " ORDER BY id LIMIT $3"
					: "SELECT " COLUMNS " FROM audit WHERE id > $1 ORDER BY id"
					  " LIMIT $2",
		       paging->tenant ? DB_WITH(db_int(after), db_text(paging->tenant), db_int(max))
				      : DB_WITH(db_int(after), db_int(max)),
		       &table, &paging->rows);
}

fallible store_audit_page(struct store *store, uint64_t after, const char *tenant, bool own,
			  size_t max, struct arena *arena, struct store_audit **out,
			  size_t *out_count)
{
	struct paging paging = {
		.after = after, .tenant = tenant, .own = own, .max = max, .rows = {.arena = arena}};
	struct store_audit *rows;

	TRY(store_ask(store, audit_page, &paging), "read the audit log");
	rows = paging.rows.at;
	for (size_t i = 0; own && i < paging.rows.count; i++)
		rows[i].id = rows[i].own;
	*out = rows;
	*out_count = paging.rows.count;
	return OK;
}

// ---------------------------------------------------------------------------------------- pruning

#define CUT "audit/cut" // in the table of names: "NUMBER HASH" of the last pruned row
#define CUT_TEXT (24 + 2 * SECRET_HASH)
#define STEP 2000 // rows per commit

struct cut {
	uint64_t id;
	uint8_t hash[SECRET_HASH];
	char text[CUT_TEXT]; // "": none
};

static void write_cut(struct cut *cut)
{
	auto_buf hex = BUF_INIT(2 * SECRET_HASH + 1);

	text_hex(&hex, cut->hash, SECRET_HASH);
	snprintf(cut->text, sizeof(cut->text), "%llu %s", (unsigned long long)cut->id, hex.at);
}

static bool unhex(struct str hex, uint8_t out[SECRET_HASH])
{
	static const char digits[] = "0123456789abcdef";

	if (hex.len != 2 * SECRET_HASH)
		return false;
	for (size_t i = 0; i < hex.len; i++) {
		const char *digit = memchr(digits, hex.at[i], 16);

		if (!digit)
			return false;
		out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - digits));
	}
	return true;
}

// A malformed value is ignored.
static fallible read_cut(struct db *db, struct cut *out)
{
	auto_query query = {0};
	struct str text, number;
	bool found = false;

	*out = (struct cut){0};
	TRY(query_open(db, "SELECT value FROM kv WHERE name = $1", &query));
	query_put(&query, DB_WITH(db_text(CUT)));
	TRY(query_step(&query, &found));
	if (!found)
		return OK;
	text = query_take(&query);
	snprintf(out->text, sizeof(out->text), STR_FMT, STR_ARG(text));
	if (!str_cut(&text, ' ', &number) || !str_to_u64(number, 1, INT64_MAX, &out->id) ||
	    !unhex(text, out->hash))
		out->id = 0;
	return OK;
}

struct pruning {
	int64_t now_ms, age_ms;
	uint64_t keep, count;
};

// The last row to prune; 0: none. Only a prefix of the log is pruned, whatever the clock did.
static fallible find_cut(struct db *db, const struct pruning *pruning, uint64_t *out)
{
	uint64_t first = 0, last = 0, oldest = 0, young = 0;

	*out = 0;
	TRY(db_number(db, "SELECT min(id) FROM audit WHERE id > 0", NULL, &first));
	TRY(db_number(db, "SELECT max(id) FROM audit WHERE id > 0", NULL, &last));
	if (!first)
		return OK;
	TRY(db_number(db, "SELECT time FROM audit WHERE id = $1", DB_WITH(db_int((int64_t)first)),
		      &oldest));
	if (last - first + 1 > pruning->keep + pruning->keep / 8)
		*out = last - pruning->keep;
	if ((int64_t)oldest < pruning->now_ms - pruning->age_ms - pruning->age_ms / 8) {
		TRY(db_number(db, "SELECT min(id) FROM audit WHERE time >= $1",
			      DB_WITH(db_int(pruning->now_ms - pruning->age_ms)), &young));
		if (!young)
			young = last + 1;
		if (young - 1 > *out)
			*out = young - 1;
	}
	if (*out > first + STEP)
		*out = first + STEP;
	return OK;
}

static fallible audit_read_hash(struct db *db, struct cut *cut)
{
	auto_query query = {0};
	bool found = false;
	struct str hash;

	TRY(query_open(db, "SELECT hash FROM audit WHERE id = $1", &query));
	query_put(&query, DB_WITH(db_int((int64_t)cut->id)));
	TRY(query_step(&query, &found));
	hash = found ? query_take(&query) : STR("");
	if (hash.len != SECRET_HASH)
		return err_new(INTERNAL, "audit_broken", "the audit log is not whole");
	memcpy(cut->hash, hash.at, SECRET_HASH);
	return OK;
}

// Add the row that records the pruning first: its predecessor may be among the pruned rows.
static struct err *audit_prune(struct db *db, void *arg)
{
	struct pruning *pruning = arg;
	struct cut cut = {0};
	struct store_audit row = {
		.time_ms = pruning->now_ms,
		.who = "cove",
		.action = STORE_AUDIT_PRUNE,
		.target = cut.text,
		.outcome = "done",
	};

	pruning->count = 0;
	TRY(find_cut(db, pruning, &cut.id));
	if (!cut.id)
		return OK;
	TRY(audit_read_hash(db, &cut));
	write_cut(&cut);
	TRY(store_audit_add_in(db, &row, NULL));
	TRY(store_kv_put_in(db, CUT, str_of(cut.text)));
	return db_run(db, "DELETE FROM audit WHERE id <= $1", DB_WITH(db_int((int64_t)cut.id)),
		      &pruning->count);
}

fallible store_audit_prune(struct store *store, int64_t now_ms, int64_t age_ms, uint64_t keep,
			   uint64_t *out_count)
{
	struct pruning pruning = {.now_ms = now_ms, .age_ms = age_ms, .keep = keep};
	uint64_t count = 0;

	do {
		TRY(store_do_last(store, audit_prune, &pruning),
		    "forget old rows of the audit log");
		count += pruning.count;
	} while (pruning.count);
	if (out_count)
		*out_count = count;
	return OK;
}

// ----------------------------------------------------------------------------------------
// verifying

struct proof {
	struct cut cut;
	uint64_t bad, last; // the last row that is consistent
	uint8_t head[SECRET_HASH];
	bool witnessed; // a row records the pruning
	bool begun, done;
};

// Checks one row. False: it is inconsistent.
static fallible audit_follow(struct proof *proof, struct query *query, struct arena *arena,
			     bool *out)
{
	uint8_t want[SECRET_HASH];
	struct store_audit row = {0};

	query_take_row(query, audit_columns, arena, &row);
	TRY(chain(proof->head, &row, want));
	*out = !query->bad && row.id == proof->last + 1 && memcmp(want, row.hash, SECRET_HASH) == 0;
	if (*out) {
		memcpy(proof->head, row.hash, SECRET_HASH);
		proof->last++;
		proof->witnessed |= strcmp(row.action, STORE_AUDIT_PRUNE) == 0 &&
				    strcmp(row.target, proof->cut.text) == 0;
	} else {
		proof->bad = row.id ? row.id : proof->last + 1;
	}
	return OK;
}

// A concurrent prune may have passed our position: start again after it.
static fallible audit_begin(struct db *db, struct proof *proof)
{
	struct cut cut;

	TRY(read_cut(db, &cut));
	if (proof->begun && !strcmp(proof->cut.text, cut.text))
		return OK;
	*proof = (struct proof){.begun = true, .cut = cut, .last = cut.id};
	memcpy(proof->head, cut.hash, SECRET_HASH);
	proof->witnessed = !cut.text[0];
	return OK;
}

// Checks the next page. Rows written meanwhile belong to a later page: the expected length is read
// in the same transaction as the end.
static struct err *audit_verify(struct db *db, void *arg)
{
	struct proof proof = *(struct proof *)arg;
	auto_arena arena = arena_new();
	auto_query query = {0};
	uint64_t length = 0, from;
	bool found = true, good = true;

	TRY(db_script(db, "SAVEPOINT look"));
	TRY(audit_begin(db, &proof));
	from = proof.last;
	TRY(db_number(db, "SELECT value FROM counters WHERE name = 'audit'", NULL, &length));
	TRY(query_open(db, "SELECT " COLUMNS " FROM audit WHERE id > $1 ORDER BY id LIMIT $2",
		       &query));
	query_put(&query, DB_WITH(db_int((int64_t)from), db_int(PAGE)));
	while (good) {
		TRY(query_step(&query, &found));
		if (!found)
			break;
		arena_reset(arena);
		TRY(audit_follow(&proof, &query, arena, &good));
	}
	query_close(&query);
	TRY(db_script(db, "RELEASE SAVEPOINT look"));
	proof.done = proof.bad || proof.last - from < PAGE;
	if (!proof.bad && proof.done && (proof.last != length || !proof.witnessed))
		proof.bad = proof.last + 1;
	*(struct proof *)arg = proof;
	return OK;
}

fallible store_audit_verify(struct store *store, struct store_audit_proof *out)
{
	struct proof proof = {0};

	while (!proof.done)
		TRY(store_look(store, audit_verify, &proof), "read the audit log");
	*out = (struct store_audit_proof){
		.bad = proof.bad, .count = proof.last - proof.cut.id, .cut = proof.cut.id};
	memcpy(out->head, proof.head, SECRET_HASH);
	memcpy(out->cut_hash, proof.cut.hash, SECRET_HASH);
	return OK;
}
