// Every question, asked of every backend: the sentences are the same whatever answers them.
#include <stdlib.h>

#include "backends.h"
#include "base/clock.h"
#include "store/agent.h"
#include "store/audit.h"
#include "store/boxes.h"
#include "store/events.h"
#include "store/idempotency.h"
#include "store/keys.h"
#include "store/kv.h"
#include "store/usage.h"
#include "unit/store/writes.h"

static void make_record(struct record *record, const char *id, uint64_t seq)
{
	*record = (struct record){
		.state = STATE_CREATING,
		.name = "web",
		.tenant = "acme",
		.template = "debian",
		.reason = "box_lost",
		.limits = {.memory = 1ull << 31,
			   .cpu_milli = 1500,
			   .pids = 99,
			   .disk = 1ull << 40,
			   .inodes = 5,
			   .output = 7,
			   .cpu_time_ms = 8,
			   .wall_time_ms = 9},
		.retention = RETENTION_DEFAULT,
		.created_ms = 1760000000123,
		.started_ms = 1760000000456,
		.seq = seq,
		.ephemeral = true,
		.disk_kept = true,
		.idempotency = "aa:bb",
	};
	snprintf(record->id, sizeof(record->id), "box-%s%036d", id, 0);
	record->retention.keep_alive = true;
	record->retention.sleep_after_ms = 61000;
	record->retention.base_url = mem_str("http://x:1");
	env_map_set(&record->env, STR("B"), STR("two\nlines \"q\""));
	env_map_set(&record->env, STR("A"), STR("ä"));
	env_map_set(&record->labels, STR("team"), STR("red"));
}

EACH_BACKEND(whole_record, "a record comes back with every field")
{
	on_exit_call(store_boxes_done) struct store_boxes boxes = {0};
	on_exit_call(record_done) struct record record;
	const struct record *got;
	auto_policy policy = POLICY_INIT(POLICY_ALLOW);
	auto_json network = NULL;

	make_record(&record, "0123456789ab", 7);
	CHECK_OK(json_read(STR("{\"allow\":[\"*.a:22\"],\"secrets\":[{\"name\":\"K\",\"value\":"
			       "\"s3cret\",\"hosts\":[\"b\"]}]}"),
			   &network));
	CHECK_OK(policy_read(network, POLICY_OFF, &policy));
	record.network = policy_new(&policy);
	CHECK_OK(store_boxes_put(house->store, &record));
	reopen(house);
	CHECK_OK(store_boxes_load(house->store, &boxes));
	CHECK(boxes.count == 1 && !boxes.unreadable[0] && boxes.last_seq == 7);
	got = &boxes.at[0];
	CHECK(got->network && got->network->mode == POLICY_ALLOW);
	CHECK_STR(got->network->allow[0].text, "*.a:22");
	CHECK_STR(got->network->secrets[0].placeholder, record.network->secrets[0].placeholder);
	CHECK(!got->network->secrets[0].value);
	CHECK_STR(got->id, record.id);
	CHECK_STR(got->name, "web");
	CHECK_STR(got->tenant, "acme");
	CHECK_STR(got->template, "debian");
	CHECK_STR(got->reason, "box_lost");
	CHECK_STR(got->idempotency, "aa:bb");
	CHECK(got->state == STATE_CREATING && got->seq == 7);
	CHECK(!memcmp(&got->limits, &record.limits, sizeof(got->limits)));
	CHECK(got->retention.keep_alive && got->retention.sleep_after_ms == 61000);
	CHECK(!memcmp(&got->retention.waits, &record.retention.waits,
		      sizeof(got->retention.waits)));
	CHECK_STR(got->retention.base_url, "http://x:1");
	CHECK(got->created_ms == 1760000000123 && got->started_ms == 1760000000456);
	CHECK(got->ephemeral && got->disk_kept);
	CHECK(got->env.count == 2 && got->labels.count == 1);
	CHECK_STR(got->env.at[0].name, "B");
	CHECK_STR(got->env.at[0].value, "two\nlines \"q\"");
	CHECK_STR(got->env.at[1].value, "ä");
	CHECK_STR(env_map_get(&got->labels, STR("team")), "red");
}

static struct err *read_body(struct db *db, void *arg)
{
	auto_query query = {0};
	bool found = false;
	struct str text;

	TRY(query_open(db, "SELECT state || ' ' || body FROM boxes", &query));
	TRY(query_step(&query, &found));
	text = found ? query_take(&query) : STR("");
	*(char **)arg = mem_dup(text.at, text.len);
	return OK;
}

EACH_BACKEND(record_text, "the text of a stored record is what older versions wrote")
{
	on_exit_call(record_done) struct record record;
	auto_free char *text = NULL;

	make_record(&record, "0123456789ab", 7);
	CHECK_OK(store_boxes_put(house->store, &record));
	CHECK_OK(store_ask(house->store, read_body, &text));
	CHECK_STR(text,
		  "creating "
		  "{\"template\":\"debian\",\"root\":\"\",\"reason\":\"box_lost\",\"limits\":{"
		  "\"memory\":"
		  "2147483648,"
		  "\"cpu\":1500,\"pids\":99,\"disk\":1099511627776,\"inodes\":5,\"output\":7,"
		  "\"keptOutput\":0,\"io\":0,\"cpuTime\":8,\"wallTime\":9},"
		  "\"env\":{\"B\":\"two\\nlines \\\"q\\\"\",\"A\":\"ä\"},\"user\":\"\","
		  "\"labels\":{\"team\":\"red\"},\"terms\":{\"sleepAfter\":61000,\"archiveAfter\":"
		  "0,\"keepAlive\":true,"
		  "\"get\":30000,\"port\":90000,\"interval\":300,\"base\":\"http://x:1\","
		  "\"tokenTurn\":0},\"created\":1760000000123,\"started\":1760000000456,"
		  "\"ends\":0,\"failed\":0,\"stopped\":0,\"unsynced\":0,\"archiveBytes\":0,"
		  "\"ephemeral\":true,"
		  "\"diskKept\":true,"
		  "\"idempotency\":\"aa:bb\"}");
}

EACH_BACKEND(old_key, "a record of schema 4 has its idempotency key under another word")
{
	on_exit_call(store_boxes_done) struct store_boxes boxes = {0};
	on_exit_call(record_done) struct record record;

	make_record(&record, "0123456789ab", 7);
	CHECK_OK(store_boxes_put(house->store, &record));
	CHECK_OK(garble(house->store,
			"UPDATE boxes SET body = replace(body, '\"idempotency\"', '\"pledge\"')"));
	CHECK_OK(store_boxes_load(house->store, &boxes));
	CHECK(boxes.count == 1 && !boxes.unreadable[0]);
	CHECK_STR(boxes.at[0].idempotency, "aa:bb");
}

EACH_BACKEND(changed_record, "a record is replaced, and removed; its number is not given again")
{
	on_exit_call(store_boxes_done) struct store_boxes boxes = {0};
	on_exit_call(record_done) struct record record;

	make_record(&record, "0123456789ab", 7);
	CHECK_OK(store_boxes_put(house->store, &record));
	record.state = STATE_STOPPED;
	CHECK_OK(store_boxes_put(house->store, &record));
	CHECK_OK(store_boxes_load(house->store, &boxes));
	CHECK(boxes.count == 1 && boxes.at[0].state == STATE_STOPPED);
	store_boxes_drop(house->store, record.id);
	store_boxes_drop(house->store, record.id);
	CHECK_OK(store_flush(house->store));
	store_boxes_done(&boxes);
	reopen(house);
	CHECK_OK(store_boxes_load(house->store, &boxes));
	CHECK(boxes.count == 0);
	CHECK(boxes.last_seq == 7);
}

EACH_BACKEND(bad_record, "a record that cannot be read is told by its id, never dropped")
{
	on_exit_call(store_boxes_done) struct store_boxes boxes = {0};
	on_exit_call(record_done) struct record a, b;

	make_record(&a, "00000000000a", 1);
	make_record(&b, "00000000000b", 2);
	CHECK_OK(store_boxes_put(house->store, &a));
	CHECK_OK(store_boxes_put(house->store, &b));
	CHECK_OK(garble(house->store, "UPDATE boxes SET body = '{\"template\":' WHERE seq = 1;"
				      "UPDATE boxes SET state = 'dancing' WHERE seq = 2"));
	CHECK_OK(store_boxes_load(house->store, &boxes));
	CHECK(boxes.count == 2 && boxes.unreadable[0] && boxes.unreadable[1]);
	CHECK_STR(boxes.at[0].id, a.id);
	CHECK_STR(boxes.at[1].id, b.id);
	CHECK_STR(boxes.at[0].tenant, "acme");
}

EACH_BACKEND(keys,
	     "tenants and keys come back; a revoked key says so; a tenant takes its keys along")
{
	struct store_key key = {.id = "key-1", .tenant = "acme", .name = "ci", .scopes = 5};
	struct store_keyring ring;

	memset(key.hash, 7, sizeof(key.hash));
	key.created_ms = 3;
	key.expires_ms = 4;
	CHECK_OK(store_tenants_put(house->store, &(struct store_tenant){"acme", "{\"q\":1}", 9}));
	CHECK_OK(store_keys_put(house->store, &key));
	CHECK_OK(store_keys_revoke(house->store, "key-1", 77));
	CHECK_ERR(store_keys_revoke(house->store, "key-2", 77), NOT_FOUND);
	reopen(house);
	CHECK_OK(store_keys_load(house->store, house->arena, &ring));
	CHECK(ring.tenant_count == 1 && ring.key_count == 1);
	CHECK_STR(ring.tenants[0].body, "{\"q\":1}");
	CHECK(ring.tenants[0].created_ms == 9);
	CHECK_STR(ring.keys[0].tenant, "acme");
	CHECK_STR(ring.keys[0].name, "ci");
	CHECK(ring.keys[0].scopes == 5 && ring.keys[0].revoked_ms == 77);
	CHECK(ring.keys[0].expires_ms == 4 && !memcmp(ring.keys[0].hash, key.hash, 32));
	CHECK_OK(garble(house->store, "UPDATE access_keys SET hash = 'short'"));
	CHECK_OK(store_keys_load(house->store, house->arena, &ring));
	CHECK(ring.key_count == 1 && !ring.keys[0].body);
	CHECK_OK(store_tenants_drop(house->store, "acme"));
	CHECK_OK(store_keys_load(house->store, house->arena, &ring));
	CHECK(ring.tenant_count == 0 && ring.key_count == 0);
}

static struct store_agent_change put(enum store_agent_kind kind, const char *id, uint64_t version,
				     const char *state)
{
	return (struct store_agent_change){.row = {.kind = kind,
						   .id = id,
						   .session = kind == STORE_RUN ? "s1" : "",
						   .tenant = "acme",
						   .box = "box-1",
						   .state = state,
						   .deadline_ms = 5,
						   .generation = 3,
						   .version = version,
						   .body = STR("\1\0opaque")}};
}

EACH_BACKEND(versions, "a decision is not written over a state it was not based on")
{
	struct store_agent_change first = put(STORE_LEASE, "s1", 0, "starting");
	struct store_agent_change second = put(STORE_LEASE, "s1", 1, "ready");
	struct store_agent *row = NULL;

	CHECK_OK(store_agent_commit(house->store, &first, 1));
	CHECK_ERR(store_agent_commit(house->store, &first, 1), CONFLICT);
	CHECK_OK(store_agent_commit(house->store, &second, 1));
	CHECK_ERR(store_agent_commit(house->store, &second, 1), CONFLICT);
	reopen(house);
	CHECK_OK(store_agent_get(house->store, STORE_LEASE, "s1", house->arena, &row));
	CHECK(row && row->version == 2 && row->generation == 3 && row->deadline_ms == 5);
	CHECK_STR(row->state, "ready");
	CHECK(row->body.len == 8 && !memcmp(row->body.at, "\1\0opaque", 8));
	second.way = STORE_AGENT_DROP;
	CHECK_ERR(store_agent_commit(house->store, &second, 1), CONFLICT);
	second.row.version = 2;
	CHECK_OK(store_agent_commit(house->store, &second, 1));
	CHECK_OK(store_agent_get(house->store, STORE_LEASE, "s1", house->arena, &row));
	CHECK(!row);
}

EACH_BACKEND(together, "several changes hold together or not at all")
{
	struct store_agent_change changes[] = {
		put(STORE_SESSION, "s1", 0, "open"), put(STORE_LEASE, "s1", 0, "none"),
		put(STORE_RUN, "r1", 4, "queued"), // there is none
	};
	struct store_agent *rows;
	size_t count = 9;

	CHECK_ERR(store_agent_commit(house->store, changes, 3), CONFLICT);
	CHECK_OK(store_agent_load(house->store, STORE_SESSION, house->arena, &rows, &count));
	CHECK(count == 0);
	changes[2].row.version = 0;
	CHECK_OK(store_agent_commit(house->store, changes, 3));
	CHECK_OK(store_agent_load(house->store, STORE_LEASE, house->arena, &rows, &count));
	CHECK(count == 1);
	CHECK_OK(store_agent_runs(house->store, "s1", house->arena, &rows, &count));
	CHECK(count == 1);
	CHECK_STR(rows[0].id, "r1");
}

EACH_BACKEND(used_ids, "a session id is used once, also after the session is gone")
{
	struct store_agent_change change = put(STORE_SESSION, "s1", 0, "open");

	CHECK(!is_session_used(house->store, "s1"));
	CHECK_OK(store_agent_commit(house->store, &change, 1));
	change.way = STORE_AGENT_DROP;
	CHECK_OK(store_agent_commit(house->store, &change, 1));
	change.way = STORE_AGENT_PUT;
	CHECK_ERR(store_agent_commit(house->store, &change, 1), CONFLICT);
	CHECK(is_session_used(house->store, "s1"));
}

EACH_BACKEND(bad_lease, "row 27 a lease that is no lease is unreadable, not absent")
{
	struct store_agent_change change = put(STORE_LEASE, "s1", 0, "warm");
	struct store_agent *rows;
	size_t count = 0;

	CHECK_OK(store_agent_commit(house->store, &change, 1));
	CHECK_OK(garble(house->store, "UPDATE leases SET generation = 'garbage'"));
	CHECK_OK(store_agent_load(house->store, STORE_LEASE, house->arena, &rows, &count));
	CHECK(count == 1 && rows[0].unreadable);
	CHECK_STR(rows[0].id, "s1");
}

static struct store_event event_of(const char *tenant, int64_t time_ms)
{
	return (struct store_event){
		.time_ms = time_ms, .tenant = tenant, .kind = "box.created", .sandbox = "box-1"};
}

EACH_BACKEND(events, "events have one order, pages go on from an id, tenants see their own")
{
	struct store_event all[] = {event_of("a", 1), event_of("b", 2), event_of("a", 3)};
	struct store_events page;
	uint64_t first = 0, pruned = 0;

	CHECK_OK(add_events(house->store, all, 3, &first));
	CHECK(first == 1);
	page = PAGE(.max = 2);
	CHECK(page.count == 2 && page.last == 2 && page.oldest == 1 && !page.missed);
	page = PAGE(.max = 2, .after = page.last);
	CHECK(page.count == 1 && page.last == 3 && page.at[0].time_ms == 3);
	page = PAGE(.tenant = "b");
	CHECK(page.count == 1 && page.at[0].id == 2 && page.last == 3);
	CHECK_STR(page.at[0].fields, "{}");
	CHECK_OK(store_events_prune(house->store, 4, 9, &pruned));
	CHECK(pruned == 3);
	reopen(house);
	page = PAGE(.after = 2);
	CHECK(page.count == 0 && page.missed && page.last == 3 && page.oldest == 4);
	CHECK_OK(add_events(house->store, all, 1, &first));
	CHECK(first == 4);
	page = PAGE(.after = 3);
	CHECK(page.count == 1 && page.oldest == 4 && !page.missed);
}

EACH_BACKEND(own_numbers, "I-01 a tenant's numbers count its own events and rows, without a gap")
{
	struct store_event all[] = {event_of("a", 1), event_of("b", 2), event_of("b", 2),
				    event_of("a", 3)};
	struct store_audit *rows;
	struct store_events page;
	size_t count = 0;

	CHECK_OK(add_events(house->store, all, 4, NULL));
	page = PAGE(.tenant = "a", .own = true);
	CHECK(page.count == 2 && page.at[0].id == 1 && page.at[1].id == 2);
	CHECK(page.last == 2 && page.newest == 2 && page.oldest == 1);
	page = PAGE(.tenant = "a", .own = true, .after = 1);
	CHECK(page.count == 1 && page.at[0].time_ms == 3 && !page.missed);
	page = PAGE(.tenant = "c", .own = true);
	CHECK(page.count == 0 && page.last == 0 && page.newest == 0 && page.oldest == 1);
	for (int i = 0; i < 4; i++)
		CHECK_OK(add_audit(house->store, &(struct store_audit){.tenant = all[i].tenant},
				   NULL));
	CHECK_OK(store_audit_page(house->store, 1, "a", true, 9, house->arena, &rows, &count));
	CHECK(count == 1 && rows[0].id == 2);
	CHECK_OK(store_audit_page(house->store, 1, "a", false, 9, house->arena, &rows, &count));
	CHECK(count == 1 && rows[0].id == 4);
}

EACH_BACKEND(noisy,
	     "a noisy tenant pushes out its own events, and nobody else's; who was late is told")
{
	struct store_event quiet = event_of("quiet", 1), loud = event_of("loud", 1);
	struct store_events page;
	uint64_t pruned = 0;

	CHECK_OK(add_events(house->store, &quiet, 1, NULL));
	for (int i = 0; i < 1300; i++)
		CHECK_OK(add_events(house->store, &loud, 1, NULL));
	CHECK_OK(add_events(house->store, &quiet, 1, NULL));
	CHECK_OK(store_events_prune(house->store, 0, 100, &pruned));
	CHECK(pruned == 1200);
	page = PAGE(.tenant = "quiet", .own = true, .after = 1);
	CHECK(page.count == 1 && !page.missed && page.at[0].id == 2);
	page = PAGE(.tenant = "loud", .own = true, .after = 1199);
	CHECK(page.count == 9 && page.missed && page.at[0].id == 1201 && page.oldest == 1201);
	page = PAGE(.tenant = "loud", .own = true, .after = 1200);
	CHECK(!page.missed);
	page = PAGE(.tenant = "loud", .after = 5);
	CHECK(page.missed);
	page = PAGE(.tenant = "quiet", .after = 5);
	CHECK(!page.missed && page.count == 1);
	page = PAGE(.after = 1200);
	CHECK(page.missed);
	page = PAGE(.after = 1201);
	CHECK(!page.missed && page.at[0].id == 1202);
	page = PAGE(.after = 5000);
	CHECK(page.missed && page.count == 0 && page.last == 1302);
}

static void use(struct store *store, const char *tenant, const char *sandbox, const char *labels,
		int64_t time_ms, uint64_t cpu_us)
{
	store_usage_queue(store,
			  &(struct store_charge){sandbox, tenant, "", "", "", "", "", labels},
			  time_ms, &(struct usage){.cpu_us = cpu_us, .requests = 1},
			  &(struct store_meter){.sandbox = sandbox, .boot = "b", .cpu_us = cpu_us});
}

EACH_BACKEND(usage, "usage adds up by hour and by any key, and the last reading is kept")
{
	const int64_t hour = USAGE_HOUR_MS;
	struct usage_query query = {.by = USAGE_BY_SANDBOX, .to_ms = hour, .max = 10};
	struct store_usage_item total;
	struct store_usage_page page;
	struct store_meter meter;
	bool found = false;

	use(house->store, "a", "x", "{\"k\":\"1\"}", 10, 5);
	use(house->store, "a", "x", "{\"k\":\"2\"}", 20, 5);
	use(house->store, "b", "y", "{}", 10, 7);
	use(house->store, "a", "z", "{}", hour + 1, 100);
	CHECK_OK(store_flush(house->store));
	CHECK_OK(store_usage_items(house->store, &query, house->arena, &page));
	CHECK(page.count == 2 && !strcmp(page.at[0].key, "x") && page.at[0].used.cpu_us == 10);
	CHECK_OK(store_usage_total(house->store, &query, &total));
	CHECK(total.used.cpu_us == 17 && total.used.requests == 3 && total.sandboxes == 2);
	query.to_ms = 2 * hour;
	query.tenant = "a";
	CHECK_OK(store_usage_total(house->store, &query, &total));
	CHECK(total.used.cpu_us == 110 && total.sandboxes == 2 && total.executions == 0);
	query.tenant = NULL;
	query.by = USAGE_BY_LABEL;
	query.label = "k";
	CHECK_OK(store_usage_items(house->store, &query, house->arena, &page));
	CHECK(page.count == 3 && !strcmp(page.at[0].key, "") && page.at[0].used.cpu_us == 107);
	CHECK(!strcmp(page.at[2].key, "2") && page.at[2].used.cpu_us == 5);
	query.after = "1";
	CHECK_OK(store_usage_items(house->store, &query, house->arena, &page));
	CHECK(page.count == 1 && !strcmp(page.at[0].key, "2"));
	query.label_key = "k";
	query.label_value = "1";
	CHECK_OK(store_usage_total(house->store, &query, &total));
	CHECK(total.used.cpu_us == 5);
	CHECK_OK(store_usage_meter(house->store, "x", house->arena, &meter, &found));
	CHECK(found && meter.cpu_us == 5);
	CHECK_OK(store_usage_prune(house->store, hour));
	CHECK_OK(store_usage_meter(house->store, "x", house->arena, &meter, &found));
	CHECK(!found);
	query = (struct usage_query){.to_ms = 2 * hour};
	CHECK_OK(store_usage_total(house->store, &query, &total));
	CHECK(total.used.cpu_us == 100);
}

EACH_BACKEND(names, "small things are found by the beginning of their name")
{
	struct store_kv *kv;
	size_t count = 0;

	CHECK_OK(store_kv_put(house->store, "alert/b", STR("2")));
	CHECK_OK(store_kv_put(house->store, "alert/a", STR("")));
	CHECK_OK(store_kv_put(house->store, "route/a", STR("3")));
	store_kv_queue(house->store, "alert/b", STR("two"));
	CHECK_OK(store_kv_load(house->store, "alert/", house->arena, &kv, &count));
	CHECK(count == 2 && kv[0].value.len == 0 && str_is(kv[1].value, "two"));
	CHECK_OK(store_kv_drop(house->store, "alert/a"));
	CHECK_OK(store_kv_load(house->store, "", house->arena, &kv, &count));
	CHECK(count == 2);
}

EACH_BACKEND(idempotency_keys, "answers under a key come back; old ones are forgotten")
{
	struct store_idempotency *idempotency_keys;
	size_t count = 0;

	store_idempotency_rows_put(house->store, &(struct store_idempotency){.key = "k1",
									     .status = 201,
									     .place = "/p",
									     .body = STR("{}"),
									     .kept_ms = 100});
	store_idempotency_rows_put(house->store, &(struct store_idempotency){.key = "k0",
									     .status = 201,
									     .place = "/p",
									     .body = STR("{}"),
									     .kept_ms = 50});
	reopen(house);
	CHECK_OK(store_idempotency_rows_load(house->store, 60, house->arena, &idempotency_keys,
					     &count));
	CHECK(count == 1 && idempotency_keys[0].status == 201 &&
	      str_is(idempotency_keys[0].body, "{}"));
	CHECK_STR(idempotency_keys[0].key, "k1");
}

// What lifecycles leave: events, rows of the audit log, answers under keys.
static struct err *leave_rows(struct house *house, int64_t now, int count)
{
	const struct store_audit row = {
		.time_ms = now,
		.tenant = "",
		.who = "operator",
		.action = "sandbox.create",
		.target = "box-000000000000000000000000000000000000000000000001",
		.outcome = "done",
		.fields = "{}"};
	const struct store_event event = {.time_ms = now,
					  .tenant = "",
					  .kind = "sandbox.created",
					  .sandbox = row.target,
					  .session = "",
					  .fields = "{\"template\":\"host\"}"};
	static int made;
	char key[72];

	for (int i = 0; i < count; i++) {
		TRY(add_events(house->store, &event, 1, NULL));
		TRY(add_audit(house->store, &row, NULL));
		snprintf(key, sizeof(key), "%064d", made++);
		store_idempotency_rows_put(house->store,
					   &(struct store_idempotency){.key = key,
								       .status = 201,
								       .place = "",
								       .body = STR("{\"id\":1}"),
								       .kept_ms = now + i});
	}
	TRY(store_idempotency_rows_prune(house->store, now - 1000000, 100));
	TRY(store_events_prune(house->store, 0, 100, NULL));
	return store_audit_prune(house->store, now, INT64_MAX / 2, 100, NULL);
}

EACH_BACKEND(retention, "with its retention the store stops growing, whatever is done")
{
	uint64_t settled = 0;

	for (int round = 1; round <= 12; round++) {
		CHECK_OK(leave_rows(house, round * 1000, 200));
		if (round == 4)
			settled = store_stats(house->store).bytes;
	}
	CHECK(settled > 0 && store_stats(house->store).bytes <= settled + (16 << 10));
}
