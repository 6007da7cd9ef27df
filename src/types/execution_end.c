// The subscribers of a thread to the ends of executions: an execution ends in a folder below the
// ones that count them.
#include "types/execution_end.h"

#include <assert.h>
#include <stddef.h>

static _Thread_local struct {
	execution_end_subscriber *fn;
	void *arg;
} execution_end_listeners[EXECUTION_END_SUBSCRIBERS];
static _Thread_local size_t execution_end_listener_count;

void execution_end_subscribe(execution_end_subscriber *fn, void *arg)
{
	size_t at = execution_end_listener_count++;

	assert(at < EXECUTION_END_SUBSCRIBERS);
	execution_end_listeners[at].fn = fn;
	execution_end_listeners[at].arg = arg;
}

void execution_end_publish(const struct execution_end *end)
{
	for (size_t i = 0; i < execution_end_listener_count; i++)
		execution_end_listeners[i].fn(execution_end_listeners[i].arg, end);
}
