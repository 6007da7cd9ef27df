// The state of a shell as it prints it, and a script that brings another shell to that state. No
// I/O. A new shell differs by a few lines, so a difference is applied faster than a whole state.
#pragma once

#include "base/buf.h"
#include "protocol/shell.h"

// Prints the state of the shell that runs it.
#define SHELL_STATE                                                                                \
	"\\builtin declare -p;\\builtin printf '\\0';\\builtin declare -f;"                        \
	"\\builtin printf '\\0';\\builtin alias -p;\\builtin umask -p;"                            \
	"if (($#));then \\builtin printf 'set --';\\builtin printf ' %q' \"$@\";"                  \
	"\\builtin printf '\\n';fi;\\builtin printf '\\0%s\\0' \"${PWD-}\";"                       \
	"[[ ${PWD-} -ef . ]]&&\\builtin printf y;" SHELL_LIMITS ";\\builtin printf '\\0'"
#define SHELL_STATE_MARKS 6 // NULs in it

// For bash -c, with a script as the first argument: a shell that runs it, prints its state and
// waits for a command from shell_cue(). It counts bytes in every locale.
#define SHELL_PREWARMED                                                                            \
	"__cove_n=$1;\\builtin shift;\\builtin eval \"$__cove_n\" >/dev/null 2>&1;" SHELL_STATE    \
	";" SHELL_READER

struct shell_state {
	struct str variables, functions, rest; // slices of the input
	struct str place;		       // its directory
	bool stands;	   // the directory still leads to where the shell is: it was not removed
	struct str limits; // as /proc/self/limits has them
};
// False: this is no state.
bool shell_state_read(struct str text, struct shell_state *out);
// A script that brings a shell from `from` to `to`, except for its directory; options that change
// how a shell runs a script are separate, for the end. False: impossible, because the first shell
// has functions or readonly variables that cannot be removed, or a lower limit, or an unknown
// format of variables.
bool shell_state_change(const struct shell_state *from, const struct shell_state *to,
			struct buf *out, struct buf *out_options);
// Reads the output of a SHELL_DUMP: limits after the script become commands of it. False:
// malformed.
bool shell_read_dump(struct str told, struct buf *out);
// A change for a shell that has not begun, as far as it can be done ahead.
void shell_rehearsal(struct buf *out, struct str place, struct str change);

// The input of a SHELL_PREWARMED: `change` (of shell_state_change()) in `place`, then the script.
void shell_cue(struct buf *out, struct str place, struct str change, struct str script);
