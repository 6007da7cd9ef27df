// What has to change on the target so that it gets the changes of the source since the last sync.
// Both directions are the same comparison. No I/O.
#pragma once

#include "sync/file_list.h"

enum plan_choice {
	PLAN_REFUSE, // a path that changed on both sides is a conflict
	PLAN_SOURCE, // the source wins
	PLAN_TARGET, // the target stays
	PLAN_EXACT,  // the target becomes the source, whatever the last sync was
};

struct plan_change {
	const struct listed_file *from; // of the target; NULL: absent
	const struct listed_file *to;	// of the source; NULL: to be deleted
	const char *path;
};

// Borrows from the manifests. Sorted by path.
struct plan {
	struct plan_change *changes;
	size_t change_count, written, deleted;
	const char **conflicts;
	size_t conflict_count;
};

// `pending` NULL: none. Else the target may have, for a path that it changed, the old file, the new
// one, or a part of the new one, which an interrupted sync left.
void plan_make(const struct file_list *base, const struct file_list *pending,
	       const struct file_list *source, const struct file_list *target,
	       enum plan_choice choice, struct plan *out);
void plan_done(struct plan *plan);
#define auto_plan on_exit_call(plan_done) struct plan
