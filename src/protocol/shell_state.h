// The state of a shell as it tells it, and what another shell has to do to come to the same. No
// I/O. A shell that has done nothing yet differs from one that has by a few lines, so a difference
// is quicker to take over than a whole state.
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

// For bash -c, with a script as the first argument: a shell that does that, tells its state and
// waits to be told what to do, as shell_cue() says it. It counts bytes, whatever its locale is.
#define SHELL_PREWARMED                                                                            \
	"__cove_n=$1;\\builtin shift;\\builtin eval \"$__cove_n\" >/dev/null 2>&1;" SHELL_STATE    \
	";" SHELL_READER

struct shell_state {
	struct str variables, functions, rest; // slices of what was told
	struct str place;		       // its directory
	bool stands;	   // that leads to where it stands: nobody has removed the directory
	struct str limits; // as /proc/self/limits has them
};
// False: this is no state.
bool shell_state_read(struct str text, struct shell_state *out);
// A script by which a shell at `from` comes to stand at `to`, but for its directory; those options
// that change how a shell runs a script are apart, for the end. False: there is none, for the first
// one has what cannot be taken away again, functions and readonly variables, a limit
// that is lower, or the shell tells of its variables in another way than was thought.
bool shell_state_change(const struct shell_state *from, const struct shell_state *to,
			struct buf *out, struct buf *out_options);
// Reads the output of a SHELL_DUMP: the limits behind the script become commands of it. False: it
// is none.
bool shell_read_dump(struct str told, struct buf *out);
// Takes our own functions out of what a shell tells of its functions.
void shell_hide(struct buf *text);
// A change for one that has not begun, as far as it can be done beforehand.
void shell_rehearsal(struct buf *out, struct str place, struct str change);

// What a SHELL_PREWARMED is told: `change` (of shell_state_change()) in `place`, then the script.
void shell_cue(struct buf *out, struct str place, struct str change, struct str script);
