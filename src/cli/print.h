// Output for people and programs: lines, aligned tables, indented JSON, errors. Names may be chosen
// by a sandbox or a tenant, so control characters are escaped: no output can control the terminal
// or start a line of its own. Colours only for a terminal without NO_COLOR.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

// A grid is a table, filled cell by cell, row after row; its first row is the heading.
struct grid {
	size_t columns;
	char **cells;
	size_t count;
};
void grid_add(struct grid *grid, const char *text); // copied, escaped; "" for an empty cell
void grid_print(const struct grid *grid, FILE *to);
void grid_done(struct grid *grid);
#define auto_grid on_exit_call(grid_done) struct grid

// The text with its control characters (C0, DEL, C1, bidirectional overrides, bytes that are no
// UTF-8) as \n, \x1b or \u009b.
void print_escape(struct str text, struct buf *out);
// One escaped line to stdout; the format has no newline.
void print_line(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// A JSON document on one line of stdout.
void print_json_line(struct str json);

// JSON as it came, indented by two blanks. No newline at the end.
void print_indent(struct str json, struct buf *out);
// An indented document to stdout, with its newline.
void print_json(struct str json);
// The value of a member of the object `json`, as it was written; at == NULL: absent.
struct str print_member(struct str json, const char *key);
// "cove: message" and "hint: …" to stderr, or one JSON object there.
void print_error(const struct err *err, bool json);
// "cove: …" to stderr: something worth knowing that is no failure.
void print_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

bool print_is_coloured(FILE *to);
// "12 s", "5 min", "3 h", "2 d"; "1.5 MiB".
void print_age(int64_t ms, struct buf *out);
void print_size(uint64_t bytes, struct buf *out);
// Wall clock of an API timestamp, ms; -1 when it is none.
int64_t print_when(struct str iso);

// A line of progress on a terminal's stderr, at most five times a second; nothing elsewhere.
struct progress {
	const char *what;
	int64_t shown_at; // 0: never yet
	bool enabled;
};
void progress_start(struct progress *progress, const char *what, bool quiet);
void progress_show(struct progress *progress, uint64_t bytes, uint64_t total); // total 0: unknown
void progress_end(struct progress *progress);				       // wipes the line
