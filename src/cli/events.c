// The verbs events, audit and verify: pages of the API as lines or JSON, followed live if
// requested.
#include <stdio.h>

#include "cli/boxes.h"
#include "cli/event_stream.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/verbs.h"
#include "codec/text.h"

#define EVENT_MAX (1 << 20)

// --------------------------------------------------------------------------------------- a page

static void add_filter(struct buf *path, const struct call *call, enum opt opt, const char *key)
{
	const char *value = call_value(call, opt);

	if (!value)
		return;
	buf_fmt(path, "&%s=", key);
	text_percent(path, str_of(value));
}

static void add_filters(struct buf *path, const struct call *call)
{
	add_filter(path, call, OPT_KIND, "kind");
	add_filter(path, call, OPT_SANDBOX, "sandbox");
	add_filter(path, call, OPT_TENANT, "tenant");
}

typedef void show_fn(const struct json *item, struct str text);

// The last row of each page is the cursor of the next.
static fallible each_page(struct call *call, const char *collection, show_fn *show, uint64_t *last)
{
	auto_remote remote = {0};
	bool more = true;

	TRY(remote_open(&remote, call));
	while (more) {
		auto_buf path = BUF_INIT(65536), text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json page = NULL;
		struct json *items;

		buf_fmt(&path, "%s?limit=1000&after=%llu", collection, (unsigned long long)*last);
		add_filters(&path, call);
		TRY(remote_ask(&remote, "GET", path.at, NULL, &text, &page));
		items = json_get(page, "items");
		for (size_t i = 0; items && i < json_count(items); i++) {
			auto_buf one = BUF_INIT(EVENT_MAX);
			struct json_out out = json_to(&one);

			json_add_value(&out, json_at(items, i));
			show(json_at(items, i), buf_view(&one));
		}
		TRY(json_u64(json_get(page, "last"), "last", 0, INT64_MAX, last));
		more = false;
		TRY(json_bool(json_get(page, "more"), "more", &more));
	}
	return OK;
}

static void show_json(const struct json *item, struct str text)
{
	(void)item;
	print_json_line(text);
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void show_event(const struct json *event, struct str text)
{
	struct str fields = print_member(text, "fields");

	print_line("%s %-17s %-36s %s " STR_FMT, boxes_text(event, "time"),
		   boxes_text(event, "kind"), or_dash(boxes_text(event, "sandbox")),
		   or_dash(boxes_text(event, "tenant")), STR_ARG(fields));
}

static void cli_events_show_row(const struct json *row, struct str text)
{
	struct str fields = print_member(text, "fields");

	print_line("%s %s %s %s %s %s " STR_FMT, boxes_text(row, "time"),
		   or_dash(boxes_text(row, "tenant")), boxes_text(row, "who"),
		   boxes_text(row, "action"), or_dash(boxes_text(row, "target")),
		   boxes_text(row, "outcome"), STR_ARG(fields));
}

// ------------------------------------------------------------------------------------ following

struct follow {
	struct event_stream feed;
	show_fn *show;
};

static void cli_events_follow_path(struct event_stream *feed, struct buf *out)
{
	buf_text(out, "/v1/events?follow=true");
	if (feed->placed)
		buf_fmt(out, "&after=%llu", (unsigned long long)feed->last);
	add_filters(out, feed->call);
}

static void take_event(struct event_stream *feed, const struct sse_event *event)
{
	struct follow *follow = (struct follow *)feed;
	auto_json json = NULL;
	auto_err err = OK;

	if (str_is(event->event, "events.missed")) {
		print_note("some events were forgotten before they were read");
		return;
	}
	err = json_read_any(event->data, &json);
	if (!err)
		follow->show(json, event->data);
}

fallible events_show(struct call *call)
{
	struct follow follow = {
		.feed = {.call = call, .path = cli_events_follow_path, .take = take_event},
		.show = call_has(call, OPT_JSON) ? show_json : show_event,
	};
	uint64_t last = 0;

	if (call_has(call, OPT_FOLLOW))
		return event_stream_follow(&follow.feed);
	return each_page(call, "/v1/events", follow.show, &last);
}

// --------------------------------------------------------------------------------------- others

static bool is_true(const struct json *object, const char *key)
{
	bool yes = false;

	err_free(json_bool(json_get(object, key), key, &yes));
	return yes;
}

static fallible ask_whole(struct call *call, const char *path, struct buf *text, struct json **out)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path, NULL, text, out));
	call->exit = is_true(*out, "ok") ? 0 : 1;
	if (call_has(call, OPT_JSON))
		print_json(buf_view(text));
	return OK;
}

fallible events_audit(struct call *call)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json answer = NULL;
	uint64_t last = 0, rows = 0, bad = 0, cut = 0;

	if (!call_has(call, OPT_CHECK))
		return each_page(call, "/v1/audit",
				 call_has(call, OPT_JSON) ? show_json : cli_events_show_row, &last);
	TRY(ask_whole(call, "/v1/audit/check", &text, &answer));
	if (call_has(call, OPT_JSON))
		return OK;
	TRY(json_u64(json_get(answer, "rows"), "rows", 0, INT64_MAX, &rows));
	TRY(json_u64(json_get(answer, "firstBad"), "firstBad", 0, INT64_MAX, &bad));
	if (bad) {
		print_line("row %llu does not follow from the one before", (unsigned long long)bad);
		return OK;
	}
	TRY(json_u64(json_get(json_get(answer, "cut"), "id"), "cut", 0, INT64_MAX, &cut));
	print_line("%llu rows, whole; the last is %s", (unsigned long long)rows,
		   boxes_text(answer, "head"));
	if (cut)
		print_line("rows up to %llu were forgotten", (unsigned long long)cut);
	return OK;
}

fallible events_verify(struct call *call)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json answer = NULL;
	struct json *odds;

	TRY(ask_whole(call, "/v1/verify", &text, &answer));
	if (call_has(call, OPT_JSON))
		return OK;
	odds = json_get(answer, "differences");
	for (size_t i = 0; odds && i < json_count(odds); i++)
		print_line("%s %s: %s", boxes_text(json_at(odds, i), "what"),
			   or_dash(boxes_text(json_at(odds, i), "name")),
			   boxes_text(json_at(odds, i), "detail"));
	if (!call->exit)
		print_line("all agree");
	return OK;
}
