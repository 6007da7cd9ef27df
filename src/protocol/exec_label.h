// What a conversation with pid 1 is for, in the words of one daemon to the next: pid 1 keeps them
// and tells them again (protocol/talk.h). To pid 1 they are bytes; from it they are hostile, and
// say nothing that is not checked here or held against what the daemon finds on its own disk. No
// I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum exec_label_kind {
	EXEC_LABEL_EXEC,    // somebody waits for it who is gone with the daemon
	EXEC_LABEL_PROCESS, // it has a record and a tape
	EXEC_LABEL_SESSION, // a shell
	EXEC_LABEL_TERM,    // a terminal
	EXEC_LABEL_CONTEXT, // an interpreter
	EXEC_LABEL_KINDS
};

enum exec_label_flags {
	EXEC_LABEL_AUTO = 1,	// PROCESS: its record goes with its end
	EXEC_LABEL_COMMAND = 2, // TERM: its end is kept until somebody was told
	EXEC_LABEL_CUT = 4,	// the command is longer: the label of its tape has it
	EXEC_LABEL_HALF =
		8, // SESSION, CONTEXT: it is being told something, and may have heard half of it
};

#define EXEC_LABEL_ID_MAX 256

struct exec_label {
	enum exec_label_kind kind;
	uint32_t flags;
	uint32_t file;		      // PROCESS, TERM: of its tape; SESSION, CONTEXT: of its card
	int64_t begun_us;	      // monotonic
	int64_t started_ms;	      // wall clock
	uint64_t cap;		      // of its tape
	uint64_t cpu_ms, wall_ms;     // limits; 0: none
	uint64_t meter_us, oom_kills; // at the beginning
	uint32_t sender;    // SESSION, CONTEXT: the process whose answers count; 0: not known
	struct str id;	    // 1 to EXEC_LABEL_ID_MAX bytes, but for EXEC: ""
	struct str session; // at == NULL: none
	struct str command; // PROCESS: as it is shown; TERM: what runs
};

// Cuts the command to what fits. The length; never 0 for an id and session in their bounds.
size_t exec_label_encode(const struct exec_label *tag, void *room, size_t size);
#define EXEC_LABEL_FLAGS_AT 2 // a byte of what was encoded
// Writes the sender into what was encoded. False: a tag of a version that has none.
bool exec_label_set_sender(void *bytes, size_t len, uint32_t sender);
// The texts are slices of `bytes`. False: this is none of ours.
bool exec_label_decode(struct str bytes, struct exec_label *out);
