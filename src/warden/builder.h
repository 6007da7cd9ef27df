// The child that becomes a box: from a fresh clone of the zygote to the exec of pid 1, which then
// mounts the rootfs (init/setup_rootfs).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "warden/group.h"

// The base of one box. Sent to the zygote as raw bytes: both ends are the same program.
struct builder_plan {
	uint32_t base; // the host's id of the box's root
	bool has_into; // a v2 group to be cloned into
	uint8_t task_count, cgroup_count;
};

// Descriptors of a plan, in the order in which they are sent.
struct builder_fds {
	int control, listen, userns;
	int into; // -1 unless has_into
	int tasks[GROUP_JOINS_MAX];
	int exec_cgroup[GROUP_CGROUP_JOINS];
	int net; // made ahead by the zygote, never sent; -1: the clone gets a new one
};
#define BUILDER_FDS_MAX (4 + GROUP_JOINS_MAX + GROUP_CGROUP_JOINS)

// Descriptors and masks that the zygote holds for all boxes.
#define BUILDER_MASKS_MAX 40
struct builder_init_config {
	int program, init_config, proc; // proc: the host's, for the box's network sysctls
	int null, sock;			// sock: the zygote's to the warden
	// Names in /proc that this kernel has: to be made read-only, to be blanked, to be emptied.
	const char *still[BUILDER_MASKS_MAX], *blank[BUILDER_MASKS_MAX], *empty[BUILDER_MASKS_MAX];
};

// Descriptors to and from the flat array of a message. unpack: false if the number is wrong.
int builder_pack(const struct builder_plan *plan, const struct builder_fds *fds, int *out);
bool builder_unpack(const struct builder_plan *plan, const int *flat, int count,
		    struct builder_fds *out);
// Which masks this kernel needs; `proc` is the host's /proc.
void builder_find_masks(struct builder_init_config *init_config, int proc);

// Runs in the clone. Becomes pid 1's program, or sends TALK_BROKEN on the control socket and exits.
_Noreturn void builder_run(const struct builder_init_config *init_config,
			   const struct builder_plan *plan, const struct builder_fds *fds);
