// Forks a file worker: it keeps one socket, closes all other fds, takes the ids and groups of the
// user, becomes undumpable and loads the filter of commands. A worker that fails in a step exits
// with 1, and the daemon sees its socket close.
//
// One request at a time. During a long one a timer checks whether the daemon's end is still open,
// and ends the process if not, even in a regular expression or in a pipe without reader. Incomplete
// files then have no name, or one that begins with a dot; file_undo() removes them.
#include "init/file_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/path_resolve.h"
#include "init/reply.h"
#include "init/run.h"
#include "os/fd.h"

#define TICK_US 100000

static struct {
	struct fileop_request ask;
	const char *globs[FILEOP_GLOBS_MAX + 1];
	char words[FILEOP_SIZE_MAX];
} worker;

static const struct {
	fileop_handler *serve;
	bool is_long;
} verbs[FILEOP_VERB_COUNT] = {
	[FILEOP_STAT] = {file_stat, false},	     [FILEOP_READ] = {file_read, false},
	[FILEOP_WRITE] = {file_write, false},	     [FILEOP_BEGIN] = {file_begin, false},
	[FILEOP_COMMIT] = {file_commit, false},	     [FILEOP_ABORT] = {file_abort, false},
	[FILEOP_LIST] = {tree_list, true},	     [FILEOP_MKDIR] = {tree_mkdir, false},
	[FILEOP_REMOVE] = {tree_remove, true},	     [FILEOP_MOVE] = {move_serve, true},
	[FILEOP_CHMOD] = {tree_chmod, true},	     [FILEOP_READLINK] = {file_readlink, false},
	[FILEOP_FIND] = {tree_find, true},	     [FILEOP_GREP] = {grep_serve, true},
	[FILEOP_PACK] = {tarout_serve, true},	     [FILEOP_UNPACK] = {tarin_serve, true},
	[FILEOP_WATCH] = {watch_serve, true},	     [FILEOP_DIAL] = {ports_dial, false},
	[FILEOP_PORTS] = {ports_list, false},	     [FILEOP_SWEEP] = {sweep_serve, false},
	[FILEOP_SPACE] = {file_space, false},	     [FILEOP_SOCKET] = {ports_socket, false},
	[FILEOP_PROCESSES] = {processes_list, true}, [FILEOP_SIGNAL] = {processes_signal, false},
};

static void on_tick(int number)
{
	int kept = errno;

	(void)number;
	if (reply_is_alone())
		reply_leave();
	errno = kept;
}

static void tick(bool on)
{
	struct itimerval timer = {0};

	if (on)
		timer.it_value.tv_usec = timer.it_interval.tv_usec = TICK_US;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void init_serve_obey(void)
{
	struct fileop_reply reply = {.kind = FILEOP_DONE};
	bool is_long = verbs[worker.ask.verb].is_long;

	if (is_long)
		tick(true);
	path_resolve_allow_proc(worker.ask.flags & FILEOP_PROC);
	errno = 0;
	if (!verbs[worker.ask.verb].serve(&worker.ask, &reply)) {
		reply.kind = FILEOP_FAILED;
		reply.errnum = errno;
		if (errno == EACCES && reply.why == FILEOP_ERRNO && path_resolve_has_refused())
			reply.why = FILEOP_REFUSED;
	}
	if (is_long)
		tick(false);
	reply_answer(&reply, -1);
}

void file_worker_serve(int sock)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

	reply_open(sock, file_undo);
	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		ssize_t n = recv(sock, worker.words, sizeof(worker.words), 0);

		if (n < 0 && errno == EINTR)
			continue;
		worker.ask.globs = worker.globs;
		if (n <= 0 || !fileop_decode_request(worker.words, (size_t)n, &worker.ask))
			reply_leave();
		init_serve_obey();
	}
}

#define FILE_WORKER_FD 3

static void be_worker(const struct drop_privileges *setup, const struct user *user, int sock)
{
	sigset_t none;

	prctl(PR_SET_NAME, "cove-files", 0, 0, 0);
	setsid();
	if (sock != FILE_WORKER_FD && dup2(sock, FILE_WORKER_FD) < 0)
		_exit(1);
	if (syscall(SYS_close_range, FILE_WORKER_FD + 1, ~0u, 0) < 0 ||
	    fcntl(FILE_WORKER_FD, F_SETFD, FD_CLOEXEC) < 0)
		_exit(1);
	// pid 1 has a saved gid of its own (drop_privileges.c).
	if (syscall(SYS_setresgid, 0, 0, 0) < 0 || child_become(user) < 0 ||
	    child_load_filter(setup) < 0)
		_exit(1);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	file_worker_serve(FILE_WORKER_FD);
	_exit(0);
}

bool file_worker_start(const struct drop_privileges *setup, struct str word, int *out,
		       enum talk_step *step)
{
	static struct user user;
	int pair[2];
	int pid, kept;

	*step = TALK_STEP_USER;
	errno = ENOENT;
	if (!user_find(word, false, &user))
		return false;
	*step = TALK_STEP_PIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	run_raise_oom(setup, true);
	pid = fork();
	kept = errno;
	if (pid == 0)
		be_worker(setup, &user, pair[1]);
	run_raise_oom(setup, false);
	close(pair[1]);
	if (pid > 0) {
		*out = pair[0];
		return true;
	}
	close(pair[0]);
	*step = TALK_STEP_FORK;
	errno = kept;
	return false;
}
