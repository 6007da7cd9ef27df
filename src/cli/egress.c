// The verb egress: shows the ledger of a sandbox as a table that fits the terminal, or as JSON, and
// follows it. A denied row has a second line with the command that would allow it.
#include "base/mem.h"
#include "cli/collection.h"
#include "cli/events.h"
#include "cli/print.h"
#include "cli/tty.h"
#include "lib/fields.h"

#define ROW_MAX 65536

// Column widths of the table; 0: omitted.
struct layout {
	size_t time, verdict, name, reason, size, took;
};

#define LAYOUT_WIDE ((struct layout){24, 7, 40, 24, 10, 8})
#define TIME_SHORT 8 // HH:MM:SS
#define NAME_MIN 12
#define REASON_MIN 10

struct ledger {
	struct event_stream feed;
	struct layout layout;
};

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

static uint64_t ledger_number(const struct json *object, const char *key)
{
	return (uint64_t)fields_number(object, key, 0);
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
static void ledger_show_row(struct event_stream *feed, const struct json *row, struct str text)
{
	const struct layout *layout = &((struct ledger *)feed)->layout;
	const char *time = fields_text(row, "time");
	char short_time[TIME_SHORT + 1] = "";
	auto_buf place = BUF_INIT(1024), sent = BUF_INIT(64), got = BUF_INIT(64),
		 took = BUF_INIT(64);
	const char *reason = fields_text(row, "reason"), *hint = fields_text(row, "hint");
	const char *name = or_else(fields_text(row, "name"), fields_text(row, "address"));

	(void)text;
	buf_text(&place, or_else(name, "-"));
	if (ledger_number(row, "port"))
		buf_fmt(&place, ":%llu", (unsigned long long)ledger_number(row, "port"));
	print_size(ledger_number(row, "bytesOut"), &sent);
	print_size(ledger_number(row, "bytesIn"), &got);
	put_took(ledger_number(row, "durationMs"), &took);
	if (layout->time == TIME_SHORT && strlen(time) > strlen("2026-01-31T08:00:00"))
		memcpy(short_time, time + strlen("2026-01-31T"), TIME_SHORT);
	print_cells(layout, &(struct cells){*short_time ? short_time : time,
					    fields_text(row, "verdict"), place.at,
					    or_else(reason, or_else(fields_text(row, "rule"), "-")),
					    sent.at, got.at, took.at});
	if (*hint)
		print_line("  to allow it: %s", hint);
}

static void show_totals(const struct json *totals)
{
	auto_buf sent = BUF_INIT(64), got = BUF_INIT(64);

	print_size(ledger_number(totals, "bytesOut"), &sent);
	print_size(ledger_number(totals, "bytesIn"), &got);
	print_line("%llu connections (%llu open), %llu requests, %s out, %s in, %llu denied",
		   (unsigned long long)ledger_number(totals, "connections"),
		   (unsigned long long)ledger_number(totals, "open"),
		   (unsigned long long)ledger_number(totals, "requests"), sent.at, got.at,
		   (unsigned long long)ledger_number(totals, "denied"));
}

static void ledger_path(struct event_stream *feed, struct buf *out)
{
	auto_free char *path = remote_path(BOXES_PATH, feed->call->words[0], "/egress");

	buf_fmt(out, "%s?%s&after=%llu%s", path, feed->paged ? "limit=1000" : "follow=true",
		(unsigned long long)feed->last,
		call_has(feed->call, OPT_DENIED) ? "&verdict=deny" : "");
}

fallible cli_egress(struct call *call)
{
	bool json = call_has(call, OPT_JSON), follows = call_has(call, OPT_FOLLOW);
	struct ledger ledger = {
		.feed = {.call = call,
			 .path = ledger_path,
			 .take = event_stream_show,
			 .show = json ? event_stream_json : ledger_show_row,
			 .placed = true},
		.layout = layout_for(tty_columns()),
	};
	auto_json page = NULL;
	auto_err err = NULL;

	if (!json)
		print_cells(&ledger.layout,
			    &(struct cells){ledger.layout.time == TIME_SHORT ? "UTC" : "TIME",
					    "VERDICT", "NAME",
					    ledger.layout.reason < strlen("RULE OR REASON")
						    ? "REASON"
						    : "RULE OR REASON",
					    "OUT", "IN", "TOOK"});
	TRY(event_stream_pages(&ledger.feed, &page));
	if (!json && !follows)
		show_totals(json_get(page, "totals"));
	if (!follows)
		return OK;
	err = event_stream_follow(&ledger.feed);
	// The sandbox existed and has ended: so has its ledger.
	return err && err_kind(err) == ERR_NOT_FOUND ? OK : take_ptr(err);
}
