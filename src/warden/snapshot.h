// Snapshots: templates that are the copy of a box's disk over the template that the box began with.
// Each is a directory NAME beside the other templates, with `meta`, and the disk in it or, in a
// pool, named by it:
//	.snap-N  being made; its meta says which box was frozen for it. A new warden thaws that one,
//	         and removes the directory.
//	.fork-N  for one fork; a new daemon's HELLO removes it
//	.pins    a file for each box that was made from a snapshot: the base that it stands on
// The base is kept by its id (template_pin()) while a snapshot or such a box needs it.
#pragma once

#include "warden/box.h"

struct snapshots;

// After templates and disks. Undoes what an earlier warden has not finished.
fallible snapshots_open(struct warden *warden, struct snapshots **out);
void snapshots_close(struct snapshots *all);

// SNAPSHOT: the box is frozen, its disk is copied by a child, it is thawed. Answered when the
// snapshot has its name.
fallible snapshot_order(struct warden *warden, const struct order *order);
fallible snapshot_describe(struct warden *warden, const struct order *order);
// FORGET. *out_done: it was a snapshot and is gone; else nothing was done.
fallible snapshot_forget(struct warden *warden, const char *name, bool *out_done);
// EXPORT: the mounts of what it names, for a jail with the ids of `userns`. The caller closes them,
// also after an error. INVALID not_layered: the base is the host, whose changes alone are no image.
struct export_trees;
fallible snapshot_trees(struct warden *warden, const struct order *order, int userns,
			struct export_trees *out);
// Whether a snapshot of the box is being made, or one whose daemon is gone still ends.
bool snapshot_is_made(const struct warden *warden, const char *box);
void snapshots_forget_forks(struct warden *warden);
// Looks after boxes that are being frozen. Returns when to call again, like teardown_turn().
int64_t snapshots_turn(struct warden *warden);
// A child ended: true if it was one of ours.
bool snapshot_reaped(struct warden *warden, int pid, int status);
// The daemon is gone: what it has ordered is undone.
void snapshots_forget(struct warden *warden);
// The box is to be frozen or thawed by an order: that decides, not the end of a snapshot.
void snapshot_yield(struct warden *warden, const char *box);

// The disk of the box is gone.
void snapshot_unpin(struct warden *warden, const char *box);

// For a build. Whether the order's template is a snapshot whose disk is to be loaded first.
bool snapshot_is_loaded_for(struct warden *warden, const struct order *order);
// Starts the child that copies it.
fallible snapshot_load(struct warden *warden, const struct order *order, int *out_pid,
		       int *out_report);
// The lower directories for that order: of the snapshot's base, of the base that the box stands on,
// or of its template.
fallible snapshot_find(struct warden *warden, const struct order *order, int *out_root,
		       int *out_usr);
