// One bash of a session: its commands, its answers, and where its output goes. It runs one command
// at a time.
#pragma once

#include "box/exec_private.h"
#include "protocol/shell.h"

enum bash_phase {
	BASH_AT_REST,
	BASH_CLEARING, // bytes in its pipes belong to no command; then the command is sent
	BASH_AT_WORK,
	BASH_SETTLING, // the command has ended; its output is being moved to the tape
	BASH_DYING,    // the process has ended; the same of its last command
	BASH_GONE,
};

struct bash {
	struct box *box; // held
	int refs;
	struct exec *exec; // held
	enum bash_phase phase;
	bool done; // the process has ended: exec->result
	struct pipes pipes;
	struct tape *aside; // held: output that belongs to no command
	struct tape *tape;  // of the command; borrowed from the caller of bash_send()
	struct watch watch; // the dialogue
	bool open;
	struct buf heard, told; // a partial record; bytes not sent yet
	size_t told_at;
	uint64_t mark;
	int sender;	  // its pid in our namespace; 0: not known yet
	uint32_t foreign; // messages of other processes
	bool resync;	  // records up to the mark belong to the previous daemon
	bool half;	  // its label says that half of a command may have been sent
	int status;
	uint32_t job;
	char *cwd; // NULL: unchanged
	struct deferred free_later;
	void (*sent)(struct bash *shell); // the command is in the dialogue's socket, whole
	// The command has ended, and its output is on the tape.
	void (*ended)(struct bash *shell);
	// Once: the process has ended and its output is on the tape. Processes that hold the pipes
	// may still write: that goes to `aside`.
	void (*lost)(struct bash *shell);
	void (*closed)(struct bash *shell); // after that: no process holds the pipes
	void (*spent)(struct bash *shell);  // the CPU time of bash_limit_cpu() is used up
	void *owner;
};

// Takes ownership of `exec`, started with a dialogue, and sends the greeting. The caller sets the
// callbacks before it waits.
fallible bash_open(struct exec *exec, struct tape *aside, const char *cwd, struct bash **out);
// The same of a program that is driven like a shell (src/kernels): `words` is its greeting (taken
// over), `mark` is returned with its end.
fallible bash_open_other(struct exec *exec, struct tape *aside, struct buf *words, uint64_t mark,
			 struct bash **out);
// The same of a shell of the previous daemon: nothing is sent, and it is taken for idle. The end of
// the first command sent is the first that counts. `sender` is its pid as recorded; 0: the process
// that ends the first command.
fallible bash_adopt(struct exec *exec, struct tape *aside, uint32_t sender, struct bash **out);
// Sends a command to an idle shell. `words` are its lines but the last, which is added here.
void bash_send(struct bash *shell, struct buf *words, bool aside, const char *back,
	       struct tape *tape);
// The same of another program: all of its lines, which contain `mark`.
void bash_send_other(struct bash *shell, struct buf *words, uint64_t mark, struct tape *tape);
// Sets the tape for output of no command; while idle.
void bash_turn_aside(struct bash *shell, struct tape *aside);
// Limits the CPU time of everything in its cgroup from now on; 0: no limit.
void bash_limit_cpu(struct bash *shell, uint64_t cpu_us);
void bash_kill(struct bash *shell); // with everything in its cgroup; `lost` follows
// The same, and waits until its cgroup is empty. For shielded tasks.
void bash_kill_wait(struct bash *shell);
void bash_drop(struct bash *shell); // the owner's reference: kills it and closes its pipes
