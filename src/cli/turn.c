#include "cli/turn.h"

#include "loop/task.h"

struct turn {
	struct call *call;
	verb_fn *fn;
	struct err *err;
};

static void work(void *arg)
{
	struct turn *turn = arg;

	turn->err = turn->fn(turn->call);
	loop_stop(turn->call->loop);
}

fallible turn_run(struct call *call, verb_fn *fn)
{
	struct turn turn = {.call = call, .fn = fn};

	TRY(loop_new(&call->loop), "make a loop");
	task_start(call->loop, "verb", work, &turn);
	loop_run(call->loop);
	loop_free(call->loop);
	call->loop = NULL;
	return turn.err;
}
