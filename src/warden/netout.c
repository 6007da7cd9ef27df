// Sets up the network of a box from outside: the warden enters the box's network namespace with
// setns, assigns 0.0.0.0/0 as local, opens the listener and the UDP socket, and steers connections
// to them by sk_lookup or nft. It refuses to do so in the host's namespace. If it cannot return to
// the host's namespace it exits, because the next order would be executed in the box's.
//
// syscalls: setns openat fstat close ioctl exit_group
#include "warden/netout.h"

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
#include "os/fd.h"
#include "os/net.h"
#include "os/steer.h"

const char *netout_word(enum netout_by by)
{
	static const char *const words[] = {
		[NETOUT_NONE] = "none",
		[NETOUT_SK_LOOKUP] = "sk_lookup",
		[NETOUT_NFT] = "nft",
	};

	return words[by];
}

void netout_begin(struct netout *netout, enum netout_by by)
{
	struct stat st;

	*netout = (struct netout){.by = by};
	netout->home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (netout->home < 0 || fstat(netout->home, &st)) {
		netout->by = NETOUT_NONE;
		return;
	}
	netout->dev = st.st_dev;
	netout->inode = st.st_ino;
}

void netout_end(struct netout *netout)
{
	fd_drop(&netout->home);
}

fallible netout_of(int sock, int *out_netns)
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

bool netout_is_ours(int netns)
{
	auto_fd owner = ioctl(netns, NS_GET_USERNS);
	auto_fd own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	struct stat one, other;

	return owner >= 0 && own >= 0 && fstat(owner, &one) == 0 && fstat(own, &other) == 0 &&
	       one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Refuses the host's own network namespace.
static fallible netout_enter(const struct netout *netout, int netns)
{
	struct stat st;

	if (netout->by == NETOUT_NONE)
		return err_hint(err_new(NOT_OFFERED, "no_network",
					"this host cannot give a sandbox a network"),
				"'cove doctor' says what the kernel lacks");
	if (fstat(netns, &st))
		return err_sys(errno, "look at a network namespace");
	if (st.st_dev == netout->dev && st.st_ino == netout->inode)
		return err_sys(EXDEV, "enter a box's network namespace, which is the host's");
	if (setns(netns, CLONE_NEWNET))
		return err_sys(errno, "enter a box's network namespace");
	return OK;
}

// On failure exit: the next order would be executed in the box's namespace.
static void netout_leave(const struct netout *netout)
{
	if (setns(netout->home, CLONE_NEWNET) == 0)
		return;
	log_event(LOG_ERROR, "warden.lost_in_box", NULL);
	_exit(1);
}

static fallible open_inside(enum netout_by by, int netns, struct netout_fds *out)
{
	auto_fd listener = -1;
	auto_fd udp = -1;
	int link = -1;

	if (net_anyip())
		return err_sys(errno, "route every address to loopback");
	if (net_listen(by == NETOUT_NFT, &listener, &udp))
		return err_sys(errno, "listen in a box");
	if (by == NETOUT_SK_LOOKUP) {
		link = steer_sk_lookup(netns, listener);
		if (link < 0)
			return err_sys(errno, "steer a box's connections by sk_lookup");
	} else if (steer_nft(net_port(listener))) {
		return err_sys(errno, "steer a box's connections by nft");
	}
	*out = (struct netout_fds){take_fd(&listener), take_fd(&udp), link};
	return OK;
}

fallible netout_open(const struct netout *netout, int netns, struct netout_fds *out)
{
	struct err *err;

	TRY(netout_enter(netout, netns));
	err = open_inside(netout->by, netns, out);
	netout_leave(netout);
	return err;
}

fallible netout_undo(const struct netout *netout, int netns)
{
	struct err *err = OK;

	TRY(netout_enter(netout, netns));
	if (net_anyip_end())
		err = err_sys(errno, "remove the addresses of a box");
	netout_leave(netout);
	return err;
}
