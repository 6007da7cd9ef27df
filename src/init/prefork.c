// Preforked workers: cgroup, filter, clone, pipes and setsid are done before the command is known.
// A worker sleeps on a futex, so a command costs a wake-up and execve. Workers are cloned by the
// fork template: an undumpable copy of pid 1 in the exec cgroup that has loaded the filter of
// commands, so that its children inherit both. They are pid 1's children (CLONE_PARENT) and share
// the template's memory until execve, when the kernel clears `alive`.
//	prefork_make: ordered -> template clones -> worker: child_prepare, told = READY
//	prefork_use: go -> worker: moved; child_execute; alive = 0
// Box root may kill or stop both; pid 1 waits for neither. A worker that has not moved, or died
// before execve (PF_FORKNOEXEC), has run nothing: its command is started by run_start(). If none
// waits, the template is asked with `go` set. The OOM killer can take both without pid 1.
#include "init/prefork.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/raw_syscall.h"
#include "os/fd.h"

#define MAKE_MS 20     // a hundred times the usual
#define FAILURES_MAX 6 // in a row: then only one idle moment in 64 is used
#define STACK 8192
#define CHILD_CLONE_FLAGS                                                                          \
	(CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
#define FORK_SLOTS 2 // one that has a command, one that waits

enum told { READY = 1, FORK_FAILED = 2 };
// A compare-and-swap decides: the worker moves, or never will.
enum moved { UNMOVED, MOVED, REVOKED };
enum phase { NONE, WAITS, USED, DROPPED };

// Shared by pid 1, template and workers. The n-th worker uses slot n % FORK_SLOTS.
struct slot {
	_Atomic int told, go;
	_Atomic int alive; // 1 until it executes or dies: the kernel clears it
	_Atomic int pid;   // its pid
	_Atomic int moved; // enum moved
	struct child child;
};
static struct shared {
	_Atomic int ordered; // clones so far
	struct slot slots[FORK_SLOTS];
} * shared;

static struct {
	struct prefork {
		enum phase phase;
		bool reaped;
		bool assumed;	// to have executed, as the kernel says: the template's death hides
				// `alive`
		struct run run; // our ends of its pipes
	} at[FORK_SLOTS];
	int failures, skip; // idle moments to skip after failures
	struct {
		int pid; // 0: there is none
		bool dying;
		uint32_t number; // its exec cgroup
		int procs;	 // cgroup.procs of it, on v2
	} fork_template;
} us = {.at = {[0 ... FORK_SLOTS - 1] = {.run = RUN_NONE}}, .fork_template = {.procs = -1}};

static char fork_template_stack[STACK] __attribute__((aligned(16)));

// Regions that file workers must not inherit: they work for users, on hostile input.
static struct region {
	void *at;
	size_t size;
} regions[2];

static void inherit(bool yes)
{
	for (int i = 0; i < 2 && regions[i].at; i++)
		madvise(regions[i].at, regions[i].size, yes ? MADV_DOFORK : MADV_DONTFORK);
}

void *prefork_memory(size_t size)
{
	struct region *region = &regions[regions[0].at != NULL];
	void *at;

	if (region->at)
		return NULL;
	at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	*region = (struct region){at, size};
	inherit(false);
	return at;
}

static void tell(struct slot *slot, int what)
{
	atomic_store(&slot->told, what);
	raw_wake((const int *)&slot->told);
}

static int be_prefork(void *arg)
{
	struct slot *slot = arg;
	int status = child_prepare(&slot->child);

	if (status)
		return status;
	if (!atomic_load(&slot->go)) {
		RAW_2(SYS_prctl, PR_SET_NAME, "cove-prefork");
		tell(slot, READY);
		while (!atomic_load(&slot->go))
			raw_wait((const int *)&slot->go, 0, -1);
	}
	if (!atomic_compare_exchange_strong(&slot->moved, &(int){UNMOVED}, MOVED))
		return 1;
	return child_execute(&slot->child);
}

static void prefork_fork(struct slot *slot)
{
	char *stack_end = slot->child.stack + sizeof(slot->child.stack);

	if (raw_clone(CHILD_CLONE_FLAGS, stack_end, (int *)&slot->pid, (int *)&slot->alive,
		      be_prefork, slot) < 0)
		tell(slot, FORK_FAILED);
}

static int be_fork_template(void *arg)
{
	const struct child *child = arg;
	int seen = 0;
	enum talk_step step;

	RAW_2(SYS_prctl, PR_SET_NAME, "cove-template");
	if (child_enlist(child->setup, child->exec_cgroup, &step) < 0) {
		for (int i = 0; i < FORK_SLOTS; i++)
			tell(&shared->slots[i], FORK_FAILED);
		return 1;
	}
	for (;;) {
		while (atomic_load(&shared->ordered) == seen)
			raw_wait((const int *)&shared->ordered, seen, -1);
		prefork_fork(&shared->slots[++seen % FORK_SLOTS]);
	}
}

// The first slot in that phase; -1: none.
static int which(enum phase phase)
{
	for (int i = 0; i < FORK_SLOTS; i++)
		if (us.at[i].phase == phase)
			return i;
	return -1;
}

// Its pid, while it is valid; 0: not cloned yet, or reaped.
static int number_of(int i)
{
	return us.at[i].reaped ? 0 : atomic_load(&shared->slots[i].pid);
}

static bool have_fork_template(const struct drop_privileges *setup, uint32_t number,
			       const struct exec_cgroup *exec_cgroup)
{
	struct clone_args args = {
		.flags = CLONE_FILES,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)fork_template_stack,
		.stack_size = sizeof(fork_template_stack),
	};
	long pid;

	if (us.fork_template.pid)
		return !us.fork_template.dying && us.fork_template.number == number;
	if (!shared)
		shared = prefork_memory(sizeof(*shared));
	if (!shared)
		return false;
	for (int i = 0; i < FORK_SLOTS; i++) {
		shared->slots[i].child.setup = setup;
		shared->slots[i].child.exec_cgroup = exec_cgroup;
		shared->slots[i].child.enlisted = true;
	}
	atomic_store(&shared->ordered, 0);
	if (setup->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)exec_cgroup->join[0];
	}
	inherit(true);
	run_raise_oom(setup, true); // of the template, inherited by its children
	pid = raw_clone3(&args, be_fork_template, &shared->slots[0].child);
	run_raise_oom(setup, false);
	inherit(false);
	if (pid < 0)
		return false;
	fd_drop(&us.fork_template.procs);
	us.fork_template.procs = exec_cgroup_open_procs(exec_cgroup, setup->joins_by_clone);
	us.fork_template.pid = (int)pid;
	us.fork_template.dying = false;
	us.fork_template.number = number;
	return true;
}

static void end_fork_template(void)
{
	if (!us.fork_template.pid || us.fork_template.dying)
		return;
	us.fork_template.dying = true;
	kill(us.fork_template.pid, SIGKILL);
}

static void end_prefork(int i)
{
	if (number_of(i))
		kill(number_of(i), SIGKILL);
}

// A dying template may clone one more before.
static void prefork_destroy(void)
{
	for (int i = 0; i < FORK_SLOTS && !us.fork_template.dying; i++) {
		if (us.at[i].phase != DROPPED)
			continue;
		end_prefork(i);
		if (!number_of(i))
			us.at[i].phase = NONE;
	}
}

static bool prefork_await_ready(int i)
{
	struct slot *slot = &shared->slots[i];
	int told = atomic_load(&slot->told);

	if (!told)
		raw_wait((const int *)&slot->told, 0, MAKE_MS);
	told = atomic_load(&slot->told);
	// Stopped in its first microseconds: the box is short of CPU, or attacks it.
	if (told)
		us.failures = 0;
	else if (us.failures < FAILURES_MAX)
		us.failures++;
	us.skip = told ? 0 : 1 << us.failures;
	return told == READY;
}

// The slot whose turn it is.
static int next_slot(void)
{
	return (atomic_load(&shared->ordered) + 1) % FORK_SLOTS;
}

// The template is idle, and a slot is free.
static bool is_fork_template_free(uint32_t number)
{
	return us.fork_template.pid && !us.fork_template.dying &&
	       us.fork_template.number == number && which(WAITS) < 0 &&
	       us.at[next_slot()].phase == NONE;
}

bool prefork_may_be_made(uint32_t number)
{
	if (which(USED) >= 0 || which(WAITS) >= 0)
		return false;
	return us.fork_template.pid ? is_fork_template_free(number) : which(DROPPED) < 0;
}

// Returns its slot; -1: no pipes.
static int order(const struct talk_exec *exec, uint32_t uid, bool go)
{
	int i = next_slot();
	struct slot *slot = &shared->slots[i];

	run_drop(&us.at[i].run);
	if (!run_make_ends(exec, uid, &us.at[i].run, &slot->child)) {
		run_drop_ends(&slot->child);
		run_drop(&us.at[i].run);
		return -1;
	}
	slot->child.step = TALK_STEP_NONE;
	slot->child.errnum = 0;
	us.at[i].reaped = us.at[i].assumed = false;
	us.at[i].phase = go ? USED : WAITS;
	atomic_store(&slot->told, 0);
	atomic_store(&slot->go, go);
	atomic_store(&slot->alive, 1);
	atomic_store(&slot->pid, 0);
	atomic_store(&slot->moved, UNMOVED);
	atomic_fetch_add(&shared->ordered, 1);
	raw_wake((const int *)&shared->ordered);
	return i;
}

static bool may_try(void)
{
	return us.skip <= 0 || us.skip-- == 0;
}

void prefork_make(const struct drop_privileges *setup, uint32_t number,
		  const struct exec_cgroup *exec_cgroup, uint32_t stdio_setup)
{
	struct talk_exec any = {.flags = stdio_setup ? stdio_setup : TALK_EXEC_STDIN};
	int i;

	if (!may_try())
		return;
	for (i = 0; i < FORK_SLOTS; i++)
		if (us.at[i].phase != WAITS)
			run_drop(&us.at[i].run);
	if (!prefork_may_be_made(number) || !have_fork_template(setup, number, exec_cgroup))
		return;
	i = order(&any, 0, false);
	if (i < 0)
		return;
	if (!prefork_await_ready(i))
		prefork_rest();
	run_drop_ends(&shared->slots[i].child);
}

void prefork_make_next(uint32_t number)
{
	static const struct talk_exec plain = {0};

	if (prefork_fork_template_waits_in(number) && may_try())
		order(&plain, 0, false);
}

// Finds out what became of a worker that was ordered and not waited for.
static void prefork_check_next(void)
{
	int i = which(WAITS);

	if (i >= 0 && atomic_load(&shared->slots[i].told) != READY && !prefork_await_ready(i))
		prefork_rest();
}

bool prefork_waits_in(uint32_t number)
{
	return which(WAITS) >= 0 && us.fork_template.number == number;
}

bool prefork_suits(const struct run_order *what)
{
	uint32_t flags = what->exec.flags;
	int i = which(WAITS);
	const struct run *run = &us.at[i < 0 ? 0 : i].run;
	uint32_t stdio_setup = flags & (TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);

	if (i < 0 || shared->slots[i].child.stdio_kind != stdio_setup)
		return false;
	if (stdio_setup) // a terminal belongs to its user
		return what->user.uid == 0 && !(flags & TALK_EXEC_SPOOL) == (run->err < 0);
	return run->in >= 0 || !(flags & TALK_EXEC_STDIN);
}

bool prefork_waits(void)
{
	return which(WAITS) >= 0;
}

bool prefork_fork_template_waits_in(uint32_t number)
{
	return which(USED) < 0 && is_fork_template_free(number);
}

// True if the exec cgroup holds only the fork template and its idle workers.
static bool is_empty(const struct drop_privileges *setup, uint32_t number,
		     const struct exec_cgroup *exec_cgroup)
{
	int known[1 + FORK_SLOTS], count = 0;

	if (us.fork_template.pid)
		known[count++] = us.fork_template.pid;
	// The template of dropped workers may be reaped already.
	for (int i = 0; i < FORK_SLOTS; i++)
		if (us.at[i].phase == WAITS || us.at[i].phase == DROPPED)
			known[count++] = number_of(i);
	if (count == 0 || us.fork_template.number != number)
		return exec_cgroup_is_empty(exec_cgroup, setup->joins_by_clone);
	return exec_cgroup_holds_only(exec_cgroup, setup->joins_by_clone, us.fork_template.procs,
				      known, count);
}

// A client waits for the command, so the next worker is not waited for, unless it may be the
// unknown process: a worker is in the cgroup a moment before its pid is known.
bool prefork_cgroup_is_empty(const struct drop_privileges *setup, uint32_t number,
			     const struct exec_cgroup *exec_cgroup)
{
	int i = which(WAITS);
	bool unborn = i >= 0 && us.fork_template.number == number && !number_of(i);

	if (i >= 0 && atomic_load(&shared->slots[i].told) == FORK_FAILED)
		prefork_check_next();
	if (is_empty(setup, number, exec_cgroup))
		return true;
	if (!unborn)
		return false;
	prefork_check_next();
	return is_empty(setup, number, exec_cgroup);
}

bool prefork_use(const struct run_order *what, struct run *out)
{
	int i = which(WAITS);
	bool waits = i >= 0;
	struct slot *slot = &shared->slots[waits ? i : next_slot()];

	slot->child.exec = &what->exec;
	slot->child.user = &what->user;
	if (waits && slot->child.stdio_kind)
		run_set_size(us.at[i].run.out, &what->exec);
	if (waits) {
		atomic_store(&slot->go, 1);
		raw_wake((const int *)&slot->go);
		us.at[i].phase = USED;
		if (atomic_load(&slot->told) ==
		    READY) // it has its own pipes; if not, it reads these
			run_drop_ends(&slot->child);
	} else {
		i = order(&what->exec, what->user.uid, true);
		if (i < 0)
			return false;
	}
	*out = us.at[i].run;
	us.at[i].run = RUN_NONE;
	if (waits && !(what->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY))) {
		us.at[i].run.in = out->in; // closed later, when no client waits
		out->in = -1;
	}
	return true;
}

bool prefork_is_starting(void)
{
	return which(USED) >= 0;
}

int prefork_number(void)
{
	return number_of(which(USED));
}

// Whether it executed before is seen when it is reaped.
static bool is_dead(int i)
{
	return !weak(EXECUTED) && (!number_of(i) || run_is_dead(number_of(i)));
}

bool prefork_has_started(void)
{
	int i = which(USED);
	struct slot *slot = &shared->slots[i];

	if (atomic_load(&slot->moved) == MOVED)
		return slot->child.step == TALK_STEP_NONE &&
		       (us.at[i].assumed || (!atomic_load(&slot->alive) && !is_dead(i)));
	return !atomic_load(&slot->pid) &&
	       (!us.fork_template.pid || atomic_load(&slot->told) == FORK_FAILED);
}

void prefork_await(void)
{
	raw_wait((const int *)&shared->slots[which(USED)].alive, 1, PREFORK_STUCK_MS);
}

// The worker moved, and has not executed in time: the disk is slow, a lease is held on the program,
// or it was stopped. Without the template `alive` says nothing, so ask the kernel. A stopped worker
// would later execute whatever is in the slot by then.
static void look_after_moved(int i)
{
	bool stopped = false;

	if (weak(EXECUTED))
		us.at[i].assumed = !us.fork_template.pid;
	else if (!number_of(i) || run_is_dead(number_of(i)))
		return; // about to be reaped
	else if (!run_is_unexecuted(number_of(i), &stopped))
		us.at[i].assumed = true;
	else if (stopped)
		end_prefork(i);
}

void prefork_give_up(void)
{
	int i = which(USED), was = UNMOVED;

	if (!atomic_compare_exchange_strong(&shared->slots[i].moved, &was, REVOKED) &&
	    was == MOVED) {
		look_after_moved(i);
		return;
	}
	end_fork_template();
	end_prefork(i);
}

struct prefork_end prefork_end(void)
{
	int i = which(USED);
	struct slot *slot = &shared->slots[i];

	run_drop_ends(&slot->child);
	us.at[i].phase = NONE;
	return (struct prefork_end){
		.moved = atomic_load(&slot->moved) == MOVED,
		.step = (enum talk_step)slot->child.step,
		.errnum = slot->child.errnum,
	};
}

bool prefork_reaped(int pid)
{
	bool ours = pid == us.fork_template.pid;

	if (ours) {
		us.fork_template.pid = 0;
		us.fork_template.dying = false;
	}
	for (int i = 0; i < FORK_SLOTS; i++) {
		if (us.at[i].phase == NONE || pid != number_of(i))
			continue;
		us.at[i].reaped = ours = true; // the pid may be reused now
		if (us.at[i].phase == WAITS)
			prefork_drop();
	}
	if (!ours)
		return false;
	if (!us.fork_template.pid)
		prefork_drop();
	prefork_destroy();
	return which(USED) >= 0;
}

void prefork_lose(uint32_t number)
{
	if (us.fork_template.pid && us.fork_template.number == number)
		prefork_rest();
}

bool prefork_may_rest(void)
{
	return which(WAITS) >= 0 || (us.fork_template.pid && !us.fork_template.dying &&
				     which(USED) < 0 && which(DROPPED) < 0);
}

void prefork_rest(void)
{
	end_fork_template();
	prefork_drop();
}

bool prefork_is_dying(void)
{
	return which(DROPPED) >= 0 || us.fork_template.dying;
}

void prefork_drop(void)
{
	int i = which(WAITS);

	if (i < 0)
		return;
	// Ordered, and not cloned: no clone may use a slot that is taken for empty.
	if (us.fork_template.pid && !number_of(i) && !us.at[i].reaped && !prefork_await_ready(i))
		end_fork_template();
	run_drop(&us.at[i].run);
	run_drop_ends(&shared->slots[i].child);
	end_prefork(i);
	us.at[i].phase = DROPPED;
	prefork_destroy();
}

static void await_death(int pid)
{
	if (pid && waitpid(pid, NULL, __WALL) == pid)
		prefork_reaped(pid);
}

bool prefork_make_room(void)
{
	if (!prefork_may_rest() && !prefork_is_dying())
		return false;
	prefork_rest();
	// They count in the pids limit until reaped. The template first: it may clone one more.
	await_death(us.fork_template.pid);
	for (int i = 0; i < FORK_SLOTS; i++)
		if (us.at[i].phase == DROPPED)
			await_death(number_of(i));
	return true;
}
