// A preforked worker: a child that was cloned before a command is requested. It waits in the exec
// cgroup that will most likely be used next, with every step done that does not depend on the
// command.
#pragma once

#include "init/run.h"

#define PREFORK_SOON_MS 1    // most commands have ended by then
#define PREFORK_KEEP_MS 2000 // without a command
#define PREFORK_STUCK_MS 50  // a worker that has not moved for so long was stopped

// Memory that pid 1 shares with the fork template and its workers; NULL: none available.
void *prefork_memory(size_t size);

// Makes a worker in an exec cgroup where only its template lives, and the template if there is
// none. That takes about 80 us, 300 with the template, so it is for idle moments. Without a worker,
// or if none can be made, commands are started by run_start().
bool prefork_may_be_made(uint32_t number);
// stdio_setup: TALK_EXEC_PTY, with or without TALK_EXEC_SPOOL, or 0: pipes, for stdin too.
void prefork_make(const struct drop_privileges *setup, uint32_t number,
		  const struct exec_cgroup *exec_cgroup, uint32_t stdio_setup);
// One more in the exec cgroup where a command has just ended and left only the template, for
// commands that follow at once. It is not waited for; used before it is cloned, it continues then.
void prefork_make_next(uint32_t number);
// A worker waits in that exec cgroup, and nothing else is there. It may have been killed since:
// then it never moves.
bool prefork_waits_in(uint32_t number);
bool prefork_waits(void);
// The waiting worker has the stdio that the command needs.
bool prefork_suits(const struct run_order *order);
// No worker waits there, but the template does, and can clone one at once.
bool prefork_fork_template_waits_in(uint32_t number);
// Only the template is in the exec cgroup, or nothing.
bool prefork_cgroup_is_empty(const struct drop_privileges *setup, uint32_t number,
			     const struct exec_cgroup *exec_cgroup);

// Gives the command to the waiting worker, or to one cloned for it. `order` lies in
// prefork_memory() and must not change until prefork_end(). False: no pipes.
bool prefork_use(const struct run_order *order, struct run *out);
// A worker was used, and prefork_end() was not called yet.
bool prefork_is_starting(void);
int prefork_number(void); // in the box's pid namespace; 0: not cloned yet
// The worker has executed, or never will. A failed or dead one is reported by SIGCHLD.
bool prefork_has_started(void);
void prefork_await(void); // the same, with a bounded wait
// The worker has not started for long: it will not.
void prefork_give_up(void);
// The result. Not moved: no part of the command has run, nor will it.
struct prefork_end {
	bool moved;
	enum talk_step step; // NONE: it executed
	int errnum;
};
struct prefork_end prefork_end(void);

// A child was reaped. True: prefork_has_started() may have changed.
bool prefork_reaped(int pid);
// That exec cgroup is gone, with its processes killed; or it was replaced by a new one.
void prefork_lose(uint32_t number);
// The box was idle for long, or another exec cgroup serves: end the worker and its template, to
// free two processes. They are then dying.
bool prefork_may_rest(void);
void prefork_rest(void);
bool prefork_is_dying(void);
void prefork_drop(void); // the one that waits alone
// The box is at its pids limit: end both, and wait for it. False: there were none.
bool prefork_make_room(void);
