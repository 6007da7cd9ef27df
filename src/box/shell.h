// One bash of a session: what it is told, what it answers, and where its output goes. It is told
// one command at a time.
#pragma once

#include "box/exec_inner.h"
#include "model/shell.h"

enum shell_phase {
	SHELL_AT_REST,
	SHELL_CLEARING, // what lies in its pipes belongs to nobody; then it is told
	SHELL_AT_WORK,
	SHELL_SETTLING, // the command has ended, its output is on its way to the tape
	SHELL_DYING,	// the same of the last command
	SHELL_GONE,
};

struct shell {
	struct box *box; // held
	int refs;
	struct exec *exec; // held
	enum shell_phase phase;
	bool done; // the process has ended: exec->result
	struct pipes pipes;
	struct tape *aside; // held: what belongs to no command
	struct tape *tape;  // of the command; borrowed from whoever told it
	struct watch watch; // the dialogue
	bool open;
	struct buf heard, told; // a record that is not whole; what it has not yet taken
	size_t told_at;
	uint64_t mark;
	int status;
	uint32_t job;
	char *cwd; // NULL: as it was
	struct later free_later;
	// The command has ended, and its output is on its tape.
	void (*ended)(struct shell *shell);
	// Once: the process has ended, and what it wrote is on the tape. Whoever holds its pipes
	// may still write: that goes aside.
	void (*lost)(struct shell *shell);
	void (*closed)(struct shell *shell); // after that: nobody holds the pipes any more
	void (*spent)(struct shell *shell);  // the CPU time of shell_limit_cpu() is used up
	void *owner;
};

// Takes `exec`, started with a dialogue, over. It is told the greeting. The callbacks are set by
// the caller before it waits.
fallible shell_open(struct exec *exec, struct tape *aside, const char *cwd, struct shell **out);
// One that is at rest. `words` are the lines of a command but the last, which is added here.
void shell_tell(struct shell *shell, struct buf *words, bool aside, const char *back,
		struct tape *tape);
// So much CPU time from now on, for everything in its leaf; 0: no limit any more.
void shell_limit_cpu(struct shell *shell, uint64_t cpu_us);
void shell_kill(struct shell *shell); // and everything in its leaf; then it is lost
void shell_drop(struct shell *shell); // the owner's share: it is killed, its pipes are closed
