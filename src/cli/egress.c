// The verb egress: shows the ledger of a sandbox as a table that fits the terminal, or as JSON, and
// follows it. A denied row has a second line with the command that would allow it.
#include <stdio.h>

#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/event_stream.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/tty.h"
#include "cli/verbs.h"

#define ROW_MAX 65536

// Column widths of the table; 0: omitted.
struct layout {
	size_t time, verdict, name, reason, size, took;
};

#define LAYOUT_WIDE ((struct layout){24, 7, 40, 24, 10, 8})
#define TIME_SHORT 8 // HH:MM:SS
#define NAME_MIN 12
#define REASON_MIN 10

typedef void show_fn(const struct layout *layout, const struct json *row, struct str text);

static void show_json(const struct layout *layout, const struct json *row, struct str text)
{
	(void)layout;
	(void)row;
	print_json_line(text);
}

// With one blank after each column except the last.
static size_t layout_width(const struct layout *layout)
{
	size_t width = layout->time + layout->verdict + layout->name + layout->reason + 3;

	return width + (layout->size ? 2 * layout->size + layout->took + 3 : 0);
}

// The table for a terminal of `columns`; 0: no terminal. The smallest table is the minimum.
static struct layout layout_for(size_t columns)
{
	struct layout layout = LAYOUT_WIDE;
	size_t rest;

	if (!columns || layout_width(&layout) <= columns)
		return layout;
	layout.time = TIME_SHORT;
	layout.name = NAME_MIN;
	layout.reason = REASON_MIN;
	if (layout_width(&layout) > columns)
		layout.size = layout.took = 0;
	rest = columns > layout_width(&layout) ? columns - layout_width(&layout) : 0;
	layout.name += rest - rest / 3;
	layout.reason += rest / 3;
	return layout;
}

// A cell, padded, or cut with "...".
static void cli_egress_put_cell(struct buf *line, size_t width, bool to_the_right, const char *text)
{
	size_t len = strlen(text), pad = len < width ? width - len : 0;

	if (!width)
		return;
	if (line->len)
		buf_char(line, ' ');
	if (to_the_right)
		buf_fmt(line, "%*s", (int)pad, "");
	if (len > width)
		buf_fmt(line, "%.*s...", (int)(width - 3), text);
	else
		buf_text(line, text);
	if (!to_the_right)
		buf_fmt(line, "%*s", (int)pad, "");
}

struct cells {
	const char *time, *verdict, *name, *reason, *sent, *got, *took;
};

static void print_cells(const struct layout *layout, const struct cells *cells)
{
	auto_buf line = BUF_INIT(ROW_MAX);

	cli_egress_put_cell(&line, layout->time, false, cells->time);
	cli_egress_put_cell(&line, layout->verdict, false, cells->verdict);
	cli_egress_put_cell(&line, layout->name, false, cells->name);
	cli_egress_put_cell(&line, layout->reason, false, cells->reason);
	cli_egress_put_cell(&line, layout->size, true, cells->sent);
	cli_egress_put_cell(&line, layout->size, true, cells->got);
	cli_egress_put_cell(&line, layout->took, true, cells->took);
	print_line("%s", line.at);
}

static uint64_t cli_egress_number(const struct json *object, const char *key)
{
	uint64_t value = 0;

	err_free(json_u64(json_get(object, key), key, 0, INT64_MAX, &value));
	return value;
}

static const char *or_else(const char *text, const char *other)
{
	return *text ? text : other;
}

static void put_took(uint64_t ms, struct buf *out)
{
	if (ms < 10000)
		buf_fmt(out, "%llu ms", (unsigned long long)ms);
	else
		print_age((int64_t)ms, out);
}

// A row, and a second line with what would allow it.
static void cli_egress_show_row(const struct layout *layout, const struct json *row,
				struct str text)
{
	const char *time = boxes_text(row, "time");
	char short_time[TIME_SHORT + 1] = "";
	auto_buf place = BUF_INIT(1024), sent = BUF_INIT(64), got = BUF_INIT(64),
		 took = BUF_INIT(64);
	const char *reason = boxes_text(row, "reason"), *hint = boxes_text(row, "hint");
	const char *name = or_else(boxes_text(row, "name"), boxes_text(row, "address"));

	(void)text;
	buf_text(&place, or_else(name, "-"));
	if (cli_egress_number(row, "port"))
		buf_fmt(&place, ":%llu", (unsigned long long)cli_egress_number(row, "port"));
	print_size(cli_egress_number(row, "bytesOut"), &sent);
	print_size(cli_egress_number(row, "bytesIn"), &got);
	put_took(cli_egress_number(row, "durationMs"), &took);
	if (layout->time == TIME_SHORT && strlen(time) > strlen("2026-01-31T08:00:00"))
		memcpy(short_time, time + strlen("2026-01-31T"), TIME_SHORT);
	print_cells(layout, &(struct cells){*short_time ? short_time : time,
					    boxes_text(row, "verdict"), place.at,
					    or_else(reason, or_else(boxes_text(row, "rule"), "-")),
					    sent.at, got.at, took.at});
	if (*hint)
		print_line("  to allow it: %s", hint);
}

static void show_totals(const struct json *totals)
{
	auto_buf sent = BUF_INIT(64), got = BUF_INIT(64);

	print_size(cli_egress_number(totals, "bytesOut"), &sent);
	print_size(cli_egress_number(totals, "bytesIn"), &got);
	print_line("%llu connections (%llu open), %llu requests, %s out, %s in, %llu denied",
		   (unsigned long long)cli_egress_number(totals, "connections"),
		   (unsigned long long)cli_egress_number(totals, "open"),
		   (unsigned long long)cli_egress_number(totals, "requests"), sent.at, got.at,
		   (unsigned long long)cli_egress_number(totals, "denied"));
}

static char *ledger_path(const struct call *call, const char *more)
{
	auto_free char *rest = mem_fmt("/egress?%s%s", more,
				       call_has(call, OPT_DENIED) ? "&verdict=deny" : "");

	return remote_path(BOXES_PATH "/", call->words[0], rest);
}

struct follow {
	struct event_stream feed;
	show_fn *show;
	struct layout layout;
};

// All rows. *last: where to continue.
static fallible show_pages(struct call *call, const struct follow *follow, bool with_totals,
			   uint64_t *last)
{
	auto_remote remote = {0};
	bool more = true;

	TRY(remote_open(&remote, call));
	while (more) {
		auto_free char *ask = mem_fmt("limit=1000&after=%llu", (unsigned long long)*last);
		auto_free char *path = ledger_path(call, ask);
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json page = NULL;
		struct json *items;

		TRY(remote_ask(&remote, "GET", path, NULL, &text, &page));
		items = json_get(page, "items");
		for (size_t i = 0; items && i < json_count(items); i++) {
			auto_buf one = BUF_INIT(ROW_MAX);
			struct json_out out = json_to(&one);

			json_add_value(&out, json_at(items, i));
			follow->show(&follow->layout, json_at(items, i), buf_view(&one));
		}
		*last = cli_egress_number(page, "last");
		more = json_get(page, "cursor") != NULL;
		if (!more && with_totals)
			show_totals(json_get(page, "totals"));
	}
	fflush(stdout);
	return OK;
}

// ------------------------------------------------------------------------------------ following

static void cli_egress_follow_path(struct event_stream *feed, struct buf *out)
{
	auto_free char *ask = mem_fmt("follow=true&after=%llu", (unsigned long long)feed->last);
	auto_free char *path = ledger_path(feed->call, ask);

	buf_text(out, path);
}

static void cli_egress_take_row(struct event_stream *feed, const struct sse_event *event)
{
	struct follow *follow = (struct follow *)feed;
	auto_json json = NULL;
	auto_err err = json_read_any(event->data, &json);

	if (!err)
		follow->show(&follow->layout, json, event->data);
}

fallible cli_egress(struct call *call)
{
	bool json = call_has(call, OPT_JSON), follows = call_has(call, OPT_FOLLOW);
	struct follow follow = {
		.feed = {.call = call,
			 .path = cli_egress_follow_path,
			 .take = cli_egress_take_row,
			 .placed = true},
		.show = json ? show_json : cli_egress_show_row,
		.layout = layout_for(tty_columns()),
	};
	auto_err err = NULL;

	if (!json)
		print_cells(&follow.layout,
			    &(struct cells){follow.layout.time == TIME_SHORT ? "UTC" : "TIME",
					    "VERDICT", "NAME",
					    follow.layout.reason < strlen("RULE OR REASON")
						    ? "REASON"
						    : "RULE OR REASON",
					    "OUT", "IN", "TOOK"});
	TRY(show_pages(call, &follow, !json && !follows, &follow.feed.last));
	if (!follows)
		return OK;
	err = event_stream_follow(&follow.feed);
	// The sandbox existed and has ended: so has its ledger.
	return err && err_kind(err) == ERR_NOT_FOUND ? OK : take_ptr(err);
}
