// A daemon that was taken over can bring any socket. The way out is opened in the namespace that
// the warden made for this box, which the note tells by its inode, and in no other.
//
// syscalls: close fstat ioctl
#include "warden/netcell.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/post.h"

uint64_t netcell_inode(int netns)
{
	struct stat st;

	return netns >= 0 && fstat(netns, &st) == 0 ? st.st_ino : 0;
}

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

// A note of an earlier cove does not tell the inode: then any namespace of the host's own user
// namespace will do, for once. No process without privilege can make one.
static fallible check_netns(struct warden *warden, struct cell *cell, int netns)
{
	struct stat st;

	if (weak(NETNS_OWN))
		return OK;
	if (fstat(netns, &st))
		return err_sys(errno, "look at a network namespace");
	if (st.st_dev == warden->netout.dev && st.st_ino != warden->netout.inode &&
	    (cell->note.netns ? st.st_ino == cell->note.netns : netout_is_ours(netns))) {
		if (cell->note.netns)
			return OK;
		cell->note.netns = st.st_ino;
		return note_write(warden->cells, cell->id, &cell->note);
	}
	log_event(LOG_ERROR, "order.forbidden", "operation", "network", "severity", "high",
		  "sandbox", cell->id, "trail", "a socket of another network namespace", NULL);
	return err_new(INVALID, "bad_socket", "this is no socket of the box");
}

static fallible netcell_open_anew(struct warden *warden, struct cell *cell, int *out_fds)
{
	auto_fd netns = -1;

	TRY(netout_of(warden->brought, &netns));
	TRY(check_netns(warden, cell, netns));
	return netcell_open(warden, cell, netns, out_fds);
}

fallible netcell_order(struct warden *warden, const struct order *order)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));
	int fds[ORDER_NET_FDS] = {-1, -1};

	if (!cell || cell->state != CELL_ALIVE || cell->pidfd < 0)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (order->net && !weak(NETNS))
		TRY(netcell_open_anew(warden, cell, fds));
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
