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
#include <time.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/conv.h"
#include "init/hand.h"
#include "init/spare.h"
#include "os/fd.h"

#define FRESH_US 1000 // most commands end soon: then the daemon is woken once
#define IDLE_US 100   // what nobody waits for is done when nothing has happened for so long
#define BUSY_US 20000 // commands that began since then are one of many

// What one EXEC brought. It stays while a spare reads it, and another takes the next words.
struct letter {
	struct run_order order;
	const char *argv[TALK_ARGS_MAX + 3], *env[TALK_ARGS_MAX + 3];
	char words[TALK_SIZE_MAX];
};

struct init {
	struct birth birth;
	struct conv convs[TALK_CONV_MAX];
	int conv_end; // places at and behind this one were never used
	struct leaf leaves[TALK_LEAVES_MAX];
	bool owing;	   // the socket was full
	struct conv other; // an answer that belongs to no place in the table
	struct letter *letters[2], first;
	int letter;	 // the one that is free
	bool fresh;	 // somebody owes a STARTED that may go together with its EXITED
	bool untidy;	 // places that are free have open ends
	bool wants;	 // a spare, in an idle moment
	bool sat;	 // or the mother alone: terminals come one after another
	uint32_t served; // the leaf that was found empty last
	// When to look after the spare that has a command in hand, and to give it up.
	int64_t look_us, stuck_us;
};

static struct init init;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Frees the place when the conversation is over. Its ends are closed when nobody waits.
static void settle(struct conv *conv)
{
	if (conv->owes && conv_say(conv)) {
		if (conv->owes & OWES_STARTED)
			fd_drop(&conv->run.in);
		conv->owes = 0;
	}
	if (conv->owes) {
		init.owing = true;
	} else if (conv->pid == 0 && !conv->starting && conv->forgotten) {
		conv->used = false;
		init.untidy = true;
	}
}

static void settle_all(void)
{
	init.owing = false;
	for (int i = 0; i < init.conv_end; i++)
		if (init.convs[i].used && init.convs[i].owes)
			settle(&init.convs[i]);
	if (init.other.owes)
		settle(&init.other);
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
		if (i < init.conv_end)
			run_drop(&init.convs[i].run);
		else
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
		.run = RUN_NONE,
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
	if (count > 0)
		spare_lose(exec->leaf);
	if (count > 0 && !leaf_learn(leaf, by_clone, fds))
		return errno;
	// Where a spare waits nothing else lives: the leaf was empty when it was born there.
	if ((exec->flags & TALK_EXEC_IF_EMPTY) && !spare_waits_in(exec->leaf) &&
	    !spare_leaf_is_empty(&init.birth, exec->leaf, leaf))
		return EBUSY;
	return 0;
}

static void start(struct conv *conv, uint32_t id, const struct run_order *order)
{
	const struct leaf *leaf = &init.leaves[order->exec.leaf];
	struct run run;
	enum talk_step step;
	bool started;

	if (init.served == order->exec.leaf)
		init.wants = false; // it is not idle any more
	spare_lose(order->exec.leaf);
	started = run_start(&init.birth, leaf, order, &run, &step);
	if (!started && step == TALK_STEP_FORK && spare_make_room())
		started = run_start(&init.birth, leaf, order, &run, &step);
	if (!started) {
		refuse(conv, id, step, errno);
		return;
	}
	*conv = (struct conv){
		.used = true,
		.owes = OWES_STARTED,
		.id = id,
		.leaf = order->exec.leaf,
		.asked_us = now_us(),
		.pid = run.pid,
		.run = run,
	};
	if (run.in < 0)
		init.fresh = true; // on a terminal too: nobody types before a moment has passed
	else
		settle(conv); // it may wait for its input
}

static bool start_by_spare(struct conv *conv, uint32_t id, const struct run_order *order)
{
	struct conv made = {.used = true, .starting = true, .id = id, .leaf = order->exec.leaf};

	if (!spare_use(order, &made.run))
		return false;
	made.asked_us = now_us();
	*conv = made;
	init.wants = false; // the leaf is not idle any more
	init.letter ^= 1;
	init.look_us = made.asked_us + SPARE_SOON_MS * 1000;
	init.stuck_us = init.look_us + SPARE_STUCK_MS * 1000;
	return true;
}

// The spare has executed, or failed, or never moved: then the command is started the other way.
static void conclude(struct conv *conv)
{
	int pid = spare_number();
	struct spare_end end = spare_end();

	conv->starting = false;
	conv->pid = conv->run.pid = pid;
	if (end.moved && end.step == TALK_STEP_NONE) {
		conv->owes |= OWES_STARTED;
		return;
	}
	run_drop(&conv->run);
	if (end.moved)
		refuse(conv, conv->id, end.step, end.errnum);
	else
		start(conv, conv->id, &init.letters[init.letter ^ 1]->order);
}

// The command that a spare has in hand: most end soon, and their death tells that they began. One
// that lasts has its leaf for itself: its tree is what lives there.
static void look_after_spare(bool now)
{
	int64_t time = now_us();
	struct conv *conv = NULL;

	if (!now && time < init.look_us)
		return;
	for (int i = 0; i < init.conv_end && !conv; i++)
		if (init.convs[i].used && init.convs[i].starting)
			conv = &init.convs[i];
	if (!conv)
		return;
	if (time >= init.stuck_us) {
		spare_give_up();
		init.stuck_us = time + SPARE_STUCK_MS * 1000;
	}
	init.look_us = time + SPARE_SOON_MS * 1000;
	if (!spare_has_started())
		return;
	conclude(conv);
	spare_lose(conv->leaf);
	if (conv->used && conv->owes && !init.fresh)
		settle(conv);
}

// One that waits has pipes, and no other seat; but one that is born for it takes any.
static bool may_use_spare(const struct talk_exec *exec)
{
	bool sits = exec->flags & (TALK_EXEC_PTY | TALK_EXEC_DIALOGUE);

	return (!sits && spare_waits_in(exec->leaf)) || spare_mother_waits_in(exec->leaf);
}

static void obey_exec(uint32_t id, struct run_order *order, const int *fds, int count)
{
	struct conv *conv = take_place();
	int errnum = meet_leaf(&order->exec, fds, count);

	if ((order->exec.flags & (TALK_EXEC_PTY | TALK_EXEC_DIALOGUE)) &&
	    spare_waits_in(order->exec.leaf))
		spare_drop();
	if (!conv || find(id))
		refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
	else if (errnum)
		refuse(conv, id, TALK_STEP_JOIN, errnum);
	else if (!run_find_user(order))
		refuse(conv, id, TALK_STEP_USER, ENOENT);
	else if (!may_use_spare(&order->exec) || !start_by_spare(conv, id, order))
		start(conv, id, order);
	// It may wait for its input, so its start is told as soon as it is known.
	else if (order->exec.flags & (TALK_EXEC_STDIN | TALK_EXEC_DIALOGUE)) {
		spare_await();
		look_after_spare(true);
	}
}

static void obey_hand(uint32_t id, struct str user)
{
	struct conv *conv = take_place();
	struct run run = RUN_NONE;
	enum talk_step step;

	if (!conv || find(id)) {
		refuse(&init.other, id, TALK_STEP_BUSY, EAGAIN);
		return;
	}
	if (!hand_start(&init.birth, user, &run.out, &step)) {
		refuse(conv, id, step, errno);
		return;
	}
	*conv = (struct conv){
		.used = true,
		.forgotten = true,
		.owes = OWES_HAND,
		.id = id,
		.run = run,
	};
	settle(conv);
}

static void obey(void)
{
	struct letter *letter = init.letters[init.letter];
	struct talk talk;
	int fds[2], count = 2;
	ssize_t len = fd_recv_any(TALK_FD_CONTROL, letter->words, sizeof(letter->words), fds,
				  &count, MSG_DONTWAIT);
	struct conv *conv;

	if (len < 0 && errno == EAGAIN)
		return;
	if (len <= 0)
		_exit(len < 0);
	talk.exec.argv = letter->argv + 2;
	talk.exec.env = letter->env;
	if (!talk_decode(letter->words, (size_t)len, &talk))
		_exit(1);
	if (talk.kind == TALK_EXEC) {
		letter->order.exec = talk.exec;
		obey_exec(talk.conv, &letter->order, fds, count);
		return;
	}
	drop_fds(fds, count);
	if (talk.kind == TALK_HAND) {
		obey_hand(talk.conv, talk.hand.user);
		return;
	}
	conv = find(talk.conv);
	if (!conv)
		return;
	// The group is the process's own, by setsid; its number is safe while it is not reaped.
	if (talk.kind == TALK_SIGNAL && conv->pid > 0)
		kill(talk.alone ? conv->pid : -conv->pid, talk.signal);
	if (talk.kind == TALK_FORGET) {
		run_drop(&conv->run);
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

	return poll(ends, 2, 0) == 2 && ends[0].revents == POLLHUP && ends[1].revents == POLLHUP;
}

static void note_death(int pid, int status, const struct rusage *usage)
{
	bool is_spares = spare_is_starting() && spare_number() == pid;
	struct conv *conv = NULL;

	for (int i = 0; i < init.conv_end && !conv; i++)
		if (init.convs[i].used &&
		    (is_spares ? init.convs[i].starting : init.convs[i].pid == pid))
			conv = &init.convs[i];
	if (is_spares && conv) {
		conclude(conv);
		if (!conv->used || conv->pid != pid)
			return;
	} else if (spare_reaped(pid)) {
		look_after_spare(true);
	}
	if (!conv)
		return;
	conv->pid = 0;
	conv->owes |= OWES_EXITED;
	conv->status = status;
	conv->max_rss = (uint64_t)usage->ru_maxrss * 1024;
	conv->cpu_us = in_us(usage->ru_utime) + in_us(usage->ru_stime);
	conv->leaf_empty = spare_leaf_is_empty(&init.birth, conv->leaf, &init.leaves[conv->leaf]);
	conv->over = !conv->forgotten && is_over(conv);
	conv->forgotten |= conv->over;
	// One on a terminal had no use for a spare, and left the one there is alone.
	if (conv->leaf_empty && (conv->run.err >= 0 || !spare_waits())) {
		init.served = conv->leaf;
		init.sat = conv->run.err < 0;
		init.wants = true;
	}
	settle(conv);
}

// Its own commands and nobody else's: what a pid 1 that is none would do.
static void reap_own(void)
{
	struct rusage usage;
	int status;

	for (int i = 0; i < init.conv_end; i++) {
		int pid = init.convs[i].used ? init.convs[i].pid : 0;

		if (pid > 0 && wait4(pid, &status, WNOHANG | __WALL, &usage) == pid)
			note_death(pid, status, &usage);
	}
}

static void reap_all(void)
{
	struct rusage usage;
	int status;
	int pid;

	while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0)
		note_death(pid, status, &usage);
}

static void reap(void)
{
	struct signalfd_siginfo info;

	// One signal at most is pending, for any number of children. Somebody waits to hear of
	// them, so they come first, and then those who died before the signal was taken.
	if (!weak(REAP))
		reap_all();
	if (read(init.birth.children, &info, sizeof(info)) < 0)
		return;
	if (weak(REAP))
		reap_own();
	else
		reap_all();
}

static void tidy(void)
{
	init.untidy = false;
	for (int i = 0; i < init.conv_end; i++)
		if (!init.convs[i].used)
			run_drop(&init.convs[i].run);
}

static bool have_letters(void)
{
	struct letter *both = init.letters[1] ? NULL : spare_memory(2 * sizeof(*both));

	if (both) {
		init.letters[0] = &both[0];
		init.letters[1] = &both[1];
	}
	return init.letters[1];
}

static bool is_busy(void)
{
	int64_t since = now_us() - BUSY_US;

	for (int i = 0; i < init.conv_end; i++)
		if (init.convs[i].used && (init.convs[i].pid > 0 || init.convs[i].starting) &&
		    init.convs[i].asked_us > since)
			return true;
	return false;
}

// A spare where the next command will most likely run: the daemon takes the leaf that served last.
// While others have just begun leaves take turns, and nobody knows which is next.
static void provide(void)
{
	bool elsewhere = !spare_may_be_made(init.served);

	if (spare_waits_in(init.served) || is_busy()) {
		init.wants = false;
	} else if (elsewhere) {
		spare_rest(); // and when they are gone, others
	} else {
		init.wants = false;
		if (have_letters())
			spare_make(&init.birth, init.served, &init.leaves[init.served], init.sat);
	}
}

// What there is to do in how many microseconds, if nothing happens before; -1: nothing.
static int64_t patience(void)
{
	int64_t left;

	if (init.fresh)
		return FRESH_US;
	if (spare_is_starting()) {
		left = init.look_us - now_us();
		return left > 0 ? left : 0;
	}
	if (init.untidy || (init.wants && !spare_is_dying()))
		return IDLE_US;
	return spare_may_rest() ? SPARE_KEEP_MS * 1000L : -1;
}

static int await(struct pollfd *ready)
{
	int64_t us = patience();
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	int n = ppoll(ready, 2, us < 0 ? NULL : &time, NULL);

	if (n == 0 && !init.fresh && !spare_is_starting()) {
		if (us > IDLE_US)
			spare_rest();
		if (init.untidy)
			tidy();
		if (init.wants && !spare_is_dying())
			provide();
	}
	return n;
}

static void live(void)
{
	for (;;) {
		struct pollfd ready[2] = {
			{.fd = TALK_FD_CONTROL, .events = init.owing ? POLLOUT : POLLIN},
			{.fd = init.birth.children, .events = POLLIN},
		};
		bool fresh = init.fresh;

		if (await(ready) < 0)
			continue;
		if (ready[1].revents)
			reap();
		if (spare_is_starting())
			look_after_spare(false);
		if (fresh) {
			init.fresh = false;
			settle_all();
		}
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

static bool say(const struct talk *talk)
{
	char room[256];
	size_t len = talk_encode(talk, room, sizeof(room));

	return fd_send(TALK_FD_CONTROL, room, len, NULL, 0, MSG_DONTWAIT) >= 0;
}

static int tell_broken(const char *step)
{
	struct talk talk = {.kind = TALK_BROKEN};

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errno;
	strncpy(talk.failed.note, step, sizeof(talk.failed.note) - 1);
	say(&talk);
	return 1;
}

int init_main(void)
{
	struct talk ready = {.kind = TALK_READY};
	const char *failed = birth_run(&init.birth);

	init.letters[0] = &init.first;
	if (failed)
		return tell_broken(failed);
	if (!leaf_learn(&init.leaves[0], init.birth.joins_by_clone,
			(int[]){TALK_FD_LEAF, TALK_FD_LEAF_2}))
		return tell_broken("learn the first leaf");
	ready.ready.version = TALK_VERSION;
	if (!say(&ready))
		return 1;
	live();
	return 1;
}
