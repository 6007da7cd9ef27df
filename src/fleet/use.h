// Running commands in a box, on somebody's behalf. A use keeps its box in memory, and its output
// readable, until it is dropped; the command itself runs on.
#pragma once

#include "fleet/visit.h"

struct use;

// Waits until the command runs. NOT_FOUND no_sandbox; UNAVAILABLE box_starting; GONE box_lost;
// and what exec_start() says. Nothing of the spec is needed afterwards.
fallible use_start(struct fleet *fleet, const struct who *who, struct str key,
		   const struct use_spec *spec, struct use **out);
void use_drop(struct use *use);
static inline void auto_use_(struct use **use)
{
	if (*use)
		use_drop(*use);
}
#define auto_use on_exit_call(auto_use_) struct use *

int use_pid(const struct use *use);
uint64_t use_wall_ms(const struct use *use); // the limit that holds; 0: none
struct tape *use_tape(const struct use *use);
struct entry *use_entry(const struct use *use); // of its box; borrowed
// Waits for the end of the command.
fallible use_wait(struct use *use, struct exec_result *out);
