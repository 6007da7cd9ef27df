// Volumes: directories that outlive boxes. Each is a disk of its own (warden/disk.h) with ids as
// they are inside a box, so that every box mounts it with its own id map:
//	DATA/volumes/ID        the volume: its limit in `size`, and `m`, where its disk is mounted
//	DATA/volumes/.ID       the same while it is made or removed; the next warden removes both
// The disk is mounted for the first box that asks for it, and stays so until the volume or the
// warden goes. A box's mount of it is a copy.
#pragma once

#include "warden/box.h"

struct volumes;

// After the disks. Completes removals that an earlier warden has begun.
fallible volumes_open(struct warden *warden, struct volumes **out);
void volumes_close(struct volumes *volumes); // NULL is accepted
bool volumes_has(const struct volumes *volumes, struct str id);
// Names in the table without a disk, and disks without a name: `odd` is called for each.
fallible volumes_compare(struct warden *warden,
			 void (*odd)(struct answer *answer, const char *what, const char *name),
			 struct answer *answer);

// VOLUME, UNVOLUME, VOLUMES. A repeated VOLUME or UNVOLUME succeeds. The daemon knows which volumes
// are in use: a removed volume stays, without a name, as long as a box has it mounted.
fallible volumes_make(struct warden *warden, const struct order *order);
fallible volumes_remove(struct warden *warden, const struct order *order);
fallible volumes_list(struct warden *warden, const struct order *order);
// MOUNT: answered when the volume is mounted here. NOT_FOUND no_volume; EXHAUSTED volume_busy while
// its file system is being repaired.
fallible volumes_mount(struct warden *warden, const struct order *order);
// A child ended: true if it repaired a volume, or wrote a new one out, which answers its VOLUME.
bool volumes_reaped(struct warden *warden, int pid, int status);

// What the daemon has ordered by MOUNT for the next BUILD of the box. *out_count of them;
// volumes_take() opens number `at` as a detached, idmapped mount. CONFLICT lost_mounts if there are
// not as many as the BUILD says.
fallible volumes_pending(const struct warden *warden, const struct order *order);
fallible volumes_take(struct warden *warden, const struct order *order, uint32_t at, int userns,
		      const struct order **out, int *out_tree);
void volumes_forget(struct warden *warden, const char *box); // NULL: of all boxes
