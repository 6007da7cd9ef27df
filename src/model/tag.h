// What a conversation with pid 1 is for, in the words of one daemon to the next: pid 1 keeps them
// and tells them again (model/talk.h). To pid 1 they are bytes; from it they are hostile, and say
// nothing that is not checked here or held against what the daemon finds on its own disk. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum tag_kind {
	TAG_EXEC,    // somebody waits for it who is gone with the daemon
	TAG_PROCESS, // it has a record and a tape
	TAG_SESSION, // a shell
	TAG_TERM,    // a terminal
	TAG_CONTEXT, // an interpreter
	TAG_KINDS
};

enum tag_flags {
	TAG_AUTO = 1,	 // PROCESS: its record goes with its end
	TAG_COMMAND = 2, // TERM: its end is kept until somebody was told
	TAG_CUT = 4,	 // the command is longer: the label of its tape has it
	TAG_HALF = 8, // SESSION, CONTEXT: it is being told something, and may have heard half of it
};

#define TAG_ID_MAX 256

struct tag {
	enum tag_kind kind;
	uint32_t flags;
	uint32_t file;		      // PROCESS, TERM: of its tape; SESSION, CONTEXT: of its card
	int64_t begun_us;	      // monotonic
	int64_t started_ms;	      // wall clock
	uint64_t cap;		      // of its tape
	uint64_t cpu_ms, wall_ms;     // limits; 0: none
	uint64_t meter_us, oom_kills; // at the beginning
	uint32_t sender;    // SESSION, CONTEXT: the process whose answers count; 0: not known
	struct str id;	    // 1 to TAG_ID_MAX bytes, but for EXEC: ""
	struct str session; // at == NULL: none
	struct str command; // PROCESS: as it is shown; TERM: what runs
};

// Cuts the command to what fits. The length; never 0 for an id and session in their bounds.
size_t tag_encode(const struct tag *tag, void *room, size_t size);
#define TAG_FLAGS_AT 2 // a byte of what was encoded
// Writes the sender into what was encoded. False: a tag of a version that has none.
bool tag_set_sender(void *bytes, size_t len, uint32_t sender);
// The texts are slices of `bytes`. False: this is none of ours.
bool tag_decode(struct str bytes, struct tag *out);
