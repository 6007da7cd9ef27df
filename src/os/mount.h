// Mounts as file descriptors: made detached, given attributes, then attached. The builder of a box
// uses these between clone and exec, and pid 1 links them: no allocation, and results like the
// kernel's: an fd or 0, or -1 with errno.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

#ifdef COVE_PID1
#include <linux/mount.h> // for what the C library lacks
#endif

#define MOUNT_SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define MOUNT_STILL (MOUNT_SAFE | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY)

struct mount_option {
	const char *key, *value; // value NULL: a flag
};

// A new detached file system. `options` end with a NULL key.
int mount_new(const char *type, const struct mount_option *options, uint64_t attributes);
// A private /proc mount, to write sysctls of a namespace. Each living network namespace leaves a
// dentry in the mount by which it was looked up, all in one hash chain: with 2,000 boxes a lookup
// in the host's /proc takes milliseconds. Closing this mount frees its dentries.
int mount_own_proc(void);
// A detached copy of the mount at `path` beneath `dir`, rooted there; "" means `dir` itself.
int mount_copy(int dir, const char *path);
int mount_copy_all(const char *path); // with all submounts
// Sets and clears attributes of a whole mount. `userns` >= 0: idmaps it by that namespace.
int mount_change(int tree, uint64_t set, uint64_t clear, int userns);
// Attaches `tree` at `path` beneath `dir` ("": at `dir`).
int mount_attach(int tree, int dir, const char *path);
// Makes all mounts of this namespace private.
int mount_private(void);
