// The state of an exec, shared by the exec files.
#pragma once

#include "box/exec.h"
#include "box/pipes.h"
#include "box/private.h"

enum exec_phase { EXEC_ASKED, EXEC_FAILED, EXEC_RUNNING, EXEC_ENDED, EXEC_DONE };
enum exec_stage { STAGE_LIMIT, STAGE_TERMED, STAGE_KILLED }; // of the timer: what it does next

struct exec {
	struct box *box;
	struct link link; // box->execs or box->draining
	int refs;
	uint32_t conn;
	struct box_cgroup *exec_cgroup;
	enum exec_phase phase;
	bool abandoned; // its starter stopped waiting
	bool doubted;	// its cgroup was doubtful: TALK_EXEC_IF_EMPTY
	bool held;	// by its starter
	bool pipeless;	// it runs, but this process had no fds for its pipes
	bool taped;	// its output goes to a given tape, also beside a dialogue
	bool listed, draining;
	bool stopping;		    // exec_stop() takes care of processes that are left
	struct box_cgroup *remains; // their cgroup, then
	void (*on_end)(void *arg);
	void *on_end_arg;
	bool over;	 // pid 1 has forgotten it
	bool unreported; // ended without EXITED, which may still come
	bool owes_forget, owes_shut;
	bool kept, wants_forget; // kept: no FORGET before its end is on record
	bool owes_label;
	char *label; // of a shell or a relabelled exec: the last label sent
	size_t label_len;
	uint32_t sender; // pid whose messages on the dialogue count; 0: not known
	int owes_signal;
	bool owes_alone;
	struct talk failure;
	int pid;
	struct tape *tape;
	struct pipes pipes;
	uint32_t flags;	  // talk_exec_flags, as sent
	int stdio[3];	  // fds of a pty or a dialogue until they are taken; else -1
	struct str input; // borrowed until STARTED
	uint64_t cpu_ms, wall_ms;
	struct timer timer;
	enum exec_stage stage;
	bool has_cause;
	enum ending cause;
	uint64_t meter_us, oom_kills; // at its start
	int64_t begun_us;
	int status;
	struct exec_result result;
	struct condition condition;
	// Called instead of a kill when its CPU time is used up; the arg is on_end's.
	void (*on_cpu)(void *arg);
	struct deferred free_later;
};

// References: the holder, the box while it is listed, a spill that is under way.
struct exec *exec_new(struct box *box, const struct exec_spec *spec);
void exec_list(struct exec *exec); // adds it to its box
void exec_ref(struct exec *exec);
void exec_let_go(struct exec *exec); // drops a reference
// Makes an exec of a command that pid 1 holds, by HELD and its decoded label. Takes ownership of
// the fds. NULL cgroup: it has ended. BAD_PEER: an fd is not what it should be.
fallible exec_adopt(struct box *box, const struct talk *talk, const struct exec_label *label,
		    struct box_cgroup *exec_cgroup, struct tape *tape, const int *fds,
		    struct exec **out);
// Encodes the label for EXEC, if pid 1 takes one; borrowed until the next call.
struct str exec_make_label(struct exec *exec, const struct exec_spec *spec);
// Replaces the label and sends it to pid 1. exec_await_label() waits until the socket took it.
void exec_relabel(struct exec *exec, const struct exec_spec *spec);
fallible exec_await_label(struct exec *exec, int64_t deadline);
void exec_pay_label(struct exec *exec); // sends a label that a full socket did not take
// The end is on record: pid 1 may forget the exec.
void exec_filed(struct exec *exec);
// Sets a flag of a shell's label (protocol/exec_label.h), before the state that it announces.
void exec_label_flag(struct exec *exec, uint32_t flag, bool on);
void exec_label_sender(struct exec *exec, uint32_t sender);
// The pty spool of a terminal, once; -1: none.
void exec_take_spool(struct exec *exec, int ends[2]);
// In exec_ends.c. Takes ownership of the fds of STARTED. BAD_PEER: one is not what it should be.
fallible exec_open_ends(struct exec *exec, const int *fds);
void exec_close_stdio(struct exec *exec);
// Sets the cause killed_by_api; the caller ends what is left in the cgroup.
void exec_stop_by_api(struct exec *exec);
// As exec_kill(), and waits until the cgroup is empty. For shielded tasks.
void exec_kill_wait(struct exec *exec);
// Start failed: releases the cgroup and unlists the exec.
void exec_fail(struct exec *exec, const struct talk *why, bool cgroup_empty);
