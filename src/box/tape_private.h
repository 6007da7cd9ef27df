// The state of a tape, its log, and the jobs for worker threads.
//
// The log is a sequence of frames: a header of eight bytes (stream, length, low half of the
// offset), then the bytes. A place is a distance from the start of the log.
#pragma once

#include <sys/uio.h>

#include "base/buf.h"
#include "box/tape.h"

#define TAPE_FRAME_HEAD 8

enum frame_kind {
	FRAME_STDOUT = TAPE_STDOUT,
	FRAME_STDERR = TAPE_STDERR,
	FRAME_END,
	FRAME_GAP, // after the kept part: where the window begins
	FRAME_KINDS
};

struct frame {
	enum frame_kind kind;
	size_t len;
	uint32_t offset; // low half
};

void frame_put(uint8_t at[TAPE_FRAME_HEAD], enum frame_kind kind, size_t len, uint64_t offset);
bool frame_get(const uint8_t at[TAPE_FRAME_HEAD], struct frame *out); // false: no frame

struct tape_utf8 {
	bool broken;
	char carry[4]; // an incomplete character
	size_t carried;
};

// Output: a tape only goes forward (tape_reach()).
enum tape_phase {
	TAPE_OPEN,
	TAPE_HURRIED, // the command has ended: its last output waits for no reader
	TAPE_ENDED,   // no more output
	TAPE_CLOSED,  // the end record is written
};

// The file: forward as well.
enum tape_storage {
	TAPE_UNMADE,   // no file yet
	TAPE_MADE,     // the file exists
	TAPE_LABELLED, // the label is in it
};

// A tape keeps or is stalled by turns; a broken one stays broken (tape_set_keeping()).
enum tape_keeping {
	TAPE_KEEPS,
	TAPE_STALLED, // there was no room: bytes are not kept until `retry_at`
	TAPE_BROKEN,  // after a disk error nothing more is kept
};

struct tape {
	struct tape_budget *budget; // NULL: none
	struct loop *loop;
	int dir;
	int refs;
	uint32_t fetching;  // reads of `file` in worker threads: it is not closed meanwhile
	uint64_t cap, kept; // kept: in the log, or being written to it
	char *name;	    // NULL: plain
	char *label;	    // the bytes before the log
	size_t label_len;
	bool left; // the file must not be removed with it
	enum tape_phase phase;
	enum tape_storage storage;
	enum tape_keeping keeping;
	char *memory;
	size_t memory_len, memory_room;
	size_t last;	  // place of the last frame in memory
	bool memory_full; // memory takes no more
	int file;
	uint64_t file_from; // place of the first byte in the file
	struct mark end;    // of the log
	struct mark *marks;
	size_t mark_count;
	struct mark hint;
	struct tape_time *times; // of arrival
	size_t time_count;
	uint64_t spilled; // taken from the budget
	bool writing;	  // a disk operation is under way
	bool cut;	  // the label says that it is truncated
	struct tape_ending ending;
	uint64_t seen[TAPE_STREAMS];
	bool truncated[TAPE_STREAMS];
	struct tape_utf8 utf8[TAPE_STREAMS];
	struct condition more, wrote;
	int64_t retry_at;		  // loop time of the next try of a stalled tape
	struct link readers, chunks;	  // of tape_live.c; without a reader there are no chunks
	uint64_t chunks_end, chunk_bytes; // bytes sent to readers through chunks; those still there
	uint64_t unkept;		  // bytes that were not kept for lack of room
	struct condition drained;
	struct tape_window *window;	// of tape_live.c; NULL: none
	bool no_window;			// the file system does not support holes
	uint64_t dropped[TAPE_STREAMS]; // past the cap, after the end of the log
	struct {
		uint64_t place;
		int64_t until; // loop time
	} absent;	       // a reader that may come back
	bool lingers;	       // a task frees the window after a while
};

#define ENDING_MAX 96

// Size of `len` bytes in a log.
static inline size_t tape_framed(size_t len)
{
	return len + (len / TAPE_FRAME_MAX + 1) * TAPE_FRAME_HEAD;
}

// Moves a mark over a frame, or with `head` 0 over more bytes of one.
static inline void mark_step(struct mark *mark, enum tape_stream stream, size_t head, size_t len)
{
	mark->place += head + len;
	mark->offset += len;
	mark->stdout_bytes += stream == TAPE_STDOUT ? len : 0;
}

static inline void tape_reach(struct tape *tape, enum tape_phase phase)
{
	if (tape->phase < phase)
		tape->phase = phase;
}

static inline void tape_store(struct tape *tape, enum tape_storage storage)
{
	if (tape->storage < storage)
		tape->storage = storage;
}

static inline void tape_set_keeping(struct tape *tape, enum tape_keeping keeping)
{
	if (tape->keeping != TAPE_BROKEN)
		tape->keeping = keeping;
}

// In tape.c.
size_t tape_keeps(const struct tape *tape, size_t len); // how much of `len` is under the cap
// Closes the file of a complete tape with one reference: a reader opens it again.
void tape_close_idle(struct tape *tape);
void tape_disk_take(struct tape *tape); // one disk operation at a time; waits
void tape_disk_give(struct tape *tape);
bool tape_is_stalled(const struct tape *tape);
bool tape_disk_is_short(int dir, int file, size_t len); // for `len` more bytes; on a worker thread

// In tape_live.c. There is no room: nothing is kept for a moment.
void tape_stall(struct tape *tape, const char *reason);
// Bytes that are not kept, for attached readers. Waits for the slowest.
void tape_pass(struct tape *tape, enum tape_stream stream, const char *bytes, size_t len);
bool tape_pass_fits(const struct tape *tape, size_t len); // tape_pass() will not wait
bool tape_is_followed(const struct tape *tape);		  // by a reader, or one that may come back

// In tape_budget.c.
size_t tape_afford(struct tape *tape, size_t len); // how much the budget has room for
void tape_pay(struct tape *tape, size_t len);
void tape_unpay(struct tape *tape, size_t len); // bytes that were not written
void tape_unbind(struct tape *tape);		// the tape is freed
// The window of the tape uses `now` bytes.
void tape_budget_count(struct tape *tape, uint64_t now);
bool tape_windows_are_many(void);				// their sum is at its maximum
bool tape_budget_lacks_quota(const struct tape_budget *budget); // the quota is used up
// In tape_live.c: the part of the log past the cap.
#define GAP_PAYLOAD 24
struct tape_window {
	struct mark gap;    // end of the kept part, and begin of the gap record
	size_t gap_len;	    // of the record
	struct mark start;  // the first frame
	uint64_t punched;   // up to this place
	uint64_t counted;   // its bytes in the sum of all windows
	struct mark *steps; // frames at which the window may begin
	size_t step_count;
};
bool tape_window_takes(const struct tape *tape); // the next bytes go to the window
// Waits for the slowest reader. False: no reader follows any more.
bool tape_window_await(struct tape *tape);
// Called with the disk taken, before a frame is appended. Returns an errno.
int tape_window_make_room(struct tape *tape);
void tape_window_log(struct tape *tape, enum tape_stream stream, size_t len);
// Restores the window from the gap record of an opened tape.
void tape_window_found(struct tape *tape, const struct mark *gap, size_t gap_len,
		       const struct mark *start);
void tape_window_linger(struct tape *tape); // the tape has ended: frees the window after a while
void tape_window_free(struct tape *tape);   // in tape.c
// In tape.c: reads a run of bytes from a frame on, up to the place `end`. Waits for the disk.
fallible tape_fetch(struct tape *tape, struct mark *at, uint64_t end, uint64_t offset,
		    enum tape_stream *out_stream, void *room, size_t size, size_t *out_len);
static inline uint64_t tape_all_dropped(const struct tape *tape)
{
	return tape->dropped[TAPE_STDOUT] + tape->dropped[TAPE_STDERR];
}

void tape_check_utf8(struct tape_utf8 *utf8, const char *bytes, size_t len);
// Accounts for a frame that was appended.
void tape_log(struct tape *tape, enum tape_stream stream, size_t len);

// Appends bytes to a file, on a worker thread.
struct spill {
	int dir;
	const char *name; // NULL: unnamed
	bool made;	  // the file exists
	int file;	  // -1: opens it
	struct str label; // written first; may be empty
	uint64_t at;	  // position in the file
	enum frame_kind kind;
	const char *bytes;
	size_t len; // at most TAPE_FRAME_MAX; 0: no frame
	uint64_t offset;
	bool shut; // close it afterwards
	int errnum;
};
void spill_run(void *arg);			      // a struct spill
int spill_open(int dir, const char *name, bool made); // on a worker thread; -1: errno
// All of it, or false with errno.
bool spill_write(int file, struct iovec *parts, int count, uint64_t at);
bool spill_read(int file, char *room, size_t len, uint64_t at); // ENODATA: the file is shorter

// Reads a run of bytes of one stream, from memory or, on a worker thread, from a file.
struct fetch {
	const char *memory; // begin of the log; NULL: read the file
	int dir;
	const char *name; // opened when `file` is -1
	int file;
	uint64_t shift; // from a place to a position in the file
	uint64_t end;	// place after the last readable byte
	struct mark at; // a frame at or before the offset; advanced
	uint64_t offset;
	char *room;
	size_t size;
	enum tape_stream stream;
	size_t len; // bytes found; 0: none up to `end`
	int errnum;
};
void fetch_run(void *arg); // a struct fetch

// Scans a file of a previous daemon on a worker thread: `each` is called for every frame.
struct scan {
	int dir;
	const char *name;
	int file;
	char *label; // the caller's; NUL-ended texts inside
	size_t label_len;
	uint64_t place; // after the last complete frame
	void (*each)(void *arg, enum tape_stream stream, const char *bytes, size_t len);
	// The gap record, `len` bytes after its header.
	void (*gap)(void *arg, size_t len, const struct mark *start);
	void *arg;
	bool ended, bad;
	char ending[ENDING_MAX];
	size_t ending_len;
	int errnum;
};
void scan_run(void *arg); // a struct scan

// Encodes the label, the start of the file; texts are cut to TAPE_TEXT_MAX.
char *label_encode(const struct tape_label *label, size_t *out_len);
#define LABEL_CAP_AT 24	  // position of the cap
#define LABEL_PID_AT 32	  // pid and conn
#define LABEL_FLAGS_AT 40 // a byte
enum label_flags { LABEL_SESSION = 1, LABEL_AUTO = 2, LABEL_CUT_OUT = 4, LABEL_CUT_ERR = 8 };
bool label_decode(const char *bytes, size_t len, struct tape_label *out);
