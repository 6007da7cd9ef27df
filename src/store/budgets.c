// The table of budgets.
// Rows are few, and read once, when the daemon starts.
#include "store/budgets.h"

// clang-format off
#define BUDGET(KEY, FIRST, NEXT) \
	KEY(1,   name,        "name",     TEXT) \
	FIRST(2, body,        "body",     TEXT) \
	NEXT(3,  created_ms,  "created",  INT) \
	NEXT(4,  warned_ms,   "warned",   INT) \
	NEXT(5,  exceeded_ms, "exceeded", INT)
// clang-format on
static const struct db_column budget_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_budget, field, type)
	BUDGET(F, F, F){0}
#undef F
};

static struct err *store_budgets_put_row(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("budgets", "name", BUDGET), budget_columns, arg, NULL);
}

fallible store_budgets_put(struct store *store, const struct store_budget *budget)
{
	return store_do(store, store_budgets_put_row, (void *)budget);
}

static struct err *store_budgets_drop_row(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM budgets WHERE name = $1", DB_WITH(db_text(arg)), NULL);
}

fallible store_budgets_drop(struct store *store, const char *name)
{
	return store_do_last(store, store_budgets_drop_row, (void *)name);
}

static struct err *store_budgets_write_announced(struct db *db, void *arg)
{
	const struct store_budget *budget = arg;

	return db_run(db, "UPDATE budgets SET warned = $1, exceeded = $2 WHERE name = $3",
		      DB_WITH(db_int(budget->warned_ms), db_int(budget->exceeded_ms),
			      db_text(budget->name)),
		      NULL);
}

static void store_budgets_free(void *arg)
{
	struct store_budget *budget = arg;

	free((char *)budget->name);
	free(budget);
}

void store_budgets_announced(struct store *store, const char *name, int64_t warned_ms,
			     int64_t exceeded_ms)
{
	struct store_budget *budget = mem_new_of(struct store_budget);

	budget->name = mem_str(name);
	budget->warned_ms = warned_ms;
	budget->exceeded_ms = exceeded_ms;
	store_queue(store, store_budgets_write_announced, budget, store_budgets_free);
}

static struct err *store_budgets_read_rows(struct db *db, void *arg)
{
	return db_rows(db, "SELECT " DB_NAMES(BUDGET) " FROM budgets ORDER BY name", NULL,
		       &(struct db_table){budget_columns, sizeof(struct store_budget), NULL}, arg);
}

fallible store_budgets_load(struct store *store, struct arena *arena, struct store_budget **out,
			    size_t *out_count)
{
	struct rows rows = {.arena = arena};

	TRY(store_ask(store, store_budgets_read_rows, &rows), "read the budgets");
	*out = rows.at;
	*out_count = rows.count;
	return OK;
}
