// The protocol between daemon and pid 1. One SOCK_SEQPACKET message each way. The daemon treats
// every message from pid 1 as hostile; pid 1 trusts the daemon's but checks them all the same. No
// allocation: pid 1 links this. The daemon numbers the commands.
//
// A box outlives its daemon. pid 1 listens for the next one, greets it with READY, and on ADOPT
// sends what it holds: a HELD for each command, then HELD_END, then an EXITED for each command that
// has ended, whether or not the last daemon had it. Only daemons know the purpose of a command:
// they give it a label, which pid 1 stores and sends again.
//
// Versions: a pid 1 is as old as its box. READY announces its features (enum talk_feature), and the
// daemon sends no message, flag or field that was not announced. Numbers of kinds and flags never
// change; new ones are appended.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/field.h"

#define TALK_VERSION 1
#define TALK_SIZE_MAX (192 * 1024)
#define TALK_ARGS_MAX 4096 // argv, and as many env
#define TALK_CONN_MAX 512  // commands of one box at once
#define TALK_CGROUPS_MAX 512
#define TALK_LABEL_MAX 4096		    // bytes
#define TALK_HELD_MAX (TALK_LABEL_MAX + 64) // the longest message of pid 1

// fds that pid 1 inherits, in this order.
enum talk_fd {
	TALK_FD_CONTROL = 3,
	TALK_FD_INIT_CONFIG, // struct talk_init_config, then its filters: a sealed memfd
	TALK_FD_USERNS,	     // the user namespace that it joins last
	TALK_FD_CGROUP,	     // exec cgroup 0: the first join fd
	TALK_FD_CGROUP_2,    // v1 only: the second
	TALK_FD_LISTEN,	     // where the next daemon connects: SOCK_SEQPACKET, bound at RUN/box/ID
	TALK_FD_WITNESS,     // to the warden (protocol/rootfs_mounts.h); closed before the box runs
			     // commands
	TALK_FD_END,
};

// The configuration of pid 1 by the warden, at the start of the init config.
struct talk_init_config {
	uint32_t version;
	uint32_t joins_by_clone; // 1: CLONE_INTO_CGROUP with a directory fd; 0: write "0" to tasks
	uint32_t nofile_soft, nofile_hard;
	uint32_t filter_len[3]; // instructions of: allow list, arguments, children only
				// then the sock_filter arrays, one behind another
};

enum talk_kind {
	// from the daemon
	TALK_EXEC,   // 0 fds, or the join fds of an exec cgroup that is new, or was made again
	TALK_SIGNAL, // to the process group of a command, or to its process alone
	TALK_FORGET, // the daemon is done with the command: close its pipes
	TALK_WORKER, // a child that works on files for a user (protocol/fileop.h)
	// from pid 1
	TALK_READY,   // once, when the box can execute
	TALK_BROKEN,  // once, instead of READY: a step of the build failed
	TALK_STARTED, // fds: stdout, stderr [, stdin or dialogue]; of a pty its master [, spool]
	TALK_FAILED,  // the command could not be started
	TALK_EXITED,
	TALK_WORKER_IS, // fds: its socket
	// STARTED and EXITED in one, of a command that ended soon. fds: as of STARTED, but none if
	// it
	// is over and had only two pipes for its output.
	TALK_RAN,
	// from the daemon, with TALK_CAN_RETURN
	TALK_ADOPT, // asks for everything that pid 1 holds
	TALK_SHUT,  // close the fd that KEEP_IN keeps open
	TALK_LABEL, // the label of that command from now on
	// from pid 1
	TALK_HELD,     // fds: as of STARTED, by the flags in it
	TALK_HELD_END, // the last one was sent
	// With TALK_CAN_SYNC. From pid 1, to a daemon whose EXEC said PACES or that said SYNCED
	TALK_SYNC,   // fds: the listener of its filter. A process waits in sync or syncfs
	TALK_SYNCED, // from the daemon: send SYNC when a process waits
	TALK_KIND_COUNT
};
bool talk_is_heard(uint8_t kind); // from pid 1: the daemon may decode it

enum talk_feature {
	TALK_CAN_RETURN = 1,	 // it listens; ADOPT, SHUT, LABEL, and the flags from KEEP on
	TALK_CAN_NET = 2,	 // its file workers know FILEOP_SOCKET
	TALK_CAN_SYNC = 4,	 // SYNC, SYNCED, the flag PACES
	TALK_CAN_PROC = 8,	 // its file workers know FILEOP_PROC
	TALK_CAN_IGNORE = 16,	 // its file workers know FILEOP_IGNORE
	TALK_CAN_PROCESSES = 32, // its file workers know FILEOP_PROCESSES and FILEOP_SIGNAL
	TALK_CAN_STATS = 64,	 // its file workers know FILEOP_STATS
};

// At which step a command (FAILED) or a box (BROKEN) failed.
enum talk_step {
	TALK_STEP_NONE,
	TALK_STEP_BUSY, // too many commands
	TALK_STEP_USER, // no such user, or ids out of range
	TALK_STEP_PIPE,
	TALK_STEP_FORK,
	TALK_STEP_JOIN, // the exec cgroup
	TALK_STEP_CWD,
	TALK_STEP_SETUP, // ids, limits, filter
	TALK_STEP_EXEC,
	TALK_STEP_COUNT
};

enum talk_exec_flags {
	TALK_EXEC_STDIN = 1,	// a pipe to its stdin; else /dev/null
	TALK_EXEC_SHELL = 2,	// argv[0] is a script: /bin/bash -c it, else /bin/sh -c
	TALK_EXEC_HOME = 4,	// add HOME and USER from the box's passwd
	TALK_EXEC_IF_EMPTY = 8, // only if that exec cgroup is empty; else FAILED JOIN EBUSY
	// At most one of STDIN, PTY and DIALOGUE.
	TALK_EXEC_PTY = 16,	 // a pty of the box, as its controlling terminal
	TALK_EXEC_DIALOGUE = 32, // a socket as stdin; the output pipes are at other numbers
	// With TALK_CAN_RETURN.
	TALK_EXEC_KEEP = 64, // after its end it is held until FORGET, even if nothing is left of it
	TALK_EXEC_KEEP_IN = 128, // with STDIN or DIALOGUE: stays open without a daemon, until SHUT
	TALK_EXEC_SPOOL = 256,	 // with PTY: a pipe beside the master, both ends, for its output
	TALK_EXEC_LABEL = 512,	 // it comes with its label
	TALK_EXEC_PACES = 1024,	 // with TALK_CAN_SYNC: this daemon handles SYNC
	TALK_EXEC_FLAGS = 2047,
};

// The fds of a process with a dialogue: the socket again, and the write ends of its output pipes.
// Its fds 1 and 2 are /dev/null.
#define TALK_DIALOGUE_FD 240
#define TALK_DIALOGUE_OUT 241
#define TALK_DIALOGUE_ERR 242

#define TALK_SIDE_MAX 4096 // columns and rows of a pty

// The fields of each message, in the order of the wire (protocol/field.h). An encoded message
// begins with its kind and the number of its command, 0 if it is about none.
//
// EXEC: flags are enum talk_exec_flags. cols, rows: PTY: 1 to TALK_SIDE_MAX; else 0. user: "",
// "name", "uid" or "uid:gid". argv, env: set by the caller to TALK_ARGS_MAX + 1 each;
// NULL-terminated. After them the label, with TALK_EXEC_LABEL.
// clang-format off
//	  type            field        on the wire                           check
#define TALK_EXEC_FIELDS(F) \
	F(uint32_t,       flags,       FIELD_U32(0, TALK_EXEC_FLAGS),        FLAGS) \
	F(uint32_t,       exec_cgroup, FIELD_U32(0, TALK_CGROUPS_MAX - 1),   ANY) \
	F(uint16_t,       cols,        FIELD_U16(0, TALK_SIDE_MAX),          SIDE) \
	F(uint16_t,       rows,        FIELD_U16(0, TALK_SIDE_MAX),          SIDE) \
	F(struct str,     user,        FIELD_TEXT(TALK_USER_MAX),            ANY) \
	F(struct str,     cwd,         FIELD_TEXT(TALK_CWD_MAX),             ANY) \
	F(uint32_t,       argc,        FIELD_U32(1, TALK_ARGS_MAX),          ANY) \
	F(const char **,  argv,        FIELD_STRINGS,                        ANY) \
	F(uint32_t,       envc,        FIELD_U32(0, TALK_ARGS_MAX),          ANY) \
	F(const char **,  env,         FIELD_STRINGS,                        ENV)
// alone: to the process, not to its group.
#define TALK_SIGNAL_FIELDS(F) \
	F(int,            signal,      FIELD_U32(1, 64),                     ANY) \
	F(bool,           alone,       FIELD_BOOL,                           ANY)
#define TALK_WORKER_FIELDS(F) \
	F(struct str,     user,        FIELD_TEXT(TALK_USER_MAX),            ANY) /* as in EXEC */
#define TALK_LABEL_FIELDS(F) \
	F(struct str,     tag,         FIELD_BYTES(TALK_LABEL_MAX),          ANY)
// flags: of its EXEC, without IF_EMPTY, SHELL, HOME and PACES; STDIN and DIALOGUE only if pid 1 kept
// the fd. pid: in the box's pid namespace, here and below. ended: EXITED follows; its exec cgroup
// may serve another since.
#define TALK_HELD_FIELDS(F) \
	F(uint32_t,       flags,       FIELD_U32(0, TALK_EXEC_FLAGS),        FLAGS) \
	F(uint32_t,       exec_cgroup, FIELD_U32(0, TALK_CGROUPS_MAX - 1),   ANY) \
	F(int,            pid,         FIELD_U32(2, INT32_MAX),              ANY) \
	F(bool,           ended,       FIELD_BOOL,                           ANY) \
	F(struct str,     tag,         FIELD_BYTES(TALK_LABEL_MAX),          ANY)
#define TALK_READY_FIELDS(F) \
	F(uint32_t,       version,     FIELD_U32(0, UINT32_MAX),             ANY) \
	F(uint32_t,       features,    FIELD_U32(0, UINT32_MAX),             ANY)
// FAILED and BROKEN. note: BROKEN: the name of the builder's or pid 1's step.
#define TALK_FAILED_FIELDS(F) \
	F(enum talk_step, step,        FIELD_U8(0, TALK_STEP_COUNT - 1),     STEP) \
	F(int,            errnum,      FIELD_U32(0, 4095),                   ANY) \
	F(FIELD_ARRAY(char, 64), note, FIELD_CHARS,                          PRINTABLE)
#define TALK_STARTED_FIELDS(F) \
	F(int,            pid,         FIELD_U32(2, INT32_MAX),              ANY)
// RAN begins with the pid, EXITED has none. status: as wait() gives it. max_rss: bytes. cpu_us: of
// the process and its waited-for children. cgroup_empty: no process of it is left, so the exec
// cgroup may serve again. over: its pipes were empty, without writers: no FORGET is needed.
#define TALK_EXITED_FIELDS(F) \
	F(int,            status,       FIELD_U32(0, 0xffff),                STATUS) \
	F(uint64_t,       max_rss,      FIELD_U64(0, TALK_NUMBER_MAX),       ANY) \
	F(uint64_t,       cpu_us,       FIELD_U64(0, TALK_NUMBER_MAX),       ANY) \
	F(bool,           cgroup_empty, FIELD_BOOL,                          ANY) \
	F(bool,           over,         FIELD_BOOL,                          ANY)
// clang-format on

#define TALK_MEMBER(type, field, ...) type field;
#define TALK_USER_MAX 64
#define TALK_CWD_MAX 4095
#define TALK_NUMBER_MAX (1ull << 53) // the largest integer that JSON can carry

struct talk_exec {
	TALK_EXEC_FIELDS(TALK_MEMBER)
	TALK_LABEL_FIELDS(TALK_MEMBER)
};

struct talk_held {
	TALK_HELD_FIELDS(TALK_MEMBER)
};

struct talk {
	enum talk_kind kind;
	uint32_t conn;
	union {
		struct talk_exec exec;
		struct {
			TALK_SIGNAL_FIELDS(TALK_MEMBER)
		};
		struct {
			TALK_WORKER_FIELDS(TALK_MEMBER)
		} worker;
		struct {
			TALK_LABEL_FIELDS(TALK_MEMBER)
		};
		struct talk_held held;
		struct {
			TALK_READY_FIELDS(TALK_MEMBER)
		} ready;
		struct {
			TALK_FAILED_FIELDS(TALK_MEMBER)
		} failed;
		struct {
			TALK_STARTED_FIELDS(TALK_MEMBER)
		} started;
		struct {
			TALK_STARTED_FIELDS(TALK_MEMBER)
			TALK_EXITED_FIELDS(TALK_MEMBER)
		} exited;
	};
};

// 0 if it does not fit.
size_t talk_encode(const struct talk *talk, void *room, size_t size);
// False: malformed. For EXEC, talk->exec.argv and .env must point to room for TALK_ARGS_MAX + 1
// pointers before the call; they then point into `bytes`.
bool talk_decode(const void *bytes, size_t len, struct talk *talk);
// How many fds belong to a message: any other number is a protocol error. -1 for EXEC: none, or the
// join fds of a new exec cgroup. `flags` are those of the EXEC that is answered; HELD has its own.
int talk_fds(const struct talk *talk, uint32_t flags);
const char *talk_step_word(enum talk_step step);
