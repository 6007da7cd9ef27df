// Signal handling. Fatal signals and the second Ctrl-C also pass through a handler, so that the
// terminal is never left raw.
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

// A signal handler has no argument: this state must be global.
static struct {
	_Atomic(struct cove *) cove;
	_Atomic(void (*)(void)) undo;
	_Atomic(const char *) words;
	volatile sig_atomic_t signal, shielded, armed;
	int pipe[2];
} state = {.pipe = {-1, -1}};

static void interrupt_on_signal(int signal)
{
	struct cove *cove = atomic_load(&state.cove);
	void (*undo)(void) = atomic_load(&state.undo);
	int saved = errno;

	if (state.signal) { // the second signal: exit at once
		const char *words = atomic_load(&state.words);

		if (undo)
			undo();
		if (words && write(STDERR_FILENO, words, strlen(words)) < 0) {
			// stderr is closed
		}
		_exit(128 + signal);
	}
	state.signal = signal;
	if (write(state.pipe[1], "!", 1) < 0) {
		// EAGAIN: the pipe is full, so the reader is already woken
	}
	if (cove && !state.shielded)
		cove_cancel(cove);
	errno = saved;
}

static void on_fatal(int number)
{
	void (*undo)(void) = atomic_load(&state.undo);

	if (undo)
		undo();
	signal(number, SIG_DFL);
	raise(number);
}

void interrupt_arm(struct cove *cove)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	// Without SA_RESTART: a write that waits for a slow reader must notice, too.
	struct sigaction act = {.sa_handler = interrupt_on_signal};

	atomic_store(&state.cove, cove);
	if (state.armed)
		return;
	state.armed = 1;
	if (pipe2(state.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		state.pipe[0] = state.pipe[1] = -1;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct sigaction was;

		// nohup and friends: what was ignored stays ignored.
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
}

void interrupt_saying(const char *words)
{
	atomic_store(&state.words, words);
}

void interrupt_disarm(const struct cove *cove)
{
	if (atomic_load(&state.cove) == cove)
		atomic_store(&state.cove, NULL);
}

void interrupt_shield(bool on)
{
	struct cove *cove = atomic_load(&state.cove);

	state.shielded = on;
	if (!on && state.signal && cove)
		cove_cancel(cove);
}

int interrupt_signal(void)
{
	return state.signal;
}

bool interrupt_take(void)
{
	char room[16];

	if (state.signal != SIGINT)
		return false;
	while (read(state.pipe[0], room, sizeof(room)) > 0)
		;
	state.signal = 0;
	return true;
}

int interrupt_fd(void)
{
	return state.pipe[0];
}

void interrupt_undoing(void (*undo)(void))
{
	static const int signals[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

	atomic_store(&state.undo, undo);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		signal(signals[i], undo ? on_fatal : SIG_DFL);
}
