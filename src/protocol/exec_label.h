// The label of a command: what one daemon records with pid 1 for the next (protocol/talk.h). pid 1
// stores it as bytes. From pid 1 it is hostile: every field is checked here or against the daemon's
// own disk. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum exec_label_kind {
	EXEC_LABEL_EXEC,    // its client is gone with the daemon
	EXEC_LABEL_PROCESS, // it has a record and a tape
	EXEC_LABEL_SESSION, // a shell
	EXEC_LABEL_TERM,    // a terminal
	EXEC_LABEL_CONTEXT, // an interpreter
	EXEC_LABEL_KINDS
};

enum exec_label_flags {
	EXEC_LABEL_AUTO = 1,	// PROCESS: its record goes with its end
	EXEC_LABEL_COMMAND = 2, // TERM: its end is kept until it was reported
	EXEC_LABEL_CUT = 4,	// the command is longer: the label of its tape has it
	EXEC_LABEL_HALF =
		8, // SESSION, CONTEXT: a message to it is being written, and may be incomplete
};

#define EXEC_LABEL_ID_MAX 256

struct exec_label {
	enum exec_label_kind kind;
	uint32_t flags;
	uint32_t file;		  // PROCESS, TERM: of its tape; SESSION, CONTEXT: of its state file
	int64_t begun_us;	  // monotonic
	int64_t started_ms;	  // wall clock
	uint64_t cap;		  // of its tape
	uint64_t cpu_ms, wall_ms; // limits; 0: none
	uint64_t meter_us, oom_kills; // at the start
	uint32_t sender;    // SESSION, CONTEXT: the process whose answers count; 0: unknown
	struct str id;	    // 1 to EXEC_LABEL_ID_MAX bytes, except for EXEC: ""
	struct str session; // at == NULL: none
	struct str command; // PROCESS: as it is shown; TERM: what runs
};

// Cuts the command to what fits. Returns the length; never 0 for an id and session within bounds.
size_t exec_label_encode(const struct exec_label *label, void *room, size_t size);
#define EXEC_LABEL_FLAGS_AT 2 // a byte of what was encoded
// Writes the sender into an encoded label. False: the version of the label has none.
bool exec_label_set_sender(void *bytes, size_t len, uint32_t sender);
// The texts are slices of `bytes`. False: not a label.
bool exec_label_decode(struct str bytes, struct exec_label *out);
