// pid 1: greet, execute requests, reap. It sleeps on the daemon's socket and a signalfd for
// SIGCHLD. It owns two tables of fixed size, commands and exec cgroups, and no heap: unused memory
// is not touched.
//
// pid 1 never waits for the daemon. A message that a full socket does not take stays due in its
// entry, and until it is sent no request is read: at most one answer per entry is outstanding. When
// the daemon's end closes, pid 1 waits for the next (conn.c), or exits if none can connect: the
// kernel then kills the box. An entry lives until its process was reaped and reported and the
// daemon said FORGET, so pipes outlive a slow daemon. Most commands end with empty pipes: such an
// entry is over at once.
#include "init/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/conn.h"
#include "init/exec_cgroup.h"
#include "init/file_worker.h"
#include "init/prefork.h"
#include "os/fd.h"

#define FRESH_US 1000  // most commands end soon: then the daemon is woken once
#define FIRST_US 3000  // a client that makes a box to run a command has asked by then
#define AGAIN_US 20000 // and has deleted the box by then, if it wanted only that
#define IDLE_US 100    // work for which no client waits is done after so long without an event
#define CALM_US 1000   // and work that costs nothing, when the next command does not follow at once
#define BUSY_US 20000  // if commands began since then, this one is one of many
#define HURRY_US 500   // from the end of a command to the next in a sequence without pauses

// The content of one EXEC. It stays while a preforked worker reads it; another takes the next
// message.
struct message {
	struct run_order order;
	const char *argv[TALK_ARGS_MAX + 3], *env[TALK_ARGS_MAX + 3];
	char words[TALK_SIZE_MAX];
};

// The daemon's side. Messages that are due are sent only to a daemon that KNOWS.
enum listener {
	LISTENER_KNOWS,
	LISTENER_AWAY,
	LISTENER_STRANGER,
	LISTENER_ASKS,
	LISTENER_TOLD
}; // TOLD: the list is being sent

// Whether the daemon may be told that a process waits in sync or syncfs, and was.
enum sync { SYNC_OFF, SYNC_MAY, SYNC_TOLD };

static struct init {
	struct drop_privileges setup;
	enum sync sync;
	enum listener listener;
	bool returns; // another daemon can connect
	struct conn conns[TALK_CONN_MAX];
	int conn_end; // entries from here on were never used
	struct exec_cgroup exec_cgroups[TALK_CGROUPS_MAX];
	bool owing;	   // the socket was full
	struct conn other; // an answer without an entry in the table
	struct message *letters[2], first;
	int free_message;    // the free one
	bool fresh;	     // a STARTED is due that may be sent together with its EXITED
	bool untidy;	     // free entries have open fds
	bool wants;	     // a preforked worker, when idle
	uint32_t stdio_kind; // of the last command: most likely that of the next
	uint32_t served;     // the exec cgroup that was found empty last
	int64_t ended_us;    // and when
	bool served_many;    // it was not the first
	struct run stale;    // fds of an ended command, to be closed when no client waits
	// When to check the preforked worker that has a command, and to give it up.
	int64_t look_us, stuck_us;
} init;

static int64_t init_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Frees the entry when it is over. Its fds are closed when no client waits.
static void init_settle(struct conn *conn)
{
	if (init.listener != LISTENER_KNOWS && conn->owes)
		return;
	if (conn->owes && conn_send(conn)) {
		if ((conn->owes & OWES_STARTED) && !(init.returns && handover_keeps_in(conn)))
			fd_drop(&conn->run.in);
		conn->owes = 0;
	}
	if (conn->owes) {
		init.owing = true;
	} else if (conn->pid == 0 && !conn->starting && conn->forgotten) {
		conn->used = false;
		init.untidy = true;
	}
}

static struct conn *init_find(uint32_t id)
{
	for (int i = 0; i < init.conn_end; i++)
		if (init.conns[i].used && init.conns[i].id == id)
			return &init.conns[i];
	return NULL;
}

// Requests of the daemon. Each begins with an entry in the table, an exec cgroup, and a child,
// which is a waiting preforked worker, a new one of the fork template, or a clone of pid 1. A
// request that cannot begin is refused with the step that failed.

static struct conn *conn_new(void)
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

static void start_tidy(void)
{
	init.untidy = false;
	run_drop(&init.stale);
	for (int i = 0; i < init.conn_end; i++)
		if (!init.conns[i].used)
			run_drop(&init.conns[i].run);
}

static void start_refuse(struct conn *conn, uint32_t id, enum talk_step step, int errnum)
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

static void start_drop_fds(const int *fds, int count)
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

static void start_by_clone(struct conn *conn, uint32_t id, const struct run_order *order)
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
		start_refuse(conn, id, step, errno);
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

// True if a command runs that was asked for after `since_us`, apart from `conn`.
static bool others_run(const struct conn *conn, int64_t since_us)
{
	for (const struct conn *at = init.conns; at < init.conns + init.conn_end; at++)
		if (at != conn && at->used && (at->pid > 0 || at->starting) &&
		    at->asked_us > since_us)
			return true;
	return false;
}

// Prepares for a command that follows at once: the daemon is busy with the last message, pid 1 is
// not.
static void start_look_ahead(const struct conn *conn, int64_t last_us)
{
	if ((conn->flags & (TALK_EXEC_STDIN | TALK_EXEC_PTY | TALK_EXEC_DIALOGUE)) ||
	    conn->asked_us - last_us >= HURRY_US || others_run(conn, INT64_MIN))
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
static void start_conclude(struct conn *conn, bool executed)
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
		start_refuse(conn, conn->id, end.step, end.errnum);
	else
		start_by_clone(conn, conn->id, &init.letters[init.free_message ^ 1]->order);
}

// The command of a preforked worker: most end soon, and their exit shows that they began. A command
// that lasts keeps its exec cgroup for itself.
static void start_look(bool now)
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

static void start_exec(uint32_t id, struct run_order *order, const int *fds, int count)
{
	struct conn *conn = conn_new();
	int errnum = exec_cgroup_check(&order->exec, fds, count);

	if (!conn || init_find(id))
		start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
	else if (errnum)
		start_refuse(conn, id, TALK_STEP_JOIN, errnum);
	else if (!run_find_user(order))
		start_refuse(conn, id, TALK_STEP_USER, ENOENT);
	else if (!may_use_prefork(order) || !start_by_prefork(conn, id, order))
		start_by_clone(conn, id, order);
	// The client may wait to send input, so the start is reported as soon as it is known.
	else if (order->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE)) {
		prefork_await();
		start_look(true);
	}
}

static void start_worker(uint32_t id, struct str user)
{
	struct conn *conn = conn_new();
	struct run run = RUN_NONE;
	enum talk_step step;

	if (!conn || init_find(id)) {
		start_refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
		return;
	}
	if (!file_worker_start(&init.setup, user, &run.out, &step)) {
		start_refuse(conn, id, step, errno);
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

// Sends every entry that is held, then the end of the list. False: the socket is full.
static bool adopt_send(void)
{
	for (int i = 0; i < init.conn_end; i++) {
		struct conn *conn = &init.conns[i];

		if (!conn->used || !(conn->owes & OWES_HELD))
			continue;
		if (!handover_send(conn))
			return false;
		conn->owes &= ~OWES_HELD;
	}
	return handover_send_end();
}

static void init_settle_all(void)
{
	init.owing = false;
	if (init.listener == LISTENER_TOLD) {
		if (!adopt_send()) {
			init.owing = true;
			return;
		}
		init.listener = LISTENER_KNOWS;
	}
	for (int i = 0; i < init.conn_end; i++)
		if (init.conns[i].used && init.conns[i].owes)
			init_settle(&init.conns[i]);
	if (init.other.owes)
		init_settle(&init.other);
}

// The daemon disconnected, or sent a malformed message.
static void init_lose_daemon(void)
{
	if (!init.returns)
		_exit(0);
	init.listener = LISTENER_AWAY;
	init.sync = SYNC_OFF;
	init.owing = false;
	init.other.owes = 0;
}

// A command given to a preforked worker is sent when it is known whether it runs.
static void adopt_send_if_asked(void)
{
	if (init.listener != LISTENER_ASKS || prefork_is_starting())
		return;
	for (int i = 0; i < init.conn_end; i++) {
		struct conn *conn = &init.conns[i];

		if (conn->used)
			handover_owe(conn);
		if (conn->used && conn->mute && conn->pid == 0) {
			conn->used = false;
			init.untidy = true;
		}
	}
	init.listener = LISTENER_TOLD;
	init_settle_all();
}

static void conn_request(struct conn *conn, const struct talk *talk)
{
	// The process group is the command's own, by setsid; its pid cannot be reused before it is
	// reaped.
	if (talk->kind == TALK_SIGNAL && conn->pid > 0)
		kill(talk->alone ? conn->pid : -conn->pid, talk->signal);
	if (talk->kind == TALK_SHUT && (conn->flags & TALK_EXEC_KEEP_IN))
		fd_drop(&conn->run.in);
	if (talk->kind == TALK_LABEL)
		handover_set_label(conn, (int)(conn - init.conns), talk->tag);
	if (talk->kind == TALK_FORGET) {
		run_drop(&conn->run);
		conn->forgotten = true;
		init_settle(conn);
	}
}

// A daemon that exits with unread messages resets the connection. The messages that it had sent by
// then are still in the queue behind that error.
static ssize_t init_receive(struct message *message, int fds[2], int *count)
{
	ssize_t len;

	*count = 2;
	len = fd_recv_any(TALK_FD_CONTROL, message->words, sizeof(message->words), fds, count,
			  MSG_DONTWAIT);
	if (len >= 0 || errno != ECONNRESET)
		return len;
	*count = 2;
	return fd_recv_any(TALK_FD_CONTROL, message->words, sizeof(message->words), fds, count,
			   MSG_DONTWAIT);
}

static void daemon_request(void)
{
	struct message *message = init.letters[init.free_message];
	struct talk talk;
	int fds[2], count;
	ssize_t len = init_receive(message, fds, &count);
	struct conn *conn;

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0) {
		init_lose_daemon();
		return;
	}
	talk.exec.argv = message->argv + 2;
	talk.exec.env = message->env;
	if (!talk_decode(message->words, (size_t)len, &talk) ||
	    (init.listener == LISTENER_STRANGER) != (talk.kind == TALK_ADOPT)) {
		start_drop_fds(fds, count);
		init_lose_daemon();
		return;
	}
	if (talk.kind == TALK_EXEC) {
		if ((talk.exec.flags & TALK_EXEC_PACES) && init.sync == SYNC_OFF)
			init.sync = SYNC_MAY;
		message->order.exec = talk.exec;
		start_exec(talk.conn, &message->order, fds, count);
		return;
	}
	start_drop_fds(fds, count);
	if (talk.kind == TALK_WORKER) {
		start_worker(talk.conn, talk.worker.user);
		return;
	}
	if (talk.kind == TALK_ADOPT) {
		init.listener = LISTENER_ASKS;
		return;
	}
	if (talk.kind == TALK_SYNCED) {
		init.sync = SYNC_MAY;
		return;
	}
	conn = init_find(talk.conn);
	if (conn)
		conn_request(conn, &talk);
}

static uint64_t in_us(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void child_reaped(int pid, int status, const struct rusage *usage, bool executed)
{
	bool is_spares = prefork_is_starting() && prefork_number() == pid;
	int64_t last_us = init.ended_us;
	struct conn *conn = NULL;
	bool wants = false; // a preforked worker, where this command ran

	for (int i = 0; i < init.conn_end && !conn; i++)
		if (init.conns[i].used &&
		    (is_spares ? init.conns[i].starting : init.conns[i].pid == pid))
			conn = &init.conns[i];
	if (is_spares && conn) {
		start_conclude(conn, executed);
		if (!conn->used || conn->pid != pid)
			return;
	} else if (prefork_reaped(pid)) {
		start_look(true);
	}
	if (!conn)
		return;
	conn->pid = 0;
	if (conn->mute) {
		conn->used = false;
		init.untidy = true;
		return;
	}
	conn->owes |= OWES_EXITED;
	conn->status = status;
	conn->max_rss = (uint64_t)usage->ru_maxrss * 1024;
	conn->cpu_us = in_us(usage->ru_utime) + in_us(usage->ru_stime);
	conn->cgroup_empty = prefork_cgroup_is_empty(&init.setup, conn->exec_cgroup,
						     &init.exec_cgroups[conn->exec_cgroup]);
	conn->over = !conn->forgotten && !(conn->flags & TALK_EXEC_KEEP) && conn_is_over(conn);
	conn->forgotten |= conn->over;
	// A command on a terminal could not use a preforked worker, and leaves an existing one
	// alone. The exec cgroup of a runner, with dialogue and record, is not used again.
	if (conn->cgroup_empty && (!(conn->flags & TALK_EXEC_PTY) || !prefork_waits()) &&
	    ~conn->flags & (TALK_EXEC_DIALOGUE | TALK_EXEC_KEEP)) {
		init.served = conn->exec_cgroup;
		init.served_many = init.ended_us != 0;
		init.ended_us = init_now_us();
		init.stdio_kind = conn->flags & (TALK_EXEC_PTY | TALK_EXEC_SPOOL);
		init.wants = wants = !prefork_waits_in(conn->exec_cgroup);
	}
	init_settle(conn);
	if (wants && last_us)
		start_look_ahead(conn, last_us);
}

// A dead child that is not reaped yet, and whether it executed its command: the kernel knows that
// only until it is reaped. 0: none. Without a preforked worker that is starting, each child has
// executed.
static int find_dead(int pid, bool *out_executed)
{
	siginfo_t info = {0};

	*out_executed = true;
	if (!prefork_is_starting())
		return pid;
	if (waitid(pid < 0 ? P_ALL : P_PID, (id_t)pid, &info,
		   WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return 0;
	if (info.si_pid && info.si_code != CLD_EXITED && prefork_number() == info.si_pid)
		*out_executed = !run_is_unexecuted(info.si_pid, NULL);
	return info.si_pid;
}

// pid -1: any child. False: none is dead.
static bool reap_one(int pid)
{
	struct rusage usage;
	bool executed;
	int status;

	pid = find_dead(pid, &executed);
	pid = pid ? wait4(pid, &status, WNOHANG | __WALL, &usage) : 0;
	if (pid <= 0)
		return false;
	child_reaped(pid, status, &usage, executed);
	return true;
}

// Reaps its own commands only: what a process that is not pid 1 would do.
static void reap_own(void)
{
	for (int i = 0; i < init.conn_end; i++) {
		const struct conn *conn = &init.conns[i];
		int pid = !conn->used ? 0 : conn->starting ? prefork_number() : conn->pid;

		if (pid > 0)
			reap_one(pid);
	}
}

static void init_reap(void)
{
	struct signalfd_siginfo info;

	// At most one SIGCHLD is pending, for any number of children. Reap first, because a client
	// waits, and again for children that died before the signal was read.
	while (!weak(REAP) && reap_one(-1))
		continue;
	if (read(init.setup.children, &info, sizeof(info)) < 0)
		return;
	if (weak(REAP))
		reap_own();
	while (!weak(REAP) && reap_one(-1))
		continue;
}

static bool have_messages(void)
{
	struct message *both = init.letters[1] ? NULL : prefork_memory(2 * sizeof(*both));

	if (both) {
		init.letters[0] = &both[0];
		init.letters[1] = &both[1];
	}
	return init.letters[1];
}

// Prefork where the next command will most likely run: the daemon reuses the exec cgroup that
// served last. While other commands have just begun the cgroups alternate, and the next one is
// unknown.
static void prefork_provide(void)
{
	bool elsewhere = !prefork_may_be_made(init.served);

	if (prefork_waits_in(init.served) || others_run(NULL, init_now_us() - BUSY_US)) {
		init.wants = false;
	} else if (elsewhere) {
		prefork_rest(); // and when those are gone, make new ones
	} else {
		init.wants = false;
		if (have_messages())
			prefork_make(&init.setup, init.served, &init.exec_cgroups[init.served],
				     init.stdio_kind);
	}
}

// Microseconds until there is work to do, if no event comes before; -1: none.
static int64_t init_timeout_us(void)
{
	int64_t left;

	if (init.fresh)
		return FRESH_US;
	if (prefork_is_starting()) {
		left = init.look_us - init_now_us();
		return left > 0 ? left : 0;
	}
	if (init.wants && !prefork_is_dying())
		return !init.ended_us ? FIRST_US : init.served_many ? IDLE_US : AGAIN_US;
	if (init.untidy)
		return CALM_US;
	return prefork_may_rest() ? PREFORK_KEEP_MS * 1000L : -1;
}

static int init_await(struct pollfd *ready)
{
	int64_t us = init_timeout_us();
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	int n = ppoll(ready, 4, us < 0 ? NULL : &time, NULL);

	if (n == 0 && !init.fresh && !prefork_is_starting()) {
		if (us > AGAIN_US)
			prefork_rest();
		if (init.untidy)
			start_tidy();
		if (init.wants && !prefork_is_dying())
			prefork_provide();
	}
	return n;
}

// A process waits in sync or syncfs. The daemon lets it continue; pid 1 cannot, because its own
// filter forbids the calls for that.
static void sync_send(bool waits)
{
	if (!waits || init.sync != SYNC_MAY || init.listener != LISTENER_KNOWS)
		return;
	if (conn_send_sync(init.setup.syncs))
		init.sync = SYNC_TOLD;
	else
		init.owing = true;
}

// The messages of the last daemon were read before.
static void daemon_accept(void)
{
	if (!handover_accept())
		return;
	init_lose_daemon();
	init.listener = LISTENER_STRANGER;
	if (!conn_greet(init.returns))
		init_lose_daemon();
}

static void init_live(void)
{
	for (;;) {
		bool hears_syncs = init.sync == SYNC_MAY && !init.owing;
		bool is_deaf = init.listener == LISTENER_AWAY || init.listener == LISTENER_ASKS;
		struct pollfd ready[4] = {
			{.fd = is_deaf ? -1 : TALK_FD_CONTROL,
			 .events = init.owing ? POLLOUT : POLLIN},
			{.fd = init.setup.children, .events = POLLIN},
			{.fd = init.returns ? TALK_FD_LISTEN : -1, .events = POLLIN},
			{.fd = hears_syncs ? init.setup.syncs : -1, .events = POLLIN},
		};
		bool fresh = init.fresh;

		if (init_await(ready) < 0)
			continue;
		if (ready[1].revents)
			init_reap();
		if (prefork_is_starting())
			start_look(false);
		if (fresh) {
			init.fresh = false;
			init_settle_all();
		}
		if (!ready[0].revents) {
			if (ready[2].revents)
				daemon_accept();
		} else if (init.owing) {
			init_settle_all(); // drops what is due to a daemon that has gone
		} else {
			daemon_request();
		}
		sync_send(ready[3].revents);
		adopt_send_if_asked();
	}
}

int init_main(void)
{
	const char *failed = drop_privileges_run(&init.setup);

	init.letters[0] = &init.first;
	init.stale = RUN_NONE;
	if (failed)
		return conn_send_broken(failed);
	if (!exec_cgroup_learn(&init.exec_cgroups[0], init.setup.joins_by_clone,
			       (int[]){TALK_FD_CGROUP, TALK_FD_CGROUP_2}))
		return conn_send_broken("take the first exec cgroup");
	init.returns = handover_may_return();
	if (!conn_greet(init.returns))
		return 1;
	init.wants = true;
	init_live();
	return 1;
}

int main(void)
{
	return init_main();
}
