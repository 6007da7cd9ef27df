// syscalls: close
#include "warden/netcell.h"

#include "base/auto.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/post.h"

fallible netcell_open(struct warden *warden, struct cell *cell, int netns,
		      int out_fds[ORDER_NET_FDS])
{
	struct netout_fds made;

	TRY(netout_open(&warden->netout, netns, &made));
	fd_drop(&cell->steer); // the one before
	cell->steer = made.link;
	out_fds[0] = made.listener;
	out_fds[1] = made.udp;
	return OK;
}

fallible netcell_undo(struct warden *warden, struct cell *cell, int netns)
{
	fd_drop(&cell->steer);
	for (int i = 0; i < ORDER_NET_FDS; i++)
		fd_drop(&cell->fds[3 + i]);
	return netout_undo(&warden->netout, netns);
}

static fallible open_anew(struct warden *warden, struct cell *cell, int *out_fds)
{
	auto_fd netns = -1;

	TRY(netout_of(warden->brought, &netns));
	return netcell_open(warden, cell, netns, out_fds);
}

fallible netcell_order(struct warden *warden, const struct order *order)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));
	int fds[ORDER_NET_FDS] = {-1, -1};

	if (!cell || cell->state != CELL_ALIVE || cell->pidfd < 0)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (order->net && !weak(NETNS))
		TRY(open_anew(warden, cell, fds));
	// Without a listener nothing is steered, and that one the daemon closes.
	if (!order->net)
		fd_drop(&cell->steer);
	warden->answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_NETWORK,
		.id = order->id,
		.net = fds[0] >= 0,
	};
	post_answer(warden, &warden->answer, fds, answer_fds(&warden->answer));
	return OK;
}
