#include "os/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static const char *const names[] = {"none", "gateway", "own"};

static const char *find(const char *text)
{
	bool is_v6 = strchr(text, ':') != NULL;
	enum route_kind kind;
	uint8_t at[16];

	if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, at) != 1 || route_find(is_v6, at, &kind))
		return strerror(errno);
	return names[kind];
}

static bool leads(const char *address, const char *want)
{
	const char *got = find(address);

	if (!strcmp(got, want))
		return true;
	printf("# %s: %s, not %s\n", address, got, want);
	return false;
}

static bool did(const char *script)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

// Runs in a network namespace of its own, after the lines of `setup`.
static bool in_network(const char *setup, void (*run)(void))
{
	int status = -1;
	pid_t pid;

	if (geteuid() != 0) {
		printf("# skipped: a network namespace needs root\n");
		return true;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) || !did(setup)) {
			printf("# a network namespace: %s\n", strerror(errno));
			tap_bad = true;
		} else {
			run();
		}
		fflush(stdout);
		_exit(tap_bad);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#define VETH                                                                                       \
	"set -e; ip link set lo up; ip link add v0 type veth peer name v1; "                       \
	"ip link set v0 up; ip link set v1 up; "                                                   \
	"ip addr add 192.31.196.7/24 dev v0; ip -6 addr add 2620:4f:8000::7/64 dev v0 nodad; "

static void run_link(void)
{
	CHECK(leads("192.31.196.7", "own"));
	CHECK(leads("192.31.196.9", "own"));
	CHECK(leads("192.31.196.255", "own"));
	CHECK(leads("2620:4f:8000::7", "own"));
	CHECK(leads("2620:4f:8000::9", "own"));
	CHECK(leads("127.0.0.1", "own"));
	CHECK(leads("::1", "own"));
	CHECK(leads("192.175.48.6", "gateway"));
	CHECK(leads("2001:4:112::1", "gateway"));
}

TEST(neighbours, "a neighbour on a link is the host's own, an address behind a router is not")
{
	CHECK(in_network(VETH "ip route add default via 192.31.196.1; "
			      "ip -6 route add default via 2620:4f:8000::1",
			 run_link));
}

static void run_routes(void)
{
	CHECK(leads("192.52.193.5", "own")); // a route to the link, without an address in it
	CHECK(leads("192.175.48.6", "own")); // a default route to the link
	CHECK(leads("2001:4:112::1", "own"));
	CHECK(leads("192.31.196.9", "own")); // a prefix of ours, though its route has a gateway
	CHECK(leads("192.175.49.1", "none"));
	CHECK(leads("192.175.50.1", "gateway")); // every path has one
}

TEST(routes, "a route without a gateway leads to neighbours, whatever its prefix")
{
	CHECK(in_network(VETH "ip route add 192.52.193.0/24 dev v0; ip route add default dev v0; "
			      "ip -6 route add default dev v0; "
			      "ip route add 192.31.196.9/32 via 192.31.196.2; "
			      "ip route add blackhole 192.175.49.0/24; "
			      "ip route add 192.175.50.0/24 nexthop via 192.31.196.2 "
			      "nexthop via 192.31.196.3",
			 run_routes));
}

static void run_nonlocal(void)
{
	CHECK(leads("192.175.48.6", "gateway"));
	CHECK(leads("192.31.196.7", "own"));
}

TEST(nonlocal, "a host that may bind to every address has no more addresses for that")
{
	CHECK(in_network(VETH "ip route add default via 192.31.196.1; "
			      "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind",
			 run_nonlocal));
}

static void run_tunnel(void)
{
	CHECK(leads("192.175.48.6", "gateway"));
	CHECK(leads("2001:4:112::1", "gateway"));
	CHECK(leads("192.52.193.5", "own"));
}

TEST(tunnel, "a default route through a tunnel leads to the world, a narrow one does not")
{
	CHECK(in_network("set -e; ip link set lo up; ip tuntap add t0 mode tun; ip link set t0 up; "
			 "ip route add 0.0.0.0/1 dev t0; ip route add 128.0.0.0/1 dev t0; "
			 "ip -6 route add 2000::/3 dev t0; ip route add 192.52.193.0/24 dev t0",
			 run_tunnel));
}

static void run_empty(void)
{
	CHECK(leads("192.175.48.6", "none"));
	CHECK(leads("2001:4:112::1", "none"));
}

TEST(empty, "without a route there is none")
{
	CHECK(in_network("ip link set lo up", run_empty));
}
