// A tape inside of a JSON answer, copied as the client reads.
#pragma once

#include "box/tape.h"
#include "codec/json.h"
#include "http/http.h"

enum output_part {
	OUTPUT_BOTH,
	OUTPUT_STDOUT,
	OUTPUT_STDERR,
	OUTPUT_MARKED, // both; each stretch begins with OUTPUT_MARK_STDOUT or …_STDERR
};
#define OUTPUT_MARK_STDOUT "\1\1\1"
#define OUTPUT_MARK_STDERR "\2\2\2"

struct output {
	struct http *x;
	struct buf out; // the answer, as far as it is not sent
	bool begun;
};
#define OUTPUT_OUT_MAX (1 << 20)

void output_done(struct output *output);
#define auto_output on_exit_call(output_done) struct output
// Adds the first `until` bytes of a tape as the inside of a JSON string, or as they are. May wait
// for the client.
fallible output_add(struct output *output, struct tape *tape, uint64_t until,
		    enum output_part part);
fallible output_add_raw(struct output *output, struct tape *tape, uint64_t until);
fallible output_end(struct output *output); // sends what is left
