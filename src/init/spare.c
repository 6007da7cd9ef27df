// Half of what a start costs does not depend on the command: the clone itself, the pipes, a
// session, a filter. A spare child has that behind it and sleeps on a futex; a command that comes
// for its leaf costs a wake-up and execve.
//
// Who bears it? A child that shares pid 1's memory must be a vfork child, or else the kernel counts
// it as a second process of that memory: killed by the OOM killer it would take pid 1 with it, and
// the two would have one score. So a second thread of pid 1, the midwife, calls clone3(CLONE_VFORK)
// and sleeps in it until the spare has executed or died; then it rings. Box root cannot signal a
// thread of pid 1. Both run beside pid 1 and share its errno, so their system calls are bare.
//
//	pid 1                     midwife                  spare
//	spare_make: order ------> clone3 ----------------> child_prepare
//	            <------------------------------------- told |= READY; waits for `go`
//	spare_use: go -----------------------------------> moved; child_execute
//	            <--- bell --- told |= OVER <---------- (execve, or death)
//
// Box root may kill or stop a spare, as it may any child before execve. Pid 1 waits for none: one
// that does not move in time is killed, and whoever has not moved has run nothing, so the command
// is started the other way.
#include "init/spare.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/bare.h"
#include "os/fd.h"

#define MAKE_MS 20    // a hundred times what it takes
#define STRIKES_MAX 6 // in a row: then only one moment in 64 is used
#define STACK 8192

enum order { MAKE = 1, LEAVE = 2 };
enum told { READY = 1, OVER = 2 };
enum phase { NONE, WAITS, USED, DROPPED };

static struct {
	enum phase phase;  // pid 1's own
	int strikes, skip; // moments to let pass, after strikes
	bool leaving;	   // the midwife was told to
	int bell;
	uint32_t number;
	struct run run; // our ends of its pipes
	int pid;
	// Words that somebody sleeps on.
	_Atomic int ordered, told, go;
	_Atomic int midwife;	  // her number; 0: there is none, or she has gone
	atomic_bool moved, known; // known: pid 1 has heard of its end
	struct child child;
	char stack[STACK] __attribute__((aligned(16)));
} spare = {.bell = -1, .run = {.out = -1, .err = -1, .in = -1}};

static void tell(int what)
{
	atomic_fetch_or(&spare.told, what);
	bare_wake((const int *)&spare.told);
}

static int be_spare(void *arg)
{
	struct sched_param param = {0};
	int status;

	BARE_3(SYS_sched_setscheduler, 0, SCHED_OTHER, &param); // unlike the midwife
	status = child_prepare(arg);
	if (status)
		return status;
	BARE_2(SYS_prctl, PR_SET_NAME, "cove-spare");
	tell(READY);
	while (!atomic_load(&spare.go))
		bare_wait((const int *)&spare.go, 0, -1);
	atomic_store(&spare.moved, true);
	return child_execute(arg);
}

static void bear(void)
{
	struct child *child = &spare.child;
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID,
		.exit_signal = SIGCHLD,
		.parent_tid = (uintptr_t)&spare.pid,
		.stack = (uintptr_t)child->stack,
		.stack_size = sizeof(child->stack),
	};

	if (child->birth->joins_by_clone) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)child->leaf->join[0];
	}
	bare_clone(&args, be_spare, child);
}

// Most commands end soon, and their death tells pid 1 that they began. But a failure is told at
// once, and so is a command that waits for its input.
static void let_it_end(void)
{
	if (!atomic_load(&spare.moved) || spare.child.step != TALK_STEP_NONE)
		return;
	if (!(spare.child.exec->flags & TALK_EXEC_STDIN) && !atomic_load(&spare.ordered))
		bare_wait((const int *)&spare.ordered, 0, SPARE_SOON_MS);
}

static int be_midwife(void *arg)
{
	struct sched_param param = {0};
	uint64_t one = 1;

	(void)arg;
	// She must not take the CPU from the child that wakes her in the middle of its execve.
	BARE_3(SYS_sched_setscheduler, 0, SCHED_BATCH, &param);
	for (;;) {
		int order;

		while (!(order = atomic_exchange(&spare.ordered, 0)))
			bare_wait((const int *)&spare.ordered, 0, -1);
		if (order == LEAVE)
			BARE_1(SYS_exit, 0); // the thread alone
		atomic_store(&spare.known, false);
		bear();
		tell(OVER);
		let_it_end();
		if (!atomic_load(&spare.known))
			BARE_3(SYS_write, spare.bell, &one, sizeof(one));
	}
	return 0;
}

static bool have_midwife(void)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			 CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
		.parent_tid = (uintptr_t)&spare.midwife,
		.child_tid = (uintptr_t)&spare.midwife,
		.stack = (uintptr_t)spare.stack,
		.stack_size = sizeof(spare.stack),
	};

	// One that was told to leave still has the stack until she is gone.
	if (atomic_load(&spare.midwife))
		return !spare.leaving;
	if (spare.bell < 0)
		spare.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	spare.leaving = false;
	return spare.bell >= 0 && bare_clone(&args, be_midwife, NULL) > 0;
}

static bool await_ready(void)
{
	int told = atomic_load(&spare.told);

	if (!told)
		bare_wait((const int *)&spare.told, 0, MAKE_MS);
	told = atomic_load(&spare.told);
	// Stopped in its first microseconds: the box is starved of CPU, or lies in wait for it.
	if (told)
		spare.strikes = 0;
	else if (spare.strikes < STRIKES_MAX)
		spare.strikes++;
	spare.skip = told ? 0 : 1 << spare.strikes;
	return told == READY;
}

static bool is_over(void)
{
	return atomic_load(&spare.told) & OVER;
}

// The midwife is free.
static bool is_none(void)
{
	if (spare.phase == DROPPED && is_over())
		spare.phase = NONE;
	return spare.phase == NONE;
}

bool spare_may_be_made(void)
{
	return is_none();
}

bool spare_is_ending(void)
{
	return !is_none() && spare.phase == DROPPED;
}

void spare_make(const struct birth *birth, uint32_t number, const struct leaf *leaf)
{
	struct child *child = &spare.child;

	if (spare.skip > 0 && spare.skip--)
		return;
	if (!spare_may_be_made() || !have_midwife())
		return;
	child->birth = birth;
	child->leaf = leaf;
	child->step = TALK_STEP_NONE;
	child->errnum = 0;
	spare.number = number;
	spare.pid = 0;
	atomic_store(&spare.told, 0);
	atomic_store(&spare.go, 0);
	atomic_store(&spare.moved, false);
	run_drop(&spare.run);
	if (!run_make_pipes(true, &spare.run, child)) {
		run_drop_ends(child);
		run_drop(&spare.run);
		return;
	}
	spare.phase = WAITS;
	run_raise_oom(birth, true);
	atomic_store(&spare.ordered, MAKE);
	bare_wake((const int *)&spare.ordered);
	if (!await_ready())
		spare_drop();
	run_raise_oom(birth, false);
	run_drop_ends(child);
}

bool spare_waits(void)
{
	return spare.phase == WAITS;
}

bool spare_waits_in(uint32_t number)
{
	return spare.phase == WAITS && spare.number == number;
}

void spare_use(const struct run_order *order, struct run *out)
{
	*out = spare.run;
	out->pid = spare.pid;
	spare.run = RUN_NONE;
	if (!(order->exec.flags & TALK_EXEC_STDIN)) {
		spare.run.in = out->in; // to be closed in a moment when nobody waits
		out->in = -1;
	}
	spare.phase = USED;
	spare.child.exec = &order->exec;
	spare.child.user = &order->user;
	atomic_store(&spare.go, 1);
	bare_wake((const int *)&spare.go);
}

bool spare_is_starting(void)
{
	return spare.phase == USED;
}

void spare_drop(void)
{
	if (spare.phase == WAITS) {
		run_drop(&spare.run);
		spare.phase = DROPPED;
	}
	if (spare.phase != NONE && !atomic_load(&spare.moved) && spare.pid > 0)
		kill(spare.pid, SIGKILL);
}

void spare_reaped(int pid)
{
	if (pid != spare.pid)
		return;
	spare.pid = 0; // the number is anybody's now
	if (spare.phase == WAITS)
		spare_drop();
}

void spare_rest(void)
{
	spare_drop();
	if (!is_none() || spare.leaving || !atomic_load(&spare.midwife))
		return;
	spare.leaving = true;
	atomic_store(&spare.ordered, LEAVE);
	bare_wake((const int *)&spare.ordered);
}

bool spare_may_rest(void)
{
	return spare.phase == WAITS || (is_none() && !spare.leaving && atomic_load(&spare.midwife));
}

bool spare_make_room(void)
{
	int pid = spare.pid;

	if (!spare_may_rest())
		return false;
	if (spare.phase == WAITS) {
		spare_drop();
		while (!is_over())
			bare_wait((const int *)&spare.told, READY, -1);
		// It counts until it is reaped.
		if (pid > 0 && waitpid(pid, NULL, __WALL) == pid)
			spare_reaped(pid);
	}
	spare_rest();
	for (int i = 0; i < MAKE_MS && atomic_load(&spare.midwife); i++)
		bare_wait((const int *)&spare.midwife, atomic_load(&spare.midwife), 1);
	return true;
}

int spare_bell(void)
{
	return spare.bell;
}

bool spare_hear(void)
{
	uint64_t count;

	// She may ring once more for one whose end was known meanwhile.
	if (read(spare.bell, &count, sizeof(count)) < 0 || !is_over())
		return false;
	if (spare.phase == WAITS)
		spare_drop();
	// One that has not moved is dying, and its leaf is not empty before it was reaped.
	return spare.phase == USED && atomic_load(&spare.moved);
}

struct spare_end spare_end(void)
{
	atomic_store(&spare.known, true);
	spare.phase = DROPPED;
	return (struct spare_end){
		.moved = atomic_load(&spare.moved),
		.step = (enum talk_step)spare.child.step,
		.errnum = spare.child.errnum,
	};
}
