// Each thread that makes blockable calls has a slot: since when it is in a call, and which box's
// pipe that is. A watchdog thread checks all slots every LOOK_MS while any is used. It shares only
// the slots and a copy of the warden's socket with the loop, which may be the thread that is
// blocked.
//
// On the loop's thread time alone is no proof, since it may wait for a CPU: /proc must say that it
// sleeps. Workers have no such check, and longer limits. The order stops the box and keeps its
// files, if it has a disk to keep. Its answer is not awaited: the daemon finds the box lost once
// the call returns.
//
// syscalls: pread64 sendmsg close futex clock_nanosleep clone clone3 rt_sigprocmask exit
// syscalls: mmap munmap mprotect madvise rseq set_robust_list
#include "box/stall.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "os/fd.h"
#include "protocol/order.h"
#include "types/event.h"

#define LOOK_MS 50
#define CALM_LOOKS 20 // idle checks before the watchdog sleeps
#define LOOP_US 1000000
#define WORKER_US 3000000
#define DISK_US 30000000
#define AGAIN_US 5000000
#define WATCH_STACK (256 * 1024)

struct slot {
	pthread_mutex_t lock; // held briefly, never during the call
	int depth;
	int64_t killed_us; // when its box was last killed; 0: not yet
	int32_t thread;
	struct blocked_call *call;
};

static struct {
	bool started;
	struct slot slots[HOLDS]; // the first is the loop's
	struct blocked_calls *calls;
	atomic_int taken;
	atomic_uint uses;
	atomic_bool awake;
	sem_t wake;
	int stat; // /proc/self/stat, for the loop's thread; -1: none
	pthread_mutex_t lock;
	int warden; // -1: none
	struct stall_at killed;
	atomic_bool
		unlogged; // the kill is not logged yet: the loop does that, since it owns the log
} stall = {.stat = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .warden = -1};

static _Thread_local struct slot *own;

fallible stall_prepare(int page_fd)
{
	auto_fd page = page_fd ? page_fd : -1;

	stall.stat = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	stall.calls = mmap(NULL, sizeof(*stall.calls), PROT_READ | PROT_WRITE,
			   page < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, page, 0);
	if (stall.calls == MAP_FAILED)
		return err_sys(errno, "show who page_fd us up");
	memset(stall.calls, 0, sizeof(*stall.calls)); // entries of the previous daemon are void
	return OK;
}

void stall_link(int fd)
{
	pthread_mutex_lock(&stall.lock);
	fd_drop(&stall.warden);
	stall.warden = fd;
	pthread_mutex_unlock(&stall.lock);
}

static struct slot *own_slot(void)
{
	int number;

	if (own || !stall.started)
		return own;
	number = atomic_fetch_add(&stall.taken, 1);
	if (number >= HOLDS)
		return NULL;
	own = &stall.slots[number];
	own->call = &stall.calls->calls[number];
	own->thread = gettid();
	return own;
}

static int64_t patience_us(const struct slot *slot, enum stall_kind kind)
{
	if (kind == STALL_DISK)
		return DISK_US;
	return slot == &stall.slots[0] ? LOOP_US : WORKER_US;
}

void stall_enter(const struct stall_at *at, enum stall_kind kind)
{
	struct slot *slot = own_slot();

	if (!slot)
		return;
	pthread_mutex_lock(&slot->lock);
	if (slot->depth++ == 0) {
		slot->killed_us = 0;
		slot->call->late_us = clock_us() + patience_us(slot, kind);
		slot->call->at = *at;
		slot->call->thread = slot->thread;
	}
	pthread_mutex_unlock(&slot->lock);
	atomic_fetch_add(&stall.uses, 1);
	if (!atomic_load(&stall.awake) && !atomic_exchange(&stall.awake, true))
		sem_post(&stall.wake);
}

static void stall_report(void)
{
	struct stall_at at;

	pthread_mutex_lock(&stall.lock);
	at = stall.killed;
	atomic_store(&stall.unlogged, false);
	pthread_mutex_unlock(&stall.lock);
	log_event(LOG_WARN, "security", "event", "box_blocks_daemon", "severity", "high", "sandbox",
		  at.box, NULL);
	event_publish(EVENT_SECURITY, "event", "box_blocks_daemon", "severity", "high", "sandbox",
		      at.box, NULL);
}

void stall_leave(void)
{
	struct slot *slot = own;

	if (!slot)
		return;
	pthread_mutex_lock(&slot->lock);
	if (--slot->depth == 0)
		slot->call->thread = 0;
	pthread_mutex_unlock(&slot->lock);
	if (slot == &stall.slots[0] && atomic_load(&stall.unlogged))
		stall_report();
}

int stall_open(const struct stall_at *at)
{
	int free = 0;

	for (int i = 0; stall.calls && i < BLOCKED_CALLS_LAST; i++) {
		struct blocked_call_last *last = &stall.calls->last[i];

		if (!last->count) {
			free = free ? free : i + 1;
		} else if (!strcmp(last->at.box, at->box)) {
			last->count++;
			return i + 1;
		}
	}
	if (!free)
		return 0;
	stall.calls->last[free - 1].at = *at;
	stall.calls->last[free - 1].count = 1;
	return free;
}

void stall_close(int *place)
{
	if (*place)
		stall.calls->last[*place - 1].count--;
	*place = 0;
}

// "42 (cove) D …": /proc/self/stat is of the first thread, which runs the loop; its name is ours.
static bool loop_sleeps(void)
{
	char text[128];
	ssize_t len = stall.stat < 0 ? -1 : pread(stall.stat, text, sizeof(text) - 1, 0);
	const char *at;

	text[len > 0 ? len : 0] = 0;
	at = strstr(text, ") ");
	return at && (at[2] == 'D' || at[2] == 'S');
}

static void stall_kill(const struct stall_at *at)
{
	struct order order = {.kind = at->ephemeral ? ORDER_DESTROY : ORDER_STOP};
	char room[512];
	size_t len;

	memcpy(order.box, at->box, sizeof(order.box));
	len = order_encode(&order, room, sizeof(room));
	pthread_mutex_lock(&stall.lock);
	if (stall.warden >= 0 && len)
		(void)fd_send(stall.warden, room, len, NULL, 0,
			      MSG_DONTWAIT); // else at the next check
	stall.killed = *at;
	atomic_store(&stall.unlogged, true);
	pthread_mutex_unlock(&stall.lock);
}

static bool is_late(const struct slot *slot, int64_t now)
{
	if (!slot->call->thread || now < slot->call->late_us)
		return false;
	return !slot->killed_us || now - slot->killed_us >= AGAIN_US;
}

static void stall_look(struct slot *slot)
{
	struct stall_at at;
	bool late;

	pthread_mutex_lock(&slot->lock);
	late = is_late(slot, clock_us()) && (slot != &stall.slots[0] || loop_sleeps());
	if (late) {
		at = slot->call->at;
		slot->killed_us = clock_us();
	}
	pthread_mutex_unlock(&slot->lock);
	if (late)
		stall_kill(&at);
}

static bool stall_is_used(struct slot *slot)
{
	bool used;

	pthread_mutex_lock(&slot->lock);
	used = slot->call->thread != 0;
	pthread_mutex_unlock(&slot->lock);
	return used;
}

// Checks until no blockable call was made for a while.
static void stall_look_on(void)
{
	unsigned before = atomic_load(&stall.uses);

	for (int calm = 0; calm < CALM_LOOKS; calm++) {
		struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
		unsigned now;

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		for (int i = 0; i < HOLDS && i < atomic_load(&stall.taken); i++) {
			stall_look(&stall.slots[i]);
			if (stall_is_used(&stall.slots[i]))
				calm = 0;
		}
		now = atomic_load(&stall.uses);
		if (now != before)
			calm = 0;
		before = now;
	}
	atomic_store(&stall.awake, false);
	// A call between the last check and this store has not woken us.
	if (atomic_load(&stall.uses) != before && !atomic_exchange(&stall.awake, true))
		sem_post(&stall.wake);
}

static void *stall_watch(void *arg)
{
	(void)arg;
	for (;;) {
		while (sem_wait(&stall.wake))
			continue;
		stall_look_on();
	}
	return NULL;
}

fallible stall_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int failed;

	for (int i = 0; i < HOLDS; i++)
		pthread_mutex_init(&stall.slots[i].lock, NULL);
	sem_init(&stall.wake, 0, 0);
	stall.started = true;
	own_slot(); // the loop's slot is the first
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WATCH_STACK);
	sigfillset(&all); // the loop handles signals
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attr, stall_watch, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (failed)
		return err_sys(failed, "start the watchdog thread");
	pthread_detach(thread);
	return OK;
}
