// The tape files of a box's processes or cells, created a little before they are needed and sealed
// a little after the end.
#pragma once

#include "box/private.h"
#include "box/tape.h"

// Embedded in its owner.
struct tape_files {
	struct box *box;
	char letter;	    // of its file names; 0: none
	uint32_t files;	    // created so far
	struct tape *spare; // the next tape, with its file
	bool preparing;	    // a task creates its file
	struct timer spare_timer;
	struct link seals; // end records to be written
	uint32_t sealing;  // tasks that write them
	struct condition sealed;
	struct timer seal_timer;
};

void tape_files_init(struct tape_files *tapes, struct box *box, char letter);
void tape_files_done(struct tape_files *tapes); // the files are removed with the folder

// A tape with that label, counted in the box's budget. The caller's.
struct tape *tape_files_take(struct tape_files *tapes, const struct tape_label *label);
// Creates the file of the next tape, in the background.
void tape_files_prepare(struct tape_files *tapes);
// Writes the end record of an ended tape in the background; then files `exec`, if not NULL.
void tape_files_seal(struct tape_files *tapes, struct tape *tape, const struct tape_ending *ending,
		     struct exec *exec);
// Waits until every end record so far is on disk and pid 1 has forgotten the processes.
void tape_files_settle(struct tape_files *tapes);
// The number in the file name "BOX/number", without the letter.
uint32_t tape_files_number(const struct tape *tape);
