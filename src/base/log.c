// One event, one line, one write(2): lines of several processes on one pipe do not mix. The line is
// built in a buffer of the thread, so that logging neither allocates nor fails; a field that does
// not fit is omitted and the line says so. Untrusted text is escaped: no field can end its line,
// forge another or control a terminal.
//
// syscalls: write
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "base/weak.h"

#define FIELD_MAX 1024
#define TRACE_MAX 64
#define LINE_MAX_ (16 * 1024)
#define BOX_PLACES 4096
#define MINUTE_MS 60000
#define TAIL_ROOM 32 // for ',"cut":true}' and the newline

static struct {
	const char *component;
	int fd;
	enum log_level level;
	bool text, is_terminal;
} log_to = {"cove", STDERR_FILENO, LOG_INFO, false, false};

static _Thread_local char trace_now[TRACE_MAX + 1];

static const char *const level_words[] = {"debug", "info", "warn", "error"};

struct line {
	char *at;
	size_t len;
	bool full;
};

static void log_add(struct line *line, const char *bytes, size_t len)
{
	if (line->full || len > LINE_MAX_ - TAIL_ROOM - line->len) {
		line->full = true;
		return;
	}
	memcpy(line->at + line->len, bytes, len);
	line->len += len;
}

static void add_text(struct line *line, const char *text)
{
	log_add(line, text, strlen(text));
}

// One character of `s`: a valid one as it is, anything else as a JSON escape.
static size_t add_char(struct line *line, struct str s)
{
	unsigned char c = (unsigned char)s.at[0];
	char escape[8];
	size_t len;

	if (c == '"' || c == '\\') {
		escape[0] = '\\';
		escape[1] = (char)c;
		log_add(line, escape, 2);
		return 1;
	}
	if (c < 0x20 || c == 0x7f) {
		snprintf(escape, sizeof(escape), "\\u%04x", c);
		log_add(line, escape, 6);
		return 1;
	}
	if (str_utf8(s, &len) == STR_UTF8_GOOD) {
		// C1 controls are characters in UTF-8 and commands for some terminals.
		if (c == 0xc2 && (unsigned char)s.at[1] < 0xa0) {
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)s.at[1]);
			log_add(line, escape, 6);
		} else {
			log_add(line, s.at, len);
		}
		return len;
	}
	add_text(line, "\\ufffd");
	return len;
}

static void add_escaped(struct line *line, const char *text)
{
	size_t len = strnlen(text, FIELD_MAX + 1);
	bool cut = len > FIELD_MAX;
	struct str rest = {text, cut ? FIELD_MAX : len};

	if (weak(LOG_ESCAPE))
		log_add(line, rest.at, rest.len);
	while (rest.len > 0 && !weak(LOG_ESCAPE))
		rest = str_skip(rest, add_char(line, rest));
	if (cut)
		add_text(line, "...");
}

static bool needs_quotes(const char *text)
{
	if (!*text)
		return true;
	for (; *text; text++)
		if (*text <= ' ' || *text == '"' || *text == '=' || *text == 0x7f)
			return true;
	return false;
}

// A whole field or nothing.
static void add_field(struct line *line, const char *name, const char *text)
{
	size_t before = line->len;
	bool quoted = !log_to.text || needs_quotes(text);

	add_text(line, log_to.text ? " " : before > 1 ? ",\"" : "\"");
	add_text(line, name);
	add_text(line, log_to.text ? "=" : "\":");
	if (quoted)
		add_text(line, "\"");
	add_escaped(line, text);
	if (quoted)
		add_text(line, "\"");
	if (line->full)
		line->len = before;
}

static void add_head(struct line *line, enum log_level level, const char *what)
{
	char room[40];
	struct buf now = {.at = room, .room = sizeof(room) - 1, .ceiling = sizeof(room) - 1};

	room[0] = 0;
	clock_iso(clock_wall_ms(), &now); // 24 bytes: the buf never grows, so never allocates
	if (log_to.text) {
		add_text(line, room);
		add_text(line, " ");
		add_text(line, level_words[level]);
		add_text(line, " ");
		add_text(line, log_to.component);
		add_text(line, " ");
		add_escaped(line, what);
	} else {
		add_text(line, "{");
		add_field(line, "time", room);
		add_field(line, "level", level_words[level]);
		add_field(line, "component", log_to.component);
		add_field(line, "event", what);
	}
	if (trace_now[0])
		add_field(line, "trace", trace_now);
}

static void log_finish(struct line *line)
{
	const char *tail = log_to.text ? "\n" : "}\n";

	if (line->full)
		tail = log_to.text ? " cut=true\n" : ",\"cut\":true}\n";
	memcpy(line->at + line->len, tail, strlen(tail)); // TAIL_ROOM was reserved for it
	line->len += strlen(tail);
	while (write(log_to.fd, line->at, line->len) < 0 && errno == EINTR)
		;
}

static void add_fields(struct line *line, va_list args)
{
	const char *name;

	while ((name = va_arg(args, const char *))) {
		const char *text = va_arg(args, const char *);

		if (text)
			add_field(line, name, text);
	}
}

static void write_line(enum log_level level, const char *what, va_list fields)
{
	static _Thread_local char room[LINE_MAX_];
	struct line line = {.at = room};
	int saved = errno;

	add_head(&line, level, what);
	add_fields(&line, fields);
	log_finish(&line);
	errno = saved;
}

void log_event(enum log_level level, const char *what, ...)
{
	va_list args;

	va_start(args, what);
	if (log_wants(level))
		write_line(level, what, args);
	va_end(args);
}

// Sandboxes with equal hash share a counter.
static struct {
	int64_t since_ms;
	uint32_t count;
} of_box[BOX_PLACES];

static bool box_has_room(const char *box)
{
	uint32_t hash = 2166136261u, past;
	int64_t now = clock_ms();
	size_t at;
	char text[16];

	for (const char *c = box; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	at = hash % BOX_PLACES;
	if (!of_box[at].count || now - of_box[at].since_ms >= MINUTE_MS) {
		past = of_box[at].count;
		of_box[at].since_ms = now;
		of_box[at].count = 0;
		if (past > LOG_BOX_LINES) {
			snprintf(text, sizeof(text), "%u", past - LOG_BOX_LINES);
			log_event(LOG_INFO, "log.suppressed", "sandbox", box, "lines", text, NULL);
		}
	}
	return ++of_box[at].count <= LOG_BOX_LINES || weak(LOG_LINES);
}

bool log_event_of(const char *box, enum log_level level, const char *what, ...)
{
	bool has_room = box_has_room(box);
	va_list args;

	va_start(args, what);
	if (has_room && log_wants(level))
		write_line(level, what, args);
	va_end(args);
	return has_room;
}

bool log_wants(enum log_level level)
{
	return level >= log_to.level;
}

void log_trace(const char *trace)
{
	size_t len = trace ? strnlen(trace, TRACE_MAX) : 0;

	if (len)
		memcpy(trace_now, trace, len);
	trace_now[len] = 0;
}

const char *log_trace_now(void)
{
	return trace_now;
}

static const char *setting(const char *name, const char *other)
{
	const char *value = getenv(name);

	return value && *value ? value : getenv(other);
}

void log_open(const char *component, int fd)
{
	log_to.component = component;
	log_to.fd = fd;
	log_to.is_terminal = isatty(fd) == 1; // once: the filter forbids TCGETS
	log_set(NULL, NULL);
	fault_spare(fd);
}

void log_set(const char *level, const char *format)
{
	if (!level || !*level)
		level = setting("COVE_LOG_LEVEL", "SANDBOX_LOG_LEVEL");
	if (!format || !*format)
		format = setting("COVE_LOG_FORMAT", "SANDBOX_LOG_FORMAT");
	log_to.level = LOG_INFO;
	log_to.text = format && *format ? str_eq_nocase(str_of(format), STR("text"))
					: log_to.is_terminal;
	for (int i = LOG_DEBUG; level && i <= LOG_ERROR; i++)
		if (str_eq_nocase(str_of(level), str_of(level_words[i])))
			log_to.level = (enum log_level)i;
}
