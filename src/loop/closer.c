// One thread and one list. A box can pass a socket inside of a socket, so SO_LINGER cannot be reset
// on all of them: a close that takes long is interrupted by a signal, which ends the wait in the
// kernel (sk_stream_wait_close). Work of a file system is not interruptible, and need not be.
//
// syscalls: clone clone3 futex mmap mprotect munmap madvise rseq set_robust_list rt_sigprocmask
// syscalls: rt_sigaction rt_sigreturn tgkill getpid gettid setsockopt close exit
#include "loop/closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"

#define CLOSER_STACK (256 * 1024)
#define CLOSER_SIGNAL SIGURG // nothing else uses it
#define LAST_MS 100	     // how long one close may wait for a peer

static struct closer {
	struct loop *loop; // NULL: there is no thread
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t more;
	int *fds; // to be closed
	size_t count, room;
	uint64_t given, closed;
	bool ending;
	struct timer timer; // set while there is work
	uint64_t seen;	    // closed, at the last check
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void on_signal(int number)
{
	(void)number;
}

static void close_one(int fd)
{
	static const struct linger never = {0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &never, sizeof(never)); // ENOTSOCK: not a socket
	close(fd);
}

static void *closer_work(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&closer.lock);
	for (;;) {
		auto_free int *fds = NULL;
		size_t count;

		while (!closer.count && !closer.ending)
			pthread_cond_wait(&closer.more, &closer.lock);
		if (!closer.count)
			break;
		fds = take_ptr(closer.fds);
		count = closer.count;
		closer.count = closer.room = 0;
		for (size_t i = 0; i < count; i++) {
			pthread_mutex_unlock(&closer.lock);
			close_one(fds[i]);
			pthread_mutex_lock(&closer.lock);
			closer.closed++;
		}
	}
	pthread_mutex_unlock(&closer.lock);
	return NULL;
}

static void on_due(struct timer *timer)
{
	uint64_t closed;

	pthread_mutex_lock(&closer.lock);
	closed = closer.closed;
	pthread_mutex_unlock(&closer.lock);
	if (closed == closer.given)
		return;
	if (closed == closer.seen)
		pthread_kill(closer.thread, CLOSER_SIGNAL);
	closer.seen = closed;
	loop_set_timer(closer.loop, timer, loop_now(closer.loop) + LAST_MS);
}

static void closer_give(int fd)
{
	if (!closer.loop || weak(CLOSER)) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&closer.lock);
	if (closer.count == closer.room) {
		closer.room = closer.room ? 2 * closer.room : 4;
		closer.fds = mem_grow(closer.fds, closer.room, sizeof(*closer.fds));
	}
	closer.fds[closer.count++] = fd;
	closer.given++;
	pthread_cond_signal(&closer.more);
	pthread_mutex_unlock(&closer.lock);
	if (closer.timer.at)
		return;
	closer.seen = closer.given; // of another count: the first check only records it
	loop_set_timer(closer.loop, &closer.timer, loop_now(closer.loop) + LAST_MS);
}

void closer_drop(int *fd)
{
	if (*fd >= 0)
		closer_give(*fd);
	*fd = -1;
}

void closer_drop_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		closer_give(fds[i]);
}

fallible closer_open(struct loop *loop)
{
	struct sigaction action = {.sa_handler = on_signal}; // without SA_RESTART
	pthread_attr_t attr;
	sigset_t but_ours, before;
	int failed;

	closer.ending = false;
	closer.timer.due = on_due;
	sigaction(CLOSER_SIGNAL, &action, NULL);
	sigfillset(&but_ours);
	sigdelset(&but_ours, CLOSER_SIGNAL);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, CLOSER_STACK);
	pthread_sigmask(SIG_SETMASK, &but_ours, &before);
	failed = pthread_create(&closer.thread, &attr, closer_work, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (failed)
		return err_sys(failed, "start the thread that closes");
	closer.loop = loop;
	fd_on_leaked(closer_give);
	return OK;
}

void closer_close(void)
{
	if (!closer.loop)
		return;
	fd_on_leaked(NULL);
	loop_drop_timer(closer.loop, &closer.timer);
	pthread_mutex_lock(&closer.lock);
	closer.ending = true;
	pthread_cond_signal(&closer.more);
	pthread_mutex_unlock(&closer.lock);
	pthread_kill(closer.thread, CLOSER_SIGNAL);
	pthread_join(closer.thread, NULL);
	closer.loop = NULL;
	free(take_ptr(closer.fds));
	closer.count = closer.room = 0;
}
