// The state of an exec, for the files of this room that begin and end it.
#pragma once

#include "box/exec.h"
#include "box/pipes.h"
#include "box/private.h"

enum exec_phase { EXEC_ASKED, EXEC_FAILED, EXEC_RUNNING, EXEC_ENDED, EXEC_DONE };
enum exec_stage { STAGE_LIMIT, STAGE_TERMED, STAGE_KILLED }; // what the timer does next

struct exec {
	struct box *box;
	struct link link; // box->execs, or box->draining
	int refs;
	uint32_t conn;
	struct box_cgroup *exec_cgroup;
	enum exec_phase phase;
	bool abandoned; // whoever asked for it has gone
	bool doubted;	// its leaf was asked for only if empty
	bool held;	// by whoever asked for it
	bool pipeless;	// it runs, but its pipes found no room in this process
	bool taped;	// its output goes to somebody's tape, also beside a dialogue
	bool listed, lingers;
	bool stopping;		    // somebody sees to what its end leaves behind
	struct box_cgroup *remains; // the leaf, then
	void (*on_end)(void *arg);
	void *on_end_arg;
	bool over;	 // pid 1 has forgotten it already
	bool unreported; // ended without EXITED, which may still come
	bool owes_forget, owes_shut;
	bool kept, wants_forget; // kept: no FORGET before its end is on record
	bool owes_label;
	char *tag; // of a shell, or one that became something else: what was said of it
	size_t label_len;
	uint32_t sender; // of its dialogue: the process whose answers count; 0: not known
	int owes_signal;
	bool owes_alone;
	struct talk failure;
	int pid;
	struct tape *tape;
	struct pipes pipes;
	uint32_t flags;	  // talk_exec_flags, as they were said
	int seat[3];	  // of a terminal or a dialogue, until they are taken; else -1
	struct str input; // borrowed until STARTED
	uint64_t cpu_ms, wall_ms;
	struct timer timer;
	enum exec_stage stage;
	bool has_cause;
	enum ending cause;
	uint64_t meter_us, oom_kills; // at the beginning
	int64_t begun_us;
	int status;
	struct exec_result result;
	struct condition condition;
	// Instead of being killed when its CPU time is used up; the arg is on_end's.
	void (*on_cpu)(void *arg);
	struct deferred free_later;
};

// One that nobody knows but the holder.
struct exec *exec_new(struct box *box, const struct exec_spec *spec);
void exec_list(struct exec *exec); // the box knows it
void exec_ref(struct exec *exec);
void exec_let_go(struct exec *exec); // a share
// One that pid 1 holds, as it is told in `talk`; `tag` as decoded from it. Takes the fds over.
// NULL leaf: it has ended. BAD_PEER: its ends are not what they should be.
fallible exec_adopt(struct box *box, const struct talk *talk, const struct exec_label *tag,
		    struct box_cgroup *exec_cgroup, struct tape *tape, const int *fds,
		    struct exec **out);
// The tag that it is started with, if pid 1 takes one; borrowed until the next call.
struct str exec_make_label(struct exec *exec, const struct exec_spec *spec);
// It is for that from now on, and pid 1 is told. exec_await_label() waits until the socket took it.
void exec_retag(struct exec *exec, const struct exec_spec *spec);
fallible exec_await_label(struct exec *exec, int64_t deadline);
void exec_pay_label(struct exec *exec); // one that a full socket did not take
// Its end is on record: pid 1 may forget it.
void exec_filed(struct exec *exec);
// A flag of its tag (protocol/exec_label.h), for a shell: before what it is true of.
void exec_label_flag(struct exec *exec, uint32_t flag, bool on);
void exec_label_sender(struct exec *exec, uint32_t sender);
// Of a terminal with a spool, once; -1: it has none.
void exec_take_spool(struct exec *exec, int ends[2]);
// In exec_ends.c. Takes over what STARTED brought. BAD_PEER: it is not what it should be.
fallible exec_open_ends(struct exec *exec, const int *fds);
void exec_close_seat(struct exec *exec);
// It ends as killed_by_api, and what it leaves in its leaf is the caller's to end.
void exec_stop_by_api(struct exec *exec);
// As exec_kill(), and waits until nothing lives in its leaf. For tasks that are shielded.
void exec_kill_wait(struct exec *exec);
// It did not start: the leaf is let go, and nobody knows it any more.
void exec_fail(struct exec *exec, const struct talk *why, bool cgroup_empty);
