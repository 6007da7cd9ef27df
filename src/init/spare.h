// A child that was born before anybody asked for it: it waits in the leaf that will most likely be
// used next, with all done that does not depend on the command.
#pragma once

#include "init/run.h"

#define SPARE_SOON_MS 1	   // most commands have ended by then
#define SPARE_KEEP_MS 2000 // without a command
#define SPARE_STUCK_MS 50  // a spare that has not moved for so long was stopped

// Makes one in a leaf where nothing lives. It takes about 150 microseconds, so it is for idle
// moments. Without one, or when it cannot be made, commands are started by run_start().
void spare_make(const struct birth *birth, uint32_t number, const struct leaf *leaf);
// One waits in that leaf. It may have been killed since: then it never moves.
bool spare_waits_in(uint32_t number);
bool spare_waits(void);
bool spare_may_be_made(void);
bool spare_is_ending(void); // the last one; then another may be made
// Gives the command to the one that waits. `order` must stay as it is until spare_end().
void spare_use(const struct run_order *order, struct run *out);
// It was used, and its end was not asked for yet.
bool spare_is_starting(void);
// One that waits is of no more use: its leaf is gone, or another will be used. One that was used
// but has not moved is ended.
void spare_drop(void);
void spare_reaped(int pid);
// The box has been idle for long, and gives back what a spare costs: a process and a thread. It may
// take two calls.
bool spare_may_rest(void);
void spare_rest(void);
// The box is full: a command needs their places. False: there was nothing to give. Waits for them
// to be gone.
bool spare_make_room(void);

// Readable when a spare has executed or died; -1 before the first one. Then spare_hear(), which
// says whether it was the one that was used, and that it executed or failed. Of one that died
// before it moved the death is heard.
int spare_bell(void);
bool spare_hear(void);
// What became of the one that was used, when it was heard, or its death was. Not moved: it was
// killed before it had read its order, and no part of the command has run.
struct spare_end {
	bool moved;
	enum talk_step step; // NONE: it executed
	int errnum;
};
struct spare_end spare_end(void);
