// asciicast version 2: a recording of a terminal as lines of JSON, a head and then events
// [seconds, kind, text]. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "codec/json.h"

#define CAST_TYPE "application/x-asciicast"
#define CAST_LINE_MAX (1u << 20) // bytes of a line
#define CAST_SIDE_MAX 4096	 // columns, rows

struct cast_head {
	uint32_t width, height;
	int64_t started_ms;	   // wall clock; 0: not known
	struct str command, title; // at == NULL: none
};

// A writer of the output of a command. The times are of offsets, in order; bytes before the first
// one came at the start.
struct cast_time {
	uint64_t offset;
	int64_t ms; // wall clock
};
struct cast_writer {
	const struct cast_time *times;
	size_t time_count, at;
	int64_t started_ms, now_ms;
	bool is_terminal;	    // else a newline also returns the carriage
	bool had_return;	    // the last byte was a carriage return
	struct json_carry carry[2]; // of each stream
};
void cast_begin(struct cast_writer *writer, const struct cast_head *head, struct buf *out);
// The bytes at `offset` of stream 0 or 1: appends an event, or several if they came at several
// times.
void cast_add(struct cast_writer *writer, int stream, struct str bytes, uint64_t offset,
	      struct buf *out);
void cast_end(struct cast_writer *writer, struct buf *out);

// A reader, line by line. INVALID bad_cast. Texts live as long as *json, the caller's.
fallible cast_read_head(struct str line, struct json **json, struct cast_head *out);
struct cast_event {
	uint64_t at_us; // since the start
	char kind;	// 'o' output, 'i' input, 'r' resize, 'm' marker, and what may come
	struct str text;
};
fallible cast_read_event(struct str line, struct json **json, struct cast_event *out);
