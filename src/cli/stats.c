// The verbs top, stats and usage: what sandboxes use now, and what they used in a period. The
// picture of top is the summary of all sandboxes, fetched anew each time.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/body.h"
#include "cli/collection.h"
#include "cli/tty.h"
#include "codec/text.h"
#include "lib/fields.h"

#define STATS_PATH "/v1/stats"
#define EVERY_MS 2000
#define QUERY_MAX 65536
#define ROW_MAX (1 << 20)
#define CLEAR "\x1b[H\x1b[2J"

static void stats_sleep(int64_t ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static double stats_number(const struct json *object, const char *key)
{
	double number = -1;

	err_free(json_double(json_get(object, key), key, 0, 1e18, &number));
	return number;
}

// ------------------------------------------------------------------------------------------- top

static void top_put_cpu(const struct json *box, const char *key, struct buf *out)
{
	double cores = stats_number(box, key);

	if (cores >= 0)
		buf_fmt(out, "%.1f %%", cores * 100);
}

static void top_put_size(const struct json *box, const char *key, struct buf *out)
{
	int64_t bytes = fields_number(box, key, -1);

	if (bytes >= 0)
		print_size((uint64_t)bytes, out);
}

static void top_put_memory(const struct json *box, const char *key, struct buf *out)
{
	int64_t limit = fields_number(json_get(box, "limits"), key, 0);

	top_put_size(box, key, out);
	if (out->len && limit > 0) {
		buf_text(out, " / ");
		print_size((uint64_t)limit, out);
	}
}

static void top_put_count(const struct json *box, const char *key, struct buf *out)
{
	int64_t count = fields_number(box, key, -1);

	if (count >= 0)
		buf_fmt(out, "%lld", (long long)count);
}

struct top {
	struct json **pages; // own the boxes
	size_t page_count;
	const struct json **boxes;
	size_t count;
};

static void top_done(struct top *top)
{
	for (size_t i = 0; i < top->page_count; i++)
		json_free(top->pages[i]);
	free(top->pages);
	free(top->boxes);
}

static int top_compare(const void *a, const void *b)
{
	double x = stats_number(*(const struct json *const *)a, "cpu");
	double y = stats_number(*(const struct json *const *)b, "cpu");

	return (x < y) - (x > y);
}

static fallible top_fetch(struct remote *remote, const struct call *call, struct top *out)
{
	auto_buf cursor = BUF_INIT(QUERY_MAX);

	do {
		auto_buf path = BUF_INIT(QUERY_MAX);
		struct json *page = NULL;
		const struct json *items;
		const char *label;

		buf_fmt(&path, BOXES_PATH "?view=summary&limit=1000%s",
			cursor.len ? cursor.at : "");
		for (size_t at = 0; call_next(call, OPT_LABEL, &at, &label);) {
			buf_text(&path, "&label=");
			text_percent(&path, str_of(label));
		}
		TRY(remote_ask(remote, "GET", path.at, NULL, NULL, &page));
		out->pages = mem_grow(out->pages, out->page_count + 1, sizeof(void *));
		out->pages[out->page_count++] = page;
		items = json_get(page, "items");
		out->boxes = mem_grow(out->boxes, out->count + json_count(items) + 1,
				      sizeof(void *));
		for (size_t i = 0; i < json_count(items); i++)
			out->boxes[out->count++] = json_at(items, i);
		buf_clear(&cursor);
		if (*fields_text(page, "cursor")) {
			buf_text(&cursor, "&cursor=");
			text_percent(&cursor, str_of(fields_text(page, "cursor")));
		}
	} while (cursor.len);
	qsort(out->boxes, out->count, sizeof(void *), top_compare);
	return OK;
}

static void top_show(const struct top *top, const struct json *host)
{
	static const struct column columns[] = {
		{"ID", "shortId", NULL},
		{"NAME", "name", NULL},
		{"STATE", "state", NULL},
		{"CPU", "cpu", top_put_cpu},
		{"MEMORY", "memory", top_put_memory},
		{"PIDS", "pids", top_put_count},
		{"DISK", "disk", top_put_size},
		{"REQUESTS", "requests", top_put_count},
		{.head = NULL},
	};
	auto_grid grid = {0};
	auto_buf memory = BUF_INIT(64);
	uint16_t cols, rows = 0;

	if (!tty_size(STDOUT_FILENO, &cols, &rows) || rows < 5)
		rows = 24;
	top_put_size(json_get(host, "memory"), "sandboxesBytes", &memory);
	fwrite(CLEAR, 1, sizeof(CLEAR) - 1, stdout);
	print_line("%lld running, %lld frozen, %lld stopped; %.2f CPUs, %s of memory in sandboxes",
		   (long long)fields_number(json_get(host, "sandboxes"), "running", 0),
		   (long long)fields_number(json_get(host, "sandboxes"), "frozen", 0),
		   (long long)fields_number(json_get(host, "sandboxes"), "stopped", 0),
		   stats_number(json_get(host, "cpu"), "sandboxes"), memory.len ? memory.at : "-");
	collection_heads(columns, &grid);
	for (size_t i = 0; i < top->count && i + 4 < rows; i++)
		collection_row(columns, top->boxes[i], &grid);
	grid_print(&grid, stdout);
	fflush(stdout);
}

static void top_lines(const struct top *top, struct str host)
{
	print_json_line(host);
	for (size_t i = 0; i < top->count; i++) {
		auto_buf one = BUF_INIT(ROW_MAX);
		struct json_out out = json_to(&one);

		json_add_value(&out, top->boxes[i]);
		print_json_line(buf_view(&one));
	}
	fflush(stdout);
}

static fallible top_once(struct remote *remote, const struct call *call, bool live)
{
	on_exit_call(top_done) struct top top = {0};
	auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_json host = NULL;

	TRY(top_fetch(remote, call, &top));
	TRY(remote_ask(remote, "GET", STATS_PATH, NULL, &text, &host));
	if (live)
		top_show(&top, host);
	else
		top_lines(&top, buf_view(&text));
	return OK;
}

// Without a terminal the picture is taken once, unless --every asks for more.
fallible stats_top(struct call *call)
{
	bool live = isatty(STDOUT_FILENO) && !call_has(call, OPT_JSON);
	int64_t every_ms = EVERY_MS;
	auto_remote remote = {0};

	TRY(body_ms(call, OPT_EVERY, "2s", &every_ms));
	TRY(remote_open(&remote, call));
	for (;;) {
		TRY(top_once(&remote, call, live));
		if (!live && !call_has(call, OPT_EVERY))
			return OK;
		stats_sleep(every_ms);
	}
}

// ----------------------------------------------------------------------------------------- stats

static void stats_print(const struct json *stats)
{
	static const struct {
		const char *name, *part, *key, *limit;
		enum { CORES, SIZE, COUNT } unit;
		bool own; // of one sandbox
	} rows[] = {
		{"CPU", "cpu", "cores", "limitCores", CORES, true},
		{"CPU, all sandboxes", "cpu", "sandboxes", "cores", CORES, false},
		{"CPU, host", "cpu", "used", "cores", CORES, false},
		{"Memory", "memory", "workingSetBytes", "limitBytes", SIZE, false},
		{"Memory, all sandboxes", "memory", "sandboxesBytes", "totalBytes", SIZE, false},
		{"Processes", "pids", "count", "limit", COUNT, false},
		{"Processes, host", "pids", "used", "max", COUNT, false},
		{"Disk", "disk", "bytes", "limitBytes", SIZE, false},
		{"Inodes", "disk", "inodes", "inodeLimit", COUNT, false},
		{"Disk, all sandboxes", "disk", "sandboxesBytes", "totalBytes", SIZE, false},
		{"Requests", "network", "requests", NULL, COUNT, false},
		{"Received", "network", "bytesIn", NULL, SIZE, false},
		{"Sent", "network", "bytesOut", NULL, SIZE, false},
		{"Denied", "network", "denied", NULL, COUNT, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct json *part = json_get(stats, rows[i].part);
		const char *keys[] = {rows[i].key, rows[i].limit};
		auto_buf text = BUF_INIT(256);

		if (!json_get(part, rows[i].key) || (rows[i].own && !json_get(stats, "sandbox")))
			continue;
		for (int k = 0; k < 2 && keys[k]; k++) {
			double value = stats_number(part, keys[k]);

			if (k == 1 && value < 0)
				continue;
			buf_text(&text, k ? " of " : "");
			if (value < 0)
				buf_char(&text, '-');
			else if (rows[i].unit == SIZE)
				print_size((uint64_t)value, &text);
			else
				buf_fmt(&text, rows[i].unit == CORES ? "%.2f" : "%.0f", value);
		}
		print_line("%-22s %s", rows[i].name, text.at);
	}
}

fallible stats_show(struct call *call)
{
	auto_free char *path = call->word_count ? remote_path(BOXES_PATH, call->words[0], "/stats")
						: mem_str(STATS_PATH);
	bool again = call_has(call, OPT_EVERY);
	int64_t every_ms = EVERY_MS;
	auto_remote remote = {0};

	TRY(body_ms(call, OPT_EVERY, "2s", &every_ms));
	TRY(remote_open(&remote, call));
	for (;;) {
		auto_buf text = BUF_INIT(REMOTE_REPLY_MAX);
		auto_json stats = NULL;

		TRY(remote_ask(&remote, "GET", path, NULL, &text, &stats));
		if (again)
			print_json_line(buf_view(&text));
		else if (call_has(call, OPT_JSON))
			print_json(buf_view(&text));
		else
			stats_print(stats);
		fflush(stdout);
		if (!again)
			return OK;
		stats_sleep(every_ms);
	}
}

// ----------------------------------------------------------------------------------------- usage

static void usage_put_option(const struct call *call, enum opt opt, const char *key,
			     struct buf *out)
{
	if (!call_has(call, opt))
		return;
	buf_fmt(out, "%c%s=", memchr(out->at, '?', out->len) ? '&' : '?', key);
	text_percent(out, str_of(call_value(call, opt)));
}

static void usage_put_fixed(const struct json *item, const char *key, struct buf *out)
{
	double number = stats_number(item, key);

	if (number >= 0)
		buf_fmt(out, "%.*f", number >= 100 ? 0 : 3, number);
}

static void usage_put_key(const struct json *item, const char *key, struct buf *out)
{
	buf_text(out, json_type(json_get(item, key)) == JSON_STRING ? fields_text(item, key) : "-");
}

static void usage_print(const struct json *usage)
{
	static const struct column columns[] = {
		{"KEY", "key", usage_put_key},
		{"CPU S", "cpuSeconds", usage_put_fixed},
		{"MEMORY GIB S", "memoryGiBSeconds", usage_put_fixed},
		{"DISK GIB H", "diskGiBHours", usage_put_fixed},
		{"REQUESTS", "requests", top_put_count},
		{"IN", "bytesIn", top_put_size},
		{"OUT", "bytesOut", top_put_size},
		{"SANDBOXES", "sandboxes", top_put_count},
		{"COST", "cost", NULL},
		{.head = NULL},
	};
	const struct json *items = json_get(usage, "items"), *total = json_get(usage, "total");
	auto_grid grid = {0};

	collection_heads(columns, &grid);
	for (size_t i = 0; i < json_count(items); i++)
		collection_row(columns, json_at(items, i), &grid);
	grid_print(&grid, stdout);
	print_line("total: %.3f s of CPU time, %lld requests, cost %s %s",
		   stats_number(total, "cpuSeconds"),
		   (long long)fields_number(total, "requests", 0), fields_text(total, "cost"),
		   fields_text(usage, "currency"));
	if (*fields_text(usage, "cursor"))
		print_note("there are more; --json shows the cursor");
}

// Prints a reply that is no JSON.
static fallible usage_copy(struct remote *remote, const char *path)
{
	struct cove_request *request = NULL;
	char room[1024];
	size_t got = 0;
	struct err *err;

	TRY(remote_did(remote, cove_request_open(remote->cove, "GET", path, NULL, &request,
						 &remote->error)));
	err = remote_did(remote, cove_request_finish(request, &remote->error));
	do {
		if (!err)
			err = remote_did(remote, cove_request_read(request, room, sizeof(room),
								   &got, &remote->error));
		if (!err)
			fwrite(room, 1, got, stdout);
	} while (!err && got);
	cove_request_free(request);
	return err;
}

fallible stats_usage(struct call *call)
{
	auto_buf path = BUF_INIT(QUERY_MAX), text = BUF_INIT(REMOTE_REPLY_MAX);
	auto_remote remote = {0};
	auto_json usage = NULL;

	buf_text(&path, "/v1/usage");
	usage_put_option(call, OPT_BY, "by", &path);
	usage_put_option(call, OPT_FROM, "from", &path);
	usage_put_option(call, OPT_TO, "to", &path);
	usage_put_option(call, OPT_TENANT, "tenant", &path);
	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_FORMAT)) {
		usage_put_option(call, OPT_FORMAT, "format", &path);
		return usage_copy(&remote, path.at);
	}
	TRY(remote_ask(&remote, "GET", path.at, NULL, &text, &usage));
	if (call_has(call, OPT_JSON))
		print_json(buf_view(&text));
	else
		usage_print(usage);
	return OK;
}
