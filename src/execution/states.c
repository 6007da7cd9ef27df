// States of an execution beside its record and lease, each an enum with a table of transitions: the
// pull of its image, its slot in the queue, the start of its sandbox. They are in memory only, and
// change here alone.
#include <assert.h>

#include "execution/private.h"

// The states from which each state is entered.
#define FROM(state) (1u << (state))
static const uint32_t pull_entered_from[PULL_STATES] = {
	[PULL_NONE] = FROM(PULL_ENDED), // it failed
	[PULL_RUNNING] = FROM(PULL_NONE),
	[PULL_ENDED] = FROM(PULL_RUNNING),
	[PULL_THERE] = FROM(PULL_NONE) | FROM(PULL_ENDED), // NONE: it was there
};
static const uint32_t slot_entered_from[SLOT_STATES] = {
	[SLOT_NONE] = FROM(SLOT_QUEUED) | FROM(SLOT_STARTING) | FROM(SLOT_HELD),
	[SLOT_QUEUED] = FROM(SLOT_NONE),
	[SLOT_STARTING] = FROM(SLOT_NONE),
	[SLOT_HELD] = FROM(SLOT_STARTING) | FROM(SLOT_NONE), // NONE: adopted
};
static const uint32_t launch_entered_from[LAUNCH_STATES] = {
	[LAUNCH_NONE] = FROM(LAUNCH_ENDED),
	[LAUNCH_PREPARING] = FROM(LAUNCH_NONE) | FROM(LAUNCH_ENDED), // ENDED: given up
	[LAUNCH_RUNNING] = FROM(LAUNCH_PREPARING),
	[LAUNCH_ENDED] = FROM(LAUNCH_PREPARING) | FROM(LAUNCH_RUNNING),
};
#undef FROM

void execution_set_pull(struct execution *execution, enum execution_pull pull)
{
	assert(pull_entered_from[pull] >> execution->pull & 1);
	execution->pull = pull;
}

void execution_set_slot(struct execution *execution, enum execution_slot slot)
{
	assert(slot_entered_from[slot] >> execution->slot & 1);
	execution->slot = slot;
}

void execution_set_launch(struct execution *execution, enum execution_launch launch)
{
	assert(launch_entered_from[launch] >> execution->launch & 1);
	execution->launch = launch;
}

void execution_set_stored(struct execution *execution)
{
	if (execution->launch == LAUNCH_PREPARING)
		execution_set_launch(execution, LAUNCH_RUNNING);
	condition_signal(&execution->changed);
}
