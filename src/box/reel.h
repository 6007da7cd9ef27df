// The tapes of one box's processes: files of its own folder, made a little before they are needed
// and sealed a little after.
#pragma once

#include "box/inner.h"
#include "box/tape.h"

// Embedded in its owner.
struct reel {
	struct box *box;
	uint32_t files;	    // made so far
	struct tape *spare; // the next one, its file made
	bool preparing;	    // a task makes it
	struct timer spare_timer;
	struct link seals; // endings that are to be written
	struct timer seal_timer;
};

void reel_init(struct reel *reel, struct box *box);
void reel_done(struct reel *reel); // every file goes, whoever still reads it

// A tape with that label, bound by the box's budget. The caller's.
struct tape *reel_take(struct reel *reel, const struct tape_label *label);
// The file of the next one is made, in the background.
void reel_prepare(struct reel *reel);
// The ending goes to the disk, in the background. The tape has ended.
void reel_seal(struct reel *reel, struct tape *tape, const struct tape_ending *ending);
