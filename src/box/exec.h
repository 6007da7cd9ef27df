// One process tree started by the API: run, read output, limit, wait.
#pragma once

#include "box/box.h"
#include "box/command.h"
#include "box/tape.h"

// clang-format off
#define ENDINGS(X) \
	X(EXITED, "exited") X(SIGNALED, "signaled") X(OOM, "oom") X(CPU_LIMIT, "cpu_limit") \
	X(WALL_LIMIT, "wall_limit") X(KILLED_BY_API, "killed_by_api") X(BOX_LOST, "box_lost")
// clang-format on
enum ending {
#define X(name, word) ENDING_##name,
	ENDINGS(X)
#undef X
};
const char *ending_word(enum ending ending);
// Logs and publishes the end of a command by a limit of its box; other endings are no event.
void ending_report(enum ending ending, const char *box);

struct exec_result {
	enum ending ending;
	int exit_code; // as in $?: 0..255, 128+n, 124 for wall_limit
	int signal;    // 0: none
	int64_t duration_ms;
	uint64_t cpu_ms;  // of the whole tree, by its cgroup
	uint64_t max_rss; // bytes
	bool stdout_truncated, stderr_truncated;
};

struct exec;

// Returns once the command runs. NOT_FOUND command_not_found, FORBIDDEN not_executable, INVALID
// no_cwd, INVALID no_user, EXHAUSTED too_many_execs, daemon_files, UNAVAILABLE box_lost …
fallible exec_start(struct box *box, const struct exec_spec *spec, struct exec **out);
struct tape *exec_tape(struct exec *exec); // borrowed while the exec is held
int exec_pid(const struct exec *exec);	   // in the box's pid namespace
// Waits until the main process has ended and its output is on the tape. Background jobs that hold
// the pipes delay nothing: their later bytes are dropped.
fallible exec_wait(struct exec *exec, int64_t deadline, struct exec_result *out);
// Called once, from the loop, when exec_wait() would return; at once if it would now.
void exec_on_end(struct exec *exec, void (*fn)(void *arg), void *arg);
void exec_signal(struct exec *exec, int signal);       // to its process group
void exec_signal_alone(struct exec *exec, int signal); // to its first process only
void exec_kill(struct exec *exec); // kills the whole tree; ends as killed_by_api
// Ends the whole tree: SIGTERM to all of it, SIGKILL to the rest after the grace (0: at once).
// Returns when nothing of it lives. *out_forced: its first process was killed. For one shielded
// task at a time.
fallible exec_stop(struct exec *exec, int64_t grace_ms, bool *out_forced);
// Signals the whole tree, whatever process groups and sessions it has made.
fallible exec_signal_tree(struct exec *exec, int signal);
void exec_unref(struct exec *exec); // the holder's reference; the command runs on

// A command with open_stdin. Writes everything, in order; waits while the pipe is full. CONFLICT
// stdin_closed: closed, or the command reads no more; TIMEOUT.
fallible exec_write(struct exec *exec, const void *bytes, size_t len, int64_t deadline);
// Waits until the first `len` bytes of stdin_bytes are in the pipe, or the command has ended: then
// a killed daemon loses none of them. TIMEOUT.
fallible exec_await_input(struct exec *exec, size_t len, int64_t deadline);
void exec_close_stdin(struct exec *exec); // after what was written; idempotent

// A command on a pty: its master becomes the caller's, once; then -1. Calls on it may block: pid 1
// has a copy and can change its flags. Size by TIOCSWINSZ.
int exec_take_master(struct exec *exec);
// A command with a dialogue: the three fds become the caller's, once; then -1. Blocking as above.
struct exec_dialogue {
	int out, err; // output pipes; pipe_take() never waits
	int dialogue; // a stream socket
};
struct exec_dialogue exec_take_dialogue(struct exec *exec);
