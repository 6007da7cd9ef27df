// Three tables of one shape. The SQL statement checks the version: a write that touches no row was
// based on an outdated state, and is CONFLICT state_stale.
#include "store/agent.h"

#include "store/rows.h"

#define COLUMNS "id, session, tenant, box, state, deadline, generation, version, body"

#define MADE "SELECT made FROM runs WHERE id = $2 AND session = $1"

struct texts {
	const char *add, *put, *drop, *drop_any, *all, *one;
};

#define TEXTS(table)                                                                               \
	{                                                                                          \
		.add = "INSERT INTO " table " (" COLUMNS ", made) VALUES ($1, $2, $3, $4, $5, $6," \
		       " $7, 1, $8, $9) ON CONFLICT (id) DO NOTHING",                              \
		.put = "UPDATE " table " SET session = $1, tenant = $2, box = $3, state = $4,"     \
		       " deadline = $5, generation = $6, version = version + 1, body = $7 WHERE"   \
		       " id = $8 AND version = $9",                                                \
		.drop = "DELETE FROM " table " WHERE id = $1 AND version = $2",                    \
		.drop_any = "DELETE FROM " table " WHERE id = $1",                                 \
		.all = "SELECT " COLUMNS " FROM " table " ORDER BY id",                            \
		.one = "SELECT " COLUMNS " FROM " table " WHERE id = $1",                          \
	}

static const struct texts texts[STORE_AGENT_KINDS] = {
	[STORE_SESSION] = TEXTS("sessions"),
	[STORE_LEASE] = TEXTS("leases"),
	[STORE_RUN] = TEXTS("runs"),
};

static fallible stale(const struct store_agent *row)
{
	return err_while(err_new(CONFLICT, "state_stale", "it has changed meanwhile"),
			 "write kind %d, %s, version %llu", row->kind, row->id,
			 (unsigned long long)row->version);
}

static fallible use_id(struct db *db, const char *id)
{
	auto_query query = {0};
	uint64_t count = 0;

	TRY(query_open(db, "INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT (id) DO NOTHING",
		       &query));
	query_put_text(&query, id);
	TRY(query_run(&query, &count));
	if (!count)
		return err_hint(
			err_new(CONFLICT, "session_taken", "this session id was used before"),
			"leave it out, and one is made");
	return OK;
}

static void bind_columns(struct query *query, const struct store_agent *row)
{
	query_put_text(query, row->session ? row->session : "");
	query_put_text(query, row->tenant ? row->tenant : "");
	query_put_text(query, row->box ? row->box : "");
	query_put_text(query, row->state);
	query_put_int(query, row->deadline_ms);
	query_put_int(query, (int64_t)row->generation);
}

static fallible store_agent_put(struct db *db, const struct store_agent *row)
{
	auto_query query = {0};
	uint64_t count = 0;

	if (!row->version) {
		if (row->kind == STORE_SESSION)
			TRY(use_id(db, row->id));
		TRY(query_open(db, texts[row->kind].add, &query));
		query_put_text(&query, row->id);
		bind_columns(&query, row);
		query_put_bytes(&query, row->body.at, row->body.len);
		query_put_int(&query, row->made_ms);
	} else {
		TRY(query_open(db, texts[row->kind].put, &query));
		bind_columns(&query, row);
		query_put_bytes(&query, row->body.at, row->body.len);
		query_put_text(&query, row->id);
		query_put_int(&query, (int64_t)row->version);
	}
	TRY(query_run(&query, &count));
	return count ? OK : stale(row);
}

static fallible store_agent_drop(struct db *db, const struct store_agent *row)
{
	const struct texts *text = &texts[row->kind];
	auto_query query = {0};
	uint64_t count = 0;

	TRY(query_open(db, row->version ? text->drop : text->drop_any, &query));
	query_put_text(&query, row->id);
	if (row->version)
		query_put_int(&query, (int64_t)row->version);
	TRY(query_run(&query, &count));
	return count || !row->version ? OK : stale(row);
}

fallible store_agent_commit_in(struct db *db, const struct store_agent_change *changes,
			       size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (changes[i].way == STORE_AGENT_PUT)
			TRY(store_agent_put(db, &changes[i].row));
		else
			TRY(store_agent_drop(db, &changes[i].row));
	return OK;
}

struct changes {
	const struct store_agent_change *at;
	size_t count;
};

static struct err *commit(struct db *db, void *arg)
{
	const struct changes *changes = arg;

	return store_agent_commit_in(db, changes->at, changes->count);
}

fallible store_agent_commit(struct store *store, const struct store_agent_change *changes,
			    size_t count)
{
	struct changes all = {changes, count};
	bool only_drops = true;

	for (size_t i = 0; i < count; i++)
		only_drops &= changes[i].way == STORE_AGENT_DROP;
	return only_drops ? store_do_last(store, commit, &all) : store_do(store, commit, &all);
}

struct search {
	enum store_agent_kind kind;
	const char *sql, *by, *before; // parameters; NULL: none
	size_t max;		       // 0: no limit
	struct rows rows;
	struct store_agent *at;
};

static void store_agent_read_row(struct query *query, struct arena *arena, struct store_agent *out)
{
	struct str body;

	out->id = query_take_text(query, arena);
	out->session = query_take_text(query, arena);
	out->tenant = query_take_text(query, arena);
	out->box = query_take_text(query, arena);
	out->state = query_take_text(query, arena);
	out->deadline_ms = query_take_int(query);
	out->generation = (uint64_t)query_take_int(query);
	out->version = (uint64_t)query_take_int(query);
	body = query_take(query);
	out->body = (struct str){arena_dup(arena, body.len ? body.at : "", body.len), body.len};
	out->unreadable = query->bad;
}

static struct err *store_agent_find(struct db *db, void *arg)
{
	struct search *search = arg;
	auto_query query = {0};
	bool found;

	search->rows.count = 0;
	TRY(query_open(db, search->sql, &query));
	if (search->by)
		query_put_text(&query, search->by);
	if (search->before)
		query_put_text(&query, search->before);
	if (search->max)
		query_put_int(&query, (int64_t)search->max);
	for (;;) {
		struct store_agent *row;
		void *at = search->at;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		row = rows_next(&search->rows, &at, sizeof(*row));
		search->at = at;
		store_agent_read_row(&query, search->rows.arena, row);
		row->kind = search->kind;
	}
}

static fallible store_agent_look(struct store *store, struct search *search,
				 struct store_agent **out, size_t *out_count)
{
	TRY(store_ask(store, store_agent_find, search), "load conversations");
	*out = search->at;
	if (out_count)
		*out_count = search->rows.count;
	return OK;
}

fallible store_agent_load(struct store *store, enum store_agent_kind kind, struct arena *arena,
			  struct store_agent **out, size_t *out_count)
{
	struct search search = {.kind = kind, .sql = texts[kind].all, .rows = {.arena = arena}};

	return store_agent_look(store, &search, out, out_count);
}

fallible store_agent_get(struct store *store, enum store_agent_kind kind, const char *id,
			 struct arena *arena, struct store_agent **out)
{
	struct search search = {
		.kind = kind, .sql = texts[kind].one, .by = id, .rows = {.arena = arena}};

	return store_agent_look(store, &search, out, NULL);
}

fallible store_agent_runs(struct store *store, const char *session, struct arena *arena,
			  struct store_agent **out, size_t *out_count)
{
	struct search search = {
		.kind = STORE_RUN,
		.sql = "SELECT " COLUMNS " FROM runs WHERE session = $1 ORDER BY id",
		.by = session,
		.rows = {.arena = arena},
	};

	return store_agent_look(store, &search, out, out_count);
}

fallible store_agent_runs_page(struct store *store, const char *session, const char *before,
			       size_t max, struct arena *arena, struct store_agent **out,
			       size_t *out_count)
{
	struct search search = {
		.kind = STORE_RUN,
		.sql = before ? "SELECT " COLUMNS " FROM runs WHERE session = $1 AND (made < (" MADE
				") OR (made = (" MADE ") AND id < $2)) ORDER BY made DESC, id DESC"
				" LIMIT $3"
			      : "SELECT " COLUMNS " FROM runs WHERE session = $1"
				" ORDER BY made DESC, id DESC LIMIT $2",
		.by = session,
		.before = before,
		.max = max,
		.rows = {.arena = arena},
	};

	return store_agent_look(store, &search, out, out_count);
}

struct use {
	const char *id;
	bool used;
};

static struct err *was_used(struct db *db, void *arg)
{
	struct use *use = arg;
	auto_query query = {0};

	TRY(query_open(db, "SELECT id FROM session_ids WHERE id = $1", &query));
	query_put_text(&query, use->id);
	return query_step(&query, &use->used);
}

fallible store_agent_used(struct store *store, const char *id, bool *out)
{
	struct use use = {.id = id};

	TRY(store_ask(store, was_used, &use));
	*out = use.used;
	return OK;
}
