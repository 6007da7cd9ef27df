// Three-way comparison by path. A path that differs from the last sync on one side only goes to the
// other side; a path that differs on both, and is not equal, is a conflict. A file where the other
// side has a directory of other files is a conflict too.
#include "sync/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct plan_maker {
	const struct file_list *base, *pending, *source, *target;
	enum plan_choice choice;
	struct plan *plan;
	size_t change_room, conflict_room;
};

static void plan_add_conflict(struct plan_maker *maker, const char *path)
{
	struct plan *plan = maker->plan;

	if (plan->conflict_count == maker->conflict_room) {
		maker->conflict_room = maker->conflict_room ? 2 * maker->conflict_room : 64;
		plan->conflicts = mem_grow(plan->conflicts, maker->conflict_room,
					   sizeof(*plan->conflicts));
	}
	plan->conflicts[plan->conflict_count++] = path;
}

static void plan_add_change(struct plan_maker *maker, const struct plan_change *change)
{
	struct plan *plan = maker->plan;

	if (plan->change_count == maker->change_room) {
		maker->change_room = maker->change_room ? 2 * maker->change_room : 64;
		plan->changes = mem_grow(plan->changes, maker->change_room, sizeof(*plan->changes));
	}
	plan->changes[plan->change_count++] = *change;
	plan->written += change->to != NULL;
	plan->deleted += change->to == NULL;
}

// A file that an interrupted sync was writing: its mode is set when it is whole.
static bool is_part(const struct listed_file *pending, const struct listed_file *found)
{
	return !found ||
	       (pending && !found->is_link && found->mode == 0600 && found->size <= pending->size);
}

static bool plan_is_untouched(const struct plan_maker *maker, const char *path,
			      const struct listed_file *base, const struct listed_file *target)
{
	const struct listed_file *pending;

	if (file_list_same(target, base))
		return true;
	if (!maker->pending)
		return false;
	pending = file_list_find(maker->pending, path);
	return !file_list_same(pending, base) &&
	       (file_list_same(target, pending) || is_part(pending, target));
}

static void plan_judge(struct plan_maker *maker, const struct listed_file *source,
		       const struct listed_file *target)
{
	const char *path = source ? source->path : target->path;
	const struct listed_file *base;

	if (file_list_same(source, target))
		return;
	base = file_list_find(maker->base, path);
	if (maker->choice != PLAN_EXACT && !plan_is_untouched(maker, path, base, target)) {
		if (file_list_same(source, base) || maker->choice == PLAN_TARGET)
			return;
		if (maker->choice == PLAN_REFUSE) {
			plan_add_conflict(maker, path);
			return;
		}
	}
	plan_add_change(maker, &(struct plan_change){target, source, path});
}

static const struct plan_change *plan_find(const struct plan *plan, const char *path)
{
	size_t low = 0, high = plan->change_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(plan->changes[middle].path, path);

		if (!order)
			return &plan->changes[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

// Whether the target has a file of that path when the plan is done.
static bool plan_leaves(const struct plan_maker *maker, const char *path)
{
	const struct plan_change *change = plan_find(maker->plan, path);

	return change ? change->to != NULL : file_list_find(maker->target, path) != NULL;
}

// A written path needs directories above, and no directory in its place.
static bool plan_fits(const struct plan_maker *maker, const char *path)
{
	auto_free char *above = mem_str(path);
	auto_free char *beneath = mem_fmt("%s/", path);
	char *slash;

	while ((slash = strrchr(above, '/'))) {
		*slash = 0;
		if (plan_leaves(maker, above))
			return false;
	}
	for (size_t i = file_list_from(maker->target, beneath);
	     i < maker->target->count && str_starts(str_of(maker->target->at[i].path), beneath);
	     i++)
		if (plan_leaves(maker, maker->target->at[i].path))
			return false;
	return true;
}

void plan_make(const struct file_list *base, const struct file_list *pending,
	       const struct file_list *source, const struct file_list *target,
	       enum plan_choice choice, struct plan *out)
{
	struct plan_maker maker = {base, pending, source, target, choice, out, 0, 0};
	size_t i = 0, j = 0;

	*out = (struct plan){0};
	while (i < source->count || j < target->count) {
		int order = i == source->count	 ? 1
			    : j == target->count ? -1
						 : strcmp(source->at[i].path, target->at[j].path);

		plan_judge(&maker, order <= 0 ? &source->at[i] : NULL,
			   order >= 0 ? &target->at[j] : NULL);
		i += order <= 0;
		j += order >= 0;
	}
	for (i = 0; i < out->change_count; i++)
		if (out->changes[i].to && !plan_fits(&maker, out->changes[i].path))
			plan_add_conflict(&maker, out->changes[i].path);
}

void plan_done(struct plan *plan)
{
	free(plan->changes);
	free((void *)plan->conflicts);
	*plan = (struct plan){0};
}
