// Both forms are read from the store, by the number of the last row that the reader has: a slow one
// is behind, and nobody waits for it. A stream ends with its sandbox.
#include "api/egress.h"

#include <stdio.h>

#include "api/events.h"
#include "base/clock.h"
#include "codec/sse.h"
#include "egress/egress.h"
#include "egress/subscribers.h"
#include "gateway/gateway.h"
#include "manager/access.h"
#include "store/egress.h"
#include "types/event.h"

#define REPLY_MAX (64u << 20)
#define BATCH 200
#define ROW_MAX 8192

struct filter {
	struct event_place place;
	enum { FILTER_ALL, FILTER_ALLOWED, FILTER_DENIED } verdict;
	const char *box; // as it is spelled in hints
};

static fallible api_egress_read_filter(struct http *x, const struct entry *entry,
				       struct filter *out)
{
	struct str after = http_query(x, "after"), verdict = http_query(x, "verdict");

	*out = (struct filter){.box = entry->record.id};
	if (!after.at)
		after = http_query(x, "cursor");
	if (str_is(verdict, "allow") || str_is(verdict, "allowed"))
		out->verdict = FILTER_ALLOWED;
	else if (str_is(verdict, "deny") || str_is(verdict, "denied"))
		out->verdict = FILTER_DENIED;
	else if (verdict.at)
		return err_new(INVALID, "bad_field", "'verdict' must be allow or deny");
	return event_read_place(after, http_field(x, "Last-Event-ID"), http_query(x, "limit"),
				&out->place);
}

static bool is_wanted(const struct filter *wish, const struct store_egress_row *row)
{
	return wish->verdict == FILTER_ALL || row->allowed == (wish->verdict == FILTER_ALLOWED);
}

static void put_known(struct json_out *out, const char *key, const char *text)
{
	json_put_text(out, key, *text ? text : NULL);
}

static void api_egress_write_row(struct json_out *out, const struct filter *wish,
				 const struct store_egress_row *row)
{
	auto_buf hint = BUF_INIT(ROW_MAX);

	json_begin(out, '{');
	json_put_int(out, "id", (int64_t)row->id);
	json_put_time(out, "time", row->time_ms);
	put_known(out, "name", row->name);
	put_known(out, "address", row->address);
	json_put_int(out, "port", row->port);
	json_put_text(out, "verdict", row->allowed ? "allow" : "deny");
	put_known(out, "rule", row->rule);
	put_known(out, "reason", row->reason);
	json_put_int(out, "requests", (int64_t)row->requests);
	json_put_int(out, "bytesOut", (int64_t)row->bytes_out);
	json_put_int(out, "bytesIn", (int64_t)row->bytes_in);
	json_put_int(out, "durationMs", row->duration_ms);
	if (!row->allowed)
		policy_hint(&hint, wish->box, row->name, row->port, row->reason);
	if (hint.len)
		json_put_str(out, "hint", buf_view(&hint));
	json_end(out, '}');
}

// Of a sandbox whose way is open, with what passes right now.
static struct egress_counts api_egress_count(const struct entry *entry,
					     const struct store_egress_sums *sums)
{
	if (entry->egress)
		return egress_box_counts(entry->egress);
	return (struct egress_counts){.connections = sums->connections,
				      .requests = sums->requests,
				      .bytes_out = sums->bytes_out,
				      .bytes_in = sums->bytes_in,
				      .denied = sums->denied,
				      .opaque = sums->opaque};
}

static void write_totals(struct json_out *out, const struct egress_counts *counts)
{
	json_key(out, "totals");
	json_begin(out, '{');
	json_put_int(out, "connections", (int64_t)counts->connections);
	json_put_int(out, "requests", (int64_t)counts->requests);
	json_put_int(out, "bytesOut", (int64_t)counts->bytes_out);
	json_put_int(out, "bytesIn", (int64_t)counts->bytes_in);
	json_put_int(out, "denied", (int64_t)counts->denied);
	json_put_int(out, "open", counts->open);
	json_put_text(out, "counted", counts->opaque ? "connections" : "requests");
	json_end(out, '}');
}

// Up to `limit` rows that are wanted, in batches. Moves wish->place. *out_more: there may be
// others.
static fallible write_rows(struct http *x, struct filter *wish, struct json_out *out,
			   bool *out_more, bool *out_missed, struct store_egress_sums *out_sums)
{
	struct event_place *place = &wish->place;
	uint64_t found = 0;

	*out_more = true;
	while (*out_more && found < place->limit) {
		auto_arena arena = arena_new();
		struct store_egress_page page;
		size_t i;

		TRY(store_egress_page(gateway_of(x)->manager->store, wish->box, place->after, BATCH,
				      arena, &page));
		*out_missed |= page.count && page.at[0].id > place->after + 1;
		for (i = 0; i < page.count && found < place->limit; i++) {
			place->after = page.at[i].id;
			if (!is_wanted(wish, &page.at[i]))
				continue;
			api_egress_write_row(out, wish, &page.at[i]);
			found++;
		}
		*out_more = page.count == BATCH || i < page.count;
		*out_sums = page.sums;
	}
	return OK;
}

static fallible api_egress_reply_page(struct http *x, const struct entry *entry,
				      struct filter *wish)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct store_egress_sums sums = {0};
	struct egress_counts counts;
	bool more = false, missed = false;
	char last[24];

	json_begin(&out, '{');
	json_key(&out, "items");
	json_begin(&out, '[');
	TRY(write_rows(x, wish, &out, &more, &missed, &sums));
	json_end(&out, ']');
	counts = api_egress_count(entry, &sums);
	write_totals(&out, &counts);
	snprintf(last, sizeof(last), "%llu", (unsigned long long)wish->place.after);
	json_put_text(&out, "cursor", more ? last : NULL);
	json_put_int(&out, "last", (int64_t)wish->place.after);
	json_put_bool(&out, "missed", missed);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// All that there is behind the place.
static fallible api_egress_copy(struct http *x, struct filter *wish)
{
	bool more = true;

	while (more) {
		auto_buf text = BUF_INIT(REPLY_MAX), line = BUF_INIT(2 * ROW_MAX);
		auto_arena arena = arena_new();
		struct store_egress_page page;

		TRY(store_egress_page(gateway_of(x)->manager->store, wish->box, wish->place.after,
				      BATCH, arena, &page));
		for (size_t i = 0; i < page.count; i++) {
			struct json_out out = json_to(&line);
			char id[24];

			if (!is_wanted(wish, &page.at[i]))
				continue;
			buf_clear(&line);
			api_egress_write_row(&out, wish, &page.at[i]);
			snprintf(id, sizeof(id), "%llu", (unsigned long long)page.at[i].id);
			sse_put(&text, STR("verdict"), str_of(id), buf_view(&line));
		}
		if (!buf_ok(&text) || !buf_ok(&line))
			return err_new(INTERNAL, "internal", "a verdict did not fit");
		wish->place.after = page.last;
		more = page.count == BATCH;
		if (text.len)
			TRY(http_write(x, text.at, text.len));
	}
	return OK;
}

// `heard`: how often the ear had rung when the store was last looked at.
static fallible api_egress_wait_for_more(struct http *x, struct subscriber *ear, uint64_t heard)
{
	struct err *err;

	TRY(http_away(x, HTTP_PROBE_EVENT));
	err = subscribers_wait(ear, heard, CLOCK_NEVER);
	http_back(x);
	return err;
}

static bool is_there(const struct entry *entry)
{
	return entry->listed && entry->record.state != STATE_DELETING && !entry->manager->closing;
}

static fallible api_egress_stream(struct http *x, const struct entry *entry, struct filter *wish)
{
	struct store_egress_sums sums;
	auto_subscriber ear = NULL;

	if (!entry->manager->egress)
		return err_new(NOT_OFFERED, "no_network", "no sandbox of this host has a network");
	ear = egress_listen(entry->manager->egress, entry->record.id);
	if (wish->place.from_now) {
		TRY(store_egress_sums(entry->manager->store, wish->box, &sums));
		wish->place.after = sums.last;
	}
	x->feed = true;
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	while (is_there(entry)) {
		uint64_t heard = subscribers_count(ear);

		TRY(api_egress_copy(x, wish));
		if (is_there(entry))
			TRY(api_egress_wait_for_more(x, ear, heard));
	}
	return http_end(x);
}

// A client that asks for a connection that it has just seen finds it. A state that cannot be
// written can be read.
static void api_egress_settle(struct manager *manager)
{
	if (!manager->egress)
		return;
	egress_hurry(manager->egress);
	err_free(store_flush(manager->store));
}

fallible api_egress(struct http *x)
{
	struct manager *manager = gateway_of(x)->manager;
	auto_entry entry = NULL;
	struct entry *found;
	struct filter wish;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	found = access_find(manager, gateway_who(x), x->params[0]);
	if (!found || found->record.state == STATE_DELETING)
		return life_absent(x->params[0]);
	entry_ref(found);
	entry = found;
	if (!manager->store)
		return err_new(UNAVAILABLE, "state_unwritable", "nothing is kept");
	TRY(api_egress_read_filter(x, entry, &wish));
	api_egress_settle(manager);
	return events_wants_stream(x) ? api_egress_stream(x, entry, &wish)
				      : api_egress_reply_page(x, entry, &wish);
}
