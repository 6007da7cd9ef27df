// Page and stream are read from the store, from the number of the reader's last row. A slow reader
// falls behind without blocking anything. A stream ends with its sandbox.
#include "egress/egress.h"

#include <stdio.h>

#include "api/events.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "codec/sse.h"
#include "egress/verdicts.h"
#include "gateway/gateway.h"
#include "store/egress.h"
#include "types/event.h"

#define REPLY_MAX (64u << 20)
#define BATCH 200
#define ROW_MAX 8192

struct filter {
	struct event_place place;
	enum { FILTER_ALL, FILTER_ALLOWED, FILTER_DENIED } verdict;
	const char *box; // its name in hints
};

static fallible egress_read_filter(struct http *x, const struct entry *entry, struct filter *out)
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

static bool is_wanted(const struct filter *filter, const struct store_egress_row *row)
{
	return filter->verdict == FILTER_ALL || row->allowed == (filter->verdict == FILTER_ALLOWED);
}

static void put_known(struct json_out *out, const char *key, const char *text)
{
	json_put_text(out, key, *text ? text : NULL);
}

// Names of the secrets that were sent. The last is "+" if there were more.
static void egress_write_secrets(struct json_out *out, struct str names)
{
	struct str name;

	if (!names.len)
		return;
	json_put_begin(out, "secrets", '[');
	while (str_cut(&names, ',', &name))
		json_add_str(out, name);
	json_end(out, ']');
}

static void egress_write_row(struct json_out *out, const struct filter *filter,
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
	egress_write_secrets(out, str_of(row->secrets));
	if (!row->allowed)
		policy_hint(&hint, filter->box, row->name, row->port, row->reason);
	if (hint.len)
		json_put_str(out, "hint", buf_view(&hint));
	json_end(out, '}');
}

// The totals of a sandbox, with open connections included while its network is attached.
static struct egress_counts egress_count(const struct entry *entry,
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
	json_put_begin(out, "totals", '{');
	json_put_int(out, "connections", (int64_t)counts->connections);
	json_put_int(out, "requests", (int64_t)counts->requests);
	json_put_int(out, "bytesOut", (int64_t)counts->bytes_out);
	json_put_int(out, "bytesIn", (int64_t)counts->bytes_in);
	json_put_int(out, "denied", (int64_t)counts->denied);
	json_put_int(out, "open", counts->open);
	json_put_text(out, "counted", counts->opaque ? "connections" : "requests");
	json_end(out, '}');
}

// Writes up to `limit` matching rows, in batches. Advances filter->place. *out_more: there may be
// more.
static fallible write_rows(struct http *x, struct filter *filter, struct json_out *out,
			   bool *out_more, bool *out_missed, struct store_egress_sums *out_sums)
{
	struct event_place *place = &filter->place;
	uint64_t found = 0;

	*out_more = true;
	while (*out_more && found < place->limit) {
		auto_arena arena = arena_new();
		struct store_egress_page page;
		size_t i;

		TRY(store_egress_page(gateway_of(x)->manager->store, filter->box, place->after,
				      BATCH, arena, &page));
		*out_missed |= page.count && page.at[0].id > place->after + 1;
		for (i = 0; i < page.count && found < place->limit; i++) {
			place->after = page.at[i].id;
			if (!is_wanted(filter, &page.at[i]))
				continue;
			egress_write_row(out, filter, &page.at[i]);
			found++;
		}
		*out_more = page.count == BATCH || i < page.count;
		*out_sums = page.sums;
	}
	return OK;
}

static fallible egress_reply_page(struct http *x, const struct entry *entry, struct filter *filter)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct store_egress_sums sums = {0};
	struct egress_counts counts;
	bool more = false, missed = false;
	char last[24];

	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	TRY(write_rows(x, filter, &out, &more, &missed, &sums));
	json_end(&out, ']');
	counts = egress_count(entry, &sums);
	write_totals(&out, &counts);
	snprintf(last, sizeof(last), "%llu", (unsigned long long)filter->place.after);
	json_put_text(&out, "cursor", more ? last : NULL);
	json_put_int(&out, "last", (int64_t)filter->place.after);
	json_put_bool(&out, "missed", missed);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// Sends all rows after the position.
static fallible egress_copy(struct http *x, struct filter *filter)
{
	bool more = true;

	while (more) {
		auto_buf text = BUF_INIT(REPLY_MAX), line = BUF_INIT(2 * ROW_MAX);
		auto_arena arena = arena_new();
		struct store_egress_page page;

		TRY(store_egress_page(gateway_of(x)->manager->store, filter->box,
				      filter->place.after, BATCH, arena, &page));
		for (size_t i = 0; i < page.count; i++) {
			struct json_out out = json_to(&line);
			char id[24];

			if (!is_wanted(filter, &page.at[i]))
				continue;
			buf_clear(&line);
			egress_write_row(&out, filter, &page.at[i]);
			snprintf(id, sizeof(id), "%llu", (unsigned long long)page.at[i].id);
			sse_put(&text, STR("verdict"), str_of(id), buf_view(&line));
		}
		if (!buf_ok(&text) || !buf_ok(&line))
			return err_new(INTERNAL, "internal", "a verdict did not fit");
		filter->place.after = page.last;
		more = page.count == BATCH;
		if (text.len)
			TRY(http_write(x, text.at, text.len));
	}
	return OK;
}

static bool is_there(const struct entry *entry)
{
	return entry->listed && entry->record.state != STATE_DELETING && !entry->manager->closing;
}

static fallible egress_stream(struct http *x, const struct entry *entry, struct filter *filter)
{
	struct store_egress_sums sums;
	auto_subscriber subscriber = NULL;

	if (!entry->manager->egress)
		return err_new(NOT_OFFERED, "no_network", "no sandbox of this host has a network");
	subscriber = egress_listen(entry->manager->egress, entry->record.id);
	if (filter->place.from_now) {
		TRY(store_egress_sums(entry->manager->store, filter->box, &sums));
		filter->place.after = sums.last;
	}
	x->feed = true;
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	while (is_there(entry)) {
		uint64_t heard = subscriber_count(subscriber); // before the store is read

		TRY(egress_copy(x, filter));
		if (is_there(entry))
			TRY(http_while_away(x, HTTP_PROBE_EVENT,
					    subscriber_wait(subscriber, heard, CLOCK_NEVER)));
	}
	return http_end(x);
}

// Waits for queued rows, so that a client finds a connection it has just seen. If the store cannot
// be written, reading goes on without.
static void egress_settle(struct manager *manager)
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
	struct filter filter;

	TRY(gateway_entry(x, ACCESS_READ, &entry));
	if (!manager->store)
		return err_new(UNAVAILABLE, "state_unwritable", "the state cannot be read");
	TRY(egress_read_filter(x, entry, &filter));
	egress_settle(manager);
	return events_wants_stream(x) ? egress_stream(x, entry, &filter)
				      : egress_reply_page(x, entry, &filter);
}
