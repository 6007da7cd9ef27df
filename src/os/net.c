// The network of a box by ioctl, rtnetlink and sysctl: loopback up, AnyIP (every address is local),
// the TCP listener and the UDP socket of egress. Each step is idempotent. No packet leaves the
// namespace: it has no other interface.
//
// syscalls: socket setsockopt bind listen getsockname ioctl close
#include "os/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/netlink.h"

#define LOOPBACK 1	   // the index of lo, in every namespace
#define SOURCE 0x0a00020fu // 10.0.2.15
#define DNS_PORT 53
#define BACKLOG 128		  // as many as a box may have open
#define RECEIVE_BYTES (256 << 10) // of a connection: bounds the host memory that a box can use

static int raise_lo(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result;

	if (sock < 0)
		return -1;
	result = ioctl(sock, SIOCSIFFLAGS, &request);
	fd_drop(&sock);
	return result;
}

int net_loopback(int proc)
{
	if (raise_lo())
		return -1;
	if (fd_put(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0"))
		return -1;
	if (fd_put(proc, "sys/net/ipv4/ping_group_range", "0 2147483647"))
		return -1;
	// Else every address would answer pings, once AnyIP is on.
	if (fd_put(proc, "sys/net/ipv4/icmp_echo_ignore_all", "1"))
		return -1;
	return fd_put(proc, "sys/net/ipv6/icmp/echo_ignore_all", "1") && errno != ENOENT ? -1 : 0;
}

#define ADD (NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK)

static void put_source(struct netlink *batch, uint16_t what, uint16_t flags)
{
	struct ifaddrmsg body = {
		.ifa_family = AF_INET,
		.ifa_prefixlen = 32,
		.ifa_scope = RT_SCOPE_UNIVERSE,
		.ifa_index = LOOPBACK,
	};

	netlink_begin(batch, what, flags, &body, sizeof(body));
	netlink_put_be32(batch, IFA_LOCAL, SOURCE);
	netlink_put_be32(batch, IFA_ADDRESS, SOURCE);
}

static void put_route(struct netlink *batch, uint16_t what, uint16_t flags, uint8_t family)
{
	struct rtmsg body = {
		.rtm_family = family,
		.rtm_table = RT_TABLE_LOCAL,
		.rtm_protocol = RTPROT_BOOT,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL,
	};
	int index = LOOPBACK;

	netlink_begin(batch, what, flags, &body, sizeof(body));
	netlink_put(batch, RTA_OIF, &index, sizeof(index));
	if (family == AF_INET)
		netlink_put_be32(batch, RTA_PREFSRC, SOURCE);
}

static bool has_ipv6(void)
{
	int sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return false;
	fd_drop(&sock);
	return true;
}

int net_anyip(void)
{
	struct netlink batch = {.len = 0};

	put_source(&batch, RTM_NEWADDR, ADD);
	put_route(&batch, RTM_NEWROUTE, ADD, AF_INET);
	if (netlink_run(NETLINK_ROUTE, &batch, EEXIST))
		return -1;
	if (!has_ipv6())
		return 0;
	batch.len = 0;
	put_route(&batch, RTM_NEWROUTE, ADD, AF_INET6);
	// EACCES: the host has IPv6 disabled for new interfaces.
	return netlink_run(NETLINK_ROUTE, &batch, EEXIST) && errno != EACCES ? -1 : 0;
}

int net_anyip_end(void)
{
	struct netlink batch = {.len = 0};

	put_route(&batch, RTM_DELROUTE, NLM_F_ACK, AF_INET);
	put_source(&batch, RTM_DELADDR, NLM_F_ACK);
	if (netlink_run(NETLINK_ROUTE, &batch, 0))
		return -1;
	if (!has_ipv6())
		return 0;
	batch.len = 0;
	put_route(&batch, RTM_DELROUTE, NLM_F_ACK, AF_INET6);
	return netlink_run(NETLINK_ROUTE, &batch, ESRCH); // ESRCH: it was absent
}

static int set(int sock, int level, int option, int value)
{
	return setsockopt(sock, level, option, &value, sizeof(value));
}

static int make_listener(int transparent)
{
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
	struct sockaddr_in any4 = {.sin_family = AF_INET};
	int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int sock = socket(AF_INET6, type, 0);
	bool both = sock >= 0;
	int wrong;

	if (!both) // a kernel without IPv6
		sock = socket(AF_INET, type, 0);
	if (sock < 0)
		return -1;
	wrong = (both && set(sock, IPPROTO_IPV6, IPV6_V6ONLY, 0)) ||
		set(sock, SOL_SOCKET, SO_RCVBUF, RECEIVE_BYTES) ||
		(transparent && set(sock, IPPROTO_IP, IP_TRANSPARENT, 1)) ||
		(both ? bind(sock, (struct sockaddr *)&any6, sizeof(any6))
		      : bind(sock, (struct sockaddr *)&any4, sizeof(any4))) ||
		listen(sock, BACKLOG);
	if (wrong)
		fd_drop(&sock);
	return sock;
}

// SO_REUSEPORT: the previous socket may still be open. Sockets of another uid than ours, the host's
// root, cannot share the port.
static int make_udp(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT)};
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (sock >= 0 &&
	    (set(sock, SOL_SOCKET, SO_REUSEPORT, 1) || set(sock, IPPROTO_IP, IP_PKTINFO, 1) ||
	     bind(sock, (struct sockaddr *)&any, sizeof(any))))
		fd_drop(&sock);
	return sock;
}

int net_listen(int transparent, int *out_listener, int *out_udp)
{
	int listener = make_listener(transparent);
	int udp = listener < 0 ? -1 : make_udp();

	if (udp < 0) {
		fd_drop(&listener);
		return -1;
	}
	*out_listener = listener;
	*out_udp = udp;
	return 0;
}

uint16_t net_port(int sock)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
	} name = {0};
	socklen_t size = sizeof(name);

	if (getsockname(sock, &name.any, &size))
		return 0;
	return ntohs(name.any.sa_family == AF_INET6 ? name.in6.sin6_port : name.in4.sin_port);
}
