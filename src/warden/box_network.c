// Opens and closes the network of a box. A compromised daemon can send any socket, so the network
// is opened only in the namespace that the warden made for this box. The state file names it by
// inode.
//
// syscalls: close fstat ioctl
#include "warden/box_network.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/reply_queue.h"

uint64_t box_network_inode(int netns)
{
	struct stat st;

	return netns >= 0 && fstat(netns, &st) == 0 ? st.st_ino : 0;
}

fallible box_network_open(struct warden *warden, struct warden_box *box, int netns,
			  int out_fds[ORDER_NET_FDS])
{
	struct netout_fds made;

	TRY(netout_open(&warden->netout, netns, &made));
	fd_drop(&box->steer); // the previous one
	box->steer = made.link;
	out_fds[0] = made.listener;
	out_fds[1] = made.udp;
	return OK;
}

fallible box_network_undo(struct warden *warden, struct warden_box *box, int netns)
{
	fd_drop(&box->steer);
	for (int i = 0; i < ORDER_NET_FDS; i++)
		fd_drop(&box->fds[3 + i]);
	return netout_undo(&warden->netout, netns);
}

// A state file of an earlier cove has no inode. Then any namespace that the host's user namespace
// owns is accepted once: no unprivileged process can make one.
static fallible check_netns(struct warden *warden, struct warden_box *box, int netns)
{
	struct stat st;

	if (weak(NETNS_OWN))
		return OK;
	if (fstat(netns, &st))
		return err_sys(errno, "look at a network namespace");
	if (st.st_dev == warden->netout.dev && st.st_ino != warden->netout.inode &&
	    (box->state_file.netns ? st.st_ino == box->state_file.netns : netout_is_ours(netns))) {
		if (box->state_file.netns)
			return OK;
		box->state_file.netns = st.st_ino;
		return box_state_write(warden->state_dir, box->id, &box->state_file);
	}
	log_event(LOG_ERROR, "order.forbidden", "operation", "network", "severity", "high",
		  "sandbox", box->id, "trail", "a socket of another network namespace", NULL);
	return err_new(INVALID, "bad_socket", "this is no socket of the box");
}

static fallible box_network_open_anew(struct warden *warden, struct warden_box *box, int *out_fds)
{
	auto_fd netns = -1;

	TRY(netout_of(warden->brought, &netns));
	TRY(check_netns(warden, box, netns));
	return box_network_open(warden, box, netns, out_fds);
}

fallible box_network_order(struct warden *warden, const struct order *order)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	int fds[ORDER_NET_FDS] = {-1, -1};

	if (!box || box->state != WARDEN_BOX_ALIVE || box->pidfd < 0)
		return err_new(NOT_FOUND, "no_box", "there is no such box");
	if (order->net && !weak(NETNS))
		TRY(box_network_open_anew(warden, box, fds));
	// Without a listener nothing is steered. The daemon closes the listener.
	if (!order->net)
		fd_drop(&box->steer);
	warden->answer = (struct answer){
		.kind = ANSWER_DONE,
		.to = ORDER_NETWORK,
		.id = order->id,
		.net = fds[0] >= 0,
	};
	reply_queue_answer(warden, &warden->answer, fds, answer_fds(&warden->answer));
	return OK;
}
