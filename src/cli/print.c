// Output: escaped lines, tables, indented JSON, errors, progress. Every text from outside passes
// through print_escape(), so that it cannot send control sequences to the terminal.
#include "cli/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/weak.h"
#include "codec/json.h"
#include "codec/json_part.h"

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

// Is there a control character or a bidirectional override at the front? Its code; and in any case
// the bytes of the character. A byte that is not UTF-8 counts as one: terminals without UTF-8 read
// 0x80 to 0x9f as C1.
static bool is_control(struct str text, uint32_t *code, size_t *len)
{
	const unsigned char *at = (const unsigned char *)text.at;
	size_t need = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : at[0] >= 0xc0 ? 2 : 1;

	*len = 1;
	*code = at[0];
	if (at[0] < 0x80)
		return at[0] < ' ' || at[0] == 0x7f;
	if (need == 1 || need > text.len)
		return true;
	*code &= 0x7fu >> need;
	for (size_t i = 1; i < need; i++) {
		if ((at[i] & 0xc0) != 0x80) {
			*code = at[0];
			return true;
		}
		*code = *code << 6 | (at[i] & 0x3f);
	}
	*len = need;
	return *code < 0xa0 || (*code >= 0x2028 && *code <= 0x202e) ||
	       (*code >= 0x2066 && *code <= 0x2069);
}

void print_escape(struct str text, struct buf *out)
{
	static const char letters[] = {['\n'] = 'n', ['\t'] = 't', ['\r'] = 'r'};
	uint32_t code;
	size_t len;

	for (size_t i = 0; i < text.len; i += len) {
		if (!is_control(str_skip(text, i), &code, &len) || weak(PRINT_ESCAPE))
			buf_str(out, (struct str){text.at + i, len});
		else if (code < sizeof(letters) && letters[code])
			buf_fmt(out, "\\%c", letters[code]);
		else
			buf_fmt(out, len > 1 ? "\\u%04x" : "\\x%02x", code);
	}
}

__attribute__((format(printf, 2, 0))) static void print_escaped(FILE *to, const char *fmt,
								va_list args)
{
	auto_buf shown = BUF_INIT(SIZE_MAX / 2);
	auto_free char *text = NULL;

	if (vasprintf(&text, fmt, args) < 0) {
		text = NULL;
		return;
	}
	print_escape(str_of(text), &shown);
	fwrite(shown.at ? shown.at : "", 1, shown.len, to);
}

void print_line(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_escaped(stdout, fmt, args);
	va_end(args);
	putchar('\n');
}

void grid_add(struct grid *grid, const char *text)
{
	auto_buf shown = BUF_INIT(SIZE_MAX / 2);

	print_escape(str_of(text), &shown);
	grid->cells = mem_grow(grid->cells, grid->count + 1, sizeof(char *));
	grid->cells[grid->count++] = mem_str(shown.at ? shown.at : "");
}

// State words are coloured in every column.
static const char *print_colour_of(const char *cell, bool heading)
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
		const char *colour = coloured ? print_colour_of(cell, i < grid->columns) : "";

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

// One character of a string, at *at. Control characters that JSON leaves alone (DEL, C1) become \u.
// False: it was the closing quote.
static bool json_escape_char(struct str json, size_t *at, struct buf *out)
{
	char c = json.at[*at];
	uint32_t code;
	size_t len;

	if (is_control(str_skip(json, *at), &code, &len) && !weak(PRINT_ESCAPE)) {
		buf_fmt(out, "\\u%04x", code);
		*at += len - 1;
		return true;
	}
	if (len > 1) {
		buf_str(out, (struct str){json.at + *at, len});
		*at += len - 1;
		return true;
	}
	buf_char(out, c);
	if (c == '\\' && *at + 1 < json.len)
		buf_char(out, json.at[++*at]);
	return c != '"';
}

// Removes blanks between tokens; indents unless `is_flat`.
static void json_escape(struct str json, bool is_flat, struct buf *out)
{
	bool quoted = false;
	int depth = 0;

	for (size_t i = 0; i < json.len; i++) {
		char c = json.at[i];
		char next = i + 1 < json.len ? json.at[i + 1] : 0;

		if (quoted) {
			quoted = json_escape_char(json, &i, out);
			continue;
		}
		if (strchr(" \t\r\n", c) || c == 0x7f || (c & 0x80))
			continue;
		quoted = c == '"';
		if (!is_flat && (c == '}' || c == ']'))
			line(out, --depth);
		buf_char(out, c);
		if (is_flat)
			continue;
		if (c == ':')
			buf_char(out, ' ');
		else if (c == ',')
			line(out, depth);
		else if ((c == '{' && next == '}') || (c == '[' && next == ']'))
			buf_char(out, json.at[++i]);
		else if (c == '{' || c == '[')
			line(out, ++depth);
	}
}

void print_indent(struct str json, struct buf *out)
{
	json_escape(json, false, out);
}

void print_json_line(struct str json)
{
	auto_buf out = BUF_INIT(SIZE_MAX / 2);

	json_escape(json, true, &out);
	buf_char(&out, '\n');
	fwrite(out.at, 1, out.len, stdout);
}

struct str print_member(struct str json, const char *key)
{
	struct str value = {0};

	return json_part(str_trim(json), key, NULL, &value) ? value : (struct str){0};
}

void print_json(struct str json)
{
	auto_buf out = BUF_INIT(SIZE_MAX / 2);

	print_indent(json, &out);
	buf_char(&out, '\n');
	fwrite(out.at, 1, out.len, stdout);
}

__attribute__((format(printf, 1, 2))) static void print_to_stderr(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_escaped(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

void print_error(const struct err *err, bool json)
{
	// The reader is the operator: show the whole trail of an internal error.
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
	fprintf(stderr, "%scove:%s ", coloured ? BOLD RED : "", coloured ? PLAIN : "");
	print_to_stderr("%s", message);
	if (hint) {
		fprintf(stderr, "%shint:%s ", coloured ? BOLD : "", coloured ? PLAIN : "");
		print_to_stderr("%s", hint);
	}
}

void print_note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("cove: ", stderr);
	print_escaped(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
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
