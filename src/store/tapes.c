#include "store/tapes.h"

#include "store/rows.h"

struct writing {
	struct arena *arena;
	struct store_tape tape;
};

static const char *copy(struct arena *arena, const char *text)
{
	return text ? arena_dup(arena, text, strlen(text)) : NULL;
}

static void drop_writing(void *arg)
{
	arena_free(((struct writing *)arg)->arena);
}

static struct writing *write_down(const struct store_tape *tape)
{
	struct arena *arena = arena_new();
	struct writing *writing = arena_take(arena, sizeof(*writing));

	*writing = (struct writing){.arena = arena, .tape = *tape};
	writing->tape.sandbox = copy(arena, tape->sandbox);
	writing->tape.id = copy(arena, tape->id);
	writing->tape.kind = copy(arena, tape->kind);
	writing->tape.command = copy(arena, tape->command);
	writing->tape.body = copy(arena, tape->body);
	return writing;
}

static struct err *put(struct db *db, void *arg)
{
	const struct store_tape *tape = &((struct writing *)arg)->tape;
	auto_query query = {0};

	TRY(query_open(db,
		       "INSERT INTO tapes (sandbox, id, kind, command, started, ended, bytes, body)"
		       " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (sandbox, id) DO"
		       " UPDATE SET kind = excluded.kind, command = excluded.command, started ="
		       " excluded.started, ended = excluded.ended, bytes = excluded.bytes, body ="
		       " excluded.body",
		       &query));
	query_put_text(&query, tape->sandbox);
	query_put_text(&query, tape->id);
	query_put_text(&query, tape->kind ? tape->kind : "");
	query_put_text(&query, tape->command ? tape->command : "");
	query_put_int(&query, tape->started_ms);
	query_put_int(&query, tape->ended_ms);
	query_put_int(&query, (int64_t)tape->bytes);
	query_put_text(&query, tape->body);
	return query_run(&query, NULL);
}

fallible store_tapes_drop_in(struct db *db, const char *sandbox, const char *id)
{
	auto_query query = {0};

	TRY(query_open(db, "DELETE FROM tapes WHERE sandbox = $1 AND id = coalesce($2, id)",
		       &query));
	query_put_text(&query, sandbox);
	query_put_text(&query, id);
	return query_run(&query, NULL);
}

static struct err *drop(struct db *db, void *arg)
{
	const struct store_tape *tape = &((struct writing *)arg)->tape;

	return store_tapes_drop_in(db, tape->sandbox, tape->id);
}

void store_tapes_put(struct store *store, const struct store_tape *tape)
{
	store_tell(store, put, write_down(tape), drop_writing);
}

void store_tapes_drop(struct store *store, const char *sandbox, const char *id)
{
	store_tell(store, drop, write_down(&(struct store_tape){.sandbox = sandbox, .id = id}),
		   drop_writing);
}

struct search {
	const char *sandbox;
	struct rows rows;
	struct store_tape *at;
};

static struct err *find(struct db *db, void *arg)
{
	struct search *search = arg;
	auto_query query = {0};
	bool found;

	search->rows.count = 0;
	TRY(query_open(db,
		       "SELECT sandbox, id, kind, command, started, ended, bytes, body FROM tapes"
		       " WHERE sandbox = $1 ORDER BY started, id",
		       &query));
	query_put_text(&query, search->sandbox);
	for (;;) {
		struct arena *arena = search->rows.arena;
		struct store_tape *tape;
		void *at = search->at;

		TRY(query_step(&query, &found));
		if (!found)
			return OK;
		tape = rows_next(&search->rows, &at, sizeof(*tape));
		search->at = at;
		tape->sandbox = query_take_text(&query, arena);
		tape->id = query_take_text(&query, arena);
		tape->kind = query_take_text(&query, arena);
		tape->command = query_take_text(&query, arena);
		tape->started_ms = query_take_int(&query);
		tape->ended_ms = query_take_int(&query);
		tape->bytes = (uint64_t)query_take_int(&query);
		tape->body = query_take_text(&query, arena);
		if (!*tape->body)
			tape->body = NULL;
	}
}

fallible store_tapes_load(struct store *store, const char *sandbox, struct arena *arena,
			  struct store_tape **out, size_t *out_count)
{
	struct search search = {.sandbox = sandbox, .rows = {.arena = arena}};

	TRY(store_ask(store, find, &search), "look for tapes");
	*out = search.at;
	*out_count = search.rows.count;
	return OK;
}
