// pid 1: greet, obey, reap. One socket brings the daemon's words, one signalfd the deaths of
// children; between them it sleeps. It owns two tables of fixed size, conversations and leaves, and
// no heap: memory that is not used is never touched.
//
// It never waits for the daemon. What a full socket does not take stays in the conversation as
// something owed, and until it is paid no new word is read: the daemon can have at most one answer
// per conversation outstanding. When the daemon's end closes, pid 1 ends, and the kernel with it
// every process of the box.
//
// A conversation lives until both have happened: its process was reaped and told of (or never was),
// and the daemon said FORGET. So the pipes' readers outlive a daemon that is slow. Most commands
// end with their pipes read and held by nobody; then it is over at once, and no FORGET is needed.
#include "init/init.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/run.h"
#include "os/fd.h"

enum owed { OWES_STARTED = 1, OWES_FAILED = 2, OWES_EXITED = 4 };

struct conv {
	bool used;
	bool forgotten;
	uint8_t owes;
	uint32_t id;
	uint32_t leaf;
	int pid;	  // 0: reaped, or never born
	struct run run;	  // our ends of its pipes
	int step, errnum; // FAILED
	int status;	  // EXITED
	uint64_t max_rss, cpu_us;
	bool leaf_empty, over;
};

struct init {
	struct birth birth;
	struct conv convs[TALK_CONV_MAX];
	int conv_end; // places at and behind this one were never used
	struct leaf leaves[TALK_LEAVES_MAX];
	bool owing;	   // the socket was full
	struct conv spare; // an answer that belongs to no place in the table
	const char *argv[TALK_ARGS_MAX + 3], *env[TALK_ARGS_MAX + 3];
	char words[TALK_SIZE_MAX];
};

static struct init init;

// True when the kernel took it, or never will.
static bool say(const struct talk *talk, const int *fds, int count)
{
	char room[256];
	size_t len = talk_encode(talk, room, sizeof(room));
	ssize_t n = fd_send(TALK_FD_CONTROL, room, len, fds, count, MSG_DONTWAIT);

	return n >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != ETOOMANYREFS);
}

static bool say_started(struct conv *conv)
{
	struct talk talk = {.kind = TALK_STARTED, .conv = conv->id};
	int fds[3] = {conv->run.out, conv->run.err, conv->run.in};

	talk.started.pid = conv->run.pid;
	if (!say(&talk, fds, conv->run.in >= 0 ? 3 : 2))
		return false;
	fd_drop(&conv->run.in);
	return true;
}

static bool say_failed(const struct conv *conv)
{
	struct talk talk = {.kind = TALK_FAILED, .conv = conv->id};

	talk.failed.step = (enum talk_step)conv->step;
	talk.failed.errnum = conv->errnum;
	return say(&talk, NULL, 0);
}

static bool say_exited(const struct conv *conv)
{
	struct talk talk = {.kind = TALK_EXITED, .conv = conv->id};

	talk.exited.status = conv->status;
	talk.exited.max_rss = conv->max_rss;
	talk.exited.cpu_us = conv->cpu_us;
	talk.exited.leaf_empty = conv->leaf_empty;
	talk.exited.over = conv->over;
	return say(&talk, NULL, 0);
}

// Says what is owed, in order; frees the place when the conversation is over.
static void settle(struct conv *conv)
{
	if ((conv->owes & OWES_STARTED) && say_started(conv))
		conv->owes &= (uint8_t)~OWES_STARTED;
	if ((conv->owes & OWES_FAILED) && say_failed(conv))
		conv->owes &= (uint8_t)~OWES_FAILED;
	if ((conv->owes & OWES_EXITED) && !(conv->owes & OWES_STARTED) && say_exited(conv))
		conv->owes &= (uint8_t)~OWES_EXITED;
	if (conv->owes)
		init.owing = true;
	else if (conv->pid == 0 && conv->forgotten)
		conv->used = false;
}

static void settle_all(void)
{
	init.owing = false;
	for (int i = 0; i < init.conv_end; i++)
		if (init.convs[i].used && init.convs[i].owes)
			settle(&init.convs[i]);
	if (init.spare.owes)
		settle(&init.spare);
}

static struct conv *find(uint32_t id)
{
	for (int i = 0; i < init.conv_end; i++)
		if (init.convs[i].used && init.convs[i].id == id)
			return &init.convs[i];
	return NULL;
}

static struct conv *take_place(void)
{
	for (int i = 0; i < TALK_CONV_MAX; i++) {
		if (init.convs[i].used)
			continue;
		if (i >= init.conv_end)
			init.conv_end = i + 1;
		return &init.convs[i];
	}
	return NULL;
}

static void refuse(struct conv *conv, uint32_t id, enum talk_step step, int errnum)
{
	*conv = (struct conv){
		.used = true,
		.forgotten = true,
		.owes = OWES_FAILED,
		.id = id,
		.run = {.out = -1, .err = -1, .in = -1},
		.step = (int)step,
		.errnum = errnum,
	};
	settle(conv);
}

static void drop_fds(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

// A leaf that is new, or was made anew, comes with its fds. 0, or the errno to refuse with.
static int meet_leaf(const struct talk_exec *exec, const int *fds, int count)
{
	bool by_clone = init.birth.joins_by_clone;
	struct leaf *leaf;

	if (count == FD_LOST)
		return EMFILE;
	if (exec->leaf >= TALK_LEAVES_MAX) {
		drop_fds(fds, count);
		return EINVAL;
	}
	leaf = &init.leaves[exec->leaf];
	if (count > 0 ? count != leaf_fds(by_clone) : !leaf->known) {
		drop_fds(fds, count);
		return EPROTO;
	}
	if (count > 0 && !leaf_learn(leaf, by_clone, fds))
		return errno;
	if ((exec->flags & TALK_EXEC_IF_EMPTY) && !leaf_is_empty(leaf, by_clone))
		return EBUSY;
	return 0;
}

static void obey_exec(struct talk *talk, const int *fds, int count)
{
	struct conv *conv = take_place();
	enum talk_step step;
	struct run run;
	int errnum = meet_leaf(&talk->exec, fds, count);

	if (!conv || find(talk->conv)) {
		refuse(&init.spare, talk->conv, TALK_STEP_BUSY, EAGAIN);
		return;
	}
	if (errnum) {
		refuse(conv, talk->conv, TALK_STEP_JOIN, errnum);
		return;
	}
	if (!run_start(&init.birth, &init.leaves[talk->exec.leaf], &talk->exec, &run, &step)) {
		refuse(conv, talk->conv, step, errno);
		return;
	}
	*conv = (struct conv){
		.used = true,
		.owes = OWES_STARTED,
		.id = talk->conv,
		.leaf = talk->exec.leaf,
		.pid = run.pid,
		.run = run,
	};
	settle(conv);
}

static void drop_ends(struct run *run)
{
	fd_drop(&run->out);
	fd_drop(&run->err);
	fd_drop(&run->in);
}

static void obey(void)
{
	struct talk talk;
	int fds[2], count = 2;
	ssize_t len = fd_recv_any(TALK_FD_CONTROL, init.words, sizeof(init.words), fds, &count,
				  MSG_DONTWAIT);
	struct conv *conv;

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0)
		_exit(len < 0);
	talk.exec.argv = init.argv + 2;
	talk.exec.env = init.env;
	if (!talk_decode(init.words, (size_t)len, &talk))
		_exit(1);
	if (talk.kind == TALK_EXEC) {
		obey_exec(&talk, fds, count);
		return;
	}
	drop_fds(fds, count);
	conv = find(talk.conv);
	if (!conv)
		return;
	// The group is the process's own, by setsid; its number is safe while it is not reaped.
	if (talk.kind == TALK_SIGNAL && conv->pid > 0)
		kill(-conv->pid, talk.signal);
	if (talk.kind == TALK_FORGET) {
		drop_ends(&conv->run);
		conv->forgotten = true;
		settle(conv);
	}
}

static uint64_t in_us(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

// Both pipes are empty, and nobody can write to them any more.
static bool is_over(const struct conv *conv)
{
	struct pollfd ends[2] = {
		{.fd = conv->run.out, .events = POLLIN},
		{.fd = conv->run.err, .events = POLLIN},
	};

	return !(conv->owes & OWES_STARTED) && poll(ends, 2, 0) == 2 &&
	       ends[0].revents == POLLHUP && ends[1].revents == POLLHUP;
}

static void note_death(int pid, int status, const struct rusage *usage)
{
	for (int i = 0; i < init.conv_end; i++) {
		struct conv *conv = &init.convs[i];
		struct run ends;

		if (!conv->used || conv->pid != pid)
			continue;
		conv->pid = 0;
		conv->owes |= OWES_EXITED;
		conv->status = status;
		conv->max_rss = (uint64_t)usage->ru_maxrss * 1024;
		conv->cpu_us = in_us(usage->ru_utime) + in_us(usage->ru_stime);
		conv->leaf_empty = leaf_is_empty(&init.leaves[conv->leaf],
						 init.birth.joins_by_clone);
		conv->over = !conv->forgotten && is_over(conv);
		ends = conv->run;
		if (conv->over)
			conv->run = (struct run){.out = -1, .err = -1, .in = -1};
		conv->forgotten |= conv->over;
		settle(conv); // first the news, then the tidying
		if (conv->over)
			drop_ends(&ends);
		return;
	}
}

static void reap(void)
{
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	int pid;

	// One signal at most is pending, for any number of children.
	if (read(init.birth.children, &info, sizeof(info)) < 0)
		return;
	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0)
		note_death(pid, status, &usage);
}

static void live(void)
{
	for (;;) {
		struct pollfd ready[2] = {
			{.fd = TALK_FD_CONTROL, .events = init.owing ? POLLOUT : POLLIN},
			{.fd = init.birth.children, .events = POLLIN},
		};

		if (poll(ready, 2, -1) < 0)
			continue;
		if (ready[1].revents)
			reap();
		if (!ready[0].revents)
			continue;
		if (init.owing && (ready[0].revents & (POLLHUP | POLLERR)))
			_exit(0);
		if (init.owing)
			settle_all();
		else
			obey();
	}
}

static int tell_broken(const char *step)
{
	struct talk talk = {.kind = TALK_BROKEN};

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errno;
	strncpy(talk.failed.note, step, sizeof(talk.failed.note) - 1);
	say(&talk, NULL, 0);
	return 1;
}

int init_main(void)
{
	struct talk ready = {.kind = TALK_READY};
	const char *failed = birth_run(&init.birth);

	if (failed)
		return tell_broken(failed);
	if (!leaf_learn(&init.leaves[0], init.birth.joins_by_clone,
			(int[]){TALK_FD_LEAF, TALK_FD_LEAF_2}))
		return tell_broken("learn the first leaf");
	ready.ready.version = TALK_VERSION;
	if (!say(&ready, NULL, 0))
		return 1;
	live();
	return 1;
}
