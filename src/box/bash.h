// One bash of a session: what it is told, what it answers, and where its output goes. It is told
// one command at a time.
#pragma once

#include "box/exec_private.h"
#include "protocol/shell.h"

enum bash_phase {
	BASH_AT_REST,
	BASH_CLEARING, // what lies in its pipes belongs to nobody; then it is told
	BASH_AT_WORK,
	BASH_SETTLING, // the command has ended, its output is on its way to the tape
	BASH_DYING,    // the same of the last command
	BASH_GONE,
};

struct bash {
	struct box *box; // held
	int refs;
	struct exec *exec; // held
	enum bash_phase phase;
	bool done; // the process has ended: exec->result
	struct pipes pipes;
	struct tape *aside; // held: what belongs to no command
	struct tape *tape;  // of the command; borrowed from whoever told it
	struct watch watch; // the dialogue
	bool open;
	struct buf heard, told; // a record that is not whole; what it has not yet taken
	size_t told_at;
	uint64_t mark;
	int sender;	  // its process, as the kernel counts; 0: not known yet
	uint32_t foreign; // messages of other processes
	bool resync;	  // what it says up to that mark is of an earlier life
	bool half;	  // its tag says that it may have heard half of what it is told
	int status;
	uint32_t job;
	char *cwd; // NULL: as it was
	struct deferred free_later;
	// The command has ended, and its output is on its tape.
	void (*ended)(struct bash *shell);
	// Once: the process has ended, and what it wrote is on the tape. Whoever holds its pipes
	// may still write: that goes aside.
	void (*lost)(struct bash *shell);
	void (*closed)(struct bash *shell); // after that: nobody holds the pipes any more
	void (*spent)(struct bash *shell);  // the CPU time of bash_limit_cpu() is used up
	void *owner;
};

// Takes `exec`, started with a dialogue, over. It is told the greeting. The callbacks are set by
// the caller before it waits.
fallible bash_open(struct exec *exec, struct tape *aside, const char *cwd, struct bash **out);
// The same of another program that is told and answers as a shell does (src/kernels): `words` is
// its greeting, taken over, and `mark` what comes back with its end.
fallible bash_open_other(struct exec *exec, struct tape *aside, struct buf *words, uint64_t mark,
			 struct bash **out);
// The same of a shell that has been at work for an earlier daemon: it is told nothing yet, and is
// held to be at rest. The end of the first command that it is told is the first that counts.
// `sender` is its process, as the last daemon noted; 0: the process that ends the first command.
fallible bash_adopt(struct exec *exec, struct tape *aside, uint32_t sender, struct bash **out);
// One that is at rest. `words` are the lines of a command but the last, which is added here.
void bash_tell(struct bash *shell, struct buf *words, bool aside, const char *back,
	       struct tape *tape);
// The same of another program: all of its words, with a mark in them.
void bash_tell_other(struct bash *shell, struct buf *words, uint64_t mark, struct tape *tape);
// What belongs to no command goes there from now on; at rest.
void bash_turn_aside(struct bash *shell, struct tape *aside);
// So much CPU time from now on, for everything in its leaf; 0: no limit any more.
void bash_limit_cpu(struct bash *shell, uint64_t cpu_us);
void bash_kill(struct bash *shell); // and everything in its leaf; then it is lost
// The same, and waits until nothing lives in its leaf. For tasks that are shielded.
void bash_kill_wait(struct bash *shell);
void bash_drop(struct bash *shell); // the owner's share: it is killed, its pipes are closed
