// Records of the commands of sessions, for a later daemon: each is a named tape "BOX/qN" with the
// command's output, its id, session and text in the label, and its exit code in the end record.
#pragma once

#include "box/tape.h"

struct adoption;
struct box;

struct session_records {
	uint32_t files;	   // numbers given so far
	uint32_t *numbers; // of an earlier daemon, the highest first, ended by 0; NULL: none
	bool is_taken;	   // a caller opens them
	struct condition taken;
};

// The tape of a command. `label` has its id and text.
struct tape *session_record_tape(struct box *box, const char *session, uint64_t cap,
				 const struct tape_label *label);
void session_records_adopt(struct adoption *adoption);
void session_records_remove(struct adoption *adoption); // the box has ended
void session_records_free(struct box *box);

// A command of an earlier daemon. The texts live as long as the tape, which is the reader's.
struct session_record {
	struct str id, session, command;
	struct tape *tape;
	int exit_code; // -1: it ran when that daemon ended
};
struct session_record_reader {
	void (*each)(void *arg, const struct session_record *record); // must not wait
	void *arg;
};
// Hands out all of the box, once, the oldest first; later callers wait meanwhile.
fallible session_records_take(struct box *box, const struct session_record_reader *reader);
