// One process tree started by the API: run, read, limit, wait.
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

struct exec_result {
	enum ending ending;
	int exit_code; // as a shell would say it: 0..255, 128+n, 124 for wall_limit
	int signal;    // 0: none
	int64_t duration_ms;
	uint64_t cpu_ms;  // the kernel's count for the whole tree
	uint64_t max_rss; // bytes
	bool stdout_truncated, stderr_truncated;
};

struct exec;

// Returns once the command runs. NOT_FOUND command_not_found, FORBIDDEN not_executable,
// INVALID no_cwd, INVALID no_user, EXHAUSTED too_many_execs, daemon_files, UNAVAILABLE box_lost …
fallible exec_start(struct box *box, const struct exec_spec *spec, struct exec **out);
struct tape *exec_tape(struct exec *exec); // borrowed while the exec is held
int exec_pid(const struct exec *exec);	   // as the box counts
// Waits until the main process has ended and what it had written is on the tape. Background jobs
// that hold the pipes delay nothing: their later bytes are read and dropped.
fallible exec_wait(struct exec *exec, int64_t deadline, struct exec_result *out);
// Called once, from the loop, when exec_wait() would not wait any more; at once if that is so.
void exec_on_end(struct exec *exec, void (*fn)(void *arg), void *arg);
void exec_signal(struct exec *exec, int signal);       // to its process group
void exec_signal_alone(struct exec *exec, int signal); // to its first process only
void exec_kill(struct exec *exec);		       // the whole tree; ends as killed_by_api
// The whole tree, as gently as it lets: SIGTERM to all of it, SIGKILL to what is left after the
// grace (0: at once). Returns when nothing of it lives. *out_forced: its first process had to be
// killed. For one task at a time, which is shielded.
fallible exec_stop(struct exec *exec, int64_t grace_ms, bool *out_forced);
// A signal to all of the tree, whatever groups and sessions it has made.
fallible exec_signal_tree(struct exec *exec, int signal);
void exec_unref(struct exec *exec); // the holder's share; the command runs on

// A command with open_stdin. Writes all of it, behind what was written before; waits while the pipe
// is full. CONFLICT stdin_closed: it was closed, or the command reads no more; TIMEOUT.
fallible exec_write(struct exec *exec, const void *bytes, size_t len, int64_t deadline);
// Waits until the command was given the first `len` bytes of its stdin_bytes, or it has ended: a
// daemon that is killed later takes none of them along. TIMEOUT.
fallible exec_await_input(struct exec *exec, size_t len, int64_t deadline);
void exec_close_stdin(struct exec *exec); // behind what was written; harmless twice

// A command on a terminal: its master becomes the caller's, once; -1 then. It may block: pid 1 has
// a copy, and could change its flags at any time. Size by TIOCSWINSZ.
int exec_take_master(struct exec *exec);
// A command with a dialogue: all three become the caller's, once; -1 then. Blocking as above.
struct exec_dialogue {
	int out, err; // pipes to read; pipe_take() never waits
	int dialogue; // a stream socket
};
struct exec_dialogue exec_take_dialogue(struct exec *exec);
