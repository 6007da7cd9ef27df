// The daemon's ends of a command's pipes: bytes to stdin, output to the tape.
#pragma once

#include <sys/types.h>

#include "box/stall.h"
#include "box/tape.h"
#include "loop/task.h"

struct pipes;

// Counts the small reads of all pipes of one box. A pipe in packet mode (O_DIRECT) gives one packet
// per read, however many wait: a box with little CPU would cost the daemon much.
struct pipes_pace {
	int64_t since_ms; // loop time
	uint32_t count;
};

struct pipe_end {
	struct watch watch;
	struct pipes *pipes;
	bool open;
	size_t due;	// bytes that belong to the tape after pipes_settle()
	bool uncounted; // a worker holds the pipe: `due` is counted later
};

// Embedded in its owner.
struct pipes {
	struct loop *loop;
	const struct stall_at *at; // their owner; set beforehand, outlives the pipes
	struct pipes_pace *pace;   // of their box; NULL: none; as `at`
	struct tape *tape;
	struct pipe_end out[TAPE_STREAMS];
	struct pipe_end in;
	char *input; // bytes not yet written to stdin
	size_t input_len, input_at;
	bool keep_in;	       // stdin stays open after the input: pipes_write()
	bool writing;	       // pipes_write() is active
	bool lent;	       // pid 1 has a copy of stdin; set beforehand
	int last;	       // stall_open(), if pid 1 has no copy
	struct condition room; // stdin took bytes or closed
	struct timer patience; // until the ends are watched
	bool spilling;	       // a task writes to the disk; the ends are not watched
	bool serves_on; // of a shell: pipes_turn() follows; bytes that are not due stay in the
			// pipes
	bool settling;	// the command has ended: `due` bytes go to the tape, the rest is dropped
	// Called at end of file, at the end of a spill, and after pipes_settle() on any progress.
	void (*moved)(struct pipes *pipes);
	// The owner's reference count: a spill holds one.
	void (*ref)(struct pipes *pipes);
	void (*unref)(struct pipes *pipes);
};

// `fds` as pid 1 sent them: stdout, stderr and, if `input.at`, stdin. Takes ownership in any case.
// BAD_PEER: one of them is no pipe. The callbacks are set beforehand.
fallible pipes_open(struct pipes *pipes, struct loop *loop, struct tape *tape, const int *fds,
		    struct str input);
// The command has ended: reads what it had written. True: all of it is on the tape. False: the disk
// is being written; moved() is called, then ask pipes_settled().
bool pipes_settle(struct pipes *pipes);
bool pipes_settled(const struct pipes *pipes);
// After settling: everything goes to `tape` from now on.
void pipes_turn(struct pipes *pipes, struct tape *tape);
// A command starts that may end at once, by pipes_settle(): the ends are not watched for a while.
void pipes_freeze(struct pipes *pipes);
bool pipes_ended(const struct pipes *pipes); // no process holds a writing end of either
void pipes_close(struct pipes *pipes);

// Writes to a stdin that is kept open. The owner holds the pipes meanwhile. CONFLICT stdin_closed,
// TIMEOUT.
fallible pipes_write(struct pipes *pipes, const void *bytes, size_t len, int64_t deadline);
// Waits until stdin has taken the first `len` bytes of its input, or is closed. TIMEOUT.
fallible pipes_await_input(struct pipes *pipes, size_t len, int64_t deadline);
void pipes_close_in(struct pipes *pipes); // after the bytes not yet written
