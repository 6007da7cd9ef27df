// The message to pid 1 that starts a command, and the error for its refusal.
#pragma once

#include "base/err.h"
#include "box/command.h"
#include "protocol/talk.h"

// The talk_exec_flags for a pid 1 with these features.
uint32_t exec_message_flags(const struct exec_spec *spec, uint32_t features);
// Encodes EXEC, on the heap. `label` may be empty. TOO_LARGE command_too_large, INVALID for
// impossible parameters.
fallible exec_message_encode(const struct exec_spec *spec, uint32_t flags, uint32_t conn,
			     uint32_t exec_cgroup, struct str label, char **out, size_t *out_len);
// FAILED as an error; step NONE: the box was lost.
fallible exec_message_explain(const struct talk *failed, const struct exec_spec *spec);
fallible exec_message_box_lost(void);
fallible exec_message_too_many(void);
