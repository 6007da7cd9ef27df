#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

// A signal handler has no argument of ours: the one place of this program that needs a global.
static struct {
	struct loop *loop;
	struct task *task;
	volatile sig_atomic_t signal;
} armed;

static void on_signal(int signal)
{
	armed.signal = signal;
	loop_poke(armed.loop);
}

static void wake(void *arg)
{
	(void)arg;
	if (armed.signal && armed.task)
		task_cancel(armed.task);
}

void interrupt_arm(struct loop *loop, struct task *task)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	// Without SA_RESTART: a write that waits for a slow reader must notice, too.
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	armed.loop = loop;
	armed.task = task;
	loop_on_poke(loop, wake, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct sigaction was;

		// nohup and friends: what was ignored stays ignored.
		if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(signals[i], &act, NULL);
	}
	signal(SIGPIPE, SIG_IGN);
}

int interrupt_signal(void)
{
	return armed.signal;
}
