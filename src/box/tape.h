// The output of an exec, kept by byte offset: written once, read by anybody at their own pace. So a
// slow reader slows nobody, and a flood costs no memory. Past the cap bytes go to attached readers
// alone: of a named tape by way of a window on disk (tape_window.c), else in memory (tape_live.c).
// The slowest of them slows the writer, as a pipe would. Without a reader they are counted and
// dropped.
//
// There are two sorts. A plain tape keeps 64 KiB in memory and the rest in an unnamed file: for
// answers that are read once. A named tape lies on disk from its first byte, with a label that says
// whose it is, and is written before anybody is told of it: tape_open() takes it up again.
//
// An offset counts the bytes of both streams in the order of their arrival, those that were dropped
// past the cap among them. Every number from 0 up to what has been read is an offset.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "box/stall.h"
#include "loop/task.h"

#define TAPE_FRAME_MAX 65536u // bytes that are kept together or not at all

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
	bool auto_cleanup;  // it is to go with the end
};
#define TAPE_TEXT_MAX (64 * 1024) // of each text of a label; what is longer is cut

// A named one. `name` is "FOLDER/FILE" in `dir`; the folder is made when it is absent. Nothing is
// written yet: the label goes with the first bytes, or tape_begin().
struct tape *tape_new_named(struct loop *loop, int dir, const char *name);
void tape_set_label(struct tape *tape, const struct tape_label *label); // before all else, once
// Makes the file, so that the first bytes need not wait for that. Waits for the disk. False: the
// file could not be made, and the tape is of no use.
bool tape_prepare(struct tape *tape);
// The command runs: what the label is to say. Before anything is written.
void tape_started(struct tape *tape, int pid, uint32_t conn);
// Writes the label, unless it is on disk. Waits for the disk.
void tape_begin(struct tape *tape);
// True while its file does not say what it is, and still may.
bool tape_is_unlabelled(const struct tape *tape);
bool tape_is_labelled(const struct tape *tape);			// its file does
void tape_await_idle(struct tape *tape);			// nobody is at its file
fallible tape_await_write(struct tape *tape, int64_t deadline); // or its end

// When bytes came, by offset, in order: wall clock. Bytes before the first pair have no known time.
// Borrowed until the caller's next wait. Named tapes alone have them.
struct tape_time {
	uint64_t offset;
	int64_t ms;
};
const struct tape_time *tape_times(const struct tape *tape, size_t *out_count);

// How a command ended, as the tape tells it to whoever opens it.
struct tape_ending {
	int64_t ended_ms; // wall clock
	int32_t exit_code, signal;
	uint32_t ending; // enum ending of box/exec.h
	uint8_t status;	 // enum proc_status of box/procs.h
	int64_t duration_ms;
	uint64_t cpu_ms, max_rss;
	uint32_t pid; // of a process; 0: not known
};
// Behind tape_end(): the last record. Waits for the disk.
fallible tape_seal(struct tape *tape, const struct tape_ending *ending);

// A named tape of an earlier life. It has ended, or was cut off in the middle: then a record at its
// end has the bytes that are there, and it can be written on. The label's texts live as long as the
// tape. NOT_FOUND no_tape, INVALID bad_tape. Waits for the disk.
fallible tape_open(struct loop *loop, int dir, const char *name, struct tape **out,
		   struct tape_label *out_label);
bool tape_has_ended(const struct tape *tape);
// False: it was not sealed.
bool tape_ending_of(const struct tape *tape, struct tape_ending *out);

// Tapes without an owner: a folder of them, or all folders that are there now. The work is done in
// the background.
void tape_remove_folder(struct loop *loop, int dir, const char *name);
void tape_remove_all(struct loop *loop, int dir);
// Those folders of which `is_known` says no; it is asked at once.
void tape_remove_leaked_all(struct loop *loop, int dir,
			    bool (*is_known)(const char *name, void *arg), void *arg);

// Bytes that some tapes may keep on disk together; past that a tape is cut as at its cap. Counted:
// the tapes hold it as well.
struct tape_budget;
// Bytes that several budgets count together: those of a tenant. Embedded in its owner, which
// outlives the budgets or has them leave.
struct tape_quota {
	uint64_t used;
	uint64_t (*left)(const struct tape_quota *quota); // NULL: no bound
};
struct tape_budget *tape_budget_new(uint64_t max);
void tape_budget_drop(struct tape_budget *budget); // takes NULL
// Another bound, and the quota that bytes beyond `floor` count in; NULL: none. Ended tapes that are
// too many go.
void tape_budget_set(struct tape_budget *budget, uint64_t max, uint64_t floor,
		     struct tape_quota *quota);
void tape_budget_leave(struct tape_budget *budget); // its bytes count in no quota any more
// Called when there is no room left: `more` lets one tape go and tells whether there was one. The
// caller is a task that may wait.
void tape_budget_on_lack(struct tape_budget *budget, bool (*more)(void *arg), void *arg);
// Bytes of files that no tape stands for.
void tape_budget_charge(struct tape_budget *budget, uint64_t bytes);
void tape_budget_refund(struct tape_budget *budget, uint64_t bytes);
uint64_t tape_budget_used(const struct tape_budget *budget);
// The bytes of the tape count. Those of a tape whose file is left to somebody (tape_leave()) are
// not counted here, when they are there already, and are not given back with the tape.
void tape_bound(struct tape *tape, struct tape_budget *budget);

void tape_ref(struct tape *tape); // counted: readers may outlive the exec
// With the last share the file is removed. A named tape that has ended and has one share left (its
// record's) rests: it keeps neither a file open nor memory. Whoever reads it holds it.
void tape_unref(struct tape *tape);
static inline void auto_tape_(struct tape **tape)
{
	tape_unref(*tape);
}
#define auto_tape on_exit_call(auto_tape_) struct tape *
// Until the files of tapes that were dropped before are gone: then nobody will find them again.
void tape_await_goodbyes(void);
void tape_leave(struct tape *tape); // its file is somebody else's to remove

// Appends. May wait for the disk. An error of the disk marks the tape truncated, and is returned.
// Without room (on the disk, in the budget) a named tape is marked truncated, bytes go to attached
// readers alone, and it is kept on as soon as there is room again.
fallible tape_add(struct tape *tape, enum tape_stream stream, const void *bytes, size_t len);
// True: tape_add() of so many bytes will not wait, so a callback may do it.
bool tape_fits(const struct tape *tape, size_t len);
// Moves what lies in a pipe to the end of a named tape, without ever having it in memory alone: a
// process that is killed in here has moved each byte or has not. At most `max`, and no more than
// the tape keeps. *out_len: how many; 0: the pipe is empty, or the tape is full (tape_fits()), and
// that is on disk: the rest can be dropped. `room` of `max` bytes is for the tape to use. An error
// of the disk marks the tape truncated, and is returned. Waits for the disk.
// `at`: whose pipe it is.
fallible tape_pipe(struct tape *tape, enum tape_stream stream, const struct stall_at *at, int pipe,
		   void *room, size_t max, size_t *out_len);
bool tape_is_named(const struct tape *tape);
bool tape_takes(const struct tape *tape);      // the next byte is to be kept
bool tape_draws(const struct tape *tape);      // it is to be moved by tape_pipe()
bool tape_lacks_room(const struct tape *tape); // the last bytes were not kept for want of it
void tape_mark_cut(struct tape *tape);	       // its file says that some stdout was not kept; waits
void tape_end(struct tape *tape);	       // nothing more will come; readers see the end

// Reads one run of bytes of one stream, in the order of arrival, from *offset on, and moves
// *offset. INVALID bad_offset past what there is. *out_len = 0 at the end. Waits for more until the
// deadline (TIMEOUT).
fallible tape_read(struct tape *tape, uint64_t *offset, enum tape_stream *out_stream, void *room,
		   size_t size, size_t *out_len, int64_t deadline);
// Where a frame begins: its place in the log, the bytes before it, and how many of them are
// stdout's.
struct mark {
	uint64_t place, offset, stdout_bytes;
};

// A reader that follows the tape live: it also gets output that is not kept. Embedded in its owner;
// the tape is held meanwhile.
struct tape_reader {
	struct tape *tape; // NULL: not attached
	struct link link;
	uint64_t offset;  // of the next byte
	struct mark at;	  // a frame of the window at or before it
	uint64_t passed;  // bytes from memory that it has had
	uint64_t missed;  // bytes that came before its turn and are gone
	bool cut;	  // something was missed, perhaps uncounted
	int64_t moved_ms; // loop time: when it last read
	bool waiting;	  // for more to come
	bool detached;	  // it took nothing for too long
	// How much its own reader has taken, for one that reads slowly; NULL: not known.
	uint64_t (*taken)(void *arg);
	void *arg;
	uint64_t taken_before;
};
void tape_attach(struct tape_reader *reader, struct tape *tape, uint64_t offset);
// Attaches a reader that was detached, at the offset where it stopped: it knows what it missed.
void tape_reattach(struct tape_reader *reader, struct tape *tape);
// Harmless twice. The writer waits for a while for a reader that left before the end: its
// connection may be lost, and it may come back.
void tape_detach(struct tape_reader *reader);
// A reader of an earlier daemon may come back, too.
void tape_await_reader(struct tape *tape);
// The command has ended: what it still had in its pipes waits for no reader.
void tape_hurry(struct tape *tape);
// As tape_read(), in the order of arrival. Missed bytes are left out, and counted in the reader.
// BAD_PEER reader_detached.
fallible tape_read_on(struct tape_reader *reader, enum tape_stream *out_stream, void *room,
		      size_t size, size_t *out_len, int64_t deadline);
bool tape_reader_is_ready(
	const struct tape_reader *reader);		    // tape_read_on() will not wait for more
bool tape_reader_is_done(const struct tape_reader *reader); // it has all there will be

// True: tape_read() finds bytes there, or the end.
bool tape_is_ready(const struct tape *tape, uint64_t offset);
// An offset at or shortly before the place where `bytes` of one stream have come, and how many of
// them have come up to there.
uint64_t tape_seek(const struct tape *tape, enum tape_stream stream, uint64_t bytes,
		   uint64_t *out_before);

bool tape_truncated(const struct tape *tape, enum tape_stream stream);
uint64_t tape_bytes(const struct tape *tape, enum tape_stream stream); // seen, kept or not
uint64_t tape_kept(const struct tape *tape);	// the offset behind the last byte that is kept
uint64_t tape_reached(const struct tape *tape); // the offset behind the last byte that came
bool tape_is_utf8(const struct tape *tape);	// of what was kept, both streams; known once ended
bool tape_is_text(const struct tape *tape);	// the same so far: it may end inside of a character
