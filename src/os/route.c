// Rtnetlink questions about one destination: the route that the kernel would take (RTM_GETROUTE)
// and the prefixes of all interfaces (RTM_GETADDR). A destination that is reached without a gateway
// is a neighbour, whatever its address looks like. A destination within a prefix of an interface is
// a neighbour even if a more specific route names a gateway.
//
// A tunnel (IFF_POINTOPOINT) has no neighbours. A default route through one needs no gateway, and
// VPN clients split it into halves: a route of at most TUNNEL_BITS through a tunnel counts as one.
//
// The kernel has answered when send() returns; only messages of the kernel (sender 0) are read.
//
// syscalls: socket sendto recvfrom close
#include "os/route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "os/netlink.h"

#define TUNNEL_BITS 3
#define ROOM ((size_t)16 * 1024) // the kernel puts at most 8 KiB of a dump into a datagram

// One message of an answer.
typedef void route_read_fn(const struct nlmsghdr *head, void *arg);

struct route_query {
	bool is_v6;
	const uint8_t *address;
	bool has_gateway, is_own, is_tunnel;
	uint8_t type, prefix_len;
	uint32_t device;
};

static bool prefix_holds(const uint8_t *prefix, const uint8_t *address, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return !memcmp(prefix, address, whole) &&
	       (!rest || (prefix[whole] ^ address[whole]) >> (8 - rest) == 0);
}

// Reads datagrams until the end of the answer: an acknowledgement, or the end of a dump. -1 with
// errno: no answer; else 0, or the errno of the kernel's answer.
static int route_receive(int sock, route_read_fn *read, void *arg)
{
	auto_free char *room = mem_new(ROOM);

	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t size = sizeof(from);
		ssize_t len = recvfrom(sock, room, ROOM, MSG_DONTWAIT | MSG_TRUNC,
				       (struct sockaddr *)&from, &size);
		const struct nlmsghdr *head = (const struct nlmsghdr *)room;
		size_t left = (size_t)len;

		if (len < 0)
			return -1;
		if (left > ROOM) {
			errno = EMSGSIZE;
			return -1;
		}
		for (; !from.nl_pid && NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
			if (head->nlmsg_type == NLMSG_DONE)
				return 0;
			if (head->nlmsg_type != NLMSG_ERROR) {
				read(head, arg);
				continue;
			}
			return -((const struct nlmsgerr *)NLMSG_DATA(head))->error;
		}
	}
}

static int route_ask(int sock, const struct netlink *question, route_read_fn *read, void *arg)
{
	static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(sock, question->bytes, question->len, 0, (const struct sockaddr *)&kernel,
		   sizeof(kernel)) != (ssize_t)question->len)
		return -1;
	return route_receive(sock, read, arg);
}

static void route_read(const struct nlmsghdr *head, void *arg)
{
	struct route_query *query = arg;
	const struct rtmsg *route = NLMSG_DATA(head);
	const struct rtattr *attr = RTM_RTA(route);

	if (head->nlmsg_type != RTM_NEWROUTE || head->nlmsg_len < NLMSG_LENGTH(sizeof(*route)))
		return;
	query->type = route->rtm_type;
	query->prefix_len = route->rtm_dst_len;
	for (size_t left = RTM_PAYLOAD(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left)) {
		if (attr->rta_type == RTA_GATEWAY || attr->rta_type == RTA_VIA)
			query->has_gateway = true;
		if (attr->rta_type == RTA_OIF && RTA_PAYLOAD(attr) == sizeof(query->device))
			memcpy(&query->device, RTA_DATA(attr), sizeof(query->device));
	}
}

static int route_ask_destination(int sock, struct route_query *query, uint32_t flags)
{
	const size_t len = query->is_v6 ? 16 : 4;
	struct rtmsg body = {.rtm_family = query->is_v6 ? AF_INET6 : AF_INET,
			     .rtm_dst_len = (unsigned char)(8 * len),
			     .rtm_flags = flags};
	struct netlink question = {0};

	netlink_begin(&question, RTM_GETROUTE, NLM_F_ACK, &body, sizeof(body));
	netlink_put(&question, RTA_DST, query->address, len);
	return route_ask(sock, &question, route_read, query);
}

static void address_read_own(const struct nlmsghdr *head, void *arg)
{
	struct route_query *query = arg;
	const struct ifaddrmsg *own = NLMSG_DATA(head);
	const struct rtattr *attr = IFA_RTA(own);
	const size_t len = query->is_v6 ? 16 : 4;

	if (head->nlmsg_type != RTM_NEWADDR || head->nlmsg_len < NLMSG_LENGTH(sizeof(*own)) ||
	    own->ifa_family != (query->is_v6 ? AF_INET6 : AF_INET) || !own->ifa_prefixlen ||
	    own->ifa_prefixlen > 8 * len)
		return;
	for (size_t left = IFA_PAYLOAD(head); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if ((attr->rta_type == IFA_ADDRESS || attr->rta_type == IFA_LOCAL) &&
		    RTA_PAYLOAD(attr) == len &&
		    prefix_holds(RTA_DATA(attr), query->address, own->ifa_prefixlen))
			query->is_own = true;
}

static int route_ask_prefixes(int sock, struct route_query *query)
{
	struct ifaddrmsg body = {.ifa_family = query->is_v6 ? AF_INET6 : AF_INET};
	struct netlink question = {0};

	netlink_begin(&question, RTM_GETADDR, NLM_F_DUMP, &body, sizeof(body));
	return route_ask(sock, &question, address_read_own, query);
}

static void device_read(const struct nlmsghdr *head, void *arg)
{
	struct route_query *query = arg;
	const struct ifinfomsg *device = NLMSG_DATA(head);

	if (head->nlmsg_type == RTM_NEWLINK && head->nlmsg_len >= NLMSG_LENGTH(sizeof(*device)))
		query->is_tunnel = device->ifi_flags & IFF_POINTOPOINT;
}

// Whether a default route through a tunnel leads there. The first answer names the destination, not
// the table entry that matched, so the entry is queried.
static int route_ask_tunnel(int sock, struct route_query *query)
{
	struct ifinfomsg body = {.ifi_index = (int)query->device};
	struct netlink question = {0};

	netlink_begin(&question, RTM_GETLINK, NLM_F_ACK, &body, sizeof(body));
	if (route_ask(sock, &question, device_read, query))
		return -1;
	if (query->is_tunnel && route_ask_destination(sock, query, RTM_F_FIB_MATCH))
		return -1;
	query->is_tunnel = query->is_tunnel && query->prefix_len <= TUNNEL_BITS;
	return 0;
}

int route_find(bool is_v6, const uint8_t *address, enum route_kind *out)
{
	struct route_query query = {.is_v6 = is_v6, .address = address};
	auto_fd sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int failed;

	if (sock < 0 || route_ask_prefixes(sock, &query))
		return -1;
	if (query.is_own) {
		*out = ROUTE_OWN;
		return 0;
	}
	failed = route_ask_destination(sock, &query, 0);
	if (failed < 0)
		return -1;
	if (failed || query.type == RTN_UNREACHABLE || query.type == RTN_BLACKHOLE ||
	    query.type == RTN_PROHIBIT || query.type == RTN_THROW) {
		*out = ROUTE_NONE;
		return 0;
	}
	if (query.type == RTN_UNICAST && !query.has_gateway && route_ask_tunnel(sock, &query))
		return -1;
	*out = query.type == RTN_UNICAST && (query.has_gateway || query.is_tunnel) ? ROUTE_GATEWAY
										   : ROUTE_OWN;
	return 0;
}
