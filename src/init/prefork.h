// A child that was born before anybody asked for it: it waits in the leaf that will most likely be
// used next, with all done that does not depend on the command.
#pragma once

#include "init/run.h"

#define PREFORK_SOON_MS 1    // most commands have ended by then
#define PREFORK_KEEP_MS 2000 // without a command
#define PREFORK_STUCK_MS 50  // a spare that has not moved for so long was stopped

// Memory that pid 1 shares with the mother and her spares; NULL: there is none to be had.
void *prefork_memory(size_t size);

// Makes one in a leaf where nothing lives but its mother, and the mother if there is none. It takes
// about 80 microseconds, 300 with the mother, so it is for idle moments. Without one, or when it
// cannot be made, commands are started by run_start().
bool prefork_may_be_made(uint32_t number);
// seat: TALK_EXEC_PTY, with or without TALK_EXEC_SPOOL, or 0: pipes, for stdin too.
void prefork_make(const struct drop_privileges *birth, uint32_t number,
		  const struct exec_cgroup *exec_cgroup, uint32_t stdio_setup);
// One more in the leaf where one has just ended and left nothing but the mother: commands come one
// right after another. It is not waited for; if it is used before it was born, it goes on at once.
void prefork_make_next(uint32_t number);
// One waits in that leaf, and nothing else lives there. It may have been killed since: then it
// never moves.
bool prefork_waits_in(uint32_t number);
bool prefork_waits(void);
// The one that waits has what the command is to sit on.
bool prefork_suits(const struct run_order *order);
// None waits there, but the mother does, and would bear one at once.
bool prefork_fork_template_waits_in(uint32_t number);
// Nothing lives in the leaf but, perhaps, the mother.
bool prefork_cgroup_is_empty(const struct drop_privileges *birth, uint32_t number,
			     const struct exec_cgroup *exec_cgroup);

// Gives the command to the one that waits, or to one that is born for it. `order` lies in
// prefork_memory(), and must stay as it is until prefork_end(). False: no pipes.
bool prefork_use(const struct run_order *order, struct run *out);
// It was used, and its end was not asked for yet.
bool prefork_is_starting(void);
int prefork_number(void); // as the box counts; 0: it was not born yet
// It has executed, or it will never be. Of one that failed or died the death is heard.
bool prefork_has_started(void);
void prefork_await(void); // the same, for a while
// It has not started for long: it will not.
void prefork_give_up(void);
// What became of it. Not moved: no part of the command has run, nor will it.
struct prefork_end {
	bool moved;
	enum talk_step step; // NONE: it executed
	int errnum;
};
struct prefork_end prefork_end(void);

// Somebody was reaped. True: prefork_has_started() may have another answer now.
bool prefork_reaped(int pid);
// That leaf is gone, and who lived there was killed with it; or it is another's from now on.
void prefork_lose(uint32_t number);
// The box has been idle for long, or another leaf is served, and what a spare costs is given back:
// two processes. They are dying, then.
bool prefork_may_rest(void);
void prefork_rest(void);
bool prefork_is_dying(void);
void prefork_drop(void); // the one that waits alone
// The box is full: a command needs their places. False: there was nothing to give. Waits for them
// to be gone.
bool prefork_make_room(void);
