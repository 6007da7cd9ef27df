// One request at a time. Long ones are looked after by a timer: every tick asks whether the
// daemon's end is still there, and ends the process if not, wherever it is, in a regular expression
// or in a pipe that nobody reads. Files that are half done have no name by then, or a name that
// begins with a dot; what can be undone is undone in file_undo().
#include "init/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "init/file.h"
#include "init/grep.h"
#include "init/move.h"
#include "init/ports.h"
#include "init/say.h"
#include "init/site.h"
#include "init/sweep.h"
#include "init/tarin.h"
#include "init/tarout.h"
#include "init/tree.h"
#include "init/watch.h"

#define TICK_US 100000

static struct {
	struct reach_ask ask;
	const char *globs[REACH_GLOBS_MAX + 1];
	char words[REACH_SIZE_MAX];
} hand;

static const struct {
	serve_verb *serve;
	bool is_long;
} verbs[REACH_VERB_COUNT] = {
	[REACH_STAT] = {file_stat, false},     [REACH_READ] = {file_read, false},
	[REACH_WRITE] = {file_write, false},   [REACH_BEGIN] = {file_begin, false},
	[REACH_COMMIT] = {file_commit, false}, [REACH_ABORT] = {file_abort, false},
	[REACH_LIST] = {tree_list, true},      [REACH_MKDIR] = {tree_mkdir, false},
	[REACH_REMOVE] = {tree_remove, true},  [REACH_MOVE] = {move_serve, true},
	[REACH_CHMOD] = {tree_chmod, true},    [REACH_READLINK] = {file_readlink, false},
	[REACH_FIND] = {tree_find, true},      [REACH_GREP] = {grep_serve, true},
	[REACH_PACK] = {tarout_serve, true},   [REACH_UNPACK] = {tarin_serve, true},
	[REACH_WATCH] = {watch_serve, true},   [REACH_DIAL] = {ports_dial, false},
	[REACH_PORTS] = {ports_list, false},   [REACH_SWEEP] = {sweep_serve, false},
	[REACH_SPACE] = {file_space, false},   [REACH_SOCKET] = {ports_socket, false},
};

static void on_tick(int number)
{
	int kept = errno;

	(void)number;
	if (say_is_alone())
		say_leave();
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
	struct reach_say say = {.kind = REACH_DONE};
	bool is_long = verbs[hand.ask.verb].is_long;
	bool done;

	if (is_long)
		tick(true);
	site_allow_proc(hand.ask.flags & REACH_PROC);
	errno = 0;
	done = verbs[hand.ask.verb].serve(&hand.ask, &say);
	if (!done) {
		say.kind = REACH_FAILED;
		say.errnum = errno;
	}
	if (is_long)
		tick(false);
	say_answer(&say, -1);
}

void serve_run(int sock)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

	say_open(sock, file_undo);
	sigaction(SIGALRM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		ssize_t n = recv(sock, hand.words, sizeof(hand.words), 0);

		if (n < 0 && errno == EINTR)
			continue;
		hand.ask.globs = hand.globs;
		if (n <= 0 || !reach_decode_ask(hand.words, (size_t)n, &hand.ask))
			say_leave();
		init_serve_obey();
	}
}
