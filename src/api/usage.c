// What was used in a period: sums of whole hours by a key, with their cost. What sandboxes have
// used until now is read and written first, so that the sums are those of the kernel's counters.
#include "store/usage.h"

#include <string.h>

#include "api/handlers.h"
#include "base/clock.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "manager/sampler.h"

#define REPLY_MAX (64u << 20)
#define DAYS_DEFAULT 30
#define DAY_MS (24ll * USAGE_HOUR_MS)
#define ITEMS_MAX 1000
#define FRESH_MS 200
#define CURSOR '=' // before the key

struct usage_asked {
	struct usage_query query;
	bool csv;
};

static fallible usage_read_time(struct http *x, const char *name, int64_t *out)
{
	struct str text = http_query(x, name);
	uint64_t ms;

	if (!text.at)
		return OK;
	if (str_to_u64(text, 0, INT64_MAX / 2, &ms))
		*out = (int64_t)ms;
	else if (!text_read_time(text, out) || *out < 0)
		return err_hint(err_new(INVALID, "bad_field", "'%s' is no time", name),
				"write 2027-01-31T08:00:00Z, or milliseconds since 1970");
	return OK;
}

static fallible usage_read_by(struct http *x, struct usage_query *out)
{
	static const char *const words[] = {
#define X(name, word) word,
		USAGE_BY(X)
#undef X
	};
	struct str by = http_query(x, "by"), word, rest = by;

	out->by = USAGE_BY_SANDBOX;
	if (!by.at)
		return OK;
	str_cut(&rest, ':', &word);
	for (enum usage_by i = 0; i < USAGE_BYS; i++) {
		if (!str_is(word, words[i]) || (i == USAGE_BY_LABEL) != (rest.len > 0))
			continue;
		out->by = i;
		out->label = rest.at ? arena_dup(x->arena, rest.at, rest.len) : NULL;
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_field", "'by' is unknown"),
			"tenant, sandbox, type, owner, execution, agentSession, label:KEY or day");
}

static fallible usage_read(struct http *x, struct usage_asked *out)
{
	const struct who *who = gateway_who(x);
	struct usage_query *query = &out->query;
	struct str format = http_query(x, "format"), cursor = http_query(x, "cursor");
	struct str limit = http_query(x, "limit"), tenant = http_query(x, "tenant");
	uint64_t max = ITEMS_MAX;

	*query = (struct usage_query){.to_ms = clock_steady_ms()};
	TRY(usage_read_time(x, "to", &query->to_ms));
	query->from_ms = query->to_ms - DAYS_DEFAULT * DAY_MS;
	if (query->from_ms < 0)
		query->from_ms = 0;
	TRY(usage_read_time(x, "from", &query->from_ms));
	if (query->from_ms > query->to_ms)
		return err_new(INVALID, "bad_field", "'from' is after 'to'");
	TRY(usage_read_by(x, query));
	if (limit.at && !str_to_u64(limit, 1, ITEMS_MAX, &max))
		return err_new(INVALID, "bad_field", "'limit' must be a number from 1 to %d",
			       ITEMS_MAX);
	query->max = max;
	if (cursor.at && (!cursor.len || cursor.at[0] != CURSOR))
		return err_new(INVALID, "bad_field", "'cursor' must be one of an earlier reply");
	if (cursor.at)
		query->after = arena_dup(x->arena, cursor.at + 1, cursor.len - 1);
	out->csv = str_is(format, "csv");
	if (format.at && !out->csv && !str_is(format, "json"))
		return err_new(INVALID, "bad_field", "'format' must be json or csv");
	if (who->role != WHO_OPERATOR)
		query->tenant = who->tenant;
	else if (tenant.at)
		query->tenant = arena_dup(x->arena, tenant.at, tenant.len);
	query->sandbox = who->box[0] ? who->box : NULL;
	return OK;
}

// "2027-01-31" for a day, else the key itself; NULL: none.
static const char *usage_key(struct http *x, const struct usage_query *query,
			     const struct store_usage_item *item)
{
	auto_buf day = BUF_INIT(64);
	uint64_t number;

	if (!*item->key)
		return NULL;
	if (query->by != USAGE_BY_DAY || !str_to_u64(str_of(item->key), 0, UINT32_MAX, &number))
		return item->key;
	clock_iso((int64_t)number * DAY_MS, &day);
	return arena_dup(x->arena, day.at, strlen("2027-01-31"));
}

#define KIB_OF_GIB 1048576.0
#define US 1000000.0

static void usage_put_amounts(struct json_out *out, const struct store_usage_item *item,
			      const struct prices *prices)
{
	const struct usage *used = &item->used;
	char cost[USAGE_COST_ROOM];

	usage_cost_text(usage_cost(used, prices), cost);
	json_key(out, "cpuSeconds");
	json_add_double(out, (double)used->cpu_us / US);
	json_key(out, "memoryGiBSeconds");
	json_add_double(out, (double)used->memory_kib_s / KIB_OF_GIB);
	json_key(out, "diskGiBHours");
	json_add_double(out, (double)used->disk_kib_s / KIB_OF_GIB / 3600);
	json_put_int(out, "requests", (int64_t)used->requests);
	json_put_int(out, "bytesIn", (int64_t)used->bytes_in);
	json_put_int(out, "bytesOut", (int64_t)used->bytes_out);
	json_put_int(out, "sandboxes", (int64_t)item->sandboxes);
	json_put_int(out, "executions", (int64_t)item->executions);
	json_put_text(out, "cost", cost);
}

static void usage_put_prices(struct json_out *out, const struct prices *prices)
{
	char text[PRICE_ROOM];

	json_put_begin(out, "prices", '{');
#define X(field, key)                                                                              \
	price_text(prices->field, text);                                                           \
	json_put_text(out, key, text);
	USAGE_PRICES(X)
#undef X
	json_end(out, '}');
}

static fallible usage_answer_json(struct http *x, const struct usage_asked *asked,
				  const struct store_usage_page *page,
				  const struct store_usage_item *total)
{
	const struct prices *prices = &gateway_of(x)->manager->prices;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	const char *last = NULL;

	json_begin(&out, '{');
	json_put_time(&out, "from", asked->query.from_ms);
	json_put_time(&out, "to", asked->query.to_ms);
	json_put_text(&out, "currency", prices->currency[0] ? prices->currency : NULL);
	usage_put_prices(&out, prices);
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < page->count; i++) {
		json_begin(&out, '{');
		json_put_text(&out, "key", usage_key(x, &asked->query, &page->at[i]));
		usage_put_amounts(&out, &page->at[i], prices);
		json_end(&out, '}');
	}
	json_end(&out, ']');
	json_put_begin(&out, "total", '{');
	usage_put_amounts(&out, total, prices);
	json_end(&out, '}');
	if (page->count == asked->query.max)
		last = arena_fmt(x->arena, "%c%s", CURSOR, page->at[page->count - 1].key);
	json_put_text(&out, "cursor", last);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// A cell of CSV. One that a spreadsheet would take for a formula gets an apostrophe.
static void usage_put_cell(struct buf *out, const char *text)
{
	buf_char(out, '"');
	if (*text && strchr("=+-@\t\r", *text))
		buf_char(out, '\'');
	for (; *text; text++) {
		if (*text == '"')
			buf_char(out, '"');
		buf_char(out, *text);
	}
	buf_char(out, '"');
}

static fallible usage_answer_csv(struct http *x, const struct usage_asked *asked,
				 const struct store_usage_page *page)
{
	auto_buf body = BUF_INIT(REPLY_MAX);

	buf_text(&body, "key,cpuSeconds,memoryGiBSeconds,diskGiBHours,requests,bytesIn,bytesOut,"
			"sandboxes,executions,cost\r\n");
	for (size_t i = 0; i < page->count; i++) {
		const struct store_usage_item *item = &page->at[i];
		const char *key = usage_key(x, &asked->query, item);
		const struct usage *used = &item->used;
		char cost[USAGE_COST_ROOM];

		usage_cost_text(usage_cost(used, &gateway_of(x)->manager->prices), cost);
		usage_put_cell(&body, key ? key : "");
		buf_fmt(&body, ",%.6f,%.6f,%.9f,%llu,%llu,%llu,%llu,%llu,%s\r\n",
			(double)used->cpu_us / US, (double)used->memory_kib_s / KIB_OF_GIB,
			(double)used->disk_kib_s / KIB_OF_GIB / 3600,
			(unsigned long long)used->requests, (unsigned long long)used->bytes_in,
			(unsigned long long)used->bytes_out, (unsigned long long)item->sandboxes,
			(unsigned long long)item->executions, cost);
	}
	if (!buf_ok(&body))
		return err_new(INTERNAL, "internal", "the reply did not fit");
	return http_reply(x, 200, "text/csv; charset=utf-8", buf_view(&body));
}

fallible api_usage(struct http *x)
{
	struct manager *manager = gateway_of(x)->manager;
	struct store_usage_page page;
	struct store_usage_item total;
	struct usage_asked asked;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	if (!manager->store)
		return err_new(UNAVAILABLE, "state_unwritable", "the state cannot be read");
	TRY(usage_read(x, &asked));
	sampler_catch_up(manager, FRESH_MS);
	sampler_settle_all(manager);
	err_free(store_flush(manager->store)); // else the sums end where the last write did
	TRY(store_usage_items(manager->store, &asked.query, x->arena, &page));
	if (asked.csv)
		return usage_answer_csv(x, &asked, &page);
	TRY(store_usage_total(manager->store, &asked.query, &total));
	return usage_answer_json(x, &asked, &page, &total);
}
