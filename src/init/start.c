// Begins the work that the daemon requests: an entry in the table, an exec cgroup, and a child,
// which is a waiting preforked worker, a new one of the fork template, or a clone of pid 1. A
// request that cannot begin is refused with the step that failed.
#include <errno.h>
#include <unistd.h>

#include "init/file_worker.h"
#include "init/handover.h"
#include "init/prefork.h"
#include "init/state.h"
#include "os/fd.h"

#define HURRY_US 500 // from the end of a command to the next in a sequence without pauses

static struct conn *init_start_take_place(void)
{
	for (int i = 0; i < TALK_CONN_MAX; i++) {
		if (init.conns[i].used)
			continue;
		if (i < init.conn_end) {
			run_drop(&init.stale);
			init.stale = init.conns[i].run;
			init.conns[i].run = RUN_NONE;
			init.untidy = true;
		} else {
			init.conn_end = i + 1;
		}
		return &init.conns[i];
	}
	return NULL;
}

void start_tidy(void)
{
	init.untidy = false;
	run_drop(&init.stale);
	for (int i = 0; i < init.conn_end; i++)
		if (!init.conns[i].used)
			run_drop(&init.conns[i].run);
}

static void init_start_refuse(struct conn *conn, uint32_t id, enum talk_step step, int errnum)
{
	*conn = (struct conn){
		.used = true,
		.forgotten = true,
		.owes = OWES_FAILED,
		.id = id,
		.run = RUN_NONE,
		.step = (int)step,
		.errnum = errnum,
	};
	init_settle(conn);
}

void start_drop_fds(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

// A new exec cgroup, or one that was made again, comes with its fds. 0, or the errno to refuse
// with.
static int exec_cgroup_check(const struct talk_exec *exec, const int *fds, int count)
{
	bool by_clone = init.setup.joins_by_clone;
	struct exec_cgroup *exec_cgroup;

	if (count == FD_LOST)
		return EMFILE;
	if (exec->exec_cgroup >= TALK_CGROUPS_MAX) {
		start_drop_fds(fds, count);
		return EINVAL;
	}
	exec_cgroup = &init.exec_cgroups[exec->exec_cgroup];
	if (count > 0 ? count != exec_cgroup_fds(by_clone) : !exec_cgroup->known) {
		start_drop_fds(fds, count);
		return EPROTO;
	}
	if (count > 0)
		prefork_lose(exec->exec_cgroup);
	if (count > 0 && !exec_cgroup_learn(exec_cgroup, by_clone, fds))
		return errno;
	// Where a preforked worker waits nothing else lives: the exec cgroup was empty at its
	// clone.
	if ((exec->flags & TALK_EXEC_IF_EMPTY) && !prefork_waits_in(exec->exec_cgroup) &&
	    !prefork_cgroup_is_empty(&init.setup, exec->exec_cgroup, exec_cgroup))
		return EBUSY;
	return 0;
}

static void init_start_start(struct conn *conn, uint32_t id, const struct run_order *order)
{
	const struct exec_cgroup *exec_cgroup = &init.exec_cgroups[order->exec.exec_cgroup];
	struct run run;
	enum talk_step step;
	bool started;

	if (init.served == order->exec.exec_cgroup)
		init.wants = false; // not idle any more
	prefork_lose(order->exec.exec_cgroup);
	started = run_start(&init.setup, exec_cgroup, order, &run, &step);
	if (!started && step == TALK_STEP_FORK && prefork_make_room())
		started = run_start(&init.setup, exec_cgroup, order, &run, &step);
	// A process of the box killed it before execve.
	if (!started && step == TALK_STEP_SETUP && errno == EINTR)
		started = run_start(&init.setup, exec_cgroup, order, &run, &step);
	if (!started) {
		init_start_refuse(conn, id, step, errno);
		return;
	}
	*conn = (struct conn){
		.used = true,
		.owes = OWES_STARTED,
		.id = id,
		.exec_cgroup = order->exec.exec_cgroup,
		.asked_us = init_now_us(),
		.pid = run.pid,
		.run = run,
		.flags = order->exec.flags,
	};
	handover_set_label(conn, (int)(conn - init.conns), order->exec.tag);
	if (run.in < 0)
		init.fresh = true; // on a terminal too: nobody types before a moment has passed
	else
		init_settle(conn); // the client may wait to send input
}

static bool is_alone(const struct conn *conn)
{
	for (int i = 0; i < init.conn_end; i++)
		if (&init.conns[i] != conn && init.conns[i].used &&
		    (init.conns[i].pid > 0 || init.conns[i].starting))
			return false;
	return true;
}

// Prepares for a command that follows at once: the daemon is busy with the last message, pid 1 is
// not.
void start_look_ahead(const struct conn *conn, int64_t last_us)
{
	if ((conn->flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY | TALK_EXEC_DIALOGUE)) ||
	    conn->asked_us - last_us >= HURRY_US || !is_alone(conn))
		return;
	start_tidy();
	prefork_make_next(conn->exec_cgroup);
	init.wants = !prefork_waits_in(conn->exec_cgroup);
}

static bool start_by_prefork(struct conn *conn, uint32_t id, const struct run_order *order)
{
	struct conn made = {
		.used = true, .starting = true, .id = id, .exec_cgroup = order->exec.exec_cgroup};

	if (!prefork_use(order, &made.run))
		return false;
	made.asked_us = init_now_us();
	made.flags = order->exec.flags;
	*conn = made;
	handover_set_label(conn, (int)(conn - init.conns), order->exec.tag);
	init.wants = false; // the exec cgroup is not idle any more
	init.free_message ^= 1;
	init.look_us = made.asked_us + PREFORK_SOON_MS * 1000;
	init.stuck_us = init.look_us + PREFORK_STUCK_MS * 1000;
	return true;
}

// The preforked worker has executed, failed, or never moved: then the command is started by
// run_start().
void start_conclude(struct conn *conn, bool executed)
{
	int pid = prefork_number();
	struct prefork_end end = prefork_end();

	conn->starting = false;
	conn->pid = conn->run.pid = pid;
	if (end.moved && end.step == TALK_STEP_NONE && executed) {
		conn->owes |= OWES_STARTED;
		return;
	}
	run_drop(&conn->run);
	if (end.moved && end.step != TALK_STEP_NONE)
		init_start_refuse(conn, conn->id, end.step, end.errnum);
	else
		init_start_start(conn, conn->id, &init.letters[init.free_message ^ 1]->order);
}

// The command of a preforked worker: most end soon, and their exit shows that they began. A command
// that lasts keeps its exec cgroup for itself.
void start_look(bool now)
{
	int64_t time = init_now_us();
	struct conn *conn = NULL;

	if (!now && time < init.look_us)
		return;
	for (int i = 0; i < init.conn_end && !conn; i++)
		if (init.conns[i].used && init.conns[i].starting)
			conn = &init.conns[i];
	if (!conn)
		return;
	if (time >= init.stuck_us) {
		prefork_give_up();
		init.stuck_us = time + PREFORK_STUCK_MS * 1000;
	}
	init.look_us = time + PREFORK_SOON_MS * 1000;
	if (!prefork_has_started())
		return;
	start_conclude(conn, true);
	prefork_lose(conn->exec_cgroup);
	if (conn->used && conn->owes && !init.fresh)
		init_settle(conn);
}

// A waiting worker has the stdio of the last command; one that is cloned now takes any.
static bool may_use_prefork(const struct run_order *order)
{
	if (prefork_waits_in(order->exec.exec_cgroup) && !prefork_suits(order))
		prefork_drop();
	return prefork_waits_in(order->exec.exec_cgroup) ||
	       prefork_fork_template_waits_in(order->exec.exec_cgroup);
}

void start_exec(uint32_t id, struct run_order *order, const int *fds, int count)
{
	struct conn *conn = init_start_take_place();
	int errnum = exec_cgroup_check(&order->exec, fds, count);

	if (!conn || init_find(id))
		init_start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
	else if (errnum)
		init_start_refuse(conn, id, TALK_STEP_JOIN, errnum);
	else if (!run_find_user(order))
		init_start_refuse(conn, id, TALK_STEP_USER, ENOENT);
	else if (!may_use_prefork(order) || !start_by_prefork(conn, id, order))
		init_start_start(conn, id, order);
	// The client may wait to send input, so the start is reported as soon as it is known.
	else if (order->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE)) {
		prefork_await();
		start_look(true);
	}
}

void start_worker(uint32_t id, struct str user)
{
	struct conn *conn = init_start_take_place();
	struct run run = RUN_NONE;
	enum talk_step step;

	if (!conn || init_find(id)) {
		init_start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
		return;
	}
	if (!file_worker_start(&init.setup, user, &run.out, &step)) {
		init_start_refuse(conn, id, step, errno);
		return;
	}
	*conn = (struct conn){
		.used = true,
		.forgotten = true,
		.owes = OWES_WORKER,
		.id = id,
		.run = run,
	};
	init_settle(conn);
}
