// The state file of a box, RUN/cells/ID, read by the next warden. It is written before anything of
// the box is made, completed when the box has a process, and removed last. A state file is trusted
// as far as the kernel agrees: same boot, same process (pid and start time), in the box's own
// cgroup.
//
// The listening socket of a box, RUN/box/ID: bound by the warden before the box is built, passed to
// pid 1, accessible to the daemon's user alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/id.h"
#include "protocol/talk.h"
#include "types/limits.h"

#define BOX_STATE_BOOT 40

struct box_state {
	char boot[BOX_STATE_BOOT]; // boot id of the host
	uint32_t slot;
	bool ephemeral, again;
	uint64_t disk, inodes; // limits of the disk
	int64_t born_us;
	int pid; // 0: not known yet
	uint64_t started;
	uint64_t netns; // inode of its network namespace; 0: written by an earlier cove
	uint64_t killed[TALK_CGROUPS_MAX / 64];
};

// UNREAD: the file cannot be read now, see errno. BAD: its content is malformed.
enum box_state_state {
	BOX_STATE_GOOD,
	BOX_STATE_ABSENT,
	BOX_STATE_UNREAD,
	BOX_STATE_BAD,
	BOX_STATE_TOO_NEW
};

// Opens RUN/cells, makes it if absent.
fallible box_state_open_dir(int run, int *out_dir);
// One write: a crash leaves the old content or the new.
fallible box_state_write(int dir, const char *box, const struct box_state *state_file);
enum box_state_state box_state_read(int dir, const char *box, struct box_state *out);
void box_state_drop(int dir, const char *box);

// The boot id. INTERNAL if the kernel does not tell.
fallible box_state_boot(char out[BOX_STATE_BOOT]);

// Opens RUN/box, made if absent and owned by the daemon.
fallible box_listener_open_dir(int run, uid_t uid, gid_t gid, int *out_dir);
// A listening SOCK_SEQPACKET socket at RUN/box/`box`. Replaces one that an earlier warden left.
fallible box_listener_make(int dir, const char *box, int *out_fd);
void box_listener_drop(int dir, const char *box);
