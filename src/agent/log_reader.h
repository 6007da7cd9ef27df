// Reads a tape with values masked (codec/mask.h), in order of arrival: a byte that may begin a
// value is held back, and so is what follows it in the other stream. Offsets are those of the tape.
// A reader of a running command and a reader of its stored log get the same bytes.
#pragma once

#include "box/tape.h"
#include "codec/mask.h"

struct log_part;

// Embedded in its owner, which holds the tape and the mask.
struct log_reader {
	struct tape *tape;
	struct mask_stream *masks[TAPE_STREAMS]; // NULL: nothing is masked
	struct tape_reader live;
	bool follows;	 // else it ends with what is kept now
	uint64_t read;	 // offset after the bytes that were read
	uint64_t offset; // after the bytes that were returned
	uint64_t from, until;
	uint64_t missed; // bytes that a slow reader can no longer get
	struct buf ready[TAPE_STREAMS];
	struct log_part *parts; // of both streams, in order
	size_t part_count, part_room;
	size_t taken; // bytes of `ready` that were returned last
	enum tape_stream taken_of;
	bool ended;
	char *room;
};

// `mask` NULL: none. INVALID bad_offset: `from` is past the end.
fallible log_reader_begin(struct log_reader *reader, struct tape *tape, const struct mask *mask,
			  uint64_t from, bool follows);
void log_reader_end(struct log_reader *reader);
// The next bytes of one stream; len 0: the end. Borrowed until the next call. TIMEOUT.
fallible log_reader_next(struct log_reader *reader, enum tape_stream *out_stream, struct str *out,
			 int64_t deadline);
bool log_reader_is_ready(const struct log_reader *reader); // will not wait for the command
#define auto_log_reader on_exit_call(log_reader_end) struct log_reader
