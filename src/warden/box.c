// The states of a box, as a table: which event leads from which state to which. All that follows
// from a transition is done by the caller (build, teardown). A new box starts in PREBUILDING or
// BUILDING; a box of an earlier warden starts in ALIVE or KEPT.
//
// syscalls: close
#include "warden/box.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "os/fd.h"

static const struct {
	enum warden_box_state from;
	enum warden_box_event event;
	enum warden_box_state to;
} transitions[] = {
	{WARDEN_BOX_PREBUILDING, BOX_EVENT_ORDERED, WARDEN_BOX_BUILDING},
	{WARDEN_BOX_PREBUILDING, BOX_EVENT_CLONED, WARDEN_BOX_PREBUILT},
	{WARDEN_BOX_PREBUILDING, BOX_EVENT_FAILED, WARDEN_BOX_DYING},
	{WARDEN_BOX_PREBUILDING, BOX_EVENT_REMOVE, WARDEN_BOX_DOOMED},
	{WARDEN_BOX_PREBUILT, BOX_EVENT_SET_UP, WARDEN_BOX_SET_UP},
	{WARDEN_BOX_PREBUILT, BOX_EVENT_ORDERED, WARDEN_BOX_BUILDING},
	{WARDEN_BOX_PREBUILT, BOX_EVENT_REMOVE, WARDEN_BOX_DYING},
	{WARDEN_BOX_SET_UP, BOX_EVENT_ORDERED, WARDEN_BOX_BUILDING},
	{WARDEN_BOX_SET_UP, BOX_EVENT_REMOVE, WARDEN_BOX_DYING},
	{WARDEN_BOX_BUILDING, BOX_EVENT_CLONED, WARDEN_BOX_ALIVE},
	{WARDEN_BOX_BUILDING, BOX_EVENT_FAILED, WARDEN_BOX_DYING},
	{WARDEN_BOX_BUILDING, BOX_EVENT_REMOVE, WARDEN_BOX_DOOMED},
	{WARDEN_BOX_DOOMED, BOX_EVENT_CLONED, WARDEN_BOX_DYING},
	{WARDEN_BOX_DOOMED, BOX_EVENT_FAILED, WARDEN_BOX_DYING},
	{WARDEN_BOX_ALIVE, BOX_EVENT_REMOVE, WARDEN_BOX_DYING},
	{WARDEN_BOX_DYING, BOX_EVENT_EXITED, WARDEN_BOX_SWEEPING},
	{WARDEN_BOX_SWEEPING, BOX_EVENT_EMPTIED, WARDEN_BOX_KEPT},
	{WARDEN_BOX_KEPT, BOX_EVENT_ORDERED, WARDEN_BOX_BUILDING},
	{WARDEN_BOX_KEPT, BOX_EVENT_REMOVE, WARDEN_BOX_SWEEPING},
};

bool warden_box_move(struct warden *warden, struct warden_box *box, enum warden_box_event event)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++) {
		if (transitions[i].from != box->state || transitions[i].event != event)
			continue;
		warden->kept -= box->state == WARDEN_BOX_KEPT;
		box->state = transitions[i].to;
		warden->kept += box->state == WARDEN_BOX_KEPT;
		return true;
	}
	return false;
}

bool warden_box_is_building(const struct warden_box *box)
{
	return box->state == WARDEN_BOX_PREBUILDING || box->state == WARDEN_BOX_BUILDING ||
	       box->state == WARDEN_BOX_DOOMED;
}

struct warden_box *warden_box_new(struct warden *warden, const char *box_id,
				  enum warden_box_state state)
{
	struct warden_box *box = mem_new_of(struct warden_box);

	snprintf(box->id, sizeof(box->id), "%s", box_id);
	box->state = state;
	box->pidfd = box->group_mount = box->mounts = box->steer = box->netns = -1;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		box->fds[i] = -1;
	map_put(warden->boxes, str_of(box->id), box);
	warden->kept += state == WARDEN_BOX_KEPT;
	return box;
}

struct warden_box *warden_box_next(const struct warden *warden, size_t *at)
{
	struct str id;
	void *box;

	return map_next(warden->boxes, at, &id, &box) ? box : NULL;
}

void warden_box_close(struct warden *warden, struct warden_box *box)
{
	int *const fds[] = {&box->pidfd, &box->mounts, &box->steer, &box->netns, &box->group_mount};

	warden->group_mounts -= box->group_mount >= 0;
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		fd_drop(fds[i]);
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&box->fds[i]);
	err_free(take_ptr(box->build_err));
	free(take_ptr(box->refusal));
}
