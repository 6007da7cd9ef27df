// The three pipes of a command, on the daemon's side: bytes to its stdin, and its output to the
// tape.
#pragma once

#include <sys/types.h>

#include "box/stall.h"
#include "box/tape.h"
#include "loop/task.h"

struct pipes;

// Small reads of all pipes of one box, counted. A pipe in packet mode (O_DIRECT) gives one packet a
// read, however many wait: a box with little CPU would cost the daemon much.
struct pipes_pace {
	int64_t since_ms; // loop time
	uint32_t count;
};

struct pipe_end {
	struct watch watch;
	struct pipes *pipes;
	bool open;
	size_t due;	// bytes that still belong to the tape after pipes_settle()
	bool uncounted; // a worker is at the pipe: they are counted when it is not
};

// Embedded in its owner.
struct pipes {
	struct loop *loop;
	const struct stall_at *at; // whose they are; set beforehand, and lives as long
	struct pipes_pace *pace;   // of their box; NULL: none. As `at`
	struct tape *tape;
	struct pipe_end out[TAPE_STREAMS];
	struct pipe_end in;
	char *input; // what stdin has still to take
	size_t input_len, input_at;
	bool keep_in;	       // stdin stays open when it has taken that: pipes_write()
	bool writing;	       // somebody is at it
	bool lent;	       // pid 1 has a copy of stdin; set beforehand
	int last;	       // it has none: stall_open()
	struct condition room; // stdin took something, or closed
	struct timer patience; // until the ends are watched, again or for the first time
	bool spilling;	       // a task writes to the disk, and the watches rest
	bool serves_on; // pipes_turn() will follow: what is not due after settling stays in them
	bool settling;	// the command has ended: `due` bytes go to the tape, the rest nowhere
	// Called when an end was reached, a spill is over, or after pipes_settle() anything moved.
	void (*moved)(struct pipes *pipes);
	// The owner must live while a spill does.
	void (*hold)(struct pipes *pipes);
	void (*drop)(struct pipes *pipes);
};

// `fds` as pid 1 sent them: stdout, stderr and, if `input.at`, stdin. Takes them over in any case.
// BAD_PEER when one of them is no pipe. The callbacks are set beforehand.
fallible pipes_open(struct pipes *pipes, struct loop *loop, struct tape *tape, const int *fds,
		    struct str input);
// The command has ended: takes what it had written. True: all of it is on the tape. False: the disk
// is being waited for; moved() is called, ask pipes_settled() then.
bool pipes_settle(struct pipes *pipes);
bool pipes_settled(const struct pipes *pipes);
// Settled: from now on everything goes to `tape`.
void pipes_turn(struct pipes *pipes, struct tape *tape);
// A command begins that may end at once, with pipes_settle(): the ends are not watched for a while.
void pipes_freeze(struct pipes *pipes);
bool pipes_ended(const struct pipes *pipes); // nobody holds a writing end of either
void pipes_close(struct pipes *pipes);

// stdin, while it is kept open. The owner holds the pipes meanwhile. CONFLICT stdin_closed,
// TIMEOUT.
fallible pipes_write(struct pipes *pipes, const void *bytes, size_t len, int64_t deadline);
// Waits until stdin has taken the first `len` bytes of its input, or takes no more. TIMEOUT.
fallible pipes_await_input(struct pipes *pipes, size_t len, int64_t deadline);
void pipes_close_in(struct pipes *pipes); // behind what it has still to take
