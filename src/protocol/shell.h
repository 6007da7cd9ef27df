// The dialogue with a bash that keeps its state from command to command: what is said to it, and
// how its answers are read. No I/O. The theory is at the head of shell.c.
#pragma once

#include "base/buf.h"
#include "types/env_map.h"

// 'text', safe for a shell, whatever is in it but NUL.
void shell_quote(struct buf *out, struct str text);

// The environment that the shell is to be started with must hold this; the greeting takes it away.
#define SHELL_FIRST_ENV "HISTFILE="
// The first line. Its end is told as that of a command.
void shell_greet(struct buf *out, const char *cwd, uint64_t mark);
// The same for a shell that may have been told it before, and may be at work: $? stays as it was.
// The last line, with `aside`, is to follow.
void shell_greet_again(struct buf *out, const char *cwd, uint64_t mark);

struct shell_command {
	struct str text;
	const char *cwd;	   // NULL: where it stands
	const struct env_map *env; // for this command; may be NULL
	bool aside;		   // not the client's own: $? stays as it was
};
// The first line of a command; then the second, with a mark that comes back. `back`: where the
// shell stands, for a command with a cwd; else NULL.
void shell_say(struct buf *out, const struct shell_command *command);
void shell_say_end(struct buf *out, bool aside, const char *back, uint64_t mark);
// A change of the environment for good; NULL unsets it.
void shell_export(struct buf *out, struct str name, const char *value);
// The same of a variable of the box, which the shell's own wins over: only where it stands as it
// was told before. `was` NULL: there was none.
void shell_offer(struct buf *out, struct str name, const char *was, const char *value);
// Several of them as a line of its own, in front of a command.
void shell_say_changes(struct buf *out, struct str changes);

// The end of a command, as the shell tells it.
struct shell_end {
	int status; // 0 to 255
	uint64_t mark;
	uint32_t job;	// pid of the last background job, as the box counts; 0: none
	struct str cwd; // a slice of the input; empty: not known
};
#define SHELL_END_MAX 20480 // bytes of a record, with the longest directory that is believed
enum shell_heard { SHELL_MORE, SHELL_END, SHELL_NONSENSE };
// Reads one record from the start of `bytes`. SHELL_END: *out_used of them.
enum shell_heard shell_hear(struct str bytes, struct shell_end *out, size_t *out_used);

// Prints a script that restores the state of the shell that runs it.
#define SHELL_DUMP                                                                                 \
	"\\builtin declare -p;\\builtin declare -f;\\builtin alias -p;\\builtin shopt -p;"         \
	"\\builtin umask -p;\\builtin printf 'cd -- %q\\n' \"$PWD\";if (($#));then \\builtin "     \
	"printf "                                                                                  \
	"'set --';\\builtin printf ' %q' \"$@\";\\builtin printf '\\n';fi;\\builtin set "          \
	"+o;" SHELL_LIMITS
// The same of the part that outlives execve: exported variables and functions, umask, directory.
// Variables that the shell does not export are unset.
#define SHELL_DUMP_EXPORTS                                                                         \
	"\\builtin printf '\\\\builtin unset -v $(\\\\builtin compgen -e)\\n';"                    \
	"\\builtin declare -px;\\builtin declare -fx;\\builtin umask -p;"                          \
	"\\builtin printf 'cd -- %q\\n' \"$PWD\";" SHELL_LIMITS
// And behind it, after a NUL, its limits as the kernel tells them, for shell_state.h. In one piece:
// `ulimit -a` writes line by line.
#define SHELL_LIMITS                                                                               \
	"IFS= \\builtin read -r -d '' __cove_l </proc/self/limits||:;"                             \
	"\\builtin printf '\\0%s' \"${__cove_l-}\";\\builtin unset -v __cove_l"
// A script for bash -c: `command` behind `prelude`, whose failures and output are nobody's concern,
// and behind what the command changes of it; `env` and `cwd` may be NULL. Without a prelude it is
// the command alone.
void shell_wrap(struct buf *out, struct str prelude, const struct env_map *env, const char *cwd,
		struct str command);

// For bash -c: a shell that reads a script of any length from its stdin, as shell_feed() writes it,
// and runs that. It counts bytes, whatever its locale is.
#define SHELL_READER                                                                               \
	"__cove_r(){ \\builtin local LC_ALL=C;\\builtin read -r __cove_n&&"                        \
	"\\builtin read -r -N \"$__cove_n\" __cove_n;};__cove_r||\\builtin exit 1;"                \
	"\\builtin eval \"$__cove_n\""
// Writes the input of a SHELL_READER: its stdin becomes /dev/null, or keeps the bytes that follow;
// then it runs `script`.
void shell_feed(struct buf *out, bool keep_stdin, struct str script);

// A filter for the output of a command in a session: the last newline goes, and of stderr what only
// an interactive bash says. Zero it, set the flags, put bytes in, end it.
struct shell_filter {
	bool remarks; // it is a stderr
	bool jobs;    // background jobs were started: "[1] 123" is a remark
	bool left;    // the shell has ended: "exit" as the last line is one
	// The command: where bash repeats what it is told (set -v), it is shown as it was sent.
	struct str command;
	void (*give)(void *arg, const char *bytes, size_t len);
	void *arg;
	// inside
	char held[96]; // the beginning of a line that may be a remark
	size_t len;
	bool inside;   // a line that is none
	bool newline;  // one is held back
	size_t echoed; // of what bash was told: it has been repeated so far
	bool no_echo;  // it repeats nothing
};
void shell_sift(struct shell_filter *filter, const char *bytes, size_t len);
void shell_sift_end(struct shell_filter *filter);
