// The subscriber of a thread to the ends of executions: an execution ends in a folder below the
// one that counts them.
#include "types/execution_end.h"

#include <stddef.h>

static _Thread_local struct {
	execution_end_subscriber *fn;
	void *arg;
} execution_end_listener;

void execution_end_subscribe(execution_end_subscriber *fn, void *arg)
{
	execution_end_listener.fn = fn;
	execution_end_listener.arg = arg;
}

void execution_end_publish(const struct execution_end *end)
{
	if (execution_end_listener.fn)
		execution_end_listener.fn(execution_end_listener.arg, end);
}
