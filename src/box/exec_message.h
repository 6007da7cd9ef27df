// What is said to pid 1 to start a command, and what its refusal means to a tenant.
#pragma once

#include "base/err.h"
#include "box/command.h"
#include "protocol/talk.h"

// What it asks of a pid 1 with these features, as talk_exec_flags.
uint32_t exec_message_flags(const struct exec_spec *spec, uint32_t features);
// The words of EXEC, on the heap. `flags` as above; `tag` may be empty. TOO_LARGE
// command_too_large, INVALID for what no command can have.
fallible exec_message_encode(const struct exec_spec *spec, uint32_t flags, uint32_t conn,
			     uint32_t exec_cgroup, struct str tag, char **out, size_t *out_len);
// A FAILED as an error; step NONE: the box was lost meanwhile.
fallible exec_message_explain(const struct talk *failed, const struct exec_spec *spec);
fallible exec_message_box_lost(void);
