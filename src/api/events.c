// Events are sent as a page, or as an endless stream. Both are read from the store in one order, so
// that a client that resumes with the number of its last event misses nothing. Events that were
// deleted meanwhile are announced.
#include "api/events.h"

#include <stdio.h>

#include "api/handlers.h"
#include "base/clock.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "gateway/gateway.h"
#include "manager/access.h"
#include "manager/verify.h"
#include "store/audit.h"
#include "store/events.h"
#include "types/event.h"

#define REPLY_MAX (64u << 20)
#define BATCH 200
#define EVENT_MAX (1 << 20)

struct filter {
	struct str kind, sandbox; // at == NULL: any
	const char *tenant;	  // NULL: of all tenants
	bool own;		  // numbers are the tenant's own
	struct event_place place;
	uint64_t told; // missing events up to here were announced
};

static fallible no_store(void)
{
	return err_new(UNAVAILABLE, "state_unwritable", "the state cannot be read");
}

// A tenant's key sees its own events; the operator sees all, or those of one tenant.
static const char *tenant_of(struct http *x)
{
	const struct who *who = gateway_who(x);
	struct str asked = http_query(x, "tenant");

	if (who->role != WHO_OPERATOR)
		return who->tenant;
	return asked.at ? arena_dup(x->arena, asked.at, asked.len) : NULL;
}

static fallible events_read_filter(struct http *x, struct filter *out)
{
	*out = (struct filter){
		.kind = http_query(x, "kind"),
		.sandbox = http_query(x, "sandbox"),
		.tenant = tenant_of(x),
		.own = gateway_who(x)->role != WHO_OPERATOR,
	};
	return event_read_place(http_query(x, "after"), http_field(x, "Last-Event-ID"),
				http_query(x, "limit"), &out->place);
}

static fallible events_read_page(struct http *x, const struct filter *filter, size_t max,
				 struct arena *arena, struct store_events *out)
{
	struct store_events_ask ask = {
		.tenant = filter->tenant,
		.own = filter->own,
		.after = filter->place.after,
		.max = max,
	};

	return store_events_page(gateway_of(x)->manager->store, &ask, arena, out);
}

static bool events_is_wanted(struct http *x, const struct filter *filter,
			     const struct store_event *event)
{
	if (filter->kind.at && !event_matches(event->kind, filter->kind))
		return false;
	if (filter->sandbox.at && !str_is(filter->sandbox, event->sandbox))
		return false;
	return access_sees(gateway_who(x), event->tenant, event->sandbox);
}

void events_write(struct json_out *out, const struct store_event *event)
{
	json_begin(out, '{');
	json_put_int(out, "id", (int64_t)event->id);
	json_put_time(out, "time", event->time_ms);
	json_put_text(out, "kind", event->kind);
	json_put_text(out, "tenant", event->tenant);
	if (*event->sandbox)
		json_put_text(out, "sandbox", event->sandbox);
	if (*event->session)
		json_put_text(out, "session", event->session);
	json_key(out, "fields");
	json_add_raw(out, str_of(event->fields));
	json_end(out, '}');
}

// Resolves a name or a short id to the id, if such a sandbox exists now.
static void settle_sandbox(struct http *x, struct filter *filter)
{
	const struct record *record;
	auto_err absent = NULL;

	if (!filter->sandbox.at)
		return;
	absent = manager_get(gateway_of(x)->manager, gateway_who(x), filter->sandbox, &record);
	if (!absent)
		filter->sandbox = str_of(arena_fmt(x->arena, "%s", record->id));
}

static fallible events_reply_page(struct http *x, struct filter *filter)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct event_place *place = &filter->place;
	struct store_events page = {0};
	uint64_t count = 0;
	bool more = true, missed = false;

	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	while (more && count < place->limit) {
		auto_arena arena = arena_new();
		size_t i;

		TRY(events_read_page(x, filter, BATCH, arena, &page));
		missed |= page.missed;
		for (i = 0; i < page.count && count < place->limit; i++) {
			place->after = page.at[i].id;
			if (!events_is_wanted(x, filter, &page.at[i]))
				continue;
			events_write(&out, &page.at[i]);
			count++;
		}
		if (i == page.count)
			place->after = page.last;
		more = page.count == BATCH || i < page.count;
	}
	json_end(&out, ']');
	json_put_int(&out, "last", (int64_t)place->after);
	json_put_bool(&out, "more", more && count == place->limit);
	json_put_bool(&out, "missed", missed);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// Announces deleted events. Its number is the position to resume from.
static fallible events_send_missed(struct http *x, uint64_t after, const struct store_events *page)
{
	auto_buf text = BUF_INIT(512), data = BUF_INIT(256);
	struct json_out out = json_to(&data);
	char id[24];

	snprintf(id, sizeof(id), "%llu",
		 (unsigned long long)(after < page->newest ? after : page->newest));
	json_begin(&out, '{');
	json_put_text(&out, "kind", EVENT_MISSED);
	json_put_int(&out, "after", (int64_t)after);
	json_put_int(&out, "oldest", (int64_t)page->oldest);
	json_end(&out, '}');
	sse_put(&text, STR(EVENT_MISSED), str_of(id), buf_view(&data));
	return http_write(x, text.at, text.len);
}

// Sends all events after the position.
static fallible events_copy(struct http *x, struct filter *filter)
{
	bool more = true;

	while (more) {
		auto_buf text = BUF_INIT(REPLY_MAX), line = BUF_INIT(EVENT_MAX);
		auto_arena arena = arena_new();
		struct store_events page;

		TRY(events_read_page(x, filter, BATCH, arena, &page));
		if (page.missed && filter->place.after >= filter->told) {
			TRY(events_send_missed(x, filter->place.after, &page));
			filter->told = page.newest;
		}
		for (size_t i = 0; i < page.count; i++) {
			struct json_out out = json_to(&line);
			char id[24];

			if (!events_is_wanted(x, filter, &page.at[i]))
				continue;
			buf_clear(&line);
			events_write(&out, &page.at[i]);
			snprintf(id, sizeof(id), "%llu", (unsigned long long)page.at[i].id);
			sse_put(&text, str_of(page.at[i].kind), str_of(id), buf_view(&line));
		}
		more = page.count == BATCH;
		filter->place.after = page.last;
		if (!buf_ok(&text) || !buf_ok(&line))
			return err_new(INTERNAL, "internal", "an event did not fit");
		if (text.len)
			TRY(http_write(x, text.at, text.len));
	}
	return OK;
}

static fallible events_stream(struct http *x, struct filter *filter)
{
	struct manager *manager = gateway_of(x)->manager;
	auto_arena arena = arena_new();
	struct store_events page;

	if (filter->place.from_now) {
		TRY(store_flush(manager->store));
		TRY(events_read_page(x, filter, 1, arena, &page));
		filter->place.after = page.newest;
	}
	http_set(x, "Cache-Control", STR("no-cache"));
	TRY(http_begin_with(x, 200, "text/event-stream", STR(":\n\n")));
	while (!manager->closing) {
		uint64_t written = manager->events_written;

		TRY(events_copy(x, filter));
		if (!manager->closing && written == manager->events_written)
			TRY(http_while_away(x, HTTP_PROBE_EVENT,
					    condition_wait(&manager->event_written, CLOCK_NEVER)));
	}
	return http_end(x);
}

bool events_wants_stream(struct http *x)
{
	struct str accept = http_field(x, "Accept"), word;

	if (str_is(http_query(x, "follow"), "true"))
		return true;
	while (accept.len && str_cut(&accept, ',', &word))
		if (str_starts(str_trim(word), "text/event-stream"))
			return true;
	return false;
}

fallible api_events(struct http *x)
{
	struct filter filter;

	TRY(access_ask(gateway_who(x), ACCESS_READ));
	if (!gateway_of(x)->manager->store)
		return no_store();
	TRY(events_read_filter(x, &filter));
	settle_sandbox(x, &filter);
	return events_wants_stream(x) ? events_stream(x, &filter) : events_reply_page(x, &filter);
}

// ---------------------------------------------------------------------------------------- audit

static void put_hash(struct json_out *out, const char *key, const uint8_t hash[SECRET_HASH])
{
	auto_buf hex = BUF_INIT(2 * SECRET_HASH + 1);

	text_hex(&hex, hash, SECRET_HASH);
	json_put_str(out, key, buf_view(&hex));
}

static void events_write_row(struct json_out *out, const struct store_audit *row)
{
	json_begin(out, '{');
	json_put_int(out, "id", (int64_t)row->id);
	json_put_time(out, "time", row->time_ms);
	json_put_text(out, "tenant", row->tenant);
	json_put_text(out, "who", row->who);
	json_put_text(out, "action", row->action);
	json_put_text(out, "target", row->target);
	json_put_text(out, "outcome", row->outcome);
	json_key(out, "fields");
	json_add_raw(out, str_of(row->fields));
	put_hash(out, "hash", row->hash);
	json_end(out, '}');
}

fallible api_audit(struct http *x)
{
	struct store *store = gateway_of(x)->manager->store;
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	auto_arena arena = arena_new();
	struct store_audit *rows = NULL;
	struct filter filter;
	size_t count = 0;

	TRY(access_ask(gateway_who(x), ACCESS_KEYS));
	if (!store)
		return no_store();
	TRY(events_read_filter(x, &filter));
	TRY(store_audit_page(store, filter.place.after, filter.tenant, filter.own,
			     filter.place.limit, arena, &rows, &count));
	json_begin(&out, '{');
	json_put_begin(&out, "items", '[');
	for (size_t i = 0; i < count; i++)
		if (access_sees(gateway_who(x), rows[i].tenant, rows[i].target))
			events_write_row(&out, &rows[i]);
	json_end(&out, ']');
	json_put_int(&out, "last", (int64_t)(count ? rows[count - 1].id : filter.place.after));
	json_put_bool(&out, "more", count == filter.place.limit);
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible api_audit_check(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct store_audit_proof proof;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	if (!gateway_of(x)->manager->store)
		return no_store();
	TRY(store_flush(gateway_of(x)->manager->store));
	TRY(store_audit_verify(gateway_of(x)->manager->store, &proof));
	json_begin(&out, '{');
	json_put_bool(&out, "ok", !proof.bad);
	json_put_int(&out, "rows", (int64_t)proof.count);
	put_hash(&out, "head", proof.head);
	json_key(&out, "firstBad");
	if (proof.bad)
		json_add_int(&out, (int64_t)proof.bad);
	else
		json_add_null(&out);
	json_key(&out, "cut");
	if (proof.cut) {
		json_begin(&out, '{');
		json_put_int(&out, "id", (int64_t)proof.cut);
		put_hash(&out, "hash", proof.cut_hash);
		json_end(&out, '}');
	} else {
		json_add_null(&out);
	}
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

// --------------------------------------------------------------------------------------- verify

fallible api_verify(struct http *x)
{
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct json_out out = json_to(&body);
	struct verify found = {0};
	struct err *err;

	TRY(access_ask(gateway_who(x), ACCESS_OPERATOR));
	err = verify_all(gateway_of(x)->manager, &found);
	if (!err) {
		verify_write(&out, &found);
		err = http_reply_json(x, 200, &body);
	}
	verify_done(&found);
	return err;
}
