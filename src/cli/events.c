// Event streams and pages, and the verbs events, audit and verify. A lost stream is opened again
// with the id of the last event, for AWAY_MS at most; any other error ends it.
#include "cli/events.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/print.h"
#include "codec/text.h"
#include "lib/fields.h"

#define EVENT_MAX (8 << 20)
#define ROW_MAX (1 << 20)
#define PATH_MAX_BYTES 65536
#define READ 16384
#define AWAY_MS 30000 // how long the daemon may be unreachable
#define AGAIN_MS 300

static void event_stream_take(struct event_stream *feed, const struct sse_event *event)
{
	if (str_to_u64(event->id, 0, INT64_MAX, &feed->last))
		feed->placed = true;
	feed->take(feed, event);
	fflush(stdout);
}

static fallible read_stream(struct event_stream *feed, struct remote *remote,
			    struct cove_request *request, struct sse_reader *reader)
{
	auto_free char *room = mem_new(READ);

	while (!feed->over) {
		struct sse_event event;
		struct str in;
		size_t got = 0;

		TRY(remote_did(remote,
			       cove_request_read(request, room, READ, &got, &remote->error)));
		if (!got)
			return OK;
		in = (struct str){room, got};
		while (!feed->over && sse_read(reader, &in, &event) == SSE_EVENT)
			event_stream_take(feed, &event);
	}
	return OK;
}

static fallible stream_once(struct event_stream *feed, bool *out_begun)
{
	auto_buf path = BUF_INIT(PATH_MAX_BYTES);
	struct sse_reader reader = SSE_READER(EVENT_MAX);
	struct cove_request *request = NULL;
	auto_remote remote = {0};
	struct err *err;

	feed->path(feed, &path);
	TRY(remote_open(&remote, feed->call));
	TRY(remote_did(&remote, cove_request_open(remote.cove, "GET", path.at, NULL, &request,
						  &remote.error)));
	err = remote_did(&remote, cove_request_finish(request, &remote.error));
	*out_begun = !err;
	if (!err)
		err = read_stream(feed, &remote, request, &reader);
	cove_request_free(request);
	sse_done(&reader);
	return err;
}

static bool may_pass(const struct err *err)
{
	return !err || err_kind(err) == ERR_UNAVAILABLE || err_kind(err) == ERR_BAD_PEER ||
	       err_kind(err) == ERR_TIMEOUT;
}

fallible event_stream_follow(struct event_stream *feed)
{
	int64_t since = clock_ms();
	bool first = true;

	for (;;) {
		bool begun = false;
		struct err *err = stream_once(feed, &begun);

		if (begun)
			since = clock_ms();
		first = first && !begun;
		if (err && !feed->over && (first || !may_pass(err) || clock_ms() - since > AWAY_MS))
			return err;
		err_free(err);
		if (feed->over)
			return OK;
		nanosleep(&(struct timespec){.tv_nsec = AGAIN_MS * 1000000L}, NULL);
	}
}

fallible event_stream_pages(struct event_stream *feed, struct json **out_page)
{
	auto_remote remote = {0};
	bool more = true;

	feed->paged = true;
	TRY(remote_open(&remote, feed->call));
	while (more) {
		auto_buf path = BUF_INIT(PATH_MAX_BYTES);
		auto_json page = NULL;
		struct json *items;

		feed->path(feed, &path);
		TRY(remote_ask(&remote, "GET", path.at, NULL, NULL, &page));
		items = json_get(page, "items");
		for (size_t i = 0; items && i < json_count(items); i++) {
			auto_buf one = BUF_INIT(ROW_MAX);
			struct json_out out = json_to(&one);

			json_add_value(&out, json_at(items, i));
			feed->show(feed, json_at(items, i), buf_view(&one));
		}
		feed->last = (uint64_t)fields_number(page, "last", 0);
		more = fields_flag(page, "more") || json_get(page, "cursor");
		if (!more && out_page)
			*out_page = take_ptr(page);
	}
	feed->paged = false;
	fflush(stdout);
	return OK;
}

void event_stream_show(struct event_stream *feed, const struct sse_event *event)
{
	auto_json row = NULL;
	auto_err err = json_read_any(event->data, &row);

	if (!err)
		feed->show(feed, row, event->data);
}

void event_stream_json(struct event_stream *feed, const struct json *row, struct str text)
{
	(void)feed;
	(void)row;
	print_json_line(text);
}

// ------------------------------------------------------------------------------------ the verbs

static void events_path(struct event_stream *feed, struct buf *out)
{
	static const struct {
		enum opt opt;
		const char *key;
	} filters[] = {{OPT_KIND, "kind"}, {OPT_SANDBOX, "sandbox"}, {OPT_TENANT, "tenant"}};

	buf_fmt(out, "/v1/%s?%s", feed->call->verb->name,
		feed->paged ? "limit=1000" : "follow=true");
	if (feed->paged || feed->placed)
		buf_fmt(out, "&after=%llu", (unsigned long long)feed->last);
	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		if (!call_has(feed->call, filters[i].opt))
			continue;
		buf_fmt(out, "&%s=", filters[i].key);
		text_percent(out, str_of(call_value(feed->call, filters[i].opt)));
	}
}

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

static void show_event(struct event_stream *feed, const struct json *event, struct str text)
{
	(void)feed;
	print_line("%s %-17s %-36s %s " STR_FMT, fields_text(event, "time"),
		   fields_text(event, "kind"), or_dash(fields_text(event, "sandbox")),
		   or_dash(fields_text(event, "tenant")), STR_ARG(print_member(text, "fields")));
}

static void show_audit_row(struct event_stream *feed, const struct json *row, struct str text)
{
	(void)feed;
	print_line("%s %s %s %s %s %s " STR_FMT, fields_text(row, "time"),
		   or_dash(fields_text(row, "tenant")), fields_text(row, "who"),
		   fields_text(row, "action"), or_dash(fields_text(row, "target")),
		   fields_text(row, "outcome"), STR_ARG(print_member(text, "fields")));
}

static void take_event(struct event_stream *feed, const struct sse_event *event)
{
	if (str_is(event->event, "events.missed"))
		print_note("some events were forgotten before they were read");
	else
		event_stream_show(feed, event);
}

fallible events_show(struct call *call)
{
	struct event_stream feed = {
		.call = call,
		.path = events_path,
		.take = take_event,
		.show = call_has(call, OPT_JSON) ? event_stream_json : show_event,
	};

	return call_has(call, OPT_FOLLOW) ? event_stream_follow(&feed)
					  : event_stream_pages(&feed, NULL);
}

// GET of a whole answer, whose member `ok` decides the exit status. *done: it was printed as JSON.
static fallible ask_whole(struct call *call, const char *path, bool *done, struct json **out)
{
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "GET", path, NULL, &text, out));
	call->exit = fields_flag(*out, "ok") ? 0 : 1;
	*done = call_has(call, OPT_JSON);
	if (*done)
		print_json(buf_view(&text));
	return OK;
}

fallible events_audit(struct call *call)
{
	struct event_stream feed = {
		.call = call,
		.path = events_path,
		.show = call_has(call, OPT_JSON) ? event_stream_json : show_audit_row,
	};
	auto_json answer = NULL;
	int64_t bad, cut;
	bool done;

	if (!call_has(call, OPT_CHECK))
		return event_stream_pages(&feed, NULL);
	TRY(ask_whole(call, "/v1/audit/check", &done, &answer));
	if (done)
		return OK;
	bad = fields_number(answer, "firstBad", 0);
	cut = fields_number(json_get(answer, "cut"), "id", 0);
	if (bad) {
		print_line("row %lld does not follow from the one before", (long long)bad);
		return OK;
	}
	print_line("%lld rows, whole; the last is %s", (long long)fields_number(answer, "rows", 0),
		   fields_text(answer, "head"));
	if (cut)
		print_line("rows up to %lld were forgotten", (long long)cut);
	return OK;
}

fallible events_verify(struct call *call)
{
	auto_json answer = NULL;
	struct json *odds;
	bool done;

	TRY(ask_whole(call, "/v1/verify", &done, &answer));
	if (done)
		return OK;
	odds = json_get(answer, "differences");
	for (size_t i = 0; odds && i < json_count(odds); i++)
		print_line("%s %s: %s", fields_text(json_at(odds, i), "what"),
			   or_dash(fields_text(json_at(odds, i), "name")),
			   fields_text(json_at(odds, i), "detail"));
	if (!call->exit)
		print_line("all agree");
	return OK;
}
