// One request at a time. During a long one a timer checks whether the daemon's end is still open,
// and ends the process if not, even in a regular expression or in a pipe without reader. Incomplete
// files then have no name, or one that begins with a dot; file_undo() removes them.
#include "init/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "init/file.h"
#include "init/grep.h"
#include "init/move.h"
#include "init/path_resolve.h"
#include "init/ports.h"
#include "init/reply.h"
#include "init/sweep.h"
#include "init/tarin.h"
#include "init/tarout.h"
#include "init/tree.h"
#include "init/watch.h"

#define TICK_US 100000

static struct {
	struct fileop_request ask;
	const char *globs[FILEOP_GLOBS_MAX + 1];
	char words[FILEOP_SIZE_MAX];
} worker;

static const struct {
	serve_verb *serve;
	bool is_long;
} verbs[FILEOP_VERB_COUNT] = {
	[FILEOP_STAT] = {file_stat, false},	[FILEOP_READ] = {file_read, false},
	[FILEOP_WRITE] = {file_write, false},	[FILEOP_BEGIN] = {file_begin, false},
	[FILEOP_COMMIT] = {file_commit, false}, [FILEOP_ABORT] = {file_abort, false},
	[FILEOP_LIST] = {tree_list, true},	[FILEOP_MKDIR] = {tree_mkdir, false},
	[FILEOP_REMOVE] = {tree_remove, true},	[FILEOP_MOVE] = {move_serve, true},
	[FILEOP_CHMOD] = {tree_chmod, true},	[FILEOP_READLINK] = {file_readlink, false},
	[FILEOP_FIND] = {tree_find, true},	[FILEOP_GREP] = {grep_serve, true},
	[FILEOP_PACK] = {tarout_serve, true},	[FILEOP_UNPACK] = {tarin_serve, true},
	[FILEOP_WATCH] = {watch_serve, true},	[FILEOP_DIAL] = {ports_dial, false},
	[FILEOP_PORTS] = {ports_list, false},	[FILEOP_SWEEP] = {sweep_serve, false},
	[FILEOP_SPACE] = {file_space, false},	[FILEOP_SOCKET] = {ports_socket, false},
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
	bool done;

	if (is_long)
		tick(true);
	path_resolve_allow_proc(worker.ask.flags & FILEOP_PROC);
	errno = 0;
	done = verbs[worker.ask.verb].serve(&worker.ask, &reply);
	if (!done) {
		reply.kind = FILEOP_FAILED;
		reply.errnum = errno;
	}
	if (is_long)
		tick(false);
	reply_answer(&reply, -1);
}

void serve_run(int sock)
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
