// The table of a box's states.
#include "warden/box.h"

#include <stdlib.h>

#include "tap.h"

static struct warden warden;

static struct warden_box *box_in(enum warden_box_state state)
{
	if (!warden.boxes)
		warden.boxes = map_new();
	return warden_box_new(&warden, "box-0", state);
}

static void box_free(struct warden_box *box)
{
	map_take(warden.boxes, str_of(box->id));
	warden.kept -= box->state == WARDEN_BOX_KEPT;
	warden_box_close(&warden, box);
	free(box);
}

TEST(ends, "a box ends from every state, once, and only after the zygote has answered")
{
	for (int state = 0; state <= WARDEN_BOX_KEPT; state++) {
		struct warden_box *box = box_in((enum warden_box_state)state);
		bool building = warden_box_is_building(box);
		bool ends = state == WARDEN_BOX_DOOMED || state == WARDEN_BOX_DYING ||
			    state == WARDEN_BOX_SWEEPING;

		CHECK(warden_box_move(&warden, box, BOX_EVENT_REMOVE) == !ends);
		CHECK(!warden_box_move(&warden, box, BOX_EVENT_REMOVE));
		CHECK((box->state == WARDEN_BOX_DOOMED) == building);
		CHECK(!building || !warden_box_move(&warden, box, BOX_EVENT_EXITED));
		CHECK(warden_box_move(&warden, box, BOX_EVENT_CLONED) == building);
		warden_box_move(&warden, box, BOX_EVENT_EXITED);
		CHECK(box->state == WARDEN_BOX_SWEEPING && !warden.kept);
		CHECK(warden_box_move(&warden, box, BOX_EVENT_EMPTIED) && warden.kept == 1);
		box_free(box);
	}
}

TEST(orders, "only a prebuilt box and a kept disk can be ordered; a doomed box never lives")
{
	for (int state = 0; state <= WARDEN_BOX_KEPT; state++) {
		struct warden_box *box = box_in((enum warden_box_state)state);
		bool free = state <= WARDEN_BOX_SET_UP || state == WARDEN_BOX_KEPT;

		CHECK(warden_box_move(&warden, box, BOX_EVENT_ORDERED) == free);
		CHECK(!free || box->state == WARDEN_BOX_BUILDING);
		if (warden_box_move(&warden, box, BOX_EVENT_CLONED))
			CHECK(box->state ==
			      (state == WARDEN_BOX_DOOMED ? WARDEN_BOX_DYING : WARDEN_BOX_ALIVE));
		box_free(box);
	}
}

TEST(set_up, "rootfs mounts are sent once, to a prebuilt box that is cloned")
{
	for (int state = 0; state <= WARDEN_BOX_KEPT; state++) {
		struct warden_box *box = box_in((enum warden_box_state)state);

		CHECK(warden_box_move(&warden, box, BOX_EVENT_SET_UP) ==
		      (state == WARDEN_BOX_PREBUILT));
		CHECK(!warden_box_move(&warden, box, BOX_EVENT_SET_UP));
		box_free(box);
	}
	map_free(warden.boxes);
}
