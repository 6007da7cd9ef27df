// Each test runs in a child with a network namespace of its own, once for each way of steering.
#include "os/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"
#include "os/steer.h"
#include "tap.h"

#define SOON_MS 2000 // far more than anything here takes
#define NEVER_MS 50  // long enough for what would come at once

enum way { SKLOOKUP, NFT, WAYS };

// A box's network: what steers there and where it leads.
struct way_out {
	int listener, udp;
	int link; // -1 with NFT
};

union name {
	struct sockaddr any;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
};

static socklen_t name_of(const char *host, uint16_t port, union name *out)
{
	memset(out, 0, sizeof(*out));
	if (strchr(host, ':')) {
		out->in6.sin6_family = AF_INET6;
		out->in6.sin6_port = htons(port);
		inet_pton(AF_INET6, host, &out->in6.sin6_addr);
		return sizeof(out->in6);
	}
	out->in4.sin_family = AF_INET;
	out->in4.sin_port = htons(port);
	inet_pton(AF_INET, host, &out->in4.sin_addr);
	return sizeof(out->in4);
}

static int dial(int type, const char *host, uint16_t port)
{
	union name to;
	socklen_t len = name_of(host, port, &to);
	int fd = socket(to.any.sa_family, type | SOCK_CLOEXEC, 0);

	if (connect(fd, &to.any, len) == 0)
		return fd;
	len = (socklen_t)errno;
	close(fd);
	errno = (int)len;
	return -1;
}

static bool is_refused(const char *host, uint16_t port)
{
	int fd = dial(SOCK_STREAM, host, port);

	if (fd < 0)
		return errno == ECONNREFUSED;
	close(fd);
	return false;
}

static int serve(const char *host, uint16_t port)
{
	union name at;
	socklen_t len = name_of(host, port, &at);
	int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(fd, &at.any, len) || listen(fd, 8))
		fd_drop(&fd);
	return fd;
}

static bool comes(int fd, int ms)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, ms) == 1;
}

// Whether a connection to there ends at `at`, under the name that it was meant for.
static bool leads(const char *host, uint16_t port, int at)
{
	auto_fd near = dial(SOCK_STREAM, host, port);
	auto_fd far = near >= 0 && comes(at, SOON_MS) ? accept(at, NULL, NULL) : -1;
	char text[INET6_ADDRSTRLEN + 8] = "", want[INET6_ADDRSTRLEN + 8];
	union name name = {0};
	socklen_t len = sizeof(name);

	if (far < 0 || getsockname(far, &name.any, &len))
		return false;
	if (name.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &name.in6.sin6_addr, text, sizeof(text));
		snprintf(want, sizeof(want), "%s%s", strchr(host, ':') ? "" : "::ffff:", host);
	} else {
		inet_ntop(AF_INET, &name.in4.sin_addr, text, sizeof(text));
		snprintf(want, sizeof(want), "%s", host);
	}
	if (strcmp(text, want) != 0 || ntohs(name.in6.sin6_port) != port) {
		printf("# meant %s %u, heard of %s %u\n", want, port, text,
		       ntohs(name.in6.sin6_port));
		return false;
	}
	// It is a connection, both ways.
	return write(near, "a", 1) == 1 && comes(far, SOON_MS) && read(far, text, 1) == 1 &&
	       write(far, "b", 1) == 1 && comes(near, SOON_MS) && read(near, text, 1) == 1 &&
	       text[0] == 'b';
}

static int steer(enum way way, struct way_out *out)
{
	auto_fd here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	out->link = -1;
	if (net_anyip() || net_listen(way == NFT, &out->listener, &out->udp))
		return -1;
	if (way == NFT)
		return steer_nft(net_port(out->listener));
	out->link = steer_sk_lookup(here, out->listener);
	return out->link < 0 ? -1 : 0;
}

static bool in_child(void (*run)(enum way way), enum way way)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		auto_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (unshare(CLONE_NEWNET) || net_loopback(proc)) {
			printf("# a network namespace: %s\n", strerror(errno));
			tap_bad = true;
		} else {
			run(way);
		}
		fflush(stdout);
		_exit(tap_bad);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool both_ways(void (*run)(enum way way))
{
	if (geteuid() != 0) {
		printf("# skipped: a network namespace needs root\n");
		return true;
	}
	for (enum way way = 0; way < WAYS; way++) {
		if (in_child(run, way))
			continue;
		printf("# by %s\n", way == NFT ? "nft" : "sk_lookup");
		return false;
	}
	return true;
}

#define NET_TEST(fn, sentence)                                                                     \
	static void fn##_run(enum way way);                                                        \
	TEST(fn, sentence)                                                                         \
	{                                                                                          \
		CHECK(both_ways(fn##_run));                                                        \
	}                                                                                          \
	static void fn##_run(enum way way)

NET_TEST(all_tcp,
	 "NET-2 NET-2 every address and port ends at one listener, which reads where it meant")
{
	static const char *const hosts[] = {"93.184.216.34", "10.0.2.15",    "169.254.169.254",
					    "126.255.255.1", "128.0.0.1",    "198.18.0.7",
					    "255.1.2.3",     "2606:4700::1", "::2",
					    "1::1",	     "0:0:1::1",     "::1:0:0:1"};
	static const uint16_t ports[] = {1, 53, 443, 65535};
	struct way_out out;

	CHECK(steer(way, &out) == 0);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
		CHECK(leads(hosts[i], ports[i % 4], out.listener));
}

NET_TEST(loopback, "NET-2 127/8 and ::1 are the box's own")
{
	struct way_out out;

	CHECK(steer(way, &out) == 0);
	CHECK(is_refused("127.0.0.1", 8080) && is_refused("127.255.255.254", 8080));
	CHECK(is_refused("::1", 8080) && is_refused("0.0.0.0", 8080) && is_refused("::", 8080));
	auto_fd near4 = serve("127.0.0.1", 8080), near6 = serve("::1", 8080);
	auto_fd any = serve("0.0.0.0", 9090);

	CHECK(leads("127.0.0.1", 8080, near4) && leads("::1", 8080, near6));
	CHECK(leads("127.3.2.1", 9090, any));
	CHECK(leads("8.8.8.8", 8080, out.listener) && leads("8.8.8.8", 9090, out.listener));
}

NET_TEST(udp, "NET-4 UDP meets nobody but at port 53, and is refused at once")
{
	struct way_out out;
	char byte;

	CHECK(steer(way, &out) == 0);
	auto_fd quic = dial(SOCK_DGRAM, "142.250.0.1", 443);
	auto_fd quic6 = dial(SOCK_DGRAM, "2606:4700::1", 443);

	CHECK(send(quic, "q", 1, 0) == 1 && send(quic6, "q", 1, 0) == 1);
	CHECK(comes(quic, SOON_MS) && recv(quic, &byte, 1, 0) < 0 && errno == ECONNREFUSED);
	CHECK(comes(quic6, SOON_MS) && recv(quic6, &byte, 1, 0) < 0 && errno == ECONNREFUSED);
	CHECK(!comes(out.udp, 0));
}

NET_TEST(dns,
	 "NET-2 a question to any resolver comes with the address that was asked, to answer from")
{
	_Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(struct in_pktinfo))];
	union name from;
	char byte, text[INET_ADDRSTRLEN];
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_name = &from,
				 .msg_namelen = sizeof(from),
				 .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct in_pktinfo info;
	struct way_out out;

	CHECK(steer(way, &out) == 0);
	auto_fd asker = dial(SOCK_DGRAM, "10.0.2.3", 53);

	CHECK(send(asker, "q", 1, 0) == 1 && comes(out.udp, SOON_MS));
	CHECK(recvmsg(out.udp, &message, 0) == 1 && byte == 'q');
	CHECK(CMSG_FIRSTHDR(&message) && CMSG_FIRSTHDR(&message)->cmsg_type == IP_PKTINFO);
	memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(info));
	CHECK_STR(inet_ntop(AF_INET, &info.ipi_addr, text, sizeof(text)), "10.0.2.3");
	info.ipi_spec_dst = info.ipi_addr;
	info.ipi_ifindex = 0;
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &info, sizeof(info));
	CHECK(sendmsg(out.udp, &message, 0) == 1);
	// Connected to 10.0.2.3: an answer from elsewhere would not come.
	CHECK(comes(asker, SOON_MS) && recv(asker, &byte, 1, 0) == 1);
}

NET_TEST(no_echo, "NET-2 no address answers a ping")
{
	struct icmphdr echo = {.type = ICMP_ECHO};
	struct way_out out;
	union name to;

	CHECK(steer(way, &out) == 0);
	auto_fd ping = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);

	CHECK(ping >= 0);
	CHECK(sendto(ping, &echo, sizeof(echo), 0, &to.any, name_of("8.8.8.8", 0, &to)) > 0);
	CHECK(!comes(ping, NEVER_MS));
}

NET_TEST(no_way, "there is lo and nothing else, and without a listener every connection is refused")
{
	char text[2048], *at;
	struct way_out out;

	CHECK(net_anyip() == 0);
	CHECK(is_refused("1.1.1.1", 443) && is_refused("2606:4700::1", 443));
	CHECK(steer(way, &out) == 0);
	CHECK(fd_get(AT_FDCWD, "/proc/thread-self/net/dev", text, sizeof(text)) > 0);
	at = strchr(strchr(text, '\n') + 1, '\n') + 1; // behind two lines of heading
	CHECK(strstr(at, "lo:") && strchr(at, '\n') == at + strlen(at) - 1);
}

NET_TEST(undone, "addresses that were given and taken again are not there; and can be given anew")
{
	struct way_out out;

	CHECK(net_anyip() == 0 && net_anyip_end() == 0);
	CHECK(!is_refused("1.1.1.1", 443) && !is_refused("2606:4700::1", 443));
	CHECK(steer(way, &out) == 0);
}

NET_TEST(gone,
	 "who steers ends, or who listens: the box is offline, and what was accepted lives on")
{
	struct way_out out;
	char byte;

	CHECK(steer(way, &out) == 0);
	auto_fd near = dial(SOCK_STREAM, "1.1.1.1", 443);
	auto_fd far = accept(out.listener, NULL, NULL);

	CHECK(near >= 0 && far >= 0);
	fd_drop(&out.listener);
	CHECK(is_refused("1.1.1.1", 443) && is_refused("2606:4700::1", 443));
	CHECK(write(far, "x", 1) == 1 && comes(near, SOON_MS) && read(near, &byte, 1) == 1);
	fd_drop(&out.udp);
	CHECK(steer(way, &out) == 0 && leads("1.1.1.1", 443, out.listener));
	if (way == SKLOOKUP) {
		fd_drop(&out.link);
		CHECK(is_refused("1.1.1.1", 443) && is_refused("2606:4700::1", 443));
	}
	CHECK(write(far, "x", 1) == 1 && comes(near, SOON_MS) && read(near, &byte, 1) == 1);
}

NET_TEST(no_ipv6, "on a host that has switched IPv6 off there is IPv4")
{
	struct way_out out;

	CHECK(fd_put(AT_FDCWD, "/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1") == 0);
	CHECK(steer(way, &out) == 0 && leads("1.1.1.1", 443, out.listener));
}

NET_TEST(renewed, "a way out is replaced while that of before is still there")
{
	struct way_out first, next;

	CHECK(steer(way, &first) == 0 && leads("1.1.1.1", 443, first.listener));
	CHECK(steer(way, &next) == 0);
	fd_drop(&first.link);
	CHECK(leads("1.1.1.1", 443, next.listener) && leads("2606:4700::1", 80, next.listener));
	fd_drop(&first.listener);
	fd_drop(&first.udp);
	CHECK(leads("1.1.1.1", 443, next.listener));
	auto_fd asker = dial(SOCK_DGRAM, "10.0.2.3", 53);

	CHECK(send(asker, "q", 1, 0) == 1 && comes(next.udp, SOON_MS));
}

NET_TEST(port_53, "nobody but the host's root shares port 53 with it")
{
	struct way_out out;
	union name at;
	int on = 1;

	CHECK(steer(way, &out) == 0);
	CHECK(seteuid(65534) == 0);
	auto_fd thief = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK(setsockopt(thief, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
	CHECK(setsockopt(thief, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0);
	CHECK(bind(thief, &at.any, name_of("0.0.0.0", 53, &at)) < 0 && errno == EADDRINUSE);
	CHECK(bind(thief, &at.any, name_of("0.0.0.0", 54, &at)) == 0);
}
