// What a box starts from: a root directory, and for the host's own template its /usr beside it.
// Kept in DATA/layers, one directory a template, ids unshifted.
#pragma once

#include "base/err.h"
#include "protocol/order.h"
#include "warden/group.h"

struct templates;

fallible templates_open(int data, struct templates **out);
void templates_close(struct templates *all);
bool templates_at_work(const struct templates *all); // one is being made

// The lower directories of `name`, open (O_PATH|O_DIRECTORY), the caller's. *out_usr = -1 unless
// the template has /usr apart. "host" is made at first use and again whenever dpkg's status file
// has changed since. NOT_FOUND no_template with a hint that lists what there is.
fallible template_find(struct templates *all, const char *name, int *out_root, int *out_usr);

// Long work runs in a child of the warden; the answer comes later through template_reaped().
// IMPORT: *out_pipe is the end to write the archive to. CONFLICT template_exists.
fallible template_import(struct templates *all, const struct order *order, int userns,
			 const struct group_door *door, int *out_pipe);
fallible template_freeze(struct templates *all, const struct order *order);
// Calls `each` for every template that is half made, and that nobody is making.
fallible templates_unfinished(struct templates *all, void (*each)(void *arg, const char *name),
			      void *arg);
// Out of sight at once; the files stay while boxes may still use them, see templates_idle(). One
// that is half made and that nobody is making goes as a whole.
fallible template_forget(struct templates *all, const char *name);
fallible template_list(struct templates *all, const char *after, struct answer *out);
// Kills the child at work for the order `id`; 0: all of them, and their answers are for no order
// (0) then. Each is still heard of through template_reaped().
void template_cancel(struct templates *all, uint32_t id);
// A child ended (SIGCHLD): true when it was ours and *out is the answer that is due. Ask it of
// every child: one that merely removed something is noted here and answered by false.
bool template_reaped(struct templates *all, int pid, int status, struct answer *out);

// Spare time: removes what was forgotten (or the host's skeleton of before an upgrade) once every
// living box was born after that. `oldest_us`: when the oldest was born, by clock_us(); INT64_MAX:
// there is none. Only needed while templates_has_gone().
void templates_idle(struct templates *all, int64_t oldest_us);
bool templates_has_gone(const struct templates *all);
