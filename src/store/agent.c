// Three tables of one shape. The SQL statement checks the version: a write that touches no row was
// based on an outdated state, and is CONFLICT state_stale.
#include "store/agent.h"

// clang-format off
#define ROW(KEY, FIRST, NEXT) \
	KEY(1,   id,          "id",         TEXT) \
	FIRST(2, session,     "session",    TEXT) \
	NEXT(3,  tenant,      "tenant",     TEXT) \
	NEXT(4,  box,         "box",        TEXT) \
	NEXT(5,  state,       "state",      TEXT) \
	NEXT(6,  deadline_ms, "deadline",   INT) \
	NEXT(7,  generation,  "generation", INT) \
	NEXT(8,  version,     "version",    INT) \
	NEXT(9,  body,        "body",       BYTES) \
	NEXT(10, made_ms,     "made",       INT)
// clang-format on
static const struct db_column agent_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_agent, field, type)
	ROW(F, F, F){0}
#undef F
};

#define COLUMNS DB_NAMES(ROW)
#define MADE "SELECT made FROM runs WHERE id = $2 AND session = $1"

struct texts {
	const char *add, *put, *drop, *drop_any, *all, *one;
};

#define TEXTS(table)                                                                               \
	{                                                                                          \
		.add = "INSERT INTO " table " (" COLUMNS                                           \
		       ") VALUES (" DB_PLACES(ROW) ")"                                             \
						   " ON CONFLICT (id) DO NOTHING",                 \
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
	uint64_t count = 0;

	TRY(db_run(db, "INSERT INTO session_ids (id) VALUES ($1) ON CONFLICT (id) DO NOTHING",
		   DB_WITH(db_text(id)), &count));
	if (!count)
		return err_hint(
			err_new(CONFLICT, "session_taken", "this session id was used before"),
			"leave it out, and one is made");
	return OK;
}

static const char *or_none(const char *text)
{
	return text ? text : "";
}

static fallible store_agent_put(struct db *db, const struct store_agent *row)
{
	struct store_agent first = *row;
	uint64_t count = 0;

	if (row->version) {
		TRY(db_run(db, texts[row->kind].put,
			   DB_WITH(db_text(or_none(row->session)), db_text(or_none(row->tenant)),
				   db_text(or_none(row->box)), db_text(row->state),
				   db_int(row->deadline_ms), db_int((int64_t)row->generation),
				   db_data(row->body), db_text(row->id),
				   db_int((int64_t)row->version)),
			   &count));
	} else {
		if (row->kind == STORE_SESSION)
			TRY(use_id(db, row->id));
		first.version = 1;
		TRY(db_put(db, texts[row->kind].add, agent_columns, &first, &count));
	}
	return count ? OK : stale(row);
}

static fallible store_agent_drop(struct db *db, const struct store_agent *row)
{
	uint64_t count = 0;

	if (!row->version)
		return db_run(db, texts[row->kind].drop_any, DB_WITH(db_text(row->id)), NULL);
	TRY(db_run(db, texts[row->kind].drop,
		   DB_WITH(db_text(row->id), db_int((int64_t)row->version)), &count));
	return count ? OK : stale(row);
}

struct changes {
	const struct store_agent_change *at;
	size_t count;
};

static struct err *agent_commit(struct db *db, void *arg)
{
	const struct changes *changes = arg;

	for (size_t i = 0; i < changes->count; i++)
		if (changes->at[i].way == STORE_AGENT_PUT)
			TRY(store_agent_put(db, &changes->at[i].row));
		else
			TRY(store_agent_drop(db, &changes->at[i].row));
	return OK;
}

fallible store_agent_commit(struct store *store, const struct store_agent_change *changes,
			    size_t count)
{
	struct changes all = {changes, count};
	bool only_drops = true;

	for (size_t i = 0; i < count; i++)
		only_drops &= changes[i].way == STORE_AGENT_DROP;
	return only_drops ? store_do_last(store, agent_commit, &all)
			  : store_do(store, agent_commit, &all);
}

struct agent_search {
	enum store_agent_kind kind;
	const char *sql;
	const struct db_value *with;
	struct rows rows;
};

static bool agent_mark_bad(void *row, bool bad)
{
	((struct store_agent *)row)->unreadable = bad;
	return true;
}

static struct err *store_agent_find(struct db *db, void *arg)
{
	static const struct db_table table = {agent_columns, sizeof(struct store_agent),
					      agent_mark_bad};
	struct agent_search *search = arg;

	return db_rows(db, search->sql, search->with, &table, &search->rows);
}

static fallible store_agent_look(struct store *store, struct agent_search *search,
				 struct store_agent **out, size_t *out_count)
{
	struct store_agent *rows;

	TRY(store_ask(store, store_agent_find, search), "load conversations");
	rows = search->rows.at;
	for (size_t i = 0; i < search->rows.count; i++)
		rows[i].kind = search->kind;
	*out = rows;
	if (out_count)
		*out_count = search->rows.count;
	return OK;
}

fallible store_agent_load(struct store *store, enum store_agent_kind kind, struct arena *arena,
			  struct store_agent **out, size_t *out_count)
{
	struct agent_search search = {kind, texts[kind].all, NULL, {.arena = arena}};

	return store_agent_look(store, &search, out, out_count);
}

fallible store_agent_get(struct store *store, enum store_agent_kind kind, const char *id,
			 struct arena *arena, struct store_agent **out)
{
	struct agent_search search = {
		kind, texts[kind].one, DB_WITH(db_text(id)), {.arena = arena}};

	return store_agent_look(store, &search, out, NULL);
}

fallible store_agent_runs(struct store *store, const char *session, struct arena *arena,
			  struct store_agent **out, size_t *out_count)
{
	struct agent_search search = {
		.kind = STORE_RUN,
		.sql = "SELECT " COLUMNS " FROM runs WHERE session = $1 ORDER BY id",
		.with = DB_WITH(db_text(session)),
		.rows = {.arena = arena},
	};

	return store_agent_look(store, &search, out, out_count);
}

fallible store_agent_runs_page(struct store *store, const char *session, const char *before,
			       size_t max, struct arena *arena, struct store_agent **out,
			       size_t *out_count)
{
	struct agent_search search = {
		.kind = STORE_RUN,
		.sql = before ? "SELECT " COLUMNS " FROM runs WHERE session = $1 AND (made < (" MADE
				") OR (made = (" MADE ") AND id < $2)) ORDER BY made DESC, id DESC"
				" LIMIT $3"
			      : "SELECT " COLUMNS " FROM runs WHERE session = $1"
				" ORDER BY made DESC, id DESC LIMIT $2",
		.with = before ? DB_WITH(db_text(session), db_text(before), db_int((int64_t)max))
			       : DB_WITH(db_text(session), db_int((int64_t)max)),
		.rows = {.arena = arena},
	};

	return store_agent_look(store, &search, out, out_count);
}
