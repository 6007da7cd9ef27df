// Most of what a start costs does not depend on the command: the cgroup, the filter, the clone
// itself, the pipes, a session. A spare child has all that behind it and sleeps on a futex; a
// command that comes for its leaf costs a wake-up and execve.
//
// Who bears it? The mother: a process that lives in the leaf and has loaded the filter of commands,
// once, so that whom she bears has both by birth, and the kernel has no filter to build and to free
// for each of them. She is a copy of pid 1, with a memory of her own, so that the OOM killer can
// take her or a spare without pid 1; and as undumpable, so that box root can neither read nor trace
// her. Her children are pid 1's (CLONE_PARENT), and share her memory until they execute. She waits
// for nobody, and one who knows of execve without being told is pid 1: the kernel clears `alive`.
//
//	pid 1                     mother                   spare
//	spare_make: ordered ----> clone -----------------> child_prepare
//	            <------------------------------------- told = READY; waits for `go`
//	spare_use: go -----------------------------------> moved; child_execute; alive = 0
//
// When none waits but the mother does, she is asked with `go` set.
//
// Box root may kill or stop both, as it may any child before execve. Pid 1 waits for none: who does
// not move in time is killed, and whoever has not moved has run nothing, so the command is started
// the other way.
#include "init/spare.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/bare.h"
#include "os/fd.h"

#define MAKE_MS 20    // a hundred times what it takes
#define STRIKES_MAX 6 // in a row: then only one moment in 64 is used
#define STACK 8192
#define BIRTH_FLAGS (CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)

enum told { READY = 1, BARREN = 2 };
enum phase { NONE, WAITS, USED, DROPPED };

// What the three share.
static struct shared {
	_Atomic int ordered; // births so far
	_Atomic int told, go;
	_Atomic int alive; // 1 until it executes or dies: the kernel clears it
	_Atomic int born;  // its number
	atomic_bool moved;
	struct child child;
} * shared;

static struct {
	enum phase phase;
	int strikes, skip; // moments to let pass, after strikes
	bool reaped;	   // the one that was born last
	bool assumed;	   // to have executed: its mother's death hides it
	struct run run;	   // our ends of its pipes
	struct {
		int pid; // 0: there is none
		bool dying;
		uint32_t number; // her leaf
		int procs;	 // of it, on v2
	} mother;
} spare = {.run = {.out = -1, .err = -1, .in = -1}, .mother = {.procs = -1}};

static char mother_stack[STACK] __attribute__((aligned(16)));

// What hands would inherit as well, and must not: they work for users, and on hostile input.
static struct region {
	void *at;
	size_t size;
} regions[2];

static void inherit(bool yes)
{
	for (int i = 0; i < 2 && regions[i].at; i++)
		madvise(regions[i].at, regions[i].size, yes ? MADV_DOFORK : MADV_DONTFORK);
}

void *spare_memory(size_t size)
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

static void tell(int what)
{
	atomic_store(&shared->told, what);
	bare_wake((const int *)&shared->told);
}

static int be_spare(void *arg)
{
	int status = child_prepare(arg);

	if (status)
		return status;
	if (!atomic_load(&shared->go)) {
		BARE_2(SYS_prctl, PR_SET_NAME, "cove-spare");
		tell(READY);
		while (!atomic_load(&shared->go))
			bare_wait((const int *)&shared->go, 0, -1);
	}
	atomic_store(&shared->moved, true);
	return child_execute(arg);
}

static int be_mother(void *arg)
{
	const struct child *child = arg;
	char *stack_end = shared->child.stack + sizeof(shared->child.stack);
	int seen = 0, now;
	enum talk_step step;

	BARE_2(SYS_prctl, PR_SET_NAME, "cove-mother");
	if (child_enlist(child->birth, child->leaf, &step) < 0) {
		tell(BARREN);
		return 1;
	}
	for (;; seen = now) {
		while ((now = atomic_load(&shared->ordered)) == seen)
			bare_wait((const int *)&shared->ordered, seen, -1);
		if (bare_clone(BIRTH_FLAGS, stack_end, (int *)&shared->born, (int *)&shared->alive,
			       be_spare, arg) < 0)
			tell(BARREN);
	}
}

static bool have_mother(const struct birth *birth, uint32_t number, const struct leaf *leaf)
{
	struct clone_args args = {
		.flags = CLONE_FILES,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)mother_stack,
		.stack_size = sizeof(mother_stack),
	};
	long pid;

	if (spare.mother.pid)
		return !spare.mother.dying && spare.mother.number == number;
	if (!shared)
		shared = spare_memory(sizeof(*shared));
	if (!shared)
		return false;
	shared->child.birth = birth;
	shared->child.leaf = leaf;
	shared->child.enlisted = true;
	atomic_store(&shared->ordered, 0);
	if (birth->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)leaf->join[0];
	}
	inherit(true);
	run_raise_oom(birth, true); // hers, and that of whom she bears
	pid = bare_clone3(&args, be_mother, &shared->child);
	run_raise_oom(birth, false);
	inherit(false);
	if (pid < 0)
		return false;
	fd_drop(&spare.mother.procs);
	spare.mother.procs = leaf_open_procs(leaf, birth->joins_by_clone);
	spare.mother.pid = (int)pid;
	spare.mother.dying = false;
	spare.mother.number = number;
	return true;
}

static void end_mother(void)
{
	if (!spare.mother.pid || spare.mother.dying)
		return;
	spare.mother.dying = true;
	kill(spare.mother.pid, SIGKILL);
}

// The number of the one that was born last, while it is that one's.
static int born_last(void)
{
	return spare.reaped ? 0 : atomic_load(&shared->born);
}

static void end_spare(void)
{
	if (born_last())
		kill(born_last(), SIGKILL);
}

// A mother that dies may bear one more before she does.
static void bury(void)
{
	if (spare.phase != DROPPED || spare.mother.dying)
		return;
	end_spare();
	if (!born_last())
		spare.phase = NONE;
}

static bool await_ready(void)
{
	int told = atomic_load(&shared->told);

	if (!told)
		bare_wait((const int *)&shared->told, 0, MAKE_MS);
	told = atomic_load(&shared->told);
	// Stopped in its first microseconds: the box is starved of CPU, or lies in wait for it.
	if (told)
		spare.strikes = 0;
	else if (spare.strikes < STRIKES_MAX)
		spare.strikes++;
	spare.skip = told ? 0 : 1 << spare.strikes;
	return told == READY;
}

static bool is_mother_free(uint32_t number)
{
	return spare.phase == NONE && spare.mother.pid && !spare.mother.dying &&
	       spare.mother.number == number;
}

bool spare_may_be_made(uint32_t number)
{
	return is_mother_free(number) || (spare.phase == NONE && !spare.mother.pid);
}

static bool order(const struct talk_exec *exec, uint32_t uid, bool go)
{
	struct child *child = &shared->child;

	if (!run_make_ends(exec, uid, &spare.run, child)) {
		run_drop_ends(child);
		run_drop(&spare.run);
		return false;
	}
	child->step = TALK_STEP_NONE;
	child->errnum = 0;
	spare.reaped = spare.assumed = false;
	atomic_store(&shared->told, 0);
	atomic_store(&shared->go, go);
	atomic_store(&shared->alive, 1);
	atomic_store(&shared->born, 0);
	atomic_store(&shared->moved, false);
	atomic_fetch_add(&shared->ordered, 1);
	bare_wake((const int *)&shared->ordered);
	return true;
}

void spare_make(const struct birth *birth, uint32_t number, const struct leaf *leaf,
		bool mother_alone)
{
	static const struct talk_exec any = {.flags = TALK_EXEC_STDIN};

	if (spare.skip > 0 && spare.skip--)
		return;
	run_drop(&spare.run);
	if (!spare_may_be_made(number) || !have_mother(birth, number, leaf) || mother_alone ||
	    !order(&any, 0, false))
		return;
	spare.phase = WAITS;
	if (!await_ready())
		spare_rest();
	run_drop_ends(&shared->child);
}

bool spare_waits_in(uint32_t number)
{
	return spare.phase == WAITS && spare.mother.number == number;
}

bool spare_waits(void)
{
	return spare.phase == WAITS;
}

bool spare_mother_waits_in(uint32_t number)
{
	return is_mother_free(number);
}

bool spare_leaf_is_empty(const struct birth *birth, uint32_t number, const struct leaf *leaf)
{
	bool dying = spare.phase == DROPPED;

	// Of one that was dropped the mother may be reaped already.
	if ((!spare.mother.pid && !dying) || spare.mother.number != number)
		return leaf_is_empty(leaf, birth->joins_by_clone);
	return leaf_holds_only(leaf, birth->joins_by_clone, spare.mother.procs,
			       (int[]){spare.mother.pid, dying ? born_last() : 0});
}

bool spare_use(const struct run_order *what, struct run *out)
{
	bool waits = spare.phase == WAITS;

	shared->child.exec = &what->exec;
	shared->child.user = &what->user;
	if (waits) {
		atomic_store(&shared->go, 1);
		bare_wake((const int *)&shared->go);
	} else {
		run_drop(&spare.run);
		if (!order(&what->exec, what->user.uid, true))
			return false;
	}
	*out = spare.run;
	spare.run = RUN_NONE;
	if (waits && !(what->exec.flags & TALK_EXEC_STDIN)) {
		spare.run.in = out->in; // to be closed in a moment when nobody waits
		out->in = -1;
	}
	spare.phase = USED;
	return true;
}

bool spare_is_starting(void)
{
	return spare.phase == USED;
}

int spare_number(void)
{
	return born_last();
}

bool spare_has_started(void)
{
	if (atomic_load(&shared->moved))
		return shared->child.step == TALK_STEP_NONE &&
		       (spare.assumed || !atomic_load(&shared->alive));
	return !atomic_load(&shared->born) &&
	       (!spare.mother.pid || atomic_load(&shared->told) == BARREN);
}

void spare_await(void)
{
	bare_wait((const int *)&shared->alive, 1, SPARE_STUCK_MS);
}

void spare_give_up(void)
{
	if (atomic_load(&shared->moved)) {
		spare.assumed = !spare.mother.pid;
		return;
	}
	end_mother();
	end_spare();
}

struct spare_end spare_end(void)
{
	bool moved = atomic_load(&shared->moved);

	run_drop_ends(&shared->child);
	spare.phase = NONE;
	return (struct spare_end){
		.moved = moved,
		.step = (enum talk_step)shared->child.step,
		.errnum = shared->child.errnum,
	};
}

bool spare_reaped(int pid)
{
	if (spare.phase != NONE && pid == born_last())
		spare.reaped = true; // the number is anybody's now
	if (pid == spare.mother.pid) {
		spare.mother.pid = 0;
		spare.mother.dying = false;
	} else if (!spare.reaped) {
		return false;
	}
	if (spare.phase == WAITS)
		spare_drop();
	bury();
	return spare.phase == USED;
}

void spare_lose(uint32_t number)
{
	if (spare.mother.pid && spare.mother.number == number)
		spare_rest();
}

bool spare_may_rest(void)
{
	return spare.phase == WAITS ||
	       (spare.phase == NONE && spare.mother.pid && !spare.mother.dying);
}

void spare_rest(void)
{
	end_mother();
	spare_drop();
}

bool spare_is_dying(void)
{
	return spare.phase == DROPPED || spare.mother.dying;
}

void spare_drop(void)
{
	if (spare.phase != WAITS)
		return;
	run_drop(&spare.run);
	end_spare();
	spare.phase = DROPPED;
	bury();
}

static void await_death(int pid)
{
	if (pid && waitpid(pid, NULL, __WALL) == pid)
		spare_reaped(pid);
}

bool spare_make_room(void)
{
	if (!spare_may_rest() && spare.phase != DROPPED)
		return false;
	spare_rest();
	// They count until they are reaped. She comes first: she may bear one more.
	await_death(spare.mother.pid);
	if (spare.phase == DROPPED)
		await_death(born_last());
	return true;
}
