// How the fake warden answers KILL: in memory that the test shares with it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum fake_warden_kill_mode { FAKE_WARDEN_KILLS, FAKE_WARDEN_HANGS_UP, FAKE_WARDEN_REFUSES };

static struct {
	enum fake_warden_kill_mode mode;
	int asked;	// KILL orders that came
	bool unsure;	// the last one was not answered
	uint64_t spent; // bits: cgroups that ADOPT reports as spent
	bool overtaken; // a new cgroup was ordered before the kill was repeated
} * fake_warden_kill;

static void fake_warden_kill_share(void)
{
	if (!fake_warden_kill)
		fake_warden_kill = mmap(NULL, sizeof(*fake_warden_kill), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static enum fake_warden_kill_mode fake_warden_kill_mode(void) // of a KILL order that arrived
{
	fake_warden_kill->asked++;
	fake_warden_kill->unsure = fake_warden_kill->mode == FAKE_WARDEN_HANGS_UP;
	return fake_warden_kill->mode;
}

static uint32_t fake_warden_cgroup_number(bool again, uint32_t number, int next)
{
	fake_warden_kill->overtaken |= fake_warden_kill->unsure && !again;
	return again ? number : (uint32_t)next;
}

static uint32_t fake_warden_cgroups(int count, uint64_t *out_spent)
{
	*out_spent = fake_warden_kill->spent;
	return (uint32_t)count;
}
