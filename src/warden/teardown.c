// The order is that of docs/ISOLATION.md END-1: lift the CPU quota, kill pid 1 by its pidfd, thaw
// frozen cgroups, wait for its exit in the loop (the kernel has then emptied the pid namespace and
// dropped the mounts), remove cgroups, disk and id range, answer, and remove the state file last
// (for a stop before the answer: the box may be built again). A cgroup can stay busy for a moment
// after its last process, so removal is retried by the clock, first soon, then more rarely, for
// ever. A stop is a teardown that keeps the disk: the box stays in the table as nothing but that. A
// box of an earlier warden is not our child: its pidfd still reports its exit, and its parent reaps
// it.
//
// syscalls: pidfd_send_signal waitid epoll_ctl close ppoll poll sendmsg wait4
#include "warden/teardown.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/ns.h"
#include "warden/archive.h"
#include "warden/reply_queue.h"
#include "warden/snapshot.h"

#define UNMOUNT_SOCK 3 // descriptors of the unmount process
#define UNMOUNT_FIRST 4
#define UNMOUNT_BATCH 256
#define UNMOUNT_GATHER_MS 200
#define FIRST_RETRY_US 200
#define LAST_RETRY_US 20000
#define STUCK_US 5000000

// The unmount process holds the last reference to mounts of deleted boxes. Mounts that arrive
// within a short time are closed together: the first unmount writes back everything, and the others
// find nothing left to write.
struct deferred_unmount {
	int sock, pid;
};

// Receives one more message, if it comes in time. False: the sender has closed the socket.
static bool deferred_unmount_take_one(int wait_ms, int *held)
{
	struct pollfd one = {.fd = UNMOUNT_SOCK, .events = POLLIN};
	int fd, count = 1, came;
	char byte;

	do
		came = poll(&one, 1, wait_ms);
	while (came < 0 && errno == EINTR);
	if (came == 0)
		return true;
	if (fd_recv(UNMOUNT_SOCK, &byte, 1, &fd, &count, 0) <= 0)
		return false;
	*held += count;
	return true;
}

static _Noreturn void deferred_unmount_live(int parent)
{
	const struct sched_param none = {0};
	bool open = true;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, "cove-unmount", 0, 0, 0);
	setpriority(PRIO_PROCESS, 0, 10);
	sched_setscheduler(0, SCHED_BATCH,
			   &none); // a sender is not preempted by this process
	if (getppid() != parent)
		_exit(1);
	while (open) {
		int held = 0, before = -1;

		open = deferred_unmount_take_one(-1, &held);
		while (open && held != before && held < UNMOUNT_BATCH) {
			before = held;
			open = deferred_unmount_take_one(UNMOUNT_GATHER_MS, &held);
		}
		close_range(UNMOUNT_FIRST, ~0u, 0);
	}
	_exit(0);
}

fallible deferred_unmount_start(struct deferred_unmount **out)
{
	struct deferred_unmount *unmount;
	int pair[2], parent = getpid(), pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_sys(errno, "make the socket of the unmount process");
	pid = fork();
	if (pid == 0) {
		if (dup2(pair[1], UNMOUNT_SOCK) < 0 || close_range(UNMOUNT_FIRST, ~0u, 0))
			_exit(1);
		deferred_unmount_live(parent);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_new(UNAVAILABLE, NS_HELPER_LOST, "fork the unmount process: %s",
			       strerror(errno));
	}
	unmount = mem_new_of(struct deferred_unmount);
	*unmount = (struct deferred_unmount){.sock = pair[0], .pid = pid};
	*out = unmount;
	return OK;
}

// Takes over a mount. Does not wait, unless the child is gone or its queue is full.
static void deferred_unmount_take(struct deferred_unmount *unmount, int mount)
{
	(void)fd_send(unmount->sock, "", 1, &mount, 1,
		      MSG_DONTWAIT); // on failure the mount ends here
	close(mount);
}

bool deferred_unmount_reaped(struct deferred_unmount *unmount, int pid)
{
	if (!unmount || unmount->pid != pid)
		return false;
	unmount->pid = 0;
	return true;
}

void deferred_unmount_stop(struct deferred_unmount *unmount)
{
	if (!unmount)
		return;
	fd_drop(&unmount->sock);
	if (unmount->pid)
		while (waitpid(unmount->pid, NULL, 0) < 0 && errno == EINTR)
			;
	free(unmount);
}

// `kept`: the disk is still there. A STOP is not answered as success if the disk is gone.
static void answer_all(struct warden *warden, struct warden_box *box, bool kept)
{
	for (int i = 0; i < box->waiter_count; i++) {
		const struct warden_box_waiter *waiter = &box->waiters[i];

		if (waiter->kind == ORDER_STOP && !kept)
			reply_queue_refusal(
				warden, ORDER_STOP, waiter->order, box->id,
				err_new(CONFLICT, "being_deleted", "the box was deleted"));
		else
			reply_queue_ended(warden, waiter->kind, waiter->order, box->used_cpu_us);
	}
	box->waiter_count = 0;
	if (box->refusal)
		reply_queue_answer(warden, box->refusal, NULL, 0);
	free(box->refusal);
	box->refusal = NULL;
}

static void teardown_report(const struct warden_box *box, const char *event)
{
	char took[24];

	snprintf(took, sizeof(took), "%lld", (long long)(clock_us() - box->dying_us));
	log_trace(box->trace);
	log_event(LOG_DEBUG, event, "sandbox", box->id, "us", took, NULL);
	log_trace(NULL);
}

static void drop_state(struct warden *warden, struct warden_box *box)
{
	if (box->has.state)
		box_state_drop(warden->state_dir, box->id);
	box->has.state = false;
}

// Nothing waits for the rest: an empty state file, and a steering program without sockets.
static void teardown_forget(struct warden *warden, struct warden_box *box)
{
	teardown_report(box, "box.destroyed");
	answer_all(warden, box, false);
	drop_state(warden, box);
	map_take(warden->boxes, str_of(box->id));
	if (warden->prebuilt == box)
		warden->prebuilt = NULL;
	warden_box_close(warden, box);
	free(box);
}

static void teardown_keep(struct warden *warden, struct warden_box *box)
{
	teardown_report(box, "box.stopped");
	drop_state(warden, box);
	fd_drop(&box->steer);
	answer_all(warden, box, true);
	warden_box_close(warden, box);
	warden_box_move(warden, box, BOX_EVENT_EMPTIED);
	box->awaits = box->told_stuck = false;
	box->exec_cgroups = 0;
	box->pid = box->sweeps = 0;
	box->next_us = box->dying_us = 0;
}

// True: the disk is gone, or was unmounted and stays.
static bool sweep_disk(struct warden *warden, struct warden_box *box)
{
	auto_err err = OK;

	if (!box->has.disk && !box->has.archive)
		return true;
	if (box->keeps)
		return disk_is_unmounted(warden->disk, box->id);
	err = archive_drop(warden, box->id);
	if (!err)
		err = disk_drop(warden->disk, box->id);

	if (!err) {
		box->has.disk = false;
		snapshot_unpin(warden, box->id);
		return true;
	}
	log_trace(box->trace);
	if (box->sweeps == 0)
		log_event(LOG_WARN, "disk.busy", "sandbox", box->id, "trail", err_trail(err), NULL);
	log_trace(NULL);
	return false;
}

// True: only the state file and what is to be kept are left.
static bool teardown_sweep(struct warden *warden, struct warden_box *box)
{
	kill_point("warden.box_ended", NULL);
	if (box->has.groups && !group_drop(warden->groups, box->id, box->exec_cgroups))
		return false;
	kill_point("warden.groups_removed", NULL);
	box->has.groups = false;
	if (box->has.listener)
		box_listener_drop(warden->listeners, box->id);
	box->has.listener = false;
	if (!sweep_disk(warden, box))
		return false;
	if (box->has.slot)
		ids_give(warden->ids, box->state_file.slot,
			 box->keeps || disk_trash(warden->disk) == 0);
	box->has.slot = false;
	return true;
}

static void sweep_once(struct warden *warden, struct warden_box *box)
{
	int64_t now = clock_us();
	int64_t wait = FIRST_RETRY_US;

	if (teardown_sweep(warden, box)) {
		link_drop(&box->link);
		if (box->keeps && box->has.disk)
			teardown_keep(warden, box);
		else
			teardown_forget(warden, box);
		return;
	}
	for (int i = 0; i < box->sweeps && wait < LAST_RETRY_US; i++)
		wait += wait / 2;
	box->sweeps++;
	box->next_us = now + wait;
	if (now - box->dying_us > STUCK_US && !box->told_stuck) {
		box->told_stuck = true;
		log_trace(box->trace);
		log_event(LOG_WARN, "box.stuck", "sandbox", box->id, NULL);
		log_trace(NULL);
	}
}

static struct str watch_key(const uint64_t *number)
{
	return (struct str){(const char *)number, sizeof(*number)};
}

int teardown_watch(struct warden *warden, struct warden_box *box)
{
	struct epoll_event event = {.events = EPOLLIN};

	box->watch = ++warden->last_watch;
	event.data.u64 = TAG_COUNT + box->watch;
	if (epoll_ctl(warden->epoll, EPOLL_CTL_ADD, box->pidfd, &event))
		return -1;
	map_put(warden->watched, watch_key(&box->watch), box);
	return 0;
}

// close() alone would leave it in the epoll set while the zygote has a copy of it.
static void unwatch(struct warden *warden, struct warden_box *box)
{
	if (box->pidfd < 0)
		return;
	epoll_ctl(warden->epoll, EPOLL_CTL_DEL, box->pidfd, NULL);
	map_take(warden->watched, watch_key(&box->watch));
	fd_drop(&box->pidfd);
}

bool teardown_has_ended(const struct warden_box *box)
{
	struct pollfd one = {.fd = box->pidfd, .events = POLLIN};

	return box->pidfd < 0 || poll(&one, 1, 0) != 0;
}

// A deleted box need not be written back: its overlays are unmounted by another process. A stop
// waits for the unmount.
static void teardown_let_go(struct warden *warden, struct warden_box *box)
{
	if (!box->keeps && warden->unmount && box->mounts >= 0)
		deferred_unmount_take(warden->unmount, box->mounts);
	else
		fd_drop(&box->mounts);
	box->mounts = -1;
}

static void start_sweeping(struct warden *warden, struct warden_box *box)
{
	box->awaits = false; // messages of its pid 1 were read before its exit
	box->used_cpu_us = box->has.groups ? group_cpu_us(warden->groups, box->id) : 0;
	teardown_let_go(warden, box);
	link_drop(&box->link);
	link_add(&warden->teardowns, &box->link);
	sweep_once(warden, box);
}

static void saw_end(struct warden *warden, struct warden_box *box)
{
	siginfo_t info;

	if (!teardown_has_ended(box))
		return;
	// The loop's SIGCHLD handler may have reaped it already, and a box of an earlier warden is
	// not our child.
	if (box->pidfd >= 0)
		waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED | WNOHANG);
	unwatch(warden, box);
	if (warden_box_move(warden, box, BOX_EVENT_EXITED)) {
		start_sweeping(warden, box);
		return;
	}
	fd_drop(&box->steer);
	if (box == warden->prebuilt) {
		// With rootfs mounts it may have failed on those, and its order will report it.
		log_event(box->state == WARDEN_BOX_SET_UP ? LOG_INFO : LOG_WARN, "prebuilt.ended",
			  "sandbox", box->id, NULL);
		warden->next[0] = 0; // see prebuilt_turn()
		teardown_begin(warden, box, BOX_EVENT_REMOVE);
	}
	// Else the daemon sees its socket close, and decides.
}

void teardown_pid1_exited(struct warden *warden, uint64_t tag)
{
	uint64_t number = tag - TAG_COUNT;
	struct warden_box *box = map_get(warden->watched, watch_key(&number));

	if (box)
		saw_end(warden, box);
}

static bool kill_first(const struct warden_box *box)
{
	if (box->pidfd < 0)
		return false;
	if (syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0) == 0)
		return true;
	log_trace(box->trace);
	if (errno != ESRCH)
		log_event(LOG_ERROR, "box.kill", "sandbox", box->id, NULL);
	log_trace(NULL);
	return false;
}

// Kills pid 1, and everything with it.
static void teardown_kill(struct warden *warden, struct warden_box *box)
{
	bool killed;

	if (box->has.groups)
		group_lift(warden->groups, box->id);
	if (box->keeps)
		teardown_let_go(warden, box);
	killed = kill_first(box);
	// A frozen process dies only after it is thawed.
	if (box->has.groups)
		group_pause(warden->groups, box->id, false);
	for (uint32_t exec_cgroup = 0; box->has.groups && exec_cgroup < box->exec_cgroups;
	     exec_cgroup++) {
		group_thaw(warden->groups, box->id, exec_cgroup);
		if (weak(PIDNS))
			group_kill(warden->groups, box->id, exec_cgroup);
	}
	if (!killed)
		saw_end(warden, box);
}

void teardown_begin(struct warden *warden, struct warden_box *box, enum warden_box_event why)
{
	if (!warden_box_move(warden, box, why))
		return; // it ends already
	if (!box->dying_us)
		box->dying_us = clock_us();
	if (box->state == WARDEN_BOX_DYING)
		teardown_kill(warden, box);
	else if (box->state == WARDEN_BOX_SWEEPING) // it was nothing but a disk
		start_sweeping(warden, box);
	// Else it is DOOMED: its pidfd is on its way from the zygote.
}

int64_t teardown_turn(struct warden *warden)
{
	int64_t now = clock_us(), next = CLOCK_NEVER;

	list_each (at, &warden->teardowns) {
		struct warden_box *box = link_of(at, struct warden_box, link);

		if (box->next_us <= now)
			sweep_once(warden, box);
		else if (box->next_us < next)
			next = box->next_us;
	}
	// Boxes that were tried just now wait at least this long.
	if (next == CLOCK_NEVER && !link_empty(&warden->teardowns))
		next = now + FIRST_RETRY_US;
	return next;
}

// Boxes of the table as an array, owned by the caller: destroying a box removes it, and no other,
// from the table.
static struct warden_box **all_boxes(struct warden *warden, size_t *out_count)
{
	size_t count = 0, at = 0, room = map_count(warden->boxes);
	struct warden_box **box_list = mem_grow(NULL, room + 1, sizeof(struct warden_box *));

	while (count < room && (box_list[count] = warden_box_next(warden, &at)))
		count++;
	*out_count = count;
	return box_list;
}

void teardown_end_all(struct warden *warden)
{
	size_t count;
	auto_free struct warden_box **box_list = all_boxes(warden, &count);

	for (size_t i = 0; i < count; i++) {
		if (box_list[i]->state == WARDEN_BOX_KEPT)
			continue;
		if (box_list[i]->state == WARDEN_BOX_ALIVE)
			box_list[i]->keeps = !box_list[i]->state_file.ephemeral;
		teardown_begin(warden, box_list[i], BOX_EVENT_REMOVE);
	}
}

void teardown_forget_orders(struct warden *warden)
{
	struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));) {
		box->waiter_count = 0;
		box->build_order = 0;
		free(take_ptr(box->refusal));
	}
}
