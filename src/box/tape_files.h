// The tapes of one box's processes: files of its own folder, made a little before they are needed
// and sealed a little after.
#pragma once

#include "box/private.h"
#include "box/tape.h"

// Embedded in its owner.
struct tape_files {
	struct box *box;
	char letter;	    // of its files; 0: none
	uint32_t files;	    // made so far
	struct tape *spare; // the next one, its file made
	bool preparing;	    // a task makes it
	struct timer spare_timer;
	struct link seals; // endings that are to be written
	uint32_t sealing;  // tasks that write some
	struct condition sealed;
	struct timer seal_timer;
};

void tape_files_init(struct tape_files *tapes, struct box *box, char letter);
void tape_files_done(struct tape_files *tapes); // the files are left to whoever removes the folder

// A tape with that label, bound by the box's budget. The caller's.
struct tape *tape_files_take(struct tape_files *tapes, const struct tape_label *label);
// The file of the next one is made, in the background.
void tape_files_prepare(struct tape_files *tapes);
// The ending goes to the disk, in the background; then `exec`, if there is one, is filed. The tape
// has ended.
void tape_files_seal(struct tape_files *tapes, struct tape *tape, const struct tape_ending *ending,
		     struct exec *exec);
// Until every ending so far is on disk, and pid 1 has nothing to tell of it any more. Waits.
void tape_files_settle(struct tape_files *tapes);
// The number by which it is found again: file "BOX/number", with the letter before it.
uint32_t tape_files_number(const struct tape *tape);
