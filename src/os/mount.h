// Mounts as file descriptors: made detached, given their attributes, then attached somewhere. The
// builder of a box uses these between clone and exec, and pid 1 links them, so they allocate
// nothing and answer as the kernel does: an fd or 0, or -1 with errno.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

#ifdef COVE_PID1
#include <linux/mount.h> // what its C library does not know
#endif

#define MOUNT_SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define MOUNT_STILL (MOUNT_SAFE | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY)

struct mount_option {
	const char *key, *value; // value NULL: a flag
};

// A new file system, mounted nowhere. `options` end with a NULL key.
int mount_new(const char *type, const struct mount_option *options, uint64_t attributes);
// A /proc of our own, to write sysctls of a namespace through. Each living namespace leaves a name
// in the cache of the mount that it was looked up by, all in one hash chain: with 2,000 boxes a
// look-up in the host's /proc takes milliseconds. What is cached here goes when it is closed.
int mount_own_proc(void);
// A detached copy of the mount at `path` beneath `dir`, rooted there; "" means `dir` itself.
int mount_copy(int dir, const char *path);
int mount_copy_all(const char *path); // with all that is mounted beneath it
// Sets and clears attributes of a whole mount. `userns` >= 0 maps its ids through that namespace.
int mount_change(int tree, uint64_t set, uint64_t clear, int userns);
// Attaches `tree` at `path` beneath `dir` ("": at `dir`).
int mount_attach(int tree, int dir, const char *path);
// All mounts of this namespace stop sharing with others.
int mount_private(void);
