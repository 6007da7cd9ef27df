// The protocol with a bash that keeps its state from command to command: what is written to it, and
// how its answers are read. No I/O. The opening comment of shell.c explains it.
#pragma once

#include "base/buf.h"
#include "types/env_map.h"

// 'text', safe for a shell, with any bytes but NUL.
void shell_quote(struct buf *out, struct str text);

// The shell's initial environment must contain this; the greeting removes it.
#define SHELL_FIRST_ENV "HISTFILE="
// The first line. Its end is reported like that of a command.
void shell_greet(struct buf *out, const char *cwd, uint64_t mark);
// The same for a shell that may have it already, and may be busy: $? stays as it was. The last
// line, with `aside`, must follow.
void shell_greet_again(struct buf *out, const char *cwd, uint64_t mark);

struct shell_command {
	struct str text;
	const char *cwd;	   // NULL: its current one
	const struct env_map *env; // for this command; may be NULL
	bool aside;		   // not the client's own: $? stays as it was
};
// The first line of a command; then the second, with a mark that comes back. `back`: the shell's
// current directory, for a command with a cwd; else NULL.
void shell_say(struct buf *out, const struct shell_command *command);
void shell_say_end(struct buf *out, bool aside, const char *back, uint64_t mark);
// A permanent change of the environment; NULL unsets.
void shell_export(struct buf *out, struct str name, const char *value);
// The same for a variable of the box, over which the shell's own has priority: changed only if it
// still has the value `was`. `was` NULL: it was unset.
void shell_offer(struct buf *out, struct str name, const char *was, const char *value);
// Several of them as a line of its own, before a command.
void shell_say_changes(struct buf *out, struct str changes);

// The end of a command, as the shell reports it.
struct shell_end {
	int status; // 0 to 255
	uint64_t mark;
	uint32_t job;	// pid of the last background job, in the box; 0: none
	struct str cwd; // a slice of the input; empty: unknown
};
#define SHELL_END_MAX 20480 // bytes of a record, with the longest directory that is accepted
enum shell_parsed { SHELL_MORE, SHELL_END, SHELL_NONSENSE };
// Reads one record from the start of `bytes`. SHELL_END: *out_used of them.
enum shell_parsed shell_parse(struct str bytes, struct shell_end *out, size_t *out_used);

// Prints a script that restores the state of the shell that runs it.
#define SHELL_DUMP                                                                                 \
	"\\builtin declare -p;\\builtin declare -f;\\builtin alias -p;\\builtin shopt -p;"         \
	"\\builtin umask -p;\\builtin printf 'cd -- %q\\n' \"$PWD\";if (($#));then \\builtin "     \
	"printf "                                                                                  \
	"'set --';\\builtin printf ' %q' \"$@\";\\builtin printf '\\n';fi;\\builtin set "          \
	"+o;" SHELL_LIMITS
// The same for the part that outlives execve: exported variables and functions, umask, directory.
// Variables that the shell does not export are unset.
#define SHELL_DUMP_EXPORTS                                                                         \
	"\\builtin printf '\\\\builtin unset -v $(\\\\builtin compgen -e)\\n';"                    \
	"\\builtin declare -px;\\builtin declare -fx;\\builtin umask -p;"                          \
	"\\builtin printf 'cd -- %q\\n' \"$PWD\";" SHELL_LIMITS
// After it and a NUL its limits from /proc/self/limits, for shell_state.h. In one piece: `ulimit
// -a` writes line by line.
#define SHELL_LIMITS                                                                               \
	"IFS= \\builtin read -r -d '' __cove_l </proc/self/limits||:;"                             \
	"\\builtin printf '\\0%s' \"${__cove_l-}\";\\builtin unset -v __cove_l"
// A script for bash -c: `prelude`, whose errors and output are discarded, then `command`; `env` and
// `cwd` may be NULL. Without a prelude it is the command alone.
void shell_wrap(struct buf *out, struct str prelude, const struct env_map *env, const char *cwd,
		struct str command);

// For bash -c: a shell that reads a script of any length from its stdin, as shell_feed() writes it,
// and runs it. It counts bytes in every locale.
#define SHELL_READER                                                                               \
	"__cove_r(){ \\builtin local LC_ALL=C;\\builtin read -r __cove_n&&"                        \
	"\\builtin read -r -N \"$__cove_n\" __cove_n;};__cove_r||\\builtin exit 1;"                \
	"\\builtin eval \"$__cove_n\""
// Writes the input of a SHELL_READER: its stdin becomes /dev/null, or keeps the bytes that follow;
// then it runs `script`.
void shell_feed(struct buf *out, bool keep_stdin, struct str script);

// A filter for the output of a command in a session: it drops the last newline, and from stderr the
// messages that only an interactive bash prints. Zero it, set the flags, feed bytes, end it.
struct shell_filter {
	bool remarks; // it is a stderr
	bool jobs;    // background jobs were started: "[1] 123" is a message of bash
	bool left;    // the shell has exited: "exit" as the last line is one
	// The command: where bash echoes its input (set -v), it is shown as the client sent it.
	struct str command;
	void (*give)(void *arg, const char *bytes, size_t len);
	void *arg;
	// Internal.
	char held[96]; // the beginning of a line that may be a message of bash
	size_t len;
	bool inside;   // in a line that is none
	bool newline;  // one is held back
	size_t echoed; // bytes of the input that were echoed so far
	bool no_echo;  // it echoes nothing
};
void shell_sift(struct shell_filter *filter, const char *bytes, size_t len);
void shell_sift_end(struct shell_filter *filter);
