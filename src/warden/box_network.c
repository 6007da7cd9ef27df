// Sets up the network of a box from outside: the warden enters the box's network namespace with
// setns, assigns 0.0.0.0/0 as local, opens the listener and the UDP socket, and steers connections
// to them by sk_lookup or nft. It refuses to do so in the host's namespace. If it cannot return to
// the host's namespace it exits, because the next order would be executed in the box's. A
// compromised daemon can send any socket, so the network is opened only in the namespace that the
// warden made for this box. The state file names it by inode.
//
// syscalls: setns openat fstat close ioctl exit_group
#include "warden/box_network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/net.h"
#include "os/steer.h"
#include "warden/reply_queue.h"

const char *box_network_word(enum box_network_by by)
{
	static const char *const words[] = {
		[NETWORK_BY_NONE] = "none",
		[NETWORK_BY_SK_LOOKUP] = "sk_lookup",
		[NETWORK_BY_NFT] = "nft",
	};

	return words[by];
}

void box_network_begin(struct box_network *network, enum box_network_by by)
{
	struct stat st;

	*network = (struct box_network){.by = by};
	network->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (network->home < 0 || fstat(network->home, &st)) {
		network->by = NETWORK_BY_NONE;
		return;
	}
	network->dev = st.st_dev;
	network->inode = st.st_ino;
}

// The network namespace of a socket, owned by the caller. INVALID bad_socket: not a socket.
static fallible network_of(int sock, int *out_netns)
{
	struct stat st;
	int netns = -1;

	// Other file types may interpret the ioctl number as a request of their own.
	errno = ENOTSOCK;
	if (fstat(sock, &st) == 0 && S_ISSOCK(st.st_mode))
		netns = ioctl(sock, SIOCGSKNS);
	if (netns < 0)
		return err_while(
			err_new(INVALID, "bad_socket", "the descriptor is no socket of a box"),
			"ask for its namespace: %s", strerror(errno));
	*out_netns = netns;
	return OK;
}

// Whether our own user namespace owns it.
static bool network_is_ours(int netns)
{
	auto_fd owner = ioctl(netns, NS_GET_USERNS);
	auto_fd own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	struct stat one, other;

	return owner >= 0 && own >= 0 && fstat(owner, &one) == 0 && fstat(own, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Refuses the host's own network namespace.
static fallible network_enter(const struct box_network *network, int netns)
{
	struct stat st;

	if (network->by == NETWORK_BY_NONE)
		return err_hint(err_new(NOT_OFFERED, "no_network",
					"this host cannot give a sandbox a network"),
				"'cove doctor' says what the kernel lacks");
	if (fstat(netns, &st))
		return err_sys(errno, "look at a network namespace");
	if (st.st_dev == network->dev && st.st_ino == network->inode)
		return err_sys(EXDEV, "enter a box's network namespace, which is the host's");
	if (setns(netns, CLONE_NEWNET))
		return err_sys(errno, "enter a box's network namespace");
	return OK;
}

// On failure exit: the next order would be executed in the box's namespace.
static void network_leave(const struct box_network *network)
{
	if (setns(network->home, CLONE_NEWNET) == 0)
		return;
	log_event(LOG_ERROR, "warden.lost_in_box", NULL);
	_exit(1);
}

// Inside the box's network namespace. *out_link: keep it open, steering ends with it; -1: steering
// lasts without.
static fallible open_inside(enum box_network_by by, int netns, int out_fds[ORDER_NET_FDS],
			    int *out_link)
{
	auto_fd listener = -1;
	auto_fd udp = -1;
	int link = -1;

	if (net_anyip())
		return err_sys(errno, "route every address to loopback");
	if (net_listen(by == NETWORK_BY_NFT, &listener, &udp))
		return err_sys(errno, "listen in a box");
	if (by == NETWORK_BY_SK_LOOKUP) {
		link = steer_sk_lookup(netns, listener);
		if (link < 0)
			return err_sys(errno, "steer a box's connections by sk_lookup");
	} else if (steer_nft(net_port(listener))) {
		return err_sys(errno, "steer a box's connections by nft");
	}
	out_fds[0] = take_fd(&listener);
	out_fds[1] = take_fd(&udp);
	*out_link = link;
	return OK;
}

uint64_t box_network_inode(int netns)
{
	struct stat st;

	return netns >= 0 && fstat(netns, &st) == 0 ? st.st_ino : 0;
}

fallible box_network_open(struct warden *warden, struct warden_box *box, int netns,
			  int out_fds[ORDER_NET_FDS])
{
	struct err *err;
	int link = -1;

	TRY(network_enter(&warden->network, netns));
	err = open_inside(warden->network.by, netns, out_fds, &link);
	network_leave(&warden->network);
	TRY(err);
	fd_drop(&box->steer); // the previous one
	box->steer = link;
	return OK;
}

fallible box_network_undo(struct warden *warden, struct warden_box *box, int netns)
{
	struct err *err = OK;

	fd_drop(&box->steer);
	for (int i = 0; i < ORDER_NET_FDS; i++)
		fd_drop(&box->fds[3 + i]);
	TRY(network_enter(&warden->network, netns));
	if (net_anyip_end())
		err = err_sys(errno, "remove the addresses of a box");
	network_leave(&warden->network);
	return err;
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
	if (st.st_dev == warden->network.dev && st.st_ino != warden->network.inode &&
	    (box->state_file.netns ? st.st_ino == box->state_file.netns : network_is_ours(netns))) {
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

	TRY(network_of(warden->brought, &netns));
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
