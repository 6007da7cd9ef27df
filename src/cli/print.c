#include "cli/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "wire/json.h"

#define GAP 3 // blanks between columns

#define RED "\033[31m"
#define GREEN "\033[32m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

bool print_is_coloured(FILE *to)
{
	const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

	return !(none && *none) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(to));
}

void grid_add(struct grid *grid, const char *text)
{
	grid->cells = mem_grow(grid->cells, grid->count + 1, sizeof(char *));
	grid->cells[grid->count++] = mem_str(text);
}

// Words that mean well or ill are coloured, wherever they stand.
static const char *colour_of(const char *cell, bool heading)
{
	static const char *const good[] = {"running", "ok", "yes"};
	static const char *const bad[] = {"failed", "missing", "no"};

	if (heading)
		return BOLD;
	for (size_t i = 0; i < 3; i++) {
		if (strcmp(cell, good[i]) == 0)
			return GREEN;
		if (strcmp(cell, bad[i]) == 0)
			return RED;
	}
	return "";
}

static size_t width_of(const struct grid *grid, size_t column)
{
	size_t width = 0;

	for (size_t i = column; i < grid->count; i += grid->columns) {
		size_t len = strlen(grid->cells[i]);

		width = len > width ? len : width;
	}
	return width;
}

void grid_print(const struct grid *grid, FILE *to)
{
	bool coloured = print_is_coloured(to);

	for (size_t i = 0; i < grid->count; i++) {
		size_t column = i % grid->columns;
		const char *cell = grid->cells[i];
		const char *colour = coloured ? colour_of(cell, i < grid->columns) : "";

		fprintf(to, "%s%s%s", colour, cell, *colour ? PLAIN : "");
		if (column + 1 == grid->columns)
			fputc('\n', to);
		else
			fprintf(to, "%*s", (int)(width_of(grid, column) - strlen(cell)) + GAP, "");
	}
}

void grid_done(struct grid *grid)
{
	for (size_t i = 0; i < grid->count; i++)
		free(grid->cells[i]);
	free(grid->cells);
	*grid = (struct grid){.columns = grid->columns};
}

static void line(struct buf *out, int depth)
{
	buf_char(out, '\n');
	for (int i = 0; i < depth; i++)
		buf_text(out, "  ");
}

void print_indent(struct str json, struct buf *out)
{
	bool quoted = false;
	int depth = 0;

	for (size_t i = 0; i < json.len; i++) {
		char c = json.at[i];
		char next = i + 1 < json.len ? json.at[i + 1] : 0;

		if (quoted) {
			buf_char(out, c);
			if (c == '\\' && next)
				buf_char(out, json.at[++i]);
			quoted = c != '"';
			continue;
		}
		if (strchr(" \t\r\n", c))
			continue;
		if (c == '}' || c == ']')
			line(out, --depth);
		buf_char(out, c);
		if (c == ':')
			buf_char(out, ' ');
		else if (c == ',')
			line(out, depth);
		else if ((c == '{' && next == '}') || (c == '[' && next == ']'))
			buf_char(out, json.at[++i]);
		else if (c == '{' || c == '[')
			line(out, ++depth);
		quoted = c == '"';
	}
}

// The length of the string literal or the single other character at the front.
static size_t step(struct str json)
{
	size_t i = 1;

	if (json.at[0] != '"')
		return 1;
	while (i < json.len && json.at[i] != '"')
		i += json.at[i] == '\\' ? 2 : 1;
	return i + 1 < json.len ? i + 1 : json.len;
}

struct str print_member(struct str json, const char *key)
{
	struct str last = {0}, value = {0};
	int depth = 0;

	for (size_t i = 0, n; i < json.len; i += n) {
		char c = json.at[i];

		n = step(str_skip(json, i));
		if (depth == 1 && value.at && (c == ',' || c == '}')) {
			value.len = (size_t)(json.at + i - value.at);
			return str_trim(value);
		}
		depth += (c == '{' || c == '[') - (c == '}' || c == ']');
		if (c == '"' && n >= 2)
			last = (struct str){json.at + i + 1, n - 2};
		else if (c == ':' && depth == 1 && str_is(last, key))
			value = str_skip(json, i + 1 + strspn(json.at + i + 1, " \t\r\n"));
	}
	return (struct str){0};
}

void print_json(struct str json)
{
	auto_buf out = BUF_INIT(SIZE_MAX / 2);

	print_indent(json, &out);
	buf_char(&out, '\n');
	fwrite(out.at, 1, out.len, stdout);
}

void print_error(const struct err *err, bool json)
{
	// Here the reader is the operator: a failure of our own side may say all that it knows.
	bool ours = err_kind(err) == ERR_INTERNAL && strcmp(err_reason(err), "internal") == 0;
	const char *message = ours ? err_trail(err) : err_message(err);
	const char *hint = err_hint_of(err);
	bool coloured = print_is_coloured(stderr);

	if (json) {
		auto_buf text = BUF_INIT(64 * 1024);
		struct json_out out = json_to(&text);

		json_begin(&out, '{');
		json_put_text(&out, "code", err_word(err));
		json_put_text(&out, "reason", err_reason(err));
		json_put_text(&out, "message", message);
		json_put_text(&out, "hint", hint);
		json_put_bool(&out, "retryable", err_may_retry(err));
		json_put_int(&out, "httpStatus", err_http(err));
		json_end(&out, '}');
		fprintf(stderr, "%s\n", text.at);
		return;
	}
	fprintf(stderr, "%scove:%s %s\n", coloured ? BOLD RED : "", coloured ? PLAIN : "", message);
	if (hint)
		fprintf(stderr, "%shint:%s %s\n", coloured ? BOLD : "", coloured ? PLAIN : "",
			hint);
}

void print_note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("cove: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
}

void print_age(int64_t ms, struct buf *out)
{
	int64_t s = ms < 0 ? 0 : ms / 1000;

	if (s < 120)
		buf_fmt(out, "%d s", (int)s);
	else if (s < 120 * 60)
		buf_fmt(out, "%d min", (int)(s / 60));
	else if (s < 48 * 3600)
		buf_fmt(out, "%d h", (int)(s / 3600));
	else
		buf_fmt(out, "%lld d", (long long)(s / 86400));
}

void print_size(uint64_t bytes, struct buf *out)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
	double size = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		buf_fmt(out, "%d B", (int)bytes);
		return;
	}
	for (; size >= 1024 && i < 3; i++)
		size /= 1024;
	buf_fmt(out, "%.1f %s", size, units[i]);
}

int64_t print_when(struct str iso)
{
	auto_free char *text = mem_dup(iso.at ? iso.at : "", iso.len);
	struct tm tm = {0};

	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return -1;
	return (int64_t)timegm(&tm) * 1000;
}

#define PROGRESS_MS 200

void progress_start(struct progress *progress, const char *what, bool quiet)
{
	*progress = (struct progress){.what = what, .enabled = !quiet && isatty(STDERR_FILENO)};
}

void progress_show(struct progress *progress, uint64_t bytes, uint64_t total)
{
	auto_buf text = BUF_INIT(256);

	if (!progress->enabled || clock_ms() - progress->shown_at < PROGRESS_MS)
		return;
	progress->shown_at = clock_ms();
	print_size(bytes, &text);
	if (total) {
		buf_text(&text, " of ");
		print_size(total, &text);
	}
	fprintf(stderr, "\r%s %s\033[K", progress->what, text.at);
}

void progress_end(struct progress *progress)
{
	if (progress->shown_at)
		fputs("\r\033[K", stderr);
	progress->shown_at = 0;
}
