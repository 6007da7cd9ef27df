// How the keeper answers KILL: in memory that the test shares with it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum keeper_kill_mode { KEEPER_KILLS, KEEPER_HANGS_UP, KEEPER_REFUSES };

static struct {
	enum keeper_kill_mode mode;
	int asked;	// KILL orders that came
	bool unsure;	// the last one was not answered
	uint64_t spent; // bits: leaves that ADOPT tells to be killed
	bool overtaken; // a new leaf was ordered before it was given again
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
	keeper_kill->unsure = keeper_kill->mode == KEEPER_HANGS_UP;
	return keeper_kill->mode;
}

static uint32_t keeper_cgroup_number(bool again, uint32_t number, int next)
{
	keeper_kill->overtaken |= keeper_kill->unsure && !again;
	return again ? number : (uint32_t)next;
}

static uint32_t keeper_cgroups(int count, uint64_t *out_spent)
{
	*out_spent = keeper_kill->spent;
	return (uint32_t)count;
}
