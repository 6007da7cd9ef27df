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
// When none waits but the mother does, she is asked with `go` set. Where commands come one right
// after another the next is ordered as soon as the end of one was told (spare_make_next), and not
// waited for: the daemon is busy with that end, and with the next command. Not sooner: while a
// command runs its processor is its own.
//
// Box root may kill or stop both, as it may any child before execve. Pid 1 waits for none: who does
// not move in time is killed, and whoever has not moved, or was killed before execve (PF_FORKNOEXEC
// says so), has run nothing, so the command is started the other way.
#include "init/spare.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/bare.h"
#include "init/seat.h"
#include "os/fd.h"

#define MAKE_MS 20    // a hundred times what it takes
#define STRIKES_MAX 6 // in a row: then only one moment in 64 is used
#define STACK 8192
#define BIRTH_FLAGS (CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
#define CRADLES 2 // one that has a command in hand, one that waits

enum told { READY = 1, BARREN = 2 };
// Whoever comes first decides: it goes, or it never will.
enum moved { UNMOVED, MOVED, REVOKED };
enum phase { NONE, WAITS, USED, DROPPED };

// What the three share. Births take turns: the n-th is in cradle n % CRADLES.
struct cradle {
	_Atomic int told, go;
	_Atomic int alive; // 1 until it executes or dies: the kernel clears it
	_Atomic int born;  // its number
	_Atomic int moved; // enum moved
	struct child child;
};
static struct shared {
	_Atomic int ordered; // births so far
	struct cradle cradles[CRADLES];
} * shared;

static struct {
	struct spare {
		enum phase phase;
		bool reaped;
		bool assumed;	// to have executed, as the kernel says: its mother's death hides it
		struct run run; // our ends of its pipes
	} at[CRADLES];
	int strikes, skip; // moments to let pass, after strikes
	struct {
		int pid; // 0: there is none
		bool dying;
		uint32_t number; // her leaf
		int procs;	 // of it, on v2
	} mother;
} us = {.at = {[0 ... CRADLES - 1] = {.run = RUN_NONE}}, .mother = {.procs = -1}};

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

static void tell(struct cradle *cradle, int what)
{
	atomic_store(&cradle->told, what);
	bare_wake((const int *)&cradle->told);
}

static int be_spare(void *arg)
{
	struct cradle *cradle = arg;
	int status = child_prepare(&cradle->child);

	if (status)
		return status;
	if (!atomic_load(&cradle->go)) {
		BARE_2(SYS_prctl, PR_SET_NAME, "cove-spare");
		tell(cradle, READY);
		while (!atomic_load(&cradle->go))
			bare_wait((const int *)&cradle->go, 0, -1);
	}
	if (!atomic_compare_exchange_strong(&cradle->moved, &(int){UNMOVED}, MOVED))
		return 1;
	return child_execute(&cradle->child);
}

static void spare_bear(struct cradle *cradle)
{
	char *stack_end = cradle->child.stack + sizeof(cradle->child.stack);

	if (bare_clone(BIRTH_FLAGS, stack_end, (int *)&cradle->born, (int *)&cradle->alive,
		       be_spare, cradle) < 0)
		tell(cradle, BARREN);
}

static int be_mother(void *arg)
{
	const struct child *child = arg;
	int seen = 0;
	enum talk_step step;

	BARE_2(SYS_prctl, PR_SET_NAME, "cove-mother");
	if (child_enlist(child->birth, child->leaf, &step) < 0) {
		for (int i = 0; i < CRADLES; i++)
			tell(&shared->cradles[i], BARREN);
		return 1;
	}
	for (;;) {
		while (atomic_load(&shared->ordered) == seen)
			bare_wait((const int *)&shared->ordered, seen, -1);
		spare_bear(&shared->cradles[++seen % CRADLES]);
	}
}

// The first in that phase; -1: none.
static int which(enum phase phase)
{
	for (int i = 0; i < CRADLES; i++)
		if (us.at[i].phase == phase)
			return i;
	return -1;
}

// Its number, while it is that one's; 0: not born yet, or reaped.
static int number_of(int i)
{
	return us.at[i].reaped ? 0 : atomic_load(&shared->cradles[i].born);
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

	if (us.mother.pid)
		return !us.mother.dying && us.mother.number == number;
	if (!shared)
		shared = spare_memory(sizeof(*shared));
	if (!shared)
		return false;
	for (int i = 0; i < CRADLES; i++) {
		shared->cradles[i].child.birth = birth;
		shared->cradles[i].child.leaf = leaf;
		shared->cradles[i].child.enlisted = true;
	}
	atomic_store(&shared->ordered, 0);
	if (birth->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)leaf->join[0];
	}
	inherit(true);
	run_raise_oom(birth, true); // hers, and that of whom she bears
	pid = bare_clone3(&args, be_mother, &shared->cradles[0].child);
	run_raise_oom(birth, false);
	inherit(false);
	if (pid < 0)
		return false;
	fd_drop(&us.mother.procs);
	us.mother.procs = leaf_open_procs(leaf, birth->joins_by_clone);
	us.mother.pid = (int)pid;
	us.mother.dying = false;
	us.mother.number = number;
	return true;
}

static void end_mother(void)
{
	if (!us.mother.pid || us.mother.dying)
		return;
	us.mother.dying = true;
	kill(us.mother.pid, SIGKILL);
}

static void end_spare(int i)
{
	if (number_of(i))
		kill(number_of(i), SIGKILL);
}

// A mother that dies may bear one more before she does.
static void spare_bury(void)
{
	for (int i = 0; i < CRADLES && !us.mother.dying; i++) {
		if (us.at[i].phase != DROPPED)
			continue;
		end_spare(i);
		if (!number_of(i))
			us.at[i].phase = NONE;
	}
}

static bool spare_await_ready(int i)
{
	struct cradle *cradle = &shared->cradles[i];
	int told = atomic_load(&cradle->told);

	if (!told)
		bare_wait((const int *)&cradle->told, 0, MAKE_MS);
	told = atomic_load(&cradle->told);
	// Stopped in its first microseconds: the box is starved of CPU, or lies in wait for it.
	if (told)
		us.strikes = 0;
	else if (us.strikes < STRIKES_MAX)
		us.strikes++;
	us.skip = told ? 0 : 1 << us.strikes;
	return told == READY;
}

// The cradle whose turn it is.
static int next_cradle(void)
{
	return (atomic_load(&shared->ordered) + 1) % CRADLES;
}

// She has nothing to do, and room for one.
static bool is_mother_free(uint32_t number)
{
	return us.mother.pid && !us.mother.dying && us.mother.number == number &&
	       which(WAITS) < 0 && us.at[next_cradle()].phase == NONE;
}

bool spare_may_be_made(uint32_t number)
{
	if (which(USED) >= 0 || which(WAITS) >= 0)
		return false;
	return us.mother.pid ? is_mother_free(number) : which(DROPPED) < 0;
}

// Returns its cradle; -1: no pipes.
static int order(const struct talk_exec *exec, uint32_t uid, bool go)
{
	int i = next_cradle();
	struct cradle *cradle = &shared->cradles[i];

	run_drop(&us.at[i].run);
	if (!run_make_ends(exec, uid, &us.at[i].run, &cradle->child)) {
		run_drop_ends(&cradle->child);
		run_drop(&us.at[i].run);
		return -1;
	}
	cradle->child.step = TALK_STEP_NONE;
	cradle->child.errnum = 0;
	us.at[i].reaped = us.at[i].assumed = false;
	us.at[i].phase = go ? USED : WAITS;
	atomic_store(&cradle->told, 0);
	atomic_store(&cradle->go, go);
	atomic_store(&cradle->alive, 1);
	atomic_store(&cradle->born, 0);
	atomic_store(&cradle->moved, UNMOVED);
	atomic_fetch_add(&shared->ordered, 1);
	bare_wake((const int *)&shared->ordered);
	return i;
}

static bool may_try(void)
{
	return us.skip <= 0 || us.skip-- == 0;
}

void spare_make(const struct birth *birth, uint32_t number, const struct leaf *leaf, uint32_t seat)
{
	struct talk_exec any = {.flags = seat ? seat : TALK_EXEC_STDIN};
	int i;

	if (!may_try())
		return;
	for (i = 0; i < CRADLES; i++)
		if (us.at[i].phase != WAITS)
			run_drop(&us.at[i].run);
	if (!spare_may_be_made(number) || !have_mother(birth, number, leaf))
		return;
	i = order(&any, 0, false);
	if (i < 0)
		return;
	if (!spare_await_ready(i))
		spare_rest();
	run_drop_ends(&shared->cradles[i].child);
}

void spare_make_next(uint32_t number)
{
	static const struct talk_exec plain = {0};

	if (spare_mother_waits_in(number) && may_try())
		order(&plain, 0, false);
}

// Of one that was ordered and not waited for it is seen what came of it.
static void meet_next(void)
{
	int i = which(WAITS);

	if (i >= 0 && atomic_load(&shared->cradles[i].told) != READY && !spare_await_ready(i))
		spare_rest();
}

bool spare_waits_in(uint32_t number)
{
	return which(WAITS) >= 0 && us.mother.number == number;
}

bool spare_suits(const struct run_order *what)
{
	uint32_t flags = what->exec.flags;
	int i = which(WAITS);
	const struct run *run = &us.at[i < 0 ? 0 : i].run;
	uint32_t seat = flags & (TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);

	if (i < 0 || shared->cradles[i].child.seat != seat)
		return false;
	if (seat) // a terminal belongs to its user
		return what->user.uid == 0 && !(flags & TALK_EXEC_TROUGH) == (run->err < 0);
	return run->in >= 0 || !(flags & TALK_EXEC_STDIN);
}

bool spare_waits(void)
{
	return which(WAITS) >= 0;
}

bool spare_mother_waits_in(uint32_t number)
{
	return which(USED) < 0 && is_mother_free(number);
}

// But for ours.
static bool is_empty(const struct birth *birth, uint32_t number, const struct leaf *leaf)
{
	int known[1 + CRADLES], count = 0;

	if (us.mother.pid)
		known[count++] = us.mother.pid;
	// Of those that were dropped the mother may be reaped already.
	for (int i = 0; i < CRADLES; i++)
		if (us.at[i].phase == WAITS || us.at[i].phase == DROPPED)
			known[count++] = number_of(i);
	if (count == 0 || us.mother.number != number)
		return leaf_is_empty(leaf, birth->joins_by_clone);
	return leaf_holds_only(leaf, birth->joins_by_clone, us.mother.procs, known, count);
}

// Somebody wants to hear of the command, so that the next child is not waited for, but if it may be
// the stranger that is seen: it is in the leaf a moment before it has a number.
bool spare_leaf_is_empty(const struct birth *birth, uint32_t number, const struct leaf *leaf)
{
	int i = which(WAITS);
	bool unborn = i >= 0 && us.mother.number == number && !number_of(i);

	if (i >= 0 && atomic_load(&shared->cradles[i].told) == BARREN)
		meet_next();
	if (is_empty(birth, number, leaf))
		return true;
	if (!unborn)
		return false;
	meet_next();
	return is_empty(birth, number, leaf);
}

bool spare_use(const struct run_order *what, struct run *out)
{
	int i = which(WAITS);
	bool waits = i >= 0;
	struct cradle *cradle = &shared->cradles[waits ? i : next_cradle()];

	cradle->child.exec = &what->exec;
	cradle->child.user = &what->user;
	if (waits && cradle->child.seat)
		seat_size(us.at[i].run.out, &what->exec);
	if (waits) {
		atomic_store(&cradle->go, 1);
		bare_wake((const int *)&cradle->go);
		us.at[i].phase = USED;
		if (atomic_load(&cradle->told) == READY) // it has its own; if not, it reads here
			run_drop_ends(&cradle->child);
	} else {
		i = order(&what->exec, what->user.uid, true);
		if (i < 0)
			return false;
	}
	*out = us.at[i].run;
	us.at[i].run = RUN_NONE;
	if (waits && !(what->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY))) {
		us.at[i].run.in = out->in; // to be closed in a moment when nobody waits
		out->in = -1;
	}
	return true;
}

bool spare_is_starting(void)
{
	return which(USED) >= 0;
}

int spare_number(void)
{
	return number_of(which(USED));
}

// Whether it executed before is seen when it is reaped.
static bool is_dead(int i)
{
	return !weak(EXECUTED) && (!number_of(i) || run_is_dead(number_of(i)));
}

bool spare_has_started(void)
{
	int i = which(USED);
	struct cradle *cradle = &shared->cradles[i];

	if (atomic_load(&cradle->moved) == MOVED)
		return cradle->child.step == TALK_STEP_NONE &&
		       (us.at[i].assumed || (!atomic_load(&cradle->alive) && !is_dead(i)));
	return !atomic_load(&cradle->born) &&
	       (!us.mother.pid || atomic_load(&cradle->told) == BARREN);
}

void spare_await(void)
{
	bare_wait((const int *)&shared->cradles[which(USED)].alive, 1, SPARE_STUCK_MS);
}

// It moved, and has not executed in time: a disk is slow, or somebody holds a lease of the program,
// or stopped it. Without its mother `alive` does not tell, so the kernel is asked. One that is
// stopped would later execute whatever lies in the cradle by then.
static void look_after_moved(int i)
{
	bool stopped = false;

	if (weak(EXECUTED))
		us.at[i].assumed = !us.mother.pid;
	else if (!number_of(i) || run_is_dead(number_of(i)))
		return; // it is about to be reaped
	else if (!run_is_unexecuted(number_of(i), &stopped))
		us.at[i].assumed = true;
	else if (stopped)
		end_spare(i);
}

void spare_give_up(void)
{
	int i = which(USED), was = UNMOVED;

	if (!atomic_compare_exchange_strong(&shared->cradles[i].moved, &was, REVOKED) &&
	    was == MOVED) {
		look_after_moved(i);
		return;
	}
	end_mother();
	end_spare(i);
}

struct spare_end spare_end(void)
{
	int i = which(USED);
	struct cradle *cradle = &shared->cradles[i];

	run_drop_ends(&cradle->child);
	us.at[i].phase = NONE;
	return (struct spare_end){
		.moved = atomic_load(&cradle->moved) == MOVED,
		.step = (enum talk_step)cradle->child.step,
		.errnum = cradle->child.errnum,
	};
}

bool spare_reaped(int pid)
{
	bool ours = pid == us.mother.pid;

	if (ours) {
		us.mother.pid = 0;
		us.mother.dying = false;
	}
	for (int i = 0; i < CRADLES; i++) {
		if (us.at[i].phase == NONE || pid != number_of(i))
			continue;
		us.at[i].reaped = ours = true; // the number is anybody's now
		if (us.at[i].phase == WAITS)
			spare_drop();
	}
	if (!ours)
		return false;
	if (!us.mother.pid)
		spare_drop();
	spare_bury();
	return which(USED) >= 0;
}

void spare_lose(uint32_t number)
{
	if (us.mother.pid && us.mother.number == number)
		spare_rest();
}

bool spare_may_rest(void)
{
	return which(WAITS) >= 0 ||
	       (us.mother.pid && !us.mother.dying && which(USED) < 0 && which(DROPPED) < 0);
}

void spare_rest(void)
{
	end_mother();
	spare_drop();
}

bool spare_is_dying(void)
{
	return which(DROPPED) >= 0 || us.mother.dying;
}

void spare_drop(void)
{
	int i = which(WAITS);

	if (i < 0)
		return;
	// Ordered, and not born: none may be born into a cradle that is thought empty.
	if (us.mother.pid && !number_of(i) && !us.at[i].reaped && !spare_await_ready(i))
		end_mother();
	run_drop(&us.at[i].run);
	run_drop_ends(&shared->cradles[i].child);
	end_spare(i);
	us.at[i].phase = DROPPED;
	spare_bury();
}

static void await_death(int pid)
{
	if (pid && waitpid(pid, NULL, __WALL) == pid)
		spare_reaped(pid);
}

bool spare_make_room(void)
{
	if (!spare_may_rest() && !spare_is_dying())
		return false;
	spare_rest();
	// They count until they are reaped. She comes first: she may bear one more.
	await_death(us.mother.pid);
	for (int i = 0; i < CRADLES; i++)
		if (us.at[i].phase == DROPPED)
			await_death(number_of(i));
	return true;
}
