// The child that becomes a box: from a fresh clone of the zygote to the exec of pid 1, which moves
// in (init/setup_rootfs).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "warden/group.h"

// What the warden tells of the ground of one box. Sent to the zygote as it is: both ends are one
// program.
struct builder_plan {
	uint32_t base; // the host's id of the box's root
	bool has_into; // a v2 group to be cloned into
	uint8_t task_count, cgroup_count;
};

// fds of a plan, in the order in which they travel.
struct builder_fds {
	int control, listen, userns;
	int into; // -1 unless has_into
	int tasks[GROUP_JOINS_MAX];
	int exec_cgroup[GROUP_CGROUP_JOINS];
	int net; // made ahead by the zygote, never sent; -1: the clone has a new one
};
#define BUILDER_FDS_MAX (4 + GROUP_JOINS_MAX + GROUP_CGROUP_JOINS)

// What the zygote holds for all of them.
#define BUILDER_MASKS_MAX 40
struct builder_init_config {
	int program, init_config, proc; // proc: the host's, for the box's network sysctls
	int null, sock;			// sock: the zygote's to the warden
	// Names in /proc that this kernel has: what to make read-only, to blank, to empty.
	const char *still[BUILDER_MASKS_MAX], *blank[BUILDER_MASKS_MAX], *empty[BUILDER_MASKS_MAX];
};

// fds to and from the flat array of a message. unpack: false when the number is wrong.
int builder_pack(const struct builder_plan *plan, const struct builder_fds *fds, int *out);
bool builder_unpack(const struct builder_plan *plan, const int *flat, int count,
		    struct builder_fds *out);
// Which masks this kernel needs; `proc` is the host's /proc.
void builder_find_masks(struct builder_init_config *init_config, int proc);

// Runs in the clone. Ends as pid 1's program, or tells TALK_BROKEN on the control socket and exits.
_Noreturn void builder_run(const struct builder_init_config *init_config,
			   const struct builder_plan *plan, const struct builder_fds *fds);
