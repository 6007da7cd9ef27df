// How the keeper answers KILL: in memory that the test shares with it.
#pragma once

#include <stdbool.h>
#include <sys/mman.h>

enum keeper_kill_mode { KEEPER_KILLS, KEEPER_HANGS_UP, KEEPER_REFUSES };

static struct {
	enum keeper_kill_mode mode;
	int asked; // KILL orders that came
} * keeper_kill;

static void keeper_kill_share(void)
{
	if (!keeper_kill)
		keeper_kill = mmap(NULL, sizeof(*keeper_kill), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static enum keeper_kill_mode keeper_kill_mode(void) // of one that has come
{
	keeper_kill->asked++;
	return keeper_kill->mode;
}
