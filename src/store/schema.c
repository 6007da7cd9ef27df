// The schema as a list of steps. A released step is never changed: a difference becomes another
// step. Each runs in its own transaction. Types are common to SQLite and PostgreSQL.
#include "store/schema.h"

#include "store/db_private.h"

#define AGENT_TABLE(name)                                                                          \
	"CREATE TABLE " name " (id TEXT PRIMARY KEY, session TEXT NOT NULL, tenant TEXT NOT NULL," \
	" box TEXT NOT NULL, state TEXT NOT NULL, deadline BIGINT NOT NULL,"                       \
	" generation BIGINT NOT NULL, version BIGINT NOT NULL, body BYTEA NOT NULL);"

#define OWN_NUMBERS(counter, table)                                                                \
	"ALTER TABLE " table " ADD COLUMN own BIGINT NOT NULL DEFAULT 0;"                          \
	"UPDATE " table " SET own = id;"                                                           \
	"DROP INDEX " table "_of_tenant;"                                                          \
	"CREATE INDEX " table "_of_tenant ON " table " (tenant, own);"                             \
	"INSERT INTO counters (name, value) SELECT '" counter "/' || tenant, max(id) FROM " table  \
	" GROUP BY tenant;"

static const char *const steps[SCHEMA_NOW] = {
	"CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);"
	"CREATE TABLE boxes (id TEXT PRIMARY KEY, seq BIGINT NOT NULL, tenant TEXT NOT NULL,"
	" name TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL);"
	"CREATE TABLE tenants (id TEXT PRIMARY KEY, body TEXT NOT NULL, created BIGINT NOT NULL);"
	"CREATE TABLE access_keys (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,"
	" hash BYTEA NOT NULL, scopes BIGINT NOT NULL, body TEXT NOT NULL, created BIGINT NOT NULL,"
	" expires BIGINT NOT NULL, revoked BIGINT NOT NULL);" AGENT_TABLE("sessions")
		AGENT_TABLE("leases") AGENT_TABLE(
			"runs") "CREATE INDEX runs_of_session ON runs (session);"
				"CREATE TABLE session_ids (id TEXT PRIMARY KEY);"
				"CREATE TABLE events (id BIGINT PRIMARY KEY, time BIGINT NOT NULL, "
				"tenant TEXT NOT NULL,"
				" kind TEXT NOT NULL, sandbox TEXT NOT NULL, session TEXT NOT "
				"NULL, fields TEXT NOT NULL);"
				"CREATE INDEX events_of_tenant ON events (tenant, id);"
				"CREATE TABLE audit (id BIGINT PRIMARY KEY, time BIGINT NOT NULL, "
				"tenant TEXT NOT NULL,"
				" who TEXT NOT NULL, action TEXT NOT NULL, target TEXT NOT NULL, "
				"outcome TEXT NOT NULL,"
				" fields TEXT NOT NULL, hash BYTEA NOT NULL);"
				"CREATE INDEX audit_of_tenant ON audit (tenant, id);"
				"CREATE TABLE usage (tenant TEXT NOT NULL, sandbox TEXT NOT NULL, "
				"what TEXT NOT NULL,"
				" hour BIGINT NOT NULL, amount BIGINT NOT NULL,"
				" PRIMARY KEY (what, hour, tenant, sandbox));"
				"CREATE TABLE tapes (sandbox TEXT NOT NULL, id TEXT NOT NULL, kind "
				"TEXT NOT NULL,"
				" command TEXT NOT NULL, started BIGINT NOT NULL, ended BIGINT NOT "
				"NULL,"
				" bytes BIGINT NOT NULL, body TEXT, PRIMARY KEY (sandbox, id));"
				"CREATE TABLE kv (name TEXT PRIMARY KEY, value BYTEA NOT NULL, "
				"time BIGINT NOT NULL);"
				"CREATE TABLE pledges (key TEXT PRIMARY KEY, hash BYTEA NOT NULL, "
				"status BIGINT NOT NULL,"
				" place TEXT NOT NULL, body BYTEA NOT NULL, kept BIGINT NOT NULL);"
				"CREATE INDEX pledges_by_age ON pledges (kept);",
	// Tapes are found by their directories. Each tenant gets its own numbers of events and
	// audit rows: the host's would reveal how busy others are. Older rows keep theirs.
	"DROP TABLE tapes; UPDATE counters SET name = 'events/' WHERE name = 'event';" OWN_NUMBERS(
		"event", "events") OWN_NUMBERS("audit", "audit"),
	// The egress ledger: rows, and sums that outlive them.
	"CREATE TABLE egress (box TEXT NOT NULL, id BIGINT NOT NULL, serial BIGINT NOT NULL,"
	" time BIGINT NOT NULL, name TEXT NOT NULL, address TEXT NOT NULL, port BIGINT NOT NULL,"
	" allowed BIGINT NOT NULL, rule TEXT NOT NULL, reason TEXT NOT NULL,"
	" requests BIGINT NOT NULL, bytes_out BIGINT NOT NULL, bytes_in BIGINT NOT NULL,"
	" duration BIGINT NOT NULL, PRIMARY KEY (box, id));"
	"CREATE UNIQUE INDEX egress_by_serial ON egress (box, serial);"
	"CREATE INDEX egress_by_age ON egress (time);"
	"CREATE TABLE egress_sums (box TEXT PRIMARY KEY, tenant TEXT NOT NULL,"
	" last BIGINT NOT NULL, connections BIGINT NOT NULL, requests BIGINT NOT NULL,"
	" bytes_out BIGINT NOT NULL, bytes_in BIGINT NOT NULL, denied BIGINT NOT NULL,"
	" opaque BIGINT NOT NULL);",
	// Session ids are unique per tenant: the key of a tenant's session is TENANT__ID.
	"UPDATE sessions SET id = tenant || '__' || id, session = tenant || '__' || session"
	" WHERE tenant <> '';"
	"UPDATE leases SET id = tenant || '__' || id, session = tenant || '__' || session"
	" WHERE tenant <> '';"
	"UPDATE runs SET session = tenant || '__' || session WHERE tenant <> '';"
	"INSERT INTO session_ids (id) SELECT id FROM sessions WHERE tenant <> '';"
	// Runs are listed by age.
	"ALTER TABLE sessions ADD COLUMN made BIGINT NOT NULL DEFAULT 0;"
	"ALTER TABLE leases ADD COLUMN made BIGINT NOT NULL DEFAULT 0;"
	"ALTER TABLE runs ADD COLUMN made BIGINT NOT NULL DEFAULT 0;"
	"DROP INDEX IF EXISTS runs_of_session;"
	"CREATE INDEX runs_by_age ON runs (session, made, id);",
	// Replies under an idempotency key.
	"ALTER TABLE pledges RENAME TO idempotency;"
	"DROP INDEX pledges_by_age;"
	"CREATE INDEX idempotency_by_age ON idempotency (kept);",
	// Secrets of tenants, and the ledger's column of those that were sent.
	"CREATE TABLE secrets (tenant TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,"
	" created BIGINT NOT NULL, rotated BIGINT NOT NULL, used BIGINT NOT NULL,"
	" used_host TEXT NOT NULL, PRIMARY KEY (tenant, name));"
	"ALTER TABLE egress ADD COLUMN secrets TEXT NOT NULL DEFAULT '';",
	// Usage by hour and charge, the last reading of each sandbox, budgets.
	"DROP TABLE usage;"
	"CREATE TABLE usage_charges (id BIGINT PRIMARY KEY, sandbox TEXT NOT NULL, tenant TEXT NOT"
	" NULL, name TEXT NOT NULL, type TEXT NOT NULL, owner TEXT NOT NULL, execution TEXT NOT"
	" NULL, session TEXT NOT NULL, labels TEXT NOT NULL);"
	"CREATE TABLE usage_labels (charge BIGINT NOT NULL, name TEXT NOT NULL, value TEXT NOT "
	"NULL,"
	" PRIMARY KEY (charge, name));"
	"CREATE INDEX usage_charges_of_sandbox ON usage_charges (sandbox);"
	"CREATE TABLE usage_hours (hour BIGINT NOT NULL, charge BIGINT NOT NULL, cpu_us BIGINT NOT"
	" NULL, memory_kib_s BIGINT NOT NULL, disk_kib_s BIGINT NOT NULL, requests BIGINT NOT"
	" NULL, bytes_in BIGINT NOT NULL, bytes_out BIGINT NOT NULL, PRIMARY KEY (hour, charge));"
	"CREATE TABLE usage_meters (sandbox TEXT PRIMARY KEY, epoch BIGINT NOT NULL, cgroup BIGINT"
	" NOT NULL, boot TEXT NOT NULL, cpu BIGINT NOT NULL, connections BIGINT NOT NULL, requests"
	" BIGINT NOT NULL, bytes_in BIGINT NOT NULL, bytes_out BIGINT NOT NULL, denied BIGINT NOT"
	" NULL, disk BIGINT NOT NULL, memory BIGINT NOT NULL, time BIGINT NOT NULL);"
	"CREATE TABLE budgets (name TEXT PRIMARY KEY, body TEXT NOT NULL, created BIGINT NOT NULL,"
	" warned BIGINT NOT NULL, exceeded BIGINT NOT NULL);"
	// Ends of executions, with their totals.
	"CREATE TABLE execution_ends (id TEXT PRIMARY KEY, type TEXT NOT NULL,"
	" outcome TEXT NOT NULL, kind BIGINT NOT NULL, counted BIGINT NOT NULL,"
	" ended BIGINT NOT NULL, queued BIGINT NOT NULL, provision BIGINT NOT NULL,"
	" run BIGINT NOT NULL, cleanup BIGINT NOT NULL, cpu BIGINT NOT NULL,"
	" memory BIGINT NOT NULL);"
	"CREATE INDEX execution_ends_by_age ON execution_ends (ended);"
	"CREATE TABLE execution_totals (type TEXT NOT NULL, outcome TEXT NOT NULL,"
	" kind BIGINT NOT NULL, total BIGINT NOT NULL, PRIMARY KEY (type, outcome, kind));"
	// Alerts, the operator's settings of their rules, and notices that are to be sent.
	"CREATE TABLE alerts (id TEXT PRIMARY KEY, rule TEXT NOT NULL, object TEXT NOT NULL,"
	" state BIGINT NOT NULL, severity BIGINT NOT NULL, value BIGINT NOT NULL,"
	" since BIGINT NOT NULL, fired BIGINT NOT NULL, resolved BIGINT NOT NULL,"
	" last BIGINT NOT NULL, acknowledged BIGINT NOT NULL, acknowledged_by TEXT NOT NULL,"
	" silenced BIGINT NOT NULL, comment TEXT NOT NULL, quiet BIGINT NOT NULL,"
	" owes BIGINT NOT NULL, held BIGINT NOT NULL, deliveries TEXT NOT NULL);"
	"CREATE TABLE alert_rules (name TEXT PRIMARY KEY, threshold BIGINT NOT NULL,"
	" wait BIGINT NOT NULL, enabled BIGINT NOT NULL);"
	"CREATE TABLE notices (id TEXT PRIMARY KEY, sink TEXT NOT NULL, rule TEXT NOT NULL,"
	" kind BIGINT NOT NULL, body TEXT NOT NULL, created BIGINT NOT NULL,"
	" due BIGINT NOT NULL, attempts BIGINT NOT NULL);"
	// Executions and their requests.
	"CREATE TABLE executions (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, profile TEXT NOT NULL,"
	" task TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, mark TEXT NOT NULL,"
	" made BIGINT NOT NULL, ended BIGINT NOT NULL, run_ms BIGINT NOT NULL, cpu_ms BIGINT NOT"
	" NULL, memory BIGINT NOT NULL, live BIGINT NOT NULL, version BIGINT NOT NULL,"
	" record BYTEA NOT NULL,"
	" body BYTEA NOT NULL);"
	"CREATE INDEX executions_by_age ON executions (made, id);"
	"CREATE INDEX executions_live ON executions (live);"
	"CREATE INDEX executions_by_profile ON executions (tenant, profile, made);"
	"CREATE TABLE execution_requests (id TEXT PRIMARY KEY, body BYTEA NOT NULL);"
	// Results of executions.
	"CREATE TABLE results (tenant TEXT NOT NULL, execution TEXT NOT NULL,"
	" attempt BIGINT NOT NULL, ended BIGINT NOT NULL, files BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL, partial BIGINT NOT NULL, missing TEXT NOT NULL,"
	" log TEXT NOT NULL, times BYTEA NOT NULL, log_bytes BIGINT NOT NULL,"
	" stdout_bytes BIGINT NOT NULL, stderr_bytes BIGINT NOT NULL,"
	" stdout_written BIGINT NOT NULL, stderr_written BIGINT NOT NULL,"
	" stdout_truncated BIGINT NOT NULL, stderr_truncated BIGINT NOT NULL,"
	" stdout_sha256 TEXT NOT NULL, stderr_sha256 TEXT NOT NULL, removed BIGINT NOT NULL,"
	" PRIMARY KEY (tenant, execution, attempt));"
	"CREATE INDEX results_by_blob ON results (tenant, log);"
	"CREATE INDEX results_by_age ON results (removed, ended);"
	"CREATE TABLE result_files (tenant TEXT NOT NULL, execution TEXT NOT NULL,"
	" attempt BIGINT NOT NULL, path BYTEA NOT NULL, target BYTEA NOT NULL,"
	" mode BIGINT NOT NULL, size BIGINT NOT NULL, sha256 TEXT NOT NULL,"
	" PRIMARY KEY (tenant, execution, attempt, path));"
	"CREATE INDEX result_files_by_blob ON result_files (tenant, sha256);"
	// Pulled images, their layers, and operations.
	"CREATE TABLE images (tenant TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,"
	" used BIGINT NOT NULL, PRIMARY KEY (tenant, name));"
	"CREATE TABLE layers (name TEXT PRIMARY KEY, tenant TEXT NOT NULL, ready BIGINT NOT NULL,"
	" bytes BIGINT NOT NULL, files BIGINT NOT NULL, dropped TEXT NOT NULL);"
	"CREATE TABLE operations (id TEXT PRIMARY KEY, tenant TEXT NOT NULL,"
	" created BIGINT NOT NULL, ended BIGINT NOT NULL, body TEXT NOT NULL);"
	// Credentials of tenants at registries.
	"CREATE TABLE registries (tenant TEXT NOT NULL, host TEXT NOT NULL, body TEXT NOT NULL,"
	" created BIGINT NOT NULL, PRIMARY KEY (tenant, host));"
	// Volumes of tenants.
	"CREATE TABLE volumes (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,"
	" state TEXT NOT NULL, size BIGINT NOT NULL, created BIGINT NOT NULL,"
	" UNIQUE (tenant, name));",
	// The repository that an execution worked on, by its label.
	("ALTER TABLE executions ADD COLUMN repository TEXT NOT NULL DEFAULT '';"
	 "CREATE INDEX executions_by_repository ON executions (tenant, profile, repository, "
	 "made);"),
};

static fallible schema_read_version(struct db *db, int64_t *out)
{
	auto_query query = {0};
	bool found = false;

	TRY(query_open(db, "SELECT version FROM schema", &query));
	TRY(query_step(&query, &found));
	if (found)
		*out = query_take_int(&query);
	if (!found || query.bad || *out < 0)
		return db_corrupt();
	return OK;
}

static fallible take_step(struct db *db, int64_t from)
{
	TRY(db_script(db, steps[from]));
	TRY(db_run(db, "UPDATE schema SET version = $1", DB_WITH(db_int(from + 1)), NULL));
	return db_script(db, "COMMIT");
}

fallible schema_settle(struct db *db)
{
	int64_t version = 0;

	if (!db->read_only)
		TRY(db_script(db, "BEGIN;"
				  "CREATE TABLE IF NOT EXISTS schema (version BIGINT NOT NULL);"
				  "INSERT INTO schema SELECT 0 WHERE NOT EXISTS"
				  " (SELECT 1 FROM schema);"
				  "COMMIT"));
	TRY(schema_read_version(db, &version));
	if (version > SCHEMA_NOW)
		return err_hint(err_new(UNAVAILABLE, "state_too_new",
					"the state is of version %lld, and this cove knows %d",
					(long long)version, SCHEMA_NOW),
				"start the newer cove that wrote it, or restore an older state");
	for (; version < SCHEMA_NOW && !db->read_only; version++) {
		struct err *err;

		TRY(db_script(db, "BEGIN"));
		err = take_step(db, version);
		if (err) {
			err_free(db_script(db, "ROLLBACK"));
			return err_while(err, "bring the state from version %lld to the next",
					 (long long)version);
		}
	}
	return OK;
}
