// The inside of a tape: its log, and the jobs that go to worker threads.
//
// The log is a row of frames: eight bytes that say stream, length and the low half of the offset,
// then the bytes. A place is a distance from the start of the log.
#pragma once

#include <sys/uio.h>

#include "base/buf.h"
#include "box/tape.h"

#define TAPE_FRAME_HEAD 8

enum frame_kind {
	FRAME_STDOUT = TAPE_STDOUT,
	FRAME_STDERR = TAPE_STDERR,
	FRAME_END,
	FRAME_GAP, // behind the kept part: where the window begins
	FRAME_KINDS
};

struct frame {
	enum frame_kind kind;
	size_t len;
	uint32_t offset; // low half
};

void frame_put(uint8_t at[TAPE_FRAME_HEAD], enum frame_kind kind, size_t len, uint64_t offset);
bool frame_get(const uint8_t at[TAPE_FRAME_HEAD], struct frame *out); // false: this is no frame

struct tape_utf8 {
	bool broken;
	char carry[4]; // the beginning of a character whose rest has not come
	size_t carried;
};

struct tape {
	struct tape_budget *budget; // NULL: none
	struct loop *loop;
	int dir;
	int refs;
	uint64_t cap, kept; // kept: in the log, or on its way there
	char *name;	    // NULL: plain
	char *label;	    // the bytes before the log
	size_t label_len;
	bool made;     // there is a file of that name
	bool labelled; // and the label is in it
	bool left;     // the file is not ours to remove
	char *memory;
	size_t memory_len, memory_room;
	size_t last; // place of the last frame in memory
	bool sealed; // memory takes no more
	int file;
	uint64_t file_from; // the place at which the file begins
	struct mark end;    // of the log
	struct mark *marks;
	size_t mark_count;
	struct mark hint;
	struct tape_time *times; // of tape_times.c
	size_t time_count;
	uint64_t spilled; // taken from the budget
	bool writing;	  // somebody is at the disk
	bool ended, broken, closed;
	bool cut; // the label says that it is truncated
	struct tape_ending ending;
	uint64_t seen[TAPE_STREAMS];
	bool truncated[TAPE_STREAMS];
	struct tape_utf8 utf8[TAPE_STREAMS];
	struct condition more, wrote;
	bool stalled;			  // there was no room: what comes is not kept
	int64_t retry_at;		  // loop time: then it is tried again
	struct link readers, chunks;	  // of tape_live.c
	uint64_t chunks_end, chunk_bytes; // bytes that came to readers by memory; those still there
	uint64_t unkept;		  // bytes that found no room
	struct condition drained;
	struct tape_window *window;	// of tape_window.c; NULL: none
	bool no_window;			// the file system takes none
	uint64_t dropped[TAPE_STREAMS]; // past the cap, behind the end of the log
	struct {
		uint64_t place;
		int64_t until; // loop time
	} absent;	       // a reader that may come back
	bool hurried, lingers;
};

#define ENDING_MAX 96

// What `len` bytes take in a log.
static inline size_t tape_framed(size_t len)
{
	return len + (len / TAPE_FRAME_MAX + 1) * TAPE_FRAME_HEAD;
}

// What is shared by those who write (tape_add.c, tape_pipe.c).
size_t tape_keeps(const struct tape *tape, size_t len); // how much of it is under the cap
size_t tape_afford(struct tape *tape, size_t len);	// how much the budget has room for
void tape_pay(struct tape *tape, size_t len);
void tape_unpay(struct tape *tape, size_t len); // they were not written
void tape_unbind(struct tape *tape);		// the tape goes
bool tape_fits_memory(const struct tape *tape, size_t len);
void tape_remember(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len);
// The last frame of a plain tape takes more. False: it is of the other stream, or full.
bool tape_extend(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len);
// Closes the file, if it has one share and no more is to come: a reader opens it again.
void tape_rest(struct tape *tape);
void tape_disk_take(struct tape *tape); // one at a time is at the disk; waits
void tape_disk_give(struct tape *tape);
// The disk fails: nothing more is kept; or it has no room, then nothing for a moment.
fallible tape_break(struct tape *tape, int errnum);
void tape_stall(struct tape *tape, const char *reason);
bool tape_is_stalled(const struct tape *tape);
bool tape_disk_is_short(int dir, int file, size_t len); // for `len` more; on a worker thread

// In tape_chunk.c: bytes that are not kept, for attached readers. Waits for the slowest.
struct tape_chunk {
	struct link link;
	uint64_t at;	// offset of the kept byte behind which it came
	uint64_t begin; // unkept bytes before it
	enum tape_stream stream;
	size_t len;
	char bytes[];
};
struct tape_chunk *tape_chunk_next(const struct tape_reader *reader); // NULL: none
size_t tape_chunk_read(struct tape_reader *reader, const struct tape_chunk *chunk, void *room,
		       size_t size);
void tape_chunks_trim(struct tape *tape); // frees what every reader has had
void tape_reader_leave(struct tape_reader *reader);
void tape_pass(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len);
bool tape_pass_fits(const struct tape *tape, size_t len); // tape_pass() will not wait
void tape_chunks_free(struct tape *tape);
bool tape_is_followed(const struct tape *tape); // by a reader, or one that may come back
void tape_detach_slow(struct tape *tape);
#define TAPE_LOOK_MS 1000 // between two looks at readers that are waited for

// In tape_budget.c: the window of the tape takes `now` bytes.
void tape_budget_count(struct tape *tape, uint64_t now);
bool tape_windows_are_many(void); // all of them together are as large as they may be
bool tape_budget_lacks_quota(const struct tape_budget *budget); // nothing is left of it
// In tape_window.c: the part of the log past the cap.
#define GAP_PAYLOAD 24
struct tape_window {
	struct mark gap;    // where the kept part ends, and the record of the gap begins
	size_t gap_len;	    // of the record
	struct mark start;  // the first frame that is there
	uint64_t punched;   // up to this place
	uint64_t counted;   // bytes, in the sum of all windows
	struct mark *steps; // frames to begin at, from `start` on
	size_t step_count;
};
bool tape_window_takes(const struct tape *tape); // the next bytes go there
// Waits for the slowest reader. False: nobody follows any more.
bool tape_window_await(struct tape *tape);
// For whoever has the disk, before a frame is put at the end of the log. An errno.
int tape_window_make_room(struct tape *tape);
void tape_window_log(struct tape *tape, enum tape_stream stream, size_t len);
// Where a reader is: a frame, or the end; 0: there is no window.
uint64_t tape_window_place(const struct tape *tape, const struct tape_reader *reader);
struct mark tape_window_find(const struct tape *tape, uint64_t offset);
// Of a tape that is opened: what the record says.
void tape_window_found(struct tape *tape, const struct mark *gap, size_t gap_len,
		       const struct mark *start);
void tape_window_linger(struct tape *tape); // the tape has ended: the window goes in a while
void tape_window_free(struct tape *tape);   // in tape.c
// In tape_read.c: a run of bytes from a frame on, up to the place `end`. Waits for the disk.
fallible tape_fetch(struct tape *tape, struct mark *at, uint64_t end, uint64_t offset,
		    enum tape_stream *out_stream, void *room, size_t size, size_t *out_len);
static inline uint64_t tape_all_dropped(const struct tape *tape)
{
	return tape->dropped[TAPE_STDOUT] + tape->dropped[TAPE_STDERR];
}
void tape_tell_cut(const struct tape *tape, const char *reason);

void tape_check_utf8(struct tape_utf8 *utf8, const char *bytes, size_t len);
void tape_note_time(struct tape *tape); // the next byte comes now
// A frame has come to the end of the log.
void tape_log(struct tape *tape, enum tape_stream stream, size_t len);

// Bytes to the end of a file, on a worker thread.
struct spill {
	int dir;
	const char *name; // NULL: the file has none
	bool made;	  // there is one
	int file;	  // -1: it is opened
	struct str label; // comes first; may be empty
	uint64_t at;	  // in the file
	enum frame_kind kind;
	const char *bytes;
	size_t len; // at most TAPE_FRAME_MAX; 0: no frame
	uint64_t offset;
	bool shut; // close it then
	size_t written;
	int errnum;
};
void spill_run(void *arg);			      // a struct spill
int spill_open(int dir, const char *name, bool made); // on a worker thread; -1: errno
bool spill_write(int file, struct iovec *parts, int count, uint64_t at, size_t *written);

// A run of bytes of one stream, from memory or, on a worker thread, from a file.
struct fetch {
	const char *memory; // the log's beginning; NULL: the file
	int dir;
	const char *name; // to open when `file` is -1
	int file;
	uint64_t shift; // from a place to a position in the file
	uint64_t end;	// of what can be read there: a place
	struct mark at; // a frame at or before the offset; moved on
	uint64_t offset;
	char *room;
	size_t size;
	enum tape_stream stream;
	size_t len; // what was found; 0: nothing up to `end`
	int errnum;
};
void fetch_run(void *arg); // a struct fetch

// A file of an earlier life, on a worker thread: every frame is walked, and `each` told.
struct scan {
	int dir;
	const char *name;
	int file;
	char *label; // the caller's; NUL-ended texts inside
	size_t label_len;
	uint64_t place; // behind the last whole frame
	void (*each)(void *arg, enum tape_stream stream, const char *bytes, size_t len);
	// The record of the gap, `len` bytes behind its head.
	void (*gap)(void *arg, size_t len, const struct mark *start);
	void *arg;
	bool ended, bad;
	char ending[ENDING_MAX];
	size_t ending_len;
	int errnum;
};
void scan_run(void *arg); // a struct scan

// The label as bytes: what stands at the start of the file, texts cut to TAPE_TEXT_MAX.
char *label_encode(const struct tape_label *label, size_t *out_len);
#define LABEL_CAP_AT 24	  // where the cap stands in it
#define LABEL_PID_AT 32	  // pid and conn
#define LABEL_FLAGS_AT 40 // a byte
enum label_flags { LABEL_SESSION = 1, LABEL_AUTO = 2, LABEL_CUT_OUT = 4, LABEL_CUT_ERR = 8 };
bool label_decode(const char *bytes, size_t len, struct tape_label *out);
