// A child process that holds the last reference to mounts of deleted boxes. Mounts that arrive
// within a short time are closed together: the first unmount writes back everything, and the others
// find nothing left to write.
//
// syscalls: sendmsg close wait4
#include "warden/deferred_unmount.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/fd.h"
#include "os/ns.h"

#define SOCK 3
#define FIRST 4
#define BATCH 256
#define GATHER_MS 200

struct deferred_unmount {
	int sock, pid;
};

// Receives one more message, if it comes in time. False: the sender has closed the socket.
static bool deferred_unmount_take_one(int wait_ms, int *held)
{
	struct pollfd one = {.fd = SOCK, .events = POLLIN};
	int fd, count = 1, came;
	char byte;

	do
		came = poll(&one, 1, wait_ms);
	while (came < 0 && errno == EINTR);
	if (came == 0)
		return true;
	if (fd_recv(SOCK, &byte, 1, &fd, &count, 0) <= 0)
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
		while (open && held != before && held < BATCH) {
			before = held;
			open = deferred_unmount_take_one(GATHER_MS, &held);
		}
		close_range(FIRST, ~0u, 0);
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
		if (dup2(pair[1], SOCK) < 0 || close_range(FIRST, ~0u, 0))
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

void deferred_unmount_take(struct deferred_unmount *unmount, int mount)
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
