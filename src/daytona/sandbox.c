// Sandboxes: create, look up, list, delete, start, stop, labels and intervals. Each call answers
// with the final state, so that the SDK never polls. Lists are the newest first; a cursor is the
// time and id of the last item. Filters that cove cannot apply are refused, never ignored.
#include <stdio.h>

#include "base/mem.h"
#include "base/secret.h"
#include "daytona/create.h"
#include "daytona/dockerfile.h"
#include "daytona/handlers.h"
#include "daytona/sandbox_json.h"
#include "gateway/gateway.h"
#include "manager/archives.h"
#include "types/preview_token.h"

#define REPLY_MAX (64 << 20)
#define PAGE_MAX 200
#define PAGE_DEFAULT 100
#define BATCH 256
#define CHANGE_MAX (1 << 20)
#define RESIZE_MAX 1e6 // GB, CPUs

static fallible sandbox_answer(struct http *x, const struct record *record, const char *state)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	sandbox_json_put(x, &out, record, state, true);
	return http_reply_json(x, 200, &body);
}

static fallible sandbox_find(struct http *x, const struct record **out)
{
	return manager_get(gateway_of(x)->manager, gateway_who(x), x->params[0], out);
}

static fallible sandbox_id(struct http *x, struct str *out)
{
	const struct record *record;

	TRY(sandbox_find(x, &record));
	*out = str_of(arena_fmt(x->arena, "%s", record->id));
	return OK;
}

// Daytona answers a wrong snapshot and a quota with 400.
static fallible sandbox_explain(struct err *err, struct str snapshot)
{
	auto_free char *words = mem_str(err_message(err));

	if (!strcmp(err_reason(err), "no_template") && snapshot.len)
		return err_recast(err, ERR_INVALID, err_reason(err),
				  "there is no snapshot '" STR_FMT "'", STR_ARG(snapshot));
	if (!strcmp(err_reason(err), "no_template") || !strcmp(err_reason(err), "quota"))
		return err_recast(err, ERR_INVALID, err_reason(err), "%s", words);
	return err;
}

fallible daytona_sandbox_create(struct http *x)
{
	struct gateway *gateway = gateway_of(x);
	const struct record *record = NULL;
	struct dockerfile_source source = {0};
	const char *template = NULL;
	struct create_grant grant;
	auto_json body = NULL;
	auto_spec spec = {0};
	struct err *err;
	bool made;

	TRY(access_create(gateway_who(x), &grant));
	TRY(gateway_object(x, &body));
	TRY(create_read(body, manager_bounds(gateway->manager), &spec));
	TRY(create_dockerfile(body, &source.text));
	TRY(create_hashes(body, &source.hashes));
	if (source.text.len && !spec.image) {
		http_be_patient(x);
		TRY(dockerfile_template(x, &source, &template));
		snprintf(spec.template, sizeof(spec.template), "%s", template);
	}
	ask_name_box(gateway->manager->ask, spec.id);
	gateway_begin(x, spec.id);
	err = create_box(gateway->manager, &grant, &spec, CREATE_NEW, &record, &made);
	if (err)
		return sandbox_explain(err, json_chars(json_get(body, "snapshot")));
	return sandbox_answer(x, record, NULL);
}

fallible daytona_sandbox_get(struct http *x)
{
	const struct record *record;

	TRY(sandbox_find(x, &record));
	return sandbox_answer(x, record, NULL);
}

fallible daytona_sandbox_toolbox_url(struct http *x)
{
	auto_buf body = BUF_INIT(4096);
	struct json_out out = json_to(&body);
	const struct record *record;

	TRY(sandbox_find(x, &record));
	json_begin(&out, '{');
	json_put_text(&out, "url", sandbox_json_toolbox(x, record));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// ------------------------------------------------------------------------------------------- lists

struct sandbox_query {
	struct env_map labels;
	struct str id, name, states, snapshots;
	bool oldest_first;
};

struct sandbox_list {
	const struct record **at; // in the arena
	size_t count;
};

static void sandbox_query_done(struct sandbox_query *query)
{
	env_map_done(&query->labels);
}

static fallible read_labels(struct http *x, struct env_map *out)
{
	struct str text = http_query(x, "labels"), name, value;
	struct json *member = NULL;
	auto_json json = NULL;

	if (!text.len)
		return OK;
	TRY(json_read(text, &json));
	TRY(json_want(json, "labels", JSON_OBJECT));
	if (json_count(json) > ENV_MAP_LABELS_MAX)
		return err_new(INVALID, "bad_field", "'labels' has more than %d pairs",
			       ENV_MAP_LABELS_MAX);
	for (size_t at = 0; json_next(json, &at, &name, &member);) {
		value = (struct str){0};
		TRY(json_str(member, "labels", &value));
		env_map_set(out, name, value.at ? value : STR(""));
	}
	return OK;
}

// A parameter that may be repeated, as one text: "\nstarted\nstopped\n". at == NULL: absent.
static fallible sandbox_read_words(struct http *x, const char *name, struct str *out)
{
	struct str rest = x->url.query, key, raw;
	auto_buf words = BUF_INIT(16 * 1024);

	while (rest.len && url_pair(&rest, &key, &raw)) {
		auto_buf word = BUF_INIT(1024);
		const char *pair;

		if (!str_is(key, name))
			continue;
		pair = arena_fmt(x->arena, "v=" STR_FMT, STR_ARG(raw));
		if (!url_query(str_of(pair), "v", &word))
			return err_new(INVALID, "bad_field", "'%s' is malformed", name);
		buf_text(&words, words.len ? "" : "\n");
		buf_str(&words, buf_view(&word));
		buf_char(&words, '\n');
	}
	if (!buf_ok(&words))
		return err_new(INVALID, "bad_field", "'%s' is too long", name);
	if (words.len)
		*out = (struct str){arena_dup(x->arena, words.at, words.len), words.len};
	return OK;
}

static bool is_among(struct str words, const char *word)
{
	struct str one;

	if (!words.at)
		return true;
	while (words.len && str_cut(&words, '\n', &one))
		if (one.len && str_is(one, word))
			return true;
	return false;
}

static fallible refuse_filters(struct http *x)
{
	static const char *const known[] = {
		"cursor", "limit", "page",	"labels", "id",	     "name",
		"states", "sort",  "snapshots", "order",  "verbose", "includeErroredDeleted",
		NULL};
	struct str rest = x->url.query, key, raw;

	while (rest.len && url_pair(&rest, &key, &raw)) {
		size_t i = 0;

		while (known[i] && !str_is(key, known[i]))
			i++;
		if (!known[i] && raw.len)
			return err_hint(err_new(NOT_OFFERED, "not_offered",
						"cove does not filter sandboxes by '%.*s'",
						(int)(key.len < 40 ? key.len : 40), key.at),
					"filter by labels, id, name, states or snapshots");
	}
	return OK;
}

static fallible sandbox_query_read(struct http *x, struct sandbox_query *out)
{
	struct str sort = http_query(x, "sort"), order = http_query(x, "order");

	TRY(refuse_filters(x));
	if (sort.len && !str_is(sort, "createdAt"))
		return err_hint(err_new(NOT_OFFERED, "not_offered",
					"cove sorts sandboxes by createdAt only"),
				"sort the items of the answer");
	if (order.len && !str_is(order, "asc") && !str_is(order, "desc"))
		return err_new(INVALID, "bad_field", "'order' must be asc or desc");
	out->oldest_first = str_is(order, "asc");
	out->id = http_query(x, "id");
	out->name = http_query(x, "name");
	TRY(sandbox_read_words(x, "states", &out->states));
	TRY(sandbox_read_words(x, "snapshots", &out->snapshots));
	return read_labels(x, &out->labels);
}

static bool is_wanted(const struct sandbox_query *query, const struct record *record)
{
	char name[FOREIGN_NAME_MAX + 2], snapshot[FOREIGN_NAME_MAX + 2];

	sandbox_json_name(record, name);
	foreign_name_read(record_template(record), id_is_template, snapshot);
	return record->state != STATE_DELETING &&
	       (!query->id.len || str_starts(str_of(record->id), query->id.at)) &&
	       (!query->name.len || str_starts(str_of(name), query->name.at)) &&
	       is_among(query->states, sandbox_json_state(record)) &&
	       is_among(query->snapshots, snapshot);
}

static int sandbox_by_age(const void *left, const void *right)
{
	const struct record *a = *(const struct record *const *)left;
	const struct record *b = *(const struct record *const *)right;

	if (a->created_ms != b->created_ms)
		return a->created_ms < b->created_ms ? 1 : -1;
	return strcmp(b->id, a->id);
}

static int sandbox_by_youth(const void *left, const void *right)
{
	return sandbox_by_age(right, left);
}

// All that match, in order. Does not wait: the records stay where they are.
static fallible sandbox_select(struct http *x, const struct sandbox_query *query,
			       struct sandbox_list *out)
{
	size_t count, room = 0;
	uint64_t last = 0;

	do {
		const struct record *batch[BATCH];

		TRY(manager_page(gateway_of(x)->manager, gateway_who(x), &query->labels, last,
				 BATCH, batch, &count, &last));
		if (out->count + count > room) {
			const struct record **more;

			room = 2 * (out->count + count);
			more = arena_take(x->arena, room * sizeof(void *));
			if (out->count)
				memcpy(more, out->at, out->count * sizeof(void *));
			out->at = more;
		}
		for (size_t i = 0; i < count; i++)
			if (is_wanted(query, batch[i]))
				out->at[out->count++] = batch[i];
	} while (last);
	if (out->count)
		qsort(out->at, out->count, sizeof(void *),
		      query->oldest_first ? sandbox_by_youth : sandbox_by_age);
	return OK;
}

// The index of the first item behind the cursor, "1700000000000-box-…".
static fallible read_cursor(struct http *x, const struct sandbox_query *query,
			    const struct sandbox_list *list, size_t *out)
{
	struct str text = http_query(x, "cursor"), time;
	struct record last = {0};
	const struct record *at = &last;
	uint64_t created = 0;

	*out = 0;
	if (!text.len)
		return OK;
	str_cut(&text, '-', &time);
	if (!str_to_u64(time, 0, INT64_MAX, &created) || !text.at || !id_is_box(text))
		return err_hint(err_new(INVALID, "bad_cursor", "this is not a cursor"),
				"send the 'nextCursor' of the page before, or none");
	last.created_ms = (int64_t)created;
	memcpy(last.id, text.at, text.len);
	while (*out < list->count &&
	       (query->oldest_first ? sandbox_by_youth : sandbox_by_age)(&list->at[*out], &at) <= 0)
		(*out)++;
	return OK;
}

static fallible sandbox_read_limit(struct http *x, const char *key, uint64_t max, uint64_t *out)
{
	struct str text = http_query(x, key);

	if (text.at && !str_to_u64(text, 1, max, out))
		return err_new(INVALID, "bad_field", "'%s' must be within 1 and %llu", key,
			       (unsigned long long)max);
	return OK;
}

static void put_items(struct http *x, struct json_out *out, const struct sandbox_list *list,
		      size_t from, size_t until, bool whole)
{
	json_put_begin(out, "items", '[');
	for (size_t i = from; i < until; i++)
		sandbox_json_put(x, out, list->at[i], NULL, whole);
	json_end(out, ']');
}

fallible daytona_sandbox_list(struct http *x)
{
	on_exit_call(sandbox_query_done) struct sandbox_query query = {0};
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct sandbox_list list = {0};
	uint64_t limit = PAGE_DEFAULT;
	const char *cursor = NULL;
	size_t from, until;

	TRY(sandbox_read_limit(x, "limit", PAGE_MAX, &limit));
	TRY(sandbox_query_read(x, &query));
	TRY(sandbox_select(x, &query, &list));
	TRY(read_cursor(x, &query, &list, &from));
	until = list.count - from > limit ? from + limit : list.count;
	if (until < list.count)
		cursor = arena_fmt(x->arena, "%lld-%s", (long long)list.at[until - 1]->created_ms,
				   list.at[until - 1]->id);
	json_begin(&out, '{');
	put_items(x, &out, &list, from, until, false);
	json_put_text(&out, "nextCursor", cursor);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_sandbox_list_pages(struct http *x)
{
	on_exit_call(sandbox_query_done) struct sandbox_query query = {0};
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	uint64_t limit = PAGE_DEFAULT, page = 1;
	struct sandbox_list list = {0};
	size_t from, until;

	TRY(sandbox_read_limit(x, "limit", PAGE_MAX, &limit));
	TRY(sandbox_read_limit(x, "page", UINT32_MAX, &page));
	TRY(sandbox_query_read(x, &query));
	TRY(sandbox_select(x, &query, &list));
	from = (page - 1) * limit < list.count ? (page - 1) * limit : list.count;
	until = list.count - from > limit ? from + limit : list.count;
	json_begin(&out, '{');
	put_items(x, &out, &list, from, until, true);
	json_put_int(&out, "total", (int64_t)list.count);
	json_put_int(&out, "page", (int64_t)page);
	json_put_int(&out, "totalPages", (int64_t)((list.count + limit - 1) / limit));
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// ----------------------------------------------------------------------------------------- changes

// The answer is written before the end: there is no record afterwards.
static fallible sandbox_end(struct http *x, const struct record *record)
{
	struct str id = str_of(arena_fmt(x->arena, "%s", record->id));
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);

	sandbox_json_put(x, &out, record, "destroyed", true);
	TRY(life_delete(gateway_of(x)->manager, gateway_who(x), id, LIFE_WAITS | LIFE_FORCED));
	return http_reply_json(x, 200, &body);
}

fallible daytona_sandbox_delete(struct http *x)
{
	const struct record *record;

	TRY(sandbox_find(x, &record));
	return sandbox_end(x, record);
}

static bool ends_when_stopped(const struct record *record)
{
	const char *text = env_map_get(&record->labels, STR(ENV_MAP_AUTO_DELETE));

	return record->ephemeral || (text && !strcmp(text, "0") && !record->unsynced_ms);
}

// A start changes the token of previews. The change is written first: a start that fails leaves a
// sandbox that has no visitors.
static fallible sandbox_turn_token(struct http *x, const struct record *record)
{
	struct manager *manager = gateway_of(x)->manager;
	struct str id = str_of(arena_fmt(x->arena, "%s", record->id));
	char turn[17];

	if (!state_is_stopped(record->state))
		return OK;
	secret_hex(turn, 8);
	TRY(change_own_label(manager, gateway_who(x), id, PREVIEW_TOKEN_TURN, turn, &record));
	return change_own_label(manager, gateway_who(x), id, PREVIEW_TOKEN_VOID, NULL, &record);
}

fallible daytona_sandbox_start(struct http *x)
{
	const struct record *record;
	bool paused;

	TRY(sandbox_find(x, &record));
	paused = record->state == STATE_PAUSED;
	TRY(sandbox_turn_token(x, record));
	TRY(pause_request(gateway_of(x)->manager, gateway_who(x), x->params[0],
			  paused ? "resume" : "start", &record));
	return sandbox_answer(x, record, NULL);
}

fallible daytona_sandbox_pause(struct http *x)
{
	const struct record *record;

	TRY(pause_request(gateway_of(x)->manager, gateway_who(x), x->params[0], "pause", &record));
	return sandbox_answer(x, record, NULL);
}

fallible daytona_sandbox_stop(struct http *x)
{
	const struct record *record;

	TRY(sandbox_find(x, &record));
	if (record->state == STATE_STOPPED || record->state == STATE_FAILED)
		return err_new(INVALID, "not_running", "the sandbox is not started");
	if (ends_when_stopped(record))
		return sandbox_end(x, record);
	TRY(pause_request(gateway_of(x)->manager, gateway_who(x), x->params[0], "stop", &record));
	return sandbox_answer(x, record, NULL);
}

// Returns while the files are packed: clients read the sandbox until its state is archived.
fallible daytona_sandbox_archive(struct http *x)
{
	struct operation *operation;
	const struct record *record;

	TRY(sandbox_find(x, &record));
	if (!state_is_stopped(record->state))
		return err_new(INVALID, "not_stopped", "the sandbox is not stopped");
	if (ends_when_stopped(record))
		return err_new(INVALID, "bad_field",
			       "a sandbox that ends when it is stopped is not archived");
	if (record->state == STATE_STOPPED) {
		TRY(archives_begin(gateway_of(x)->manager, gateway_who(x), x->params[0],
				   &operation));
		operation_drop(operation);
		TRY(sandbox_find(x, &record)); // the operation was written meanwhile
	}
	return sandbox_answer(x, record, NULL);
}

static fallible sandbox_change(struct http *x, const struct buf *text, const struct record **out)
{
	auto_json json = NULL;

	if (!buf_ok(text))
		return err_new(TOO_LARGE, "body_too_large", "the change is too large");
	TRY(json_read(buf_view(text), &json));
	return change_box(gateway_of(x)->manager, gateway_who(x), x->params[0], json, out);
}

// Replaces the whole set: what the body does not name is removed.
fallible daytona_sandbox_labels(struct http *x)
{
	auto_buf text = BUF_INIT(CHANGE_MAX);
	struct json_out out = json_to(&text);
	const struct record *record;
	struct json *value = NULL, *labels;
	auto_json body = NULL;
	struct str name;

	TRY(gateway_object(x, &body));
	labels = json_get(body, "labels");
	if (!labels)
		return err_new(INVALID, "bad_field", "'labels' is missing");
	TRY(json_want(labels, "labels", JSON_OBJECT));
	TRY(sandbox_find(x, &record));
	json_begin(&out, '{');
	json_put_begin(&out, "labels", '{');
	for (size_t at = 0; json_next(labels, &at, &name, &value);) {
		json_key(&out, arena_dup(x->arena, name.at, name.len));
		json_add_value(&out, value);
	}
	for (size_t i = 0; i < record->labels.count; i++) {
		const char *old = record->labels.at[i].name;

		if (!str_starts(str_of(old), ENV_MAP_RESERVED) && !json_get(labels, old))
			json_put_text(&out, old, NULL);
	}
	json_end(&out, '}');
	json_end(&out, '}');
	TRY(sandbox_change(x, &text, &record));
	return sandbox_answer(x, record, NULL);
}

fallible daytona_sandbox_activity(struct http *x)
{
	auto_buf text = BUF_INIT(16);
	const struct record *record;

	buf_text(&text, "{}");
	TRY(sandbox_change(x, &text, &record));
	return http_reply_empty(x, 201);
}

static fallible set_times(struct http *x, uint64_t minutes, const struct record **out)
{
	auto_buf text = BUF_INIT(256);
	struct json_out json = json_to(&text);

	json_begin(&json, '{');
	if (strstr(x->route->pattern, "/autoarchive/")) {
		json_put_int(&json, "archiveAfter", (int64_t)create_archive_after_s(minutes));
	} else {
		json_put_bool(&json, "keepAlive", minutes == 0);
		if (minutes)
			json_put_int(&json, "sleepAfter", (int64_t)minutes * 60);
	}
	json_end(&json, '}');
	return sandbox_change(x, &text, out);
}

// autostop, autoarchive, autodelete: the word of the route before {minutes}.
fallible daytona_sandbox_interval(struct http *x)
{
	bool deletes = strstr(x->route->pattern, "/autodelete/");
	bool off = deletes && str_starts(x->params[1], "-");
	struct str text = off ? str_skip(x->params[1], 1) : x->params[1], id;
	const struct record *record = NULL;
	uint64_t minutes;

	if (!str_to_u64(text, 0, CREATE_MINUTES_MAX, &minutes))
		return err_new(INVALID, "bad_field",
			       "the interval must be within %d and %d minutes", deletes ? -1 : 0,
			       CREATE_MINUTES_MAX);
	TRY(sandbox_id(x, &id));
	if (!deletes)
		TRY(set_times(x, minutes, &record));
	else
		TRY(change_own_label(
			gateway_of(x)->manager, gateway_who(x), id, ENV_MAP_AUTO_DELETE,
			off ? NULL : arena_fmt(x->arena, "%llu", (unsigned long long)minutes),
			&record));
	return sandbox_answer(x, record, NULL);
}

// In minutes from now. A time to live cannot be taken back.
fallible daytona_sandbox_ttl(struct http *x)
{
	auto_buf text = BUF_INIT(256);
	struct json_out json = json_to(&text);
	const struct record *record;
	uint64_t minutes;

	if (!str_to_u64(x->params[1], 0, CREATE_MINUTES_MAX, &minutes))
		return err_new(INVALID, "bad_field", "the time must be within 0 and %d minutes",
			       CREATE_MINUTES_MAX);
	TRY(sandbox_find(x, &record));
	if (!minutes && record->ends_ms)
		return err_hint(err_new(NOT_OFFERED, "not_offered",
					"a time to live is changed, not removed"),
				"set a longer one: %d minutes at most", CREATE_MINUTES_MAX);
	if (!minutes)
		return sandbox_answer(x, record, NULL);
	json_begin(&json, '{');
	json_put_int(&json, "ttl", (int64_t)minutes * 60);
	json_end(&json, '}');
	TRY(sandbox_change(x, &text, &record));
	return sandbox_answer(x, record, NULL);
}

// Writes {"limits": {…}}. Daytona's disks grow only, and a resize changes something.
static fallible resize_write(const struct json *body, const struct limits *now, struct buf *text)
{
	static const struct {
		const char *key, *name;
		double scale; // of the stored number to the client's
		size_t at;
		bool grows;
	} rows[] = {
		{"cpu", "cpus", 1000, LIMIT_CPUS, false},
		{"memory", "memoryMB", 1 << 30, LIMIT_MEMORY, false},
		{"disk", "diskMB", 1 << 30, LIMIT_DISK, true},
	};
	struct json_out out = json_to(text);
	bool changes = false;

	json_begin(&out, '{');
	json_put_begin(&out, "limits", '{');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		double was = (double)limit_of(now, (enum limit)rows[i].at) / rows[i].scale;
		double value = 0;

		TRY(json_double(json_get(body, rows[i].key), rows[i].key, 0, RESIZE_MAX, &value));
		if (!(value > 0) || (value <= was && value >= was))
			continue;
		if (rows[i].grows && value < was)
			return err_new(INVALID, "bad_field", "'%s' can only grow", rows[i].key);
		changes = true;
		json_key(&out, rows[i].name);
		if (rows[i].at == LIMIT_CPUS)
			json_add_double(&out, value);
		else
			json_add_int(&out, (int64_t)(value * 1024));
	}
	json_end(&out, '}');
	json_end(&out, '}');
	return changes ? OK
		       : err_new(INVALID, "bad_field",
				 "'cpu', 'memory' or 'disk' must be another than now");
}

fallible daytona_sandbox_resize(struct http *x)
{
	auto_buf text = BUF_INIT(1024);
	const struct record *record;
	auto_json body = NULL;

	TRY(gateway_object(x, &body));
	if (create_is_asked(json_get(body, "gpu")) || create_is_asked(json_get(body, "gpuType")))
		return err_new(INVALID, "bad_field", "the GPU of a sandbox cannot be changed");
	TRY(sandbox_find(x, &record));
	TRY(resize_write(body, &record->limits, &text));
	TRY(sandbox_change(x, &text, &record));
	return sandbox_answer(x, record, NULL);
}

// A failed sandbox whose files are there starts again with them.
fallible daytona_sandbox_recover(struct http *x)
{
	const struct record *record;

	TRY(sandbox_find(x, &record));
	if (record->state != STATE_FAILED || !record->disk_kept)
		return err_new(INVALID, "not_recoverable", "the sandbox is not to be recovered");
	return daytona_sandbox_start(x);
}
