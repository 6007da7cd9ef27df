// A box at rest: whether anything goes on in it, and how it is frozen, stopped and started again.
// What is remembered of it (ended processes, their output) stays over a stop.
#pragma once

#include "box/box.h"

// A command, a process, or a session or context that works. Not: a shell that waits for its next
// command, an interpreter that waits for its next cell, a terminal. Who has a stream or a terminal
// open is the owner's to know.
bool box_is_busy(const struct box *box);
// CPU time that its commands have had, and what they left running. Only differences mean something,
// in either direction.
uint64_t box_cpu_us(const struct box *box);
// Cgroups of an earlier daemon's commands that nobody has looked into since: box_cpu_us() does not
// count what runs there.
bool box_is_unseen(const struct box *box);
// The same of all that is in the box, by the warden, and what it was when that was last asked; 0:
// it was not.
fallible box_ask_cpu(struct box *box, uint64_t *out_before_us, uint64_t *out_us, int64_t deadline);
// Closes the fds that only a command or a request for files needs; the next one opens them again.
// True: there were some of leaves, and box_cpu_us() is another than before. `hard`: what rests to
// serve soon goes, too.
bool box_freeze_files(struct box *box, bool hard);

// Nothing in it runs until it is thawed. Done already: OK.
fallible box_pause(struct box *box, int64_t deadline);
fallible box_thaw(struct box *box, int64_t deadline);

// Ends all that runs in it, verified; its files stay. Commands end as killed_by_api. On failure it
// may or may not be stopped: try again. NOT_FOUND: there is no such box. Idempotent.
fallible box_stop(struct box *box, int64_t deadline);
// A stopped box, made to run again on its files: `build` is as for box_build(). `fresh`: they are
// lost, and what is left of them is dropped for a new disk. On failure it is stopped as before;
// box_on_loss() has to be said again. NOT_FOUND no_disk: its files are not there, or not whole.
fallible box_again(struct box *box, const struct order *build, bool fresh);
// A box that does not run, of which there are files: box_again() starts it.
struct box *box_stopped(struct loop *loop, struct ask *ask, const char *id, int tapes_dir);
