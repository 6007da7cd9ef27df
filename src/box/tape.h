// A tape is the output of an exec, stored by byte offset: written once, read by any number of
// readers at their own pace. A slow reader slows nothing, and a flood costs no memory. Past the
// cap, bytes go to attached readers only: of a named tape through a window on disk,
// else in memory (tape_live.c). There the slowest reader slows the writer, as a pipe would. Without
// a reader they are counted and dropped.
//
// A plain tape keeps 64 KiB in memory and the rest in an unnamed file: for answers that are read
// once. A named tape is on disk from its first byte, with a label that identifies it, and is
// written before readers see it: tape_open() opens it after a restart.
//
// An offset counts the bytes of both streams in order of arrival, including those dropped past the
// cap. Every number from 0 up to what has been read is an offset.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "box/stall.h"
#include "loop/task.h"

#define TAPE_FRAME_MAX 65536u // bytes that are kept or dropped as a whole

enum tape_stream { TAPE_STDOUT, TAPE_STDERR, TAPE_STREAMS };

struct tape;

// `dir`: an open directory for the file, borrowed for the tape's life.
struct tape *tape_new(struct loop *loop, int dir, uint64_t cap);

struct tape_label {
	struct str id, session, command; // session.at == NULL: none
	int64_t started_ms;		 // wall clock
	uint64_t cap;
	uint32_t pid, conn; // 0: not known
	uint64_t wall_ms;   // the time limit; 0: none
	bool auto_cleanup;  // the record is dropped at the end
};
#define TAPE_TEXT_MAX (64 * 1024) // of each text of a label; longer ones are cut

// A named tape. `name` is "FOLDER/FILE" in `dir`; the folder is created if absent. Nothing is
// written yet: the label goes with the first bytes, or tape_begin().
struct tape *tape_new_named(struct loop *loop, int dir, const char *name);
void tape_set_label(struct tape *tape, const struct tape_label *label); // first, once
// Creates the file ahead of the first bytes. Waits for the disk. False: the file could not be
// created, and the tape is unusable.
bool tape_prepare(struct tape *tape);
// Sets pid and conn in the label, before it is written.
void tape_started(struct tape *tape, int pid, uint32_t conn);
// Writes the label if it is not on disk. Waits for the disk.
void tape_begin(struct tape *tape);
// True while the label is not written but may still be.
bool tape_is_unlabelled(const struct tape *tape);
bool tape_is_labelled(const struct tape *tape); // the label is written
void tape_await_idle(struct tape *tape);	// waits for a write that is under way
fallible tape_await_write(struct tape *tape,
			  int64_t deadline); // waits for the next write, or the end

// Arrival times by offset, in order: wall clock. Bytes before the first pair have no known time.
// Borrowed until the caller's next wait. Named tapes only.
struct tape_time {
	uint64_t offset;
	int64_t ms;
};
const struct tape_time *tape_times(const struct tape *tape, size_t *out_count);

// How a command ended: the end record.
struct tape_ending {
	int64_t ended_ms; // wall clock
	int32_t exit_code, signal;
	uint32_t ending; // enum ending of box/exec.h
	uint8_t status;	 // enum proc_status of box/procs.h
	int64_t duration_ms;
	uint64_t cpu_ms, max_rss;
	uint32_t pid; // of a process; 0: not known
};
// After tape_end(): writes the end record. Waits for the disk.
fallible tape_seal(struct tape *tape, const struct tape_ending *ending);

// Opens a named tape of a previous daemon. It has an end record, or was cut off: then the last
// frame is shortened to the bytes that are there, and the tape can be appended to. The label's
// texts live as long as the tape. NOT_FOUND no_tape, INVALID bad_tape. Waits for the disk.
fallible tape_open(struct loop *loop, int dir, const char *name, struct tape **out,
		   struct tape_label *out_label);
bool tape_has_ended(const struct tape *tape);
// False: no end record.
bool tape_ending_of(const struct tape *tape, struct tape_ending *out);

// Removes tapes without an owner in the background: one folder, or those that exist now and for
// which `is_known` returns false (NULL: all); it is called at once.
void tape_remove_folder(struct loop *loop, int dir, const char *name);
void tape_remove_leaked_all(struct loop *loop, int dir,
			    bool (*is_known)(const char *name, void *arg), void *arg);

// Bytes that a group of tapes may keep on disk; past that a tape is cut as at its cap.
// Reference-counted: the tapes hold it too.
struct tape_budget;
// Bytes that several budgets share: those of a tenant. Embedded in its owner, which outlives the
// budgets or calls tape_budget_leave().
struct tape_quota {
	uint64_t used;					  // beyond the floors
	uint64_t kept;					  // all of them, on disk
	uint64_t (*left)(const struct tape_quota *quota); // NULL: no bound
};
struct tape_budget *tape_budget_new(uint64_t max);
void tape_budget_drop(struct tape_budget *budget); // takes NULL
// Changes the bound, and the quota in which bytes beyond `floor` count; NULL: none. Drops ended
// tapes that are too many.
void tape_budget_set(struct tape_budget *budget, uint64_t max, uint64_t floor,
		     struct tape_quota *quota);
void tape_budget_leave(struct tape_budget *budget); // its bytes count in no quota any more
// `more` is called when there is no room: it drops one tape and returns whether there was one. The
// caller is a task that may wait.
void tape_budget_on_lack(struct tape_budget *budget, bool (*more)(void *arg), void *arg);
// Bytes of files that have no struct tape.
void tape_budget_charge(struct tape_budget *budget, uint64_t bytes);
void tape_budget_refund(struct tape_budget *budget, uint64_t bytes);
uint64_t tape_budget_used(const struct tape_budget *budget);
// Counts the bytes of the tape in the budget. If its file is not removed here (tape_leave()), bytes
// that are there already are not counted, and none are returned with the tape.
void tape_bound(struct tape *tape, struct tape_budget *budget);

void tape_ref(struct tape *tape); // reference count: readers may outlive the exec
// The last reference removes the file. An ended named tape with one reference left (its record's)
// keeps neither an fd nor memory; a reader takes a reference.
void tape_unref(struct tape *tape);
static inline void auto_tape_(struct tape **tape)
{
	tape_unref(*tape);
}
#define auto_tape on_exit_call(auto_tape_) struct tape *
// Waits until the files of dropped tapes are removed: the next daemon will not find them.
void tape_await_removals(void);
void tape_leave(struct tape *tape); // its file must not be removed with it

// Appends. May wait for the disk. A disk error marks the tape truncated and is returned. Without
// room (on the disk, in the budget) a named tape is marked truncated, bytes go to attached readers
// only, and bytes are kept again as soon as there is room.
fallible tape_add(struct tape *tape, enum tape_stream stream, const void *bytes, size_t len);
// True: tape_add() of `len` bytes will not wait, so a callback may call it.
bool tape_fits(const struct tape *tape, size_t len);
// Moves bytes from a pipe to the end of a named tape without having them in memory only: if the
// process is killed, each byte is in the pipe or in the file. At most `max`, and no more than the
// tape keeps. *out_len: how many; 0: the pipe is empty, or the tape is full (tape_fits()) and its
// label says so: the rest can be dropped. `room`: a buffer of `max` bytes. A disk error marks the
// tape truncated and is returned. Waits for the disk. `at`: the pipe's owner.
fallible tape_pipe(struct tape *tape, enum tape_stream stream, const struct stall_at *at, int pipe,
		   void *room, size_t max, size_t *out_len);
bool tape_is_named(const struct tape *tape);
bool tape_takes(const struct tape *tape);      // the next byte will be kept
bool tape_draws(const struct tape *tape);      // output must go through tape_pipe()
bool tape_lacks_room(const struct tape *tape); // the last bytes were not kept for lack of room
void tape_mark_cut(struct tape *tape);	       // records in the file that stdout was cut; waits
void tape_end(struct tape *tape);	       // no more output; readers see the end

// Reads one run of bytes of one stream, in order of arrival, from *offset on, and advances *offset.
// INVALID bad_offset past the end. *out_len = 0 at the end. Waits for more until the deadline
// (TIMEOUT).
fallible tape_read(struct tape *tape, uint64_t *offset, enum tape_stream *out_stream, void *room,
		   size_t size, size_t *out_len, int64_t deadline);
// The begin of a frame: its place in the log, the bytes before it, and how many of them are stdout.
struct mark {
	uint64_t place, offset, stdout_bytes;
};

// A reader that follows the tape: it also gets output that is not kept. Embedded in its owner;
// holds the tape.
struct tape_reader {
	struct tape *tape; // NULL: not attached
	struct link link;
	uint64_t offset;  // of the next byte
	struct mark at;	  // a frame of the window at or before `offset`
	uint64_t passed;  // bytes that it has read from chunks
	uint64_t missed;  // bytes that were dropped before it read them
	bool cut;	  // bytes were missed, possibly uncounted
	int64_t moved_ms; // loop time of its last read
	bool waiting;	  // for more output
	bool detached;	  // it read nothing for too long
	// How much its own consumer has taken, if that is slow; NULL: not known.
	uint64_t (*taken)(void *arg);
	void *arg;
	uint64_t taken_before;
};
void tape_attach(struct tape_reader *reader, struct tape *tape, uint64_t offset);
// Attaches a detached reader again at its offset, with its count of missed bytes.
void tape_reattach(struct tape_reader *reader, struct tape *tape);
// Idempotent. The writer waits a while for a reader that left before the end: its connection may be
// lost, and it may come back.
void tape_detach(struct tape_reader *reader);
// The same for readers of the previous daemon.
void tape_await_reader(struct tape *tape);
// The command has ended: its last output waits for no reader.
void tape_hurry(struct tape *tape);
// As tape_read(). Missed bytes are skipped and counted in the reader. BAD_PEER reader_detached.
fallible tape_read_on(struct tape_reader *reader, enum tape_stream *out_stream, void *room,
		      size_t size, size_t *out_len, int64_t deadline);
bool tape_reader_is_ready(
	const struct tape_reader *reader);		    // tape_read_on() will not wait for more
bool tape_reader_is_done(const struct tape_reader *reader); // it has read everything

// True: tape_read() finds bytes there, or the end.
bool tape_is_ready(const struct tape *tape, uint64_t offset);
// An offset at or shortly before `bytes` of one stream, and how many of them precede it.
uint64_t tape_seek(const struct tape *tape, enum tape_stream stream, uint64_t bytes,
		   uint64_t *out_before);

bool tape_truncated(const struct tape *tape, enum tape_stream stream);
uint64_t tape_bytes(const struct tape *tape, enum tape_stream stream); // received, kept or not
uint64_t tape_kept(const struct tape *tape);	// the offset after the last kept byte
uint64_t tape_reached(const struct tape *tape); // the offset after the last received byte
bool tape_is_utf8(const struct tape *tape);	// of the kept bytes, both streams; final once ended
bool tape_is_text(const struct tape *tape);	// the same so far: may end inside a character
