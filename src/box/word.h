// What is said to pid 1 to start a command, and what its refusal means to a tenant.
#pragma once

#include "base/err.h"
#include "box/command.h"
#include "model/talk.h"

// What it asks for, as talk_exec_flags.
uint32_t word_flags(const struct exec_spec *spec);
// The words of EXEC, on the heap. TOO_LARGE command_too_large, INVALID for what no command can
// have.
fallible word_encode(const struct exec_spec *spec, uint32_t conv, uint32_t leaf, bool if_empty,
		     char **out, size_t *out_len);
// A FAILED as an error; step NONE: the box was lost meanwhile.
fallible word_explain(const struct talk *failed, const struct exec_spec *spec);
fallible word_box_lost(void);
