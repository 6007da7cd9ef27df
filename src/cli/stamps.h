// Times of the lines of a process's output: printed before each, or used to omit old ones.
#pragma once

#include "base/auto.h"
#include "base/buf.h"
#include "cli/remote.h"

struct stamp {
	uint64_t offset;
	int64_t ms; // wall clock
};

struct stamps {
	bool shown;	  // before each line
	int64_t since_ms; // older lines are omitted; 0: none
	uint64_t old;	  // bytes written before the times were asked
	struct stamp *at; // of those
	size_t count;
	uint64_t offset;     // of the next byte
	bool is_inside[2];   // of a line: stdout, stderr
	bool is_left_out[2]; // that line
};
void stamps_done(struct stamps *stamps);
#define auto_stamps on_exit_call(stamps_done) struct stamps

// --timestamps and --since. INVALID bad_value.
fallible stamps_read(const struct call *call, struct stamps *out);
// Asks the daemon for the times of the process's output.
fallible stamps_ask(struct remote *remote, const char *box, const char *process,
		    struct stamps *stamps);
// Formats the next piece of output. Pieces of both streams must come in order.
void stamps_pass(struct stamps *stamps, bool is_stderr, struct str bytes, struct buf *out);
