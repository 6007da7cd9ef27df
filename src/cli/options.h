// The options of all verbs, in alphabetical order. cli.c adds those of serve from its own table.
#pragma once

#include "cli/call.h"

extern const struct option cli_options[]; // ended by a row without a name

struct option_field {
	const char *field; // "limits.memoryMB"
	enum opt opt;
	const char *unit; // of the numbers in a message about it; NULL: none
};
extern const struct option_field cli_fields[]; // ended by a row without a field
