// The label of a command: what one daemon records with pid 1 for the next (protocol/talk.h). pid 1
// stores it as bytes. From pid 1 it is hostile: every field is checked here or against the daemon's
// own disk. No I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/field.h"

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
	// SESSION, CONTEXT: a message to it is being written, and may be incomplete.
	EXEC_LABEL_HALF = 8,
	EXEC_LABEL_FLAGS = 15,
};

#define EXEC_LABEL_ID_MAX 256

// The fields, after a byte with the version, in the order of the wire (protocol/field.h).
//
// file: PROCESS, TERM: of its tape; SESSION, CONTEXT: of its state file. begun_us: monotonic.
// started_ms: wall clock. cap: of its tape. cpu_ms, wall_ms: limits; 0: none. meter_us, oom_kills:
// at the start. sender: SESSION, CONTEXT: the process whose answers count; 0: unknown. has_session:
// set by the encoder. id: "" for EXEC alone. session: at == NULL: none. command: PROCESS: as it is
// shown; TERM: what runs.
#define EXEC_LABEL_BIT(version) (1u << (version))
#define EXEC_LABEL_ALL (EXEC_LABEL_BIT(1) | EXEC_LABEL_BIT(2))
#define EXEC_LABEL_NUMBER FIELD_U64(0, 1ull << 53)
// clang-format off
//	  type                  field        on the wire                           check    versions
#define EXEC_LABEL_FIELDS(F) \
	F(enum exec_label_kind, kind,        FIELD_U8(0, EXEC_LABEL_KINDS - 1),    ANY,     EXEC_LABEL_ALL) \
	F(uint32_t,             flags,       FIELD_U8(0, EXEC_LABEL_FLAGS),        ANY,     EXEC_LABEL_ALL) \
	F(uint32_t,             file,        FIELD_U32(0, UINT32_MAX),             ANY,     EXEC_LABEL_ALL) \
	F(int64_t,              begun_us,    EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(int64_t,              started_ms,  EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint64_t,             cap,         EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint64_t,             cpu_ms,      EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint64_t,             wall_ms,     EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint64_t,             meter_us,    EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint64_t,             oom_kills,   EXEC_LABEL_NUMBER,                    ANY,     EXEC_LABEL_ALL) \
	F(uint32_t,             sender,      FIELD_U32(0, UINT32_MAX),             ANY,     EXEC_LABEL_BIT(2)) \
	F(bool,                 has_session, FIELD_BOOL,                           ANY,     EXEC_LABEL_ALL) \
	F(struct str,           id,          FIELD_TEXT(EXEC_LABEL_ID_MAX),        ID,      EXEC_LABEL_ALL) \
	F(struct str,           session,     FIELD_TEXT(EXEC_LABEL_ID_MAX),        SESSION, EXEC_LABEL_ALL) \
	F(struct str,           command,     FIELD_TEXT(UINT32_MAX),               ANY,     EXEC_LABEL_ALL)
// clang-format on

struct exec_label {
#define F(type, field, ...) type field;
	EXEC_LABEL_FIELDS(F)
#undef F
};

// Cuts the command to what fits. Returns the length; never 0 for an id and session within bounds.
size_t exec_label_encode(const struct exec_label *label, void *room, size_t size);
#define EXEC_LABEL_FLAGS_AT 2 // a byte of what was encoded
// Writes the sender into an encoded label. False: the version of the label has none.
bool exec_label_set_sender(void *bytes, size_t len, uint32_t sender);
// The texts are slices of `bytes`. False: not a label.
bool exec_label_decode(struct str bytes, struct exec_label *out);
