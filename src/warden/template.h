// The lower directories that a box starts from: a root, and for the host's own template its /usr.
// Kept in DATA/layers, one directory per template, ids unshifted.
#pragma once

#include "base/err.h"
#include "protocol/order.h"
#include "warden/group.h"

struct templates;

fallible templates_open(int data, struct templates **out);
void templates_close(struct templates *all);
bool templates_at_work(const struct templates *all); // a child is making one

// The lower directories of `name`, open (O_PATH|O_DIRECTORY), owned by the caller. *out_usr is -1
// unless the template has a separate /usr. "host" is made at first use and when dpkg's status file
// has changed. NOT_FOUND no_template with a hint that lists the templates.
fallible template_find(struct templates *all, const char *name, int *out_root, int *out_usr);

// Long work runs in a child of the warden; template_reaped() gives the answer. IMPORT: write the
// archive to *out_pipe. CONFLICT template_exists.
fallible template_import(struct templates *all, const struct order *order, int userns,
			 const struct group_door *door, int *out_pipe);
// LAYER: unpacks `archive`, which stays the caller's, onto the layer order->parent.
// template_has_layer(): it is there already, with its sums in *out.
fallible template_layer(struct templates *all, const struct order *order, int userns,
			const struct group_door *door, int archive);
bool template_has_layer(struct templates *all, const char *name, struct answer *out);
// Starts the child that writes the trees of `order` to `out`. The fds remain the caller's.
struct export_trees;
fallible template_export(struct templates *all, const struct order *order,
			 struct export_trees *trees, int userns, const struct group_door *door,
			 int out);
// Whether a child writes it out, or unpacks a layer onto it: then it must stay.
bool template_is_read(const struct templates *all, const char *name);
// Its root as a detached mount, read-only, idmapped by `userns`. NOT_FOUND no_template.
fallible template_view(struct templates *all, const char *name, int userns, int *out_tree);
fallible template_freeze(struct templates *all, const struct order *order);
// Calls `each` for every half-made template without a child at work.
fallible templates_unfinished(struct templates *all, void (*each)(void *arg, const char *name),
			      void *arg);
// Hides the template at once; its files stay while boxes may use them, see templates_idle(). A
// half-made one without a child at work is removed whole.
fallible template_forget(struct templates *all, const char *name);
fallible template_list(struct templates *all, const char *after, struct answer *out);
// Kills the child at work for the order `id`; 0: all of them, and their answers then carry order 0.
// Each is still reported by template_reaped().
void template_cancel(struct templates *all, uint32_t id);
// A child ended (SIGCHLD): true if it was ours and *out is the answer to send. Call it for every
// child: for one that only removed files it returns false.
bool template_reaped(struct templates *all, int pid, int status, struct answer *out);

// For warden/snapshot.c. The directory of all templates, borrowed.
int templates_dir(const struct templates *all);
// CONFLICT template_exists, INVALID bad_name, EXHAUSTED.
fallible template_may_make(struct templates *all, const char *name);
// The id by which a template is found when it has been removed: made at the first call. CONFLICT
// base_changed: there is none of that name, or it is younger than `since` (wall clock, ms).
#define TEMPLATE_ID 17 // hex digits and a NUL
fallible template_pin(struct templates *all, const char *name, int64_t since,
		      char out[TEMPLATE_ID]);
// Its root directory. NOT_FOUND no_template.
fallible template_find_pinned(struct templates *all, const char *id, int *out_root);
// Removes a directory of that name now: nobody has it mounted.
fallible template_discard(struct templates *all, const char *name);
// Asked of each removed template with an id, before it is deleted: whether it is still needed.
void templates_on_idle(struct templates *all, bool (*is_needed)(void *arg, const char *id),
		       void *arg);

// Idle work: removes hidden templates, and old skeletons of the host, once every living box is
// younger. `oldest_us`: when the oldest box was made, by clock_us(); INT64_MAX: there is none.
// Needed only while templates_has_gone().
void templates_idle(struct templates *all, int64_t oldest_us);
bool templates_has_gone(const struct templates *all);
uint64_t templates_trash_bytes(const struct templates *all); // see trash_bytes()
