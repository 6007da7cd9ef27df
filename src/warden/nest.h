// The zygote's bare mount namespace (what is in it: see warden/builder.c and init/furnish.c).
#pragma once

// Leaves the host's mounts behind. 0, or -1 with errno and *out_step naming what failed.
int nest_build(const char **out_step);
