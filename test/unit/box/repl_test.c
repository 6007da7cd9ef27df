// The phases of a REPL's process: only transitions of the table happen.
#include "box/repl.h"

#include "tap.h"

static enum repl_phase after(enum repl_phase from, enum repl_event event)
{
	struct repl repl = {.phase = from};

	return repl_step(&repl, event) == (repl.phase != from) ? repl.phase : (enum repl_phase) - 1;
}

TEST(life, "a process starts, answers, is restarted and is lost")
{
	CHECK(after(REPL_DOWN, REPL_START) == REPL_STARTING);
	CHECK(after(REPL_STARTING, REPL_STARTED) == REPL_GREETING);
	CHECK(after(REPL_GREETING, REPL_ANSWERED) == REPL_READY);
	CHECK(after(REPL_READY, REPL_RESTART) == REPL_RESTARTING);
	CHECK(after(REPL_RESTARTING, REPL_LOST) == REPL_DOWN);
}

TEST(other_ways, "a prewarmed process is taken, an adopted one is ready at once")
{
	CHECK(after(REPL_DOWN, REPL_TAKEN) == REPL_TAKING);
	CHECK(after(REPL_TAKING, REPL_ANSWERED) == REPL_READY);
	CHECK(after(REPL_DOWN, REPL_ADOPTED) == REPL_READY);
	CHECK(after(REPL_STARTING, REPL_FAILED) == REPL_DOWN);
	CHECK(after(REPL_RESTARTING, REPL_RESTART_CANCELLED) == REPL_READY);
}

TEST(refused, "a transition that is not in the table does not happen")
{
	// A second start would run two processes; an answer of a process that is being killed would
	// send it the next run.
	for (int phase = REPL_STARTING; phase <= REPL_RESTARTING; phase++)
		CHECK(after((enum repl_phase)phase, REPL_START) == (enum repl_phase)phase);
	CHECK(after(REPL_RESTARTING, REPL_ANSWERED) == REPL_RESTARTING);
	CHECK(after(REPL_READY, REPL_ANSWERED) == REPL_READY);
	CHECK(after(REPL_STARTING, REPL_LOST) == REPL_STARTING);
	CHECK(after(REPL_DOWN, REPL_RESTART) == REPL_DOWN);
}
