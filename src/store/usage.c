// Usage sums per tenant, sandbox, kind and hour. An addition is queued and never waited for; sums
// cover whole hours.
#include "store/usage.h"

#define HOUR_MS 3600000

struct use {
	char *tenant, *sandbox, *what;
	int64_t hour;
	uint64_t amount;
};

static void drop_use(void *arg)
{
	struct use *use = arg;

	free(use->tenant);
	free(use->sandbox);
	free(use->what);
	free(use);
}

static struct err *usage_query_add(struct db *db, void *arg)
{
	const struct use *use = arg;

	return db_run(db,
		      "INSERT INTO usage (tenant, sandbox, what, hour, amount) VALUES ($1, $2, $3,"
		      " $4, $5) ON CONFLICT (what, hour, tenant, sandbox) DO UPDATE SET amount ="
		      " usage.amount + excluded.amount",
		      DB_WITH(db_text(use->tenant), db_text(use->sandbox), db_text(use->what),
			      db_int(use->hour), db_int((int64_t)use->amount)),
		      NULL);
}

void store_usage_add(struct store *store, const char *tenant, const char *sandbox, const char *what,
		     int64_t time_ms, uint64_t amount)
{
	struct use *use = mem_new_of(struct use);

	*use = (struct use){
		.tenant = mem_str(tenant),
		.sandbox = mem_str(sandbox),
		.what = mem_str(what),
		.hour = time_ms / HOUR_MS,
		.amount = amount,
	};
	store_queue(store, usage_query_add, use, drop_use);
}

struct sum {
	const char *tenant, *sandbox, *what;
	int64_t from, to;
	uint64_t total;
};

// A null parameter matches any value.
static struct err *store_usage_sum_up(struct db *db, void *arg)
{
	struct sum *sum = arg;

	return db_number(db,
			 "SELECT coalesce(sum(amount), 0) FROM usage WHERE what = $1 AND hour >= $2"
			 " AND hour < $3 AND tenant = coalesce($4, tenant) AND sandbox ="
			 " coalesce($5, sandbox)",
			 DB_WITH(db_text(sum->what), db_int(sum->from), db_int(sum->to),
				 db_text(sum->tenant), db_text(sum->sandbox)),
			 &sum->total);
}

fallible store_usage_sum(struct store *store, const char *tenant, const char *sandbox,
			 const char *what, int64_t from_ms, int64_t to_ms, uint64_t *out)
{
	struct sum sum = {
		.tenant = tenant,
		.sandbox = sandbox,
		.what = what,
		.from = from_ms / HOUR_MS,
		.to = (to_ms + HOUR_MS - 1) / HOUR_MS,
	};

	TRY(store_ask(store, store_usage_sum_up, &sum), "sum up what was used");
	*out = sum.total;
	return OK;
}

static struct err *usage_query_prune(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM usage WHERE hour < $1",
		      DB_WITH(db_int(*(const int64_t *)arg / HOUR_MS)), NULL);
}

fallible store_usage_prune(struct store *store, int64_t before_ms)
{
	return store_do_last(store, usage_query_prune, &before_ms);
}
