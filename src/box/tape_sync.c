// The thread that syncs tapes and state files. It sleeps while nothing is written. A slow sync
// delays only the next sync; a failed one is logged once per errno.
//
// syscalls: syncfs clock_nanosleep futex
#include "box/tape_sync.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define SYNC_STACK (256 * 1024) // as much as the sanitizers need

static struct {
	_Atomic bool started, dirty;
	sem_t wake;
	int dir;
} tapes;

static void *tape_sync_run(void *arg)
{
	const struct timespec pause = {TAPE_SYNC_MS / 1000, TAPE_SYNC_MS % 1000 * 1000000};
	int told = 0;

	(void)arg;
	for (;;) {
		int failed;

		while (sem_wait(&tapes.wake))
			continue;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		atomic_store(&tapes.dirty, false); // later writes wake the thread again
		failed = syncfs(tapes.dir) ? errno : 0;
		if (failed && failed != told)
			log_event(LOG_ERROR, "tape.sync_failed", "error", strerror(failed), NULL);
		told = failed;
	}
	return NULL;
}

void tape_sync_touch(void)
{
	if (!atomic_load(&tapes.dirty) && atomic_load(&tapes.started) &&
	    !atomic_exchange(&tapes.dirty, true))
		sem_post(&tapes.wake);
}

fallible tape_sync_start(int dir)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int failed;

	tapes.dir = dir;
	sem_init(&tapes.wake, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, SYNC_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); // the loop handles signals
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attr, tape_sync_run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (failed)
		return err_sys(failed, "start the thread that syncs output");
	atomic_store(&tapes.started, true);
	return OK;
}
