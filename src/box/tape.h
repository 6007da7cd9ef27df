// The output of an exec, kept by byte offset: written once, read by anybody at their own pace. The
// first 64 KiB stay in memory, the rest goes to an unnamed file, so a slow reader slows nobody and
// a flood costs no memory. Past the cap bytes are counted and dropped.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/task.h"

enum tape_stream { TAPE_STDOUT, TAPE_STDERR, TAPE_STREAMS };

struct tape;

// `dir`: an open directory for the file, borrowed for the tape's life.
struct tape *tape_new(struct loop *loop, int dir, uint64_t cap);
// What some tapes may keep on disk together; past that a tape is cut as at its cap. Counted: the
// tapes hold it as well.
struct tape_budget;
struct tape_budget *tape_budget_new(uint64_t bytes);
void tape_budget_drop(struct tape_budget *budget); // takes NULL
void tape_bound(struct tape *tape, struct tape_budget *budget);
void tape_hold(struct tape *tape); // counted: readers may outlive the exec
void tape_drop(struct tape *tape);

// Appends. May wait for the disk. An error of the disk marks the tape truncated, and is returned.
fallible tape_add(struct tape *tape, enum tape_stream stream, const void *bytes, size_t len);
// True: tape_add() of so many bytes will not wait, so a callback may do it.
bool tape_fits(const struct tape *tape, size_t len);
void tape_end(struct tape *tape); // nothing more will come; readers see the end

// Reads one run of bytes of one stream, in the order of arrival, from *offset on; moves *offset,
// which starts at 0 and is otherwise only what an earlier call left there (else INVALID
// bad_offset). *out_len = 0: the end. Waits for more unless the tape has ended. At most `size`
// bytes.
fallible tape_read(struct tape *tape, uint64_t *offset, enum tape_stream *out_stream, void *room,
		   size_t size, size_t *out_len, int64_t deadline);
bool tape_truncated(const struct tape *tape, enum tape_stream stream);
uint64_t tape_bytes(const struct tape *tape, enum tape_stream stream); // seen, kept or not
bool tape_is_utf8(const struct tape *tape); // of what was kept, both streams; known once ended
