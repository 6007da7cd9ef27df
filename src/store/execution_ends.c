// The tables of ended executions. An end is inserted once by its id; only then its total is raised,
// in the same transaction.
#include "store/execution_ends.h"

#include <stdio.h>
#include <string.h>

struct execution_end_row {
	const char *id, *type, *outcome;
	int64_t kind, counted, ended, queued, provision, run, cleanup, cpu, memory;
};

// clang-format off
#define EXECUTION_END(KEY, FIRST, NEXT) \
	KEY(1,   id,        "id",        TEXT) \
	FIRST(2, type,      "type",      TEXT) \
	NEXT(3,  outcome,   "outcome",   TEXT) \
	NEXT(4,  kind,      "kind",      INT) \
	NEXT(5,  counted,   "counted",   INT) \
	NEXT(6,  ended,     "ended",     INT) \
	NEXT(7,  queued,    "queued",    INT) \
	NEXT(8,  provision, "provision", INT) \
	NEXT(9,  run,       "run",       INT) \
	NEXT(10, cleanup,   "cleanup",   INT) \
	NEXT(11, cpu,       "cpu",       INT) \
	NEXT(12, memory,    "memory",    INT)
// clang-format on
static const struct db_column execution_end_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct execution_end_row, field, type)
	EXECUTION_END(F, F, F){0}
#undef F
};

int64_t execution_kind(const struct execution_end *end)
{
	if (!end->counted)
		return EXECUTION_UNCOUNTED;
	if (end->completed)
		return EXECUTION_COMPLETED;
	return end->infrastructure ? EXECUTION_INFRASTRUCTURE : EXECUTION_FAILED;
}

fallible store_execution_ends_add_in(struct db *db, const struct execution_end *end)
{
	struct execution_end_row row = {
		end->id,      end->type,       end->outcome,   execution_kind(end),
		end->counted, end->ended_ms,   end->queued_ms, end->provision_ms,
		end->run_ms,  end->cleanup_ms, end->cpu_ms,    end->memory_peak,
	};
	uint64_t count = 0;

	TRY(db_put(db,
		   "INSERT INTO execution_ends (" DB_NAMES(EXECUTION_END) ") VALUES (" DB_PLACES(
			   EXECUTION_END) ") ON CONFLICT (id) DO NOTHING",
		   execution_end_columns, &row, &count));
	if (!count)
		return OK;
	return db_run(
		db,
		"INSERT INTO execution_totals (type, outcome, kind, total) VALUES ($1, $2, $3,"
		" 1) ON CONFLICT (type, outcome, kind) DO UPDATE SET total ="
		" execution_totals.total + 1",
		DB_WITH(db_text(row.type), db_text(row.outcome), db_int(row.kind)), NULL);
}

struct execution_ends_ask {
	int64_t since_ms;
	struct rows rows;
};

static struct err *execution_ends_read(struct db *db, void *arg)
{
	struct execution_ends_ask *ask = arg;

	return db_rows(
		db,
		"SELECT " DB_NAMES(EXECUTION_END) " FROM execution_ends WHERE ended >= $1"
						  " ORDER BY ended",
		DB_WITH(db_int(ask->since_ms)),
		&(struct db_table){execution_end_columns, sizeof(struct execution_end_row), NULL},
		&ask->rows);
}

fallible store_execution_ends_load(struct store *store, int64_t since_ms, struct arena *arena,
				   struct execution_end **out, size_t *out_count)
{
	struct execution_ends_ask ask = {.since_ms = since_ms, .rows = {.arena = arena}};
	const struct execution_end_row *rows;
	struct execution_end *all;

	TRY(store_ask(store, execution_ends_read, &ask), "read the ends of executions");
	rows = ask.rows.at;
	all = arena_take(arena, (ask.rows.count + 1) * sizeof(*all));
	for (size_t i = 0; i < ask.rows.count; i++) {
		all[i] = (struct execution_end){
			.completed = rows[i].kind == EXECUTION_COMPLETED,
			.infrastructure = rows[i].kind == EXECUTION_INFRASTRUCTURE,
			.counted = rows[i].counted,
			.ended_ms = rows[i].ended,
			.queued_ms = rows[i].queued,
			.provision_ms = rows[i].provision,
			.run_ms = rows[i].run,
			.cleanup_ms = rows[i].cleanup,
			.cpu_ms = rows[i].cpu,
			.memory_peak = rows[i].memory,
		};
		snprintf(all[i].id, sizeof(all[i].id), "%s", rows[i].id);
		snprintf(all[i].type, sizeof(all[i].type), "%s", rows[i].type);
		snprintf(all[i].outcome, sizeof(all[i].outcome), "%s", rows[i].outcome);
	}
	*out = all;
	*out_count = ask.rows.count;
	return OK;
}

static struct err *execution_totals_read(struct db *db, void *arg)
{
	static const struct db_column columns[] = {
		DB_COLUMN(struct execution_total, type, TEXT)
			DB_COLUMN(struct execution_total, outcome, TEXT)
				DB_COLUMN(struct execution_total, kind, INT)
					DB_COLUMN(struct execution_total, total, INT){0}};

	return db_rows(db,
		       "SELECT type, outcome, kind, total FROM execution_totals ORDER BY type,"
		       " outcome, kind",
		       NULL, &(struct db_table){columns, sizeof(struct execution_total), NULL},
		       arg);
}

fallible store_execution_totals_load(struct store *store, struct arena *arena,
				     struct execution_total **out, size_t *out_count)
{
	struct rows rows = {.arena = arena};

	TRY(store_ask(store, execution_totals_read, &rows), "read the totals of executions");
	*out = rows.at;
	*out_count = rows.count;
	return OK;
}

static struct err *execution_ends_forget(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM execution_ends WHERE ended < $1",
		      DB_WITH(db_int(*(const int64_t *)arg)), NULL);
}

fallible store_execution_ends_prune(struct store *store, int64_t before_ms)
{
	return store_do_last(store, execution_ends_forget, &before_ms);
}
