// What the warden's next life must know of a box, in RUN/cells/ID: written before the deed, made
// whole when the box has a process, removed when nothing of it is left. A note is believed as far
// as the kernel agrees: same boot, same process (number and start time), in the box's own group.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "protocol/talk.h"
#include "types/limits.h"

#define BOX_STATE_BOOT 40

struct box_state {
	char boot[BOX_STATE_BOOT]; // which boot of the host this was
	uint32_t slot;
	bool ephemeral, again;
	uint64_t disk, inodes; // limits that the disk was promised
	int64_t born_us;
	int pid; // 0: not known yet
	uint64_t started;
	uint64_t netns; // the inode of its network namespace; 0: an earlier cove made the note
	uint64_t killed[TALK_CGROUPS_MAX / 64];
};

// UNREAD: what it says cannot be told now, with errno; BAD: it says nothing that makes sense.
enum box_state_state {
	BOX_STATE_GOOD,
	BOX_STATE_ABSENT,
	BOX_STATE_UNREAD,
	BOX_STATE_BAD,
	BOX_STATE_TOO_NEW
};

// RUN/cells, made when it is absent, open.
fallible box_state_open_dir(int run, int *out_dir);
// The whole of it, in one write: who is killed meanwhile leaves the old one or the new one.
fallible box_state_write(int dir, const char *box, const struct box_state *state_file);
enum box_state_state box_state_read(int dir, const char *box, struct box_state *out);
void box_state_drop(int dir, const char *box);

// This boot's name. INTERNAL when the kernel does not tell.
fallible box_state_boot(char out[BOX_STATE_BOOT]);
// When a process began, in the kernel's ticks; 0 with errno: it cannot be told.
uint64_t box_state_started(int pid);
