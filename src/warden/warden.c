// The privileged process: one thread, one loop, one daemon at a time. At start it leaves the host's
// mount namespace, drops capabilities, probes the kernel, recovers living boxes and destroys the
// rest, forks the zygote, opens its socket and installs its filter. From then on it serves events:
//	the daemon's socket   orders in, answers out (warden/orders)
//	the zygote's socket   a clone was made (warden/build)
//	a pidfd               a box has ended (warden/teardown)
//	signals               a child exited; exit request; the daemon cannot exit (warden/blocked)
// Boxes outlive the daemon and the warden. A daemon that disconnects changes nothing: the next one
// asks for the boxes. SIGTERM, also sent when the supervisor dies, leaves the boxes as they are;
// SIGINT ends the boxes first.
//
// syscalls: epoll_ctl epoll_pwait epoll_pwait2 accept4 getsockopt close wait4 read write exit_group
// syscalls: exit rt_sigaction rt_sigreturn rt_sigprocmask restart_syscall rseq set_robust_list
#include "warden/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/ns.h"
#include "warden/archive.h"
#include "warden/blocked.h"
#include "warden/box.h"
#include "warden/build.h"
#include "warden/jail.h"
#include "warden/limit.h"
#include "warden/orders.h"
#include "warden/reply_queue.h"
#include "warden/snapshot.h"
#include "warden/start.h"
#include "warden/teardown.h"
#include "warden/template.h"
#include "warden/volumes.h"

#define EVENTS_A_TURN 64
#define IDLE_US 3000	     // no event for so long: time for idle work
#define CALM_US 20000	     // for work that is not urgent: a box just made is in use
#define BUSY_MAX_US 200000   // and after so much work without a pause, too
#define IDLE_MAX_US 1000000  // longest interval between tries of urgent work that makes no progress
#define LEAVE_US 1000000     // at SIGTERM: time to finish what was begun
#define FAREWELL_US 20000000 // at SIGINT: time for boxes to end

static void warden_lose_daemon(struct warden *warden)
{
	if (warden->daemon < 0)
		return;
	log_event(LOG_INFO, "daemon.gone", NULL);
	fd_drop(&warden->daemon);
	reply_queue_forget(warden);
	orders_forget(warden);
}

static void admit_daemon(struct warden *warden)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = TAG_DAEMON};
	auto_fd fd = accept4(warden->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ||
	    (peer.uid != warden->uid && peer.uid != 0)) {
		log_event(LOG_WARN, "daemon.refused", "severity", "high", NULL);
		return;
	}
	if (warden->daemon >= 0) {
		log_event(LOG_WARN, "daemon.second", NULL);
		return;
	}
	if (epoll_ctl(warden->epoll, EPOLL_CTL_ADD, fd, &event))
		return;
	warden->daemon = take_fd(&fd);
	warden->daemon_events = EPOLLIN;
	log_event(LOG_INFO, "daemon.came", NULL);
}

// Orders wait while the zygote is behind; answers wait while the daemon does not read.
static void watch_daemon(struct warden *warden)
{
	struct epoll_event event = {.data.u64 = TAG_DAEMON};

	if (warden->daemon < 0)
		return;
	if (warden->building_count < WARDEN_BUILDS_MAX)
		event.events |= EPOLLIN;
	if (!link_empty(&warden->replies) && !warden->reply_retry_us)
		event.events |= EPOLLOUT;
	if (event.events == warden->daemon_events)
		return;
	warden->daemon_events = event.events;
	epoll_ctl(warden->epoll, EPOLL_CTL_MOD, warden->daemon, &event);
}

static void daemon_event(struct warden *warden, uint32_t events)
{
	if (events & EPOLLOUT)
		reply_queue_flush(warden);
	// The last orders are read to the end, unless the zygote is behind: nobody would use their
	// results.
	if (!orders_read(warden) || (events & (EPOLLHUP | EPOLLERR) && !(events & EPOLLIN)))
		warden_lose_daemon(warden);
}

// Fails all pending clones. The next warden starts a new zygote.
static void lose_zygote(struct warden *warden)
{
	const struct zygote_answer none = {.errnum = EPIPE, .pidfd = -1, .net = -1};

	if (warden->failed)
		return;
	log_event(LOG_ERROR, "zygote.lost", NULL);
	epoll_ctl(warden->epoll, EPOLL_CTL_DEL, zygote_fd(warden->zygote), NULL);
	while (!link_empty(&warden->building))
		build_answered(warden, &none);
	warden->stopping = warden->failed = true;
}

static void zygote_event(struct warden *warden)
{
	if (!build_read_zygote(warden))
		lose_zygote(warden);
}

// Its socket may show no hangup: pid 1 of a prebuilt box holds the same end.
static void destroy_zygote(struct warden *warden)
{
	zygote_event(warden);
	lose_zygote(warden);
}

// Boxes are children too, but their pidfds report their exits.
static void warden_reap(struct warden *warden)
{
	int status, pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (deferred_unmount_reaped(warden->unmount, pid))
			continue; // its socket reports it
		if (zygote_reaped(warden->zygote, pid))
			destroy_zygote(warden);
		else if (disk_reaped(warden->disk, pid)) {
			if (disk_trash(warden->disk) == 0)
				ids_rested(warden->ids);
		} else if (!snapshot_reaped(warden, pid, status) &&
			   !archive_reaped(warden, pid, status) &&
			   !build_reaped(warden, pid, status) &&
			   !volumes_reaped(warden, pid, status) &&
			   !limit_reaped(warden, pid, status) &&
			   template_reaped(warden->templates, pid, status, &warden->answer))
			orders_finish_long(warden, &warden->answer);
	}
	if (!templates_at_work(warden->templates) && !archives_at_work(warden))
		jail_close(warden->groups, &warden->jail_door);
}

static void signal_event(struct warden *warden)
{
	struct signalfd_siginfo info;

	while (read(warden->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			warden_reap(warden);
		else if (info.ssi_signo == SIGUSR1)
			blocked_end(warden, (enum blocked_call_where)info.ssi_int);
		else
			warden->stopping = true;
		if (info.ssi_signo == SIGINT)
			warden->ending = true;
	}
}

static void dispatch(struct warden *warden, const struct epoll_event *event)
{
	switch (event->data.u64) {
	case TAG_LISTENER:
		admit_daemon(warden);
		break;
	case TAG_DAEMON:
		if (warden->daemon >= 0)
			daemon_event(warden, event->events);
		break;
	case TAG_SIGNALS:
		signal_event(warden);
		break;
	case TAG_ZYGOTE:
		zygote_event(warden);
		break;
	default:
		zygote_event(warden); // messages that its pid 1 sent come before its exit
		teardown_pid1_exited(warden, event->data.u64);
		break;
	}
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

// One turn: timers that are due, then events until `until_us`. True: no event came.
static bool warden_turn(struct warden *warden, int64_t until_us)
{
	struct epoll_event events[EVENTS_A_TURN];
	int64_t due = sooner(sooner(teardown_turn(warden), orders_turn(warden)),
			     reply_queue_turn(warden));
	int64_t next = sooner(due, until_us), wait = next - clock_us();
	struct timespec time = {0};
	int count;

	if (wait > 0)
		time = (struct timespec){wait / 1000000, wait % 1000000 * 1000};
	watch_daemon(warden);
	count = epoll_pwait2(warden->epoll, events, EVENTS_A_TURN,
			     next == CLOCK_NEVER ? NULL : &time, NULL);
	for (int i = 0; i < count; i++)
		dispatch(warden, &events[i]);
	return count == 0;
}

static int64_t oldest_start(const struct warden *warden)
{
	int64_t oldest = INT64_MAX;
	const struct warden_box *box;

	for (size_t at = 0; (box = warden_box_next(warden, &at));) {
		// A prebuilt box has no layers until it is set up.
		if (box->state != WARDEN_BOX_KEPT && box->state != WARDEN_BOX_PREBUILDING &&
		    box->state != WARDEN_BOX_PREBUILT)
			oldest = sooner(oldest, box->state_file.born_us);
	}
	return oldest;
}

// Idle work. Returns when to be called again, if no event comes before. `hurry`: how often in a row
// the disks asked for it at once. `since`: how long there was no event.
static int64_t use_spare_time(struct warden *warden, int64_t since, int *hurry)
{
	int64_t least = IDLE_US << *hurry, now, next;
	bool calm = since >= CALM_US || ids_are_few(warden->ids);
	bool more = calm ? ids_refill(warden->ids) : ids_are_missing(warden->ids);
	int disk_ms;

	if (templates_has_gone(warden->templates))
		templates_idle(warden->templates, oldest_start(warden));
	disk_ms = disk_idle(warden->disk);
	now = clock_us();
	*hurry = disk_ms == 0 ? *hurry + (least < IDLE_MAX_US) : 0;
	if (more && calm)
		return now + IDLE_US;
	next = more ? now + CALM_US - since : CLOCK_NEVER;
	if (disk_ms < 0)
		return next;
	return sooner(next, now + (disk_ms * 1000ll > least ? disk_ms * 1000ll : least));
}

// Idle work is done when no event came for a moment. A warden that is always busy does it all the
// same: disks have to grow above all when there is much to do.
static void warden_serve(struct warden *warden)
{
	int64_t rest = clock_us(), busy_since = 0, quiet_since = rest;
	int hurry = 0;

	while (!warden->stopping) {
		bool quiet = warden_turn(warden, sooner(rest, prebuilt_due(warden)));
		int64_t now = clock_us();

		if (quiet && now >= prebuilt_due(warden)) {
			prebuilt_turn(warden);
			continue;
		}

		if (!quiet)
			quiet_since = now;
		if (!quiet && !busy_since)
			busy_since = now;
		if ((quiet && now >= rest) || (busy_since && now - busy_since >= BUSY_MAX_US)) {
			rest = use_spare_time(warden, now - quiet_since, &hurry);
			busy_since = 0;
		} else if (!quiet) {
			rest = now + IDLE_US;
			hurry = 0;
		}
	}
}

// Finishes what was begun, for a short time: clones get into their state files, dead boxes are
// removed. The next warden finds the rest.
static void warden_leave(struct warden *warden)
{
	int64_t deadline = clock_us() + LEAVE_US;

	if (warden->prebuilt)
		teardown_begin(warden, warden->prebuilt, BOX_EVENT_REMOVE);
	while ((warden->building_count > 0 || !link_empty(&warden->teardowns) ||
		warden->prebuilt) &&
	       !warden->failed && clock_us() < deadline)
		warden_turn(warden, clock_us() + 10000);
}

static void warden_stop(struct warden *warden)
{
	int64_t deadline = clock_us() + FAREWELL_US;

	fd_drop(&warden->listener);
	warden_lose_daemon(warden);
	if (!warden->ending) {
		warden_leave(warden);
		return;
	}
	teardown_end_all(warden);
	while (map_count(warden->boxes) > warden->kept && clock_us() < deadline)
		warden_turn(warden, clock_us() + 100000);
	if (map_count(warden->boxes) > warden->kept) {
		log_event(LOG_ERROR, "stop.leftovers", NULL);
		warden->failed = warden->leftovers = true;
	}
}

int warden_main(int argc, char **argv)
{
	struct warden *warden = NULL;
	int status;

	weak_open();
	log_open("warden", STDERR_FILENO);
	auto_err err = start_warden(argc, argv, &warden);

	if (err) {
		log_event(LOG_ERROR, "start.failed", "reason", err_reason(err), "message",
			  err_message(err), "hint", err_hint_of(err), "trail", err_trail(err),
			  NULL);
		return str_is(str_of(err_reason(err)), NS_HELPER_LOST) ? EX_TEMPFAIL
								       : err_exit(err);
	}
	if (!warden)
		return 0; // SIGTERM came during the start
	log_event(LOG_INFO, "warden.ready", "disk", disk_word(warden->disk), "cgroup",
		  warden->groups->word, NULL);
	warden_serve(warden);
	warden_stop(warden);
	status = !warden->failed ? 0 : warden->leftovers ? 1 : EX_TEMPFAIL;
	start_undo(warden);
	log_event(LOG_INFO, "warden.ended", NULL);
	return status;
}
