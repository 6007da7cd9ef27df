// Routes for sandboxes. Creating honours an Idempotency-Key: the answer is durable before it is
// sent, and a repeated request gets the same one. A client that disconnects before it learns the id
// of an unnamed sandbox leaves none behind. Lists are in pages with an encrypted cursor.
#include <math.h>
#include <stdio.h>

#include "api/box_json.h"
#include "api/handlers.h"
#include "api/images.h"
#include "base/log.h"
#include "gateway/gateway.h"
#include "manager/access.h"
#include "manager/archives.h"
#include "manager/manager.h"
#include "manager/pools.h"
#include "manager/sampler.h"
#include "manager/usage.h"
#include "types/live.h"

#define SUMMARY_AGE_MS 1000 // samples of a summary are younger
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define PAGE_BYTES (1 << 20) // a page ends early when labels make it large
#define REPLY_MAX (2 << 20)

static fallible check_key(struct http *x)
{
	struct str key = x->params[0];

	if (id_is_box(key) || id_is_short(key) || id_is_name(key))
		return OK;
	authenticate_report(x, "bad_id", "low");
	return err_hint(err_new(INVALID, "bad_id", "this is neither an id nor a name"),
			"an id is box- and 48 hex digits, a short id its first 12, a name 1 to %d "
			"of a-z, 0-9 and -",
			ID_NAME_MAX);
}

// The path token gives access to the sandbox: it is shown only to principals that may use it.
static bool may_use(const struct http *x)
{
	auto_err err = access_ask(gateway_who(x), ACCESS_USE);

	return !err;
}

// The owner of an idempotency key, tenant generation included: a new tenant of the same name does
// not get old answers.
static const char *boxes_whose(const struct http *x)
{
	const char *tenant = gateway_who(x)->tenant;
	long long since = manager_tenant_since(gateway_of(x)->manager, tenant);

	return since ? arena_fmt(x->arena, "%s@%lld", tenant, since) : tenant;
}

// Writes a record with its path token and a base URL that contains it, for clients that cannot send
// headers. The host is the request's Host, unless configured otherwise.
static void box_put(struct http *x, struct json_out *out, const struct record *record,
		    const struct order_usage *usage)
{
	const char *base = record->retention.base_url;
	char token[PATH_TOKEN_LEN + 1];
	bool told = may_use(x);

	if (!base)
		base = gateway_origin(x);
	path_token_write(gateway_of(x)->path_token_key, record->id, record->retention.token_turn,
			 token);
	record_put(out, record);
	if (usage)
		usage_put(out, usage);
	json_put_text(out, "token", told ? token : NULL);
	json_put_text(out, "baseUrl",
		      told ? arena_fmt(x->arena, "%s/v1/t/%s/sandboxes/%s", base, token, record->id)
			   : NULL);
}

void box_write(struct http *x, struct json_out *out, const struct record *record,
	       const struct order_usage *usage)
{
	json_begin(out, '{');
	box_put(x, out, record, usage);
	json_end(out, '}');
}

static fallible answer_record(struct http *x, int status, const struct record *record)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	box_write(x, &out, record, NULL);
	return http_reply_json(x, status, &body);
}

// A client that disconnected before it learned the id of an unnamed box can never delete it.
static bool is_orphan(struct http *x, const char *name, bool may_ask_again)
{
	return !may_ask_again && !name[0] && http_peer_gone(x, HTTP_PROBE_HEAD);
}

static fallible client_gone(void)
{
	return err_new(CANCELLED, "client_gone",
		       "the client disconnected before the sandbox was reported");
}

// A create, as the body says it.
struct boxes_ask {
	struct str pool;     // at NULL: none
	struct json *change; // of a claim: the body without pool and name
	struct spec spec;
};

static void boxes_ask_done(struct boxes_ask *ask)
{
	json_free(ask->change);
	spec_done(&ask->spec);
}

// {pool, name?, labels?, ttl?, network?}
static fallible boxes_read_claim(const struct json *json, struct boxes_ask *out)
{
	static const char *const known[] = {"pool", "name", "labels", "ttl", "network", NULL};
	auto_buf text = BUF_INIT(REPLY_MAX);
	struct json_out change = json_to(&text);

	TRY(json_only(json, known));
	TRY(json_str(json_get(json, "pool"), "pool", &out->pool));
	if (!id_is_name(out->pool))
		return err_new(INVALID, "bad_name", "this is not a name for a pool");
	json_begin(&change, '{');
	for (size_t i = 2; known[i]; i++) {
		const struct json *value = json_get(json, known[i]);

		if (!value)
			continue;
		json_key(&change, known[i]);
		json_add_value(&change, value);
	}
	json_end(&change, '}');
	return json_read(buf_view(&text), &out->change);
}

static fallible boxes_read(struct http *x, const struct json *json, struct boxes_ask *out)
{
	const struct spec_bounds *bounds = manager_bounds(gateway_of(x)->manager);
	struct str name = {0};

	if (!json || json_type(json) != JSON_OBJECT || !json_get(json, "pool"))
		return spec_read(json, bounds, &out->spec);
	TRY(boxes_read_claim(json, out));
	TRY(spec_read(out->change, bounds, &out->spec));
	TRY(json_str(json_get(json, "name"), "name", &name));
	if (name.at && !id_is_name(name))
		return err_new(INVALID, "bad_name", "this is not a name for a sandbox");
	snprintf(out->spec.name, sizeof(out->spec.name), STR_FMT, STR_ARG(name));
	return OK;
}

// *out_from_pool: of a claim.
static fallible boxes_do(struct manager *manager, const struct create_grant *grant,
			 struct boxes_ask *ask, const struct record **out, bool *out_from_pool)
{
	struct pool_claim claim = {
		.pool = ask->pool,
		.name = ask->spec.name,
		.idempotency = ask->spec.idempotency,
		.id = ask->spec.id,
		.change = ask->change,
	};
	bool made;

	return ask->pool.at ? pools_claim(manager, grant, &claim, out, out_from_pool)
			    : create_box(manager, grant, &ask->spec, CREATE_NEW, out, &made);
}

static fallible boxes_make(struct http *x, const struct create_grant *grant, struct boxes_ask *ask,
			   struct idempotency *idempotency)
{
	struct gateway *gateway = gateway_of(x);
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct record *record;
	bool from_pool = false;
	struct str place;

	// Probe before the work as well: the peer's RST arrives while the box is made.
	if (is_orphan(x, ask->spec.name, idempotency != NULL))
		return client_gone();
	ask_name_box(gateway->manager->ask, ask->spec.id);
	gateway_begin(x, ask->spec.id);
	TRY(boxes_do(gateway->manager, grant, ask, &record, &from_pool));
	place = str_of(arena_fmt(x->arena, "/v1/sandboxes/%s", record->id));
	json_begin(&out, '{');
	box_put(x, &out, record, NULL);
	if (ask->pool.at)
		json_put_bool(&out, "fromPool", from_pool);
	json_end(&out, '}');
	if (!buf_ok(&body) || is_orphan(x, record->name, idempotency != NULL)) {
		log_event(LOG_INFO, "box.orphan", "sandbox", record->id, NULL);
		err_free(life_delete(gateway->manager, gateway_who(x), str_of(record->id),
				     LIFE_FORCED));
		return client_gone();
	}
	// An answer under a key is repeated later, so it is durable before it is sent.
	if (idempotency) {
		idempotency_keep(idempotency, 201, place, buf_view(&body));
		TRY(manager_flush(gateway->manager));
	}
	http_set(x, "Location", place);
	return http_reply_json(x, 201, &body);
}

// The sandbox was created before a restart, but its answer may be lost: build it now. If *out has
// no answer afterwards, the sandbox does not exist.
static fallible answer_made(struct http *x, struct idempotency *idempotency)
{
	struct gateway *gateway = gateway_of(x);
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct record *record = NULL;
	// While we wait, another request of that key may void or answer it.
	struct str id = str_of(arena_fmt(x->arena, "%s", idempotency_made(idempotency)));
	auto_err err = create_find_made(gateway->manager, gateway_who(x), id, &record);

	if (err && err_kind(err) == ERR_NOT_FOUND)
		return OK;
	if (err)
		return take_ptr(err);
	if (idempotency_status(idempotency))
		return OK;
	if (record->state == STATE_DELETING)
		return OK; // it was incomplete and is being destroyed
	box_write(x, &out, record, NULL);
	idempotency_keep(idempotency, 201,
			 str_of(arena_fmt(x->arena, "/v1/sandboxes/%s", record->id)),
			 buf_view(&body));
	return OK;
}

// The stored answer may have been sent to another request first.
static fallible boxes_replay(struct http *x, const struct idempotency *idempotency)
{
	TRY(manager_flush(gateway_of(x)->manager));
	http_set(x, "Location", idempotency_location(idempotency));
	http_set(x, "Idempotency-Replayed", STR("true"));
	return http_reply(x, idempotency_status(idempotency), NULL, idempotency_body(idempotency));
}

fallible api_boxes_create(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	struct str key = http_field(x, "Idempotency-Key");
	struct create_grant grant;
	auto_json json = NULL;
	on_exit_call(boxes_ask_done) struct boxes_ask ask = {0};
	auto_idempotency idempotency = NULL;
	uint8_t hash[SECRET_HASH];
	struct str text;
	bool first = true;

	// Also before replaying an answer that was given to another key.
	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_json(x, &json, &text));
	TRY(boxes_read(x, json, &ask));
	if (!key.at)
		return boxes_make(x, &grant, &ask, NULL);
	secret_sha256(text.at ? text.at : "", text.len, hash);
	hash[0] ^= !may_use(
		x); // only the answer to an authorized principal contains the path token
	for (;;) {
		TRY(idempotency_claim_of(gateway->idempotency_keys, boxes_whose(x), key, hash,
					 &idempotency, &first));
		if (first || !idempotency_made(idempotency))
			break;
		TRY(answer_made(x, idempotency));
		if (idempotency_status(idempotency))
			break;
		idempotency_void(take_ptr(idempotency));
	}
	if (!first)
		return boxes_replay(x, idempotency);
	idempotency_mark(idempotency, ask.spec.idempotency);
	return boxes_make(x, &grant, &ask, idempotency);
}

fallible api_boxes_ensure(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	struct str name = x->params[0];
	const struct record *record;
	struct create_grant grant;
	auto_json json = NULL;
	auto_spec spec = {0};
	bool made;

	if (!id_is_name(name))
		return err_hint(err_new(INVALID, "bad_name", "this is not a name for a sandbox"),
				"1 to %d of a-z, 0-9 and -, beginning with no -, and not of the "
				"form of an id",
				ID_NAME_MAX);
	TRY(gateway_json(x, &json, NULL));
	TRY(spec_read(json, manager_bounds(gateway->manager), &spec));
	if (spec.name[0] && !str_is(name, spec.name))
		return err_new(INVALID, "bad_name", "'name' differs from the name in the path");
	memcpy(spec.name, name.at, name.len);
	TRY(access_create(gateway_who(x), &grant));
	TRY(create_box(gateway->manager, &grant, &spec, CREATE_OR_GET, &record, &made));
	if (!made)
		TRY(change_retention(gateway->manager, gateway_who(x), str_of(record->id), json));
	http_set(x, "Location", str_of(arena_fmt(x->arena, "/v1/sandboxes/%s", record->id)));
	return answer_record(x, made ? 201 : 200, record);
}

fallible api_boxes_get(struct http *x)
{
	struct manager *manager = gateway_of(x)->manager;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const struct record *record;
	struct order_usage usage;
	bool with_usage = true;

	TRY(check_key(x));
	TRY(gateway_flag(x, "usage", &with_usage));
	TRY(manager_get(manager, gateway_who(x), x->params[0], &record));
	if (with_usage) {
		usage_ask(manager, arena_fmt(x->arena, "%s", record->id), &usage);
		TRY(manager_get(manager, gateway_who(x), x->params[0],
				&record)); // the wait may have changed it
	}
	box_write(x, &out, record, with_usage ? &usage : NULL);
	return http_reply_json(x, 200, &body);
}

fallible api_boxes_change(struct http *x)
{
	const struct record *record;
	auto_json json = NULL;

	TRY(check_key(x));
	TRY(gateway_json(x, &json, NULL));
	TRY(change_box(gateway_of(x)->manager, gateway_who(x), x->params[0], json, &record));
	return answer_record(x, 200, record);
}

fallible api_boxes_delete(struct http *x)
{
	bool waits = true, forced = false;

	TRY(check_key(x));
	TRY(gateway_flag(x, "wait", &waits));
	TRY(gateway_flag(x, "force", &forced));
	TRY(life_delete(gateway_of(x)->manager, gateway_who(x), x->params[0],
			(waits ? LIFE_WAITS : 0) | (forced ? LIFE_FORCED : 0)));
	return http_reply_empty(x, waits ? 204 : 202);
}

static fallible boxes_answer_archived(struct http *x, struct operation *operation)
{
	const struct record *record;

	TRY(http_while_away(x, HTTP_PROBE_HEAD, operation_await(operation, CLOCK_NEVER)));
	TRY(manager_get(gateway_of(x)->manager, gateway_who(x), str_of(operation->reference),
			&record));
	return answer_record(x, 200, record);
}

fallible api_boxes_archive(struct http *x)
{
	struct operation *operation = NULL;
	bool wait = true;

	TRY(check_key(x));
	TRY(gateway_flag(x, "wait", &wait));
	TRY(archives_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &operation));
	return operations_reply(x, operation, wait, boxes_answer_archived);
}

// The last word of the route is the verb.
fallible api_boxes_step(struct http *x)
{
	const char *verb = strrchr(x->route->pattern, '/') + 1;
	const struct record *record;

	TRY(check_key(x));
	TRY(pause_request(gateway_of(x)->manager, gateway_who(x), x->params[0], verb, &record));
	return answer_record(x, 200, record);
}

// Reads every `label=name=value` of the query. *out_none: two values for one name, so no box
// matches.
static fallible boxes_read_labels(struct http *x, struct env_map *out, bool *out_none)
{
	struct str rest = x->url.query, key, raw;

	while (rest.len && url_pair(&rest, &key, &raw)) {
		auto_buf text = BUF_INIT(1024);
		auto_free char *query = NULL;
		struct str value, name;
		const char *other;

		if (!str_is(key, "label"))
			continue;
		query = mem_fmt("v=" STR_FMT, STR_ARG(raw));
		if (!url_query(str_of(query), "v", &text))
			return err_new(INVALID, "bad_field", "'label' is malformed");
		value = buf_view(&text);
		if (!str_cut(&value, '=', &name) || !value.at || !env_map_is_label(name))
			return err_new(INVALID, "bad_field", "'label' must be name=value");
		if (out->count >= ENV_MAP_LABELS_MAX)
			return err_new(INVALID, "bad_field", "there are too many labels");
		other = env_map_get(out, name);
		*out_none |= other && !str_is(value, other);
		env_map_set(out, name, value);
	}
	return OK;
}

// Cursors are encrypted: plain sequence numbers would show how many sandboxes others have made. A
// Feistel network of four rounds over 64 bits; the upper 16 are zero, which authenticates our own
// cursors.
#define CURSOR_ROUNDS 4

static uint32_t cursor_mix(const uint8_t key[SECRET_HASH], int round, uint32_t half)
{
	uint8_t text[] = {'c', 'u', 'r', 's', 'o', 'r', (uint8_t)round, 0, 0, 0, 0};
	uint8_t mac[SECRET_HASH];
	uint32_t out;

	memcpy(text + 7, &half, sizeof(half));
	secret_hmac(key, text, sizeof(text), mac);
	memcpy(&out, mac, sizeof(out));
	return out;
}

static uint64_t cursor_seal(const uint8_t key[SECRET_HASH], uint64_t seq)
{
	uint32_t left = (uint32_t)(seq >> 32), right = (uint32_t)seq;

	for (int i = 0; i < CURSOR_ROUNDS; i++) {
		uint32_t next = left ^ cursor_mix(key, i, right);

		left = right;
		right = next;
	}
	return (uint64_t)left << 32 | right;
}

static bool cursor_open(const uint8_t key[SECRET_HASH], struct str text, uint64_t *out)
{
	uint32_t left, right;
	uint64_t sealed = 0;

	if (!str_to_u64(text, 0, UINT64_MAX, &sealed))
		return false;
	left = (uint32_t)(sealed >> 32);
	right = (uint32_t)sealed;
	for (int i = CURSOR_ROUNDS - 1; i >= 0; i--) {
		uint32_t last = right ^ cursor_mix(key, i, left);

		right = left;
		left = last;
	}
	*out = (uint64_t)left << 32 | right;
	return left >> 16 == 0 && *out;
}

struct page {
	bool summary; // a row of a table for each sandbox
	const struct record **records;
	const struct order_usage *usage; // of each box; NULL: not requested
	size_t count;
	uint64_t last; // 0: no more pages
};

static void put_known(struct json_out *out, const char *key, uint64_t value)
{
	json_key(out, key);
	if (value == COUNTER_UNKNOWN)
		json_add_null(out);
	else
		json_add_int(out, (int64_t)value);
}

static void boxes_put_sample(struct json_out *out, const struct sample *sample, unsigned fields)
{
	if (fields & LIVE_FIELD_CPU) {
		json_key(out, "cpu");
		json_add_double(out,
				sample && sample->cores >= 0
					? (double)(int64_t)(sample->cores * 10000 + 0.5) / 10000
					: NAN);
	}
	if (fields & LIVE_FIELD_MEMORY)
		put_known(out, "memory",
			  sample ? sample->counters.memory_working : COUNTER_UNKNOWN);
	if (fields & LIVE_FIELD_PIDS)
		put_known(out, "pids", sample ? sample->counters.pids : COUNTER_UNKNOWN);
	if (fields & LIVE_FIELD_DISK)
		put_known(out, "disk", sample ? sample->disk : COUNTER_UNKNOWN);
	if (fields & LIVE_FIELD_REQUESTS)
		put_known(out, "requests", sample ? sample->network.requests : COUNTER_UNKNOWN);
}

void box_put_row(struct json_out *out, struct entry *entry, unsigned fields)
{
	const struct record *record = &entry->record;
	const struct {
		unsigned field;
		const char *key, *text;
	} texts[] = {
		{LIVE_FIELD_SHORT_ID, "shortId", record->short_id},
		{LIVE_FIELD_NAME, "name", record->name[0] ? record->name : NULL},
		{LIVE_FIELD_STATE, "state", state_word(record->state)},
		{LIVE_FIELD_REASON, "reason", record->reason[0] ? record->reason : NULL},
		{LIVE_FIELD_TENANT, "tenant", record->tenant[0] ? record->tenant : NULL},
		{LIVE_FIELD_TEMPLATE, "template", record_template(record)},
	};

	json_put_text(out, "id", record->id);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (fields & texts[i].field)
			json_put_text(out, texts[i].key, texts[i].text);
	if (fields & LIVE_FIELD_LABELS) {
		json_key(out, "labels");
		env_map_write(out, &record->labels);
	}
	if (fields & LIVE_FIELD_CREATED)
		json_put_time(out, "createdAt", record->created_ms);
	boxes_put_sample(out, sampler_last(entry), fields);
	if (fields & LIVE_FIELD_LIMITS) {
		json_put_begin(out, "limits", '{');
		json_put_int(out, "memory", (int64_t)record->limits.memory);
		json_key(out, "cpu");
		json_add_double(out, (double)record->limits.cpu_milli / 1000);
		json_end(out, '}');
	}
}

static void write_page(const struct gateway *gateway, struct buf *body, const struct page *page)
{
	uint64_t last = page->last;
	struct json_out out = json_to(body);
	char cursor[32];

	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < page->count; i++) {
		json_begin(&out, '{');
		if (page->summary)
			box_put_row(&out, link_of(page->records[i], struct entry, record),
				    LIVE_FIELDS_ALL);
		else
			record_put(&out, page->records[i]);
		if (page->usage)
			usage_put(&out, &page->usage[i]);
		json_end(&out, '}');
		if (body->len > PAGE_BYTES && i + 1 < page->count) {
			last = page->records[i]->seq;
			break;
		}
	}
	json_end(&out, ']');
	snprintf(cursor, sizeof(cursor), "%llu",
		 (unsigned long long)cursor_seal(gateway->path_token_key, last));
	json_put_text(&out, "cursor", last ? cursor : NULL);
	json_end(&out, '}');
}

// Reads the usage of each sandbox of the page. This waits, and some may be deleted meanwhile: the
// others are looked up again.
static void ask_usages(struct http *x, struct page *page)
{
	struct manager *manager = gateway_of(x)->manager;
	struct order_usage *usage = arena_take(x->arena, (page->count + 1) * sizeof(*usage));
	const char **ids = arena_take(x->arena, (page->count + 1) * sizeof(*ids));
	size_t kept = 0;

	for (size_t i = 0; i < page->count; i++)
		ids[i] = arena_fmt(x->arena, "%s", page->records[i]->id);
	for (size_t i = 0; i < page->count; i++)
		usage_ask(manager, ids[i], &usage[i]);
	for (size_t i = 0; i < page->count; i++) {
		auto_err gone = manager_get(manager, gateway_who(x), str_of(ids[i]),
					    &page->records[kept]);

		if (!gone)
			usage[kept++] = usage[i];
	}
	page->count = kept;
	page->usage = usage;
}

fallible api_boxes_list(struct http *x)
{
	struct str limit = http_query(x, "limit"), cursor = http_query(x, "cursor");
	struct str view = http_query(x, "view");
	uint64_t max = PAGE_DEFAULT, after = 0;
	auto_buf body = BUF_INIT(REPLY_MAX);
	auto_pairs labels = {0};
	bool none = false, with_usage = false;
	struct page page = {0};

	if (limit.at && !str_to_u64(limit, 1, PAGE_MAX, &max))
		return err_new(INVALID, "bad_field", "'limit' must be within 1 and %d", PAGE_MAX);
	if (cursor.at && !cursor_open(gateway_of(x)->path_token_key, cursor, &after))
		return err_hint(err_new(INVALID, "bad_cursor", "this is not a cursor"),
				"send the 'cursor' of the page before, or none");
	TRY(gateway_flag(x, "usage", &with_usage));
	if (view.at && !str_is(view, "summary"))
		return err_new(INVALID, "bad_field", "'view' must be summary");
	page.summary = view.at != NULL;
	TRY(boxes_read_labels(x, &labels, &none));
	if (page.summary)
		sampler_catch_up(gateway_of(x)->manager, SUMMARY_AGE_MS);
	page.records = arena_take(x->arena, max * sizeof(void *));
	TRY(manager_page(gateway_of(x)->manager, gateway_who(x), &labels, after, max, page.records,
			 &page.count, &page.last));
	if (none)
		page = (struct page){.summary = page.summary};
	if (with_usage)
		ask_usages(x, &page);
	write_page(gateway_of(x), &body, &page);
	return http_reply_json(x, 200, &body);
}
