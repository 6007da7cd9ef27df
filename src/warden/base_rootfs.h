// The zygote's small mount namespace. Its contents: see warden/builder.c and init/setup_rootfs.c.
#pragma once

// Leaves the host's mounts behind. 0, or -1 with errno and *out_step naming the step that failed.
int base_rootfs_build(const char **out_step);
