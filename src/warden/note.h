// What the warden's next life must know of a box, in RUN/cells/ID: written before the deed, made
// whole when the box has a process, removed when nothing of it is left. A note is believed as far
// as the kernel agrees: same boot, same process (number and start time), in the box's own group.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "model/limits.h"
#include "model/talk.h"

#define NOTE_BOOT 40

struct note {
	char boot[NOTE_BOOT]; // which boot of the host this was
	uint32_t slot;
	bool ephemeral, again;
	uint64_t disk, inodes; // limits that the disk was promised
	int64_t born_us;
	int pid; // 0: not known yet
	uint64_t started;
	uint64_t netns; // the inode of its network namespace; 0: an earlier cove made the note
	uint64_t killed[TALK_LEAVES_MAX / 64];
};

// UNREAD: what it says cannot be told now, with errno; BAD: it says nothing that makes sense.
enum note_state { NOTE_GOOD, NOTE_ABSENT, NOTE_UNREAD, NOTE_BAD, NOTE_TOO_NEW };

// RUN/cells, made when it is absent, open.
fallible note_open_dir(int run, int *out_dir);
// The whole of it, in one write: who is killed meanwhile leaves the old one or the new one.
fallible note_write(int dir, const char *box, const struct note *note);
enum note_state note_read(int dir, const char *box, struct note *out);
void note_drop(int dir, const char *box);

// This boot's name. INTERNAL when the kernel does not tell.
fallible note_boot(char out[NOTE_BOOT]);
// When a process began, in the kernel's ticks; 0 with errno: it cannot be told.
uint64_t note_started(int pid);
