// Mounts the rootfs of a box: root, disk and everything else that its order names.
#pragma once

// Waits for the rootfs mounts and sets them up; exits if the socket closes. NULL, or the name of
// the step that failed, with errno.
const char *setup_rootfs_box(void);
