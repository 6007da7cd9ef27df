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
void exec_signal(struct exec *exec, int signal); // to its process group
void exec_kill(struct exec *exec);		 // the whole tree; ends as killed_by_api
void exec_drop(struct exec *exec);		 // the holder's share; the command runs on
