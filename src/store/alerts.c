// The tables of alerts, rules and notices. Rows are written whole; all rows of one evaluation are
// in one transaction with the notices that they cause.
#include "store/alerts.h"

// clang-format off
#define ALERT(KEY, FIRST, NEXT) \
	KEY(1,   id,              "id",              TEXT) \
	FIRST(2, rule,            "rule",            TEXT) \
	NEXT(3,  object,          "object",          TEXT) \
	NEXT(4,  state,           "state",           INT) \
	NEXT(5,  severity,        "severity",        INT) \
	NEXT(6,  value_milli,     "value",           INT) \
	NEXT(7,  since_ms,        "since",           INT) \
	NEXT(8,  fired_ms,        "fired",           INT) \
	NEXT(9,  resolved_ms,     "resolved",        INT) \
	NEXT(10, last_ms,         "last",            INT) \
	NEXT(11, acknowledged_ms, "acknowledged",    INT) \
	NEXT(12, acknowledged_by, "acknowledged_by", TEXT) \
	NEXT(13, silenced_ms,     "silenced",        INT) \
	NEXT(14, comment,         "comment",         TEXT) \
	NEXT(15, quiet_ms,        "quiet",           INT) \
	NEXT(16, owes,            "owes",            INT) \
	NEXT(17, held,            "held",            INT) \
	NEXT(18, deliveries,      "deliveries",      TEXT)
#define RULE(KEY, FIRST, NEXT) \
	KEY(1,   name,            "name",      TEXT) \
	FIRST(2, threshold_milli, "threshold", INT) \
	NEXT(3,  wait_ms,         "wait",      INT) \
	NEXT(4,  enabled,         "enabled",   INT)
#define NOTICE(KEY, FIRST, NEXT) \
	KEY(1,   id,         "id",       TEXT) \
	FIRST(2, sink,       "sink",     TEXT) \
	NEXT(3,  rule,       "rule",     TEXT) \
	NEXT(4,  kind,       "kind",     INT) \
	NEXT(5,  body,       "body",     TEXT) \
	NEXT(6,  created_ms, "created",  INT) \
	NEXT(7,  due_ms,     "due",      INT) \
	NEXT(8,  attempts,   "attempts", INT)
// clang-format on
static const struct db_column alert_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_alert, field, type)
	ALERT(F, F, F){0}
#undef F
};
static const struct db_column alert_rule_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_alert_rule, field, type)
	RULE(F, F, F){0}
#undef F
};
static const struct db_column notice_columns[] = {
#define F(place, field, column, type) DB_COLUMN(struct store_notice, field, type)
	NOTICE(F, F, F){0}
#undef F
};

static struct err *store_alerts_write(struct db *db, void *arg)
{
	const struct store_alerts_change *change = arg;

	for (size_t i = 0; i < change->alert_count; i++)
		TRY(db_put(db, DB_UPSERT("alerts", "id", ALERT), alert_columns, &change->alerts[i],
			   NULL));
	for (size_t i = 0; i < change->notice_count; i++)
		TRY(db_put(db, DB_UPSERT("notices", "id", NOTICE), notice_columns,
			   &change->notices[i], NULL));
	if (change->dropped)
		return db_run(db, "DELETE FROM notices WHERE id = $1",
			      DB_WITH(db_text(change->dropped)), NULL);
	return OK;
}

fallible store_alerts_apply(struct store *store, const struct store_alerts_change *change)
{
	return store_do(store, store_alerts_write, (void *)change);
}

static struct err *store_alert_rule_write(struct db *db, void *arg)
{
	return db_put(db, DB_UPSERT("alert_rules", "name", RULE), alert_rule_columns, arg, NULL);
}

fallible store_alert_rule_put(struct store *store, const struct store_alert_rule *rule)
{
	return store_do(store, store_alert_rule_write, (void *)rule);
}

struct store_alerts_rows {
	struct rows alerts, rules, notices;
};

static struct err *store_alerts_read(struct db *db, void *arg)
{
	struct store_alerts_rows *all = arg;

	TRY(db_rows(db, "SELECT " DB_NAMES(ALERT) " FROM alerts ORDER BY id", NULL,
		    &(struct db_table){alert_columns, sizeof(struct store_alert), NULL},
		    &all->alerts));
	TRY(db_rows(db, "SELECT " DB_NAMES(RULE) " FROM alert_rules ORDER BY name", NULL,
		    &(struct db_table){alert_rule_columns, sizeof(struct store_alert_rule), NULL},
		    &all->rules));
	return db_rows(db, "SELECT " DB_NAMES(NOTICE) " FROM notices ORDER BY created, id", NULL,
		       &(struct db_table){notice_columns, sizeof(struct store_notice), NULL},
		       &all->notices);
}

fallible store_alerts_load(struct store *store, struct arena *arena, struct store_alerts *out)
{
	struct store_alerts_rows all = {{.arena = arena}, {.arena = arena}, {.arena = arena}};

	TRY(store_ask(store, store_alerts_read, &all), "read the alerts");
	*out = (struct store_alerts){
		.alerts = all.alerts.at,
		.rules = all.rules.at,
		.notices = all.notices.at,
		.alert_count = all.alerts.count,
		.rule_count = all.rules.count,
		.notice_count = all.notices.count,
	};
	return OK;
}

static struct err *store_alerts_forget(struct db *db, void *arg)
{
	return db_run(db, "DELETE FROM alerts WHERE state IN (0, 3) AND last < $1",
		      DB_WITH(db_int(*(const int64_t *)arg)), NULL);
}

fallible store_alerts_prune(struct store *store, int64_t before_ms)
{
	return store_do_last(store, store_alerts_forget, &before_ms);
}
