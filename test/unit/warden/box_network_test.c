// The network of a box, ordered from a real warden as a daemon would and tried from inside of the
// box's network namespace; once with sk_lookup, once with nft.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tap.h"
#include "unit/warden/house.h"

static struct answer answer; // the last one

// A process of ours in the box's network: connects, says how that went, and ends.
static int try_connect(uint32_t pid, const char *host, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	int status = 0;
	pid_t child;

	inet_pton(AF_INET, host, &to.sin_addr);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		char path[40];
		int fd;

		snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
		if (setns(open(path, O_RDONLY | O_CLOEXEC), CLONE_NEWNET))
			_exit(EXDEV);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		_exit(connect(fd, (struct sockaddr *)&to, sizeof(to)) ? errno : 0);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static bool leads(uint32_t pid, int listener)
{
	struct sockaddr_in6 name = {0};
	socklen_t size = sizeof(name);
	char text[INET6_ADDRSTRLEN];
	auto_fd far = -1;

	if (try_connect(pid, "93.184.216.34", 443) || !wait_readable(listener))
		return false;
	far = accept(listener, NULL, NULL);
	if (far < 0 || getsockname(far, (struct sockaddr *)&name, &size))
		return false;
	inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof(text));
	return !strcmp(text, "::ffff:93.184.216.34") && ntohs(name.sin6_port) == 443;
}

// Soon: the warden closes its own copy of a listener when it gets to it.
static bool is_offline(uint32_t pid)
{
	for (int i = 0; i < 200; i++) {
		int how = try_connect(pid, "93.184.216.34", 443);

		if (how == ECONNREFUSED || how == ENETUNREACH)
			return true;
		usleep(5000);
	}
	return false;
}

static uint32_t pid_of(const char *box)
{
	struct order order = {.kind = ORDER_BOXES};
	int fds[ORDER_FDS_MAX];

	if (!ask(&order, &answer, fds))
		return 0;
	for (uint32_t i = 0; i < answer.cell_count; i++)
		if (!strcmp(answer.cells[i].box, box))
			return answer.cells[i].pid;
	return 0;
}

static bool greet_warden(void)
{
	return greet_as("", &answer);
}

// A socket of the box, such as its pid 1 would give.
static int socket_of(uint32_t pid)
{
	auto_fd home_net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	auto_fd there = -1;
	char path[40];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
	there = open(path, O_RDONLY | O_CLOEXEC);
	if (setns(there, CLONE_NEWNET) == 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (setns(home_net, CLONE_NEWNET))
		_exit(1);
	return fd;
}

static bool order_net(const char *box, bool on, int brought, int *fds)
{
	struct order order = {.kind = ORDER_NETWORK, .net = on};
	bool asked;

	memcpy(order.box, box, sizeof(order.box));
	sent_with = brought;
	asked = ask(&order, &answer, fds);
	fd_drop(&sent_with);
	return asked && answer.kind == ANSWER_DONE;
}

static bool open_net(const char *box, uint32_t pid, int *fds)
{
	if (order_net(box, true, socket_of(pid), fds) && answer.net)
		return true;
	printf("# refused: %s\n", answer.reason);
	return false;
}

// Kills the warden; the next one recovers the boxes.
static bool next_warden(void)
{
	int status;

	kill(warden_pid, SIGKILL);
	waitpid(warden_pid, &status, 0);
	start_process();
	return greet_warden();
}

static void begin_with(const char *by)
{
	char name[32];

	net_by = by;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(name, sizeof(name), "netcell-%s", by);
	CHECK(house_begin(name));
	CHECK(greet_warden());
	CHECK_STR(answer.host.net, by);
}

static void build_and_close(void)
{
	struct order order = build_order();
	struct inventory before = settled();
	int fds[ORDER_FDS_MAX], again[ORDER_FDS_MAX];
	uint32_t pid;

	order.net = true;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && answer.net);
	CHECK(greets(fds[0]) && fds[3] >= 0 && fds[4] >= 0);
	pid = pid_of(order.box);
	CHECK(pid && leads(pid, fds[3]));
	CHECK(order_net(order.box, false, -1, again) && !answer.net);
	CHECK(answer.to == ORDER_NETWORK);
	CHECK(!strcmp(net_by, "nft") || is_offline(pid)); // there it ends with its listener
	CHECK(open_net(order.box, pid, again));
	CHECK(leads(pid, again[0])); // though the first listener is still open
	fd_drop(&fds[3]);
	CHECK(leads(pid, again[0]));
	// Without its daemon's listener it is offline, whatever else there is.
	drop_fds(again);
	CHECK(is_offline(pid));
	CHECK(destroy(order.box));
	drop_fds(fds);
	CHECK(same(before));
}

static void off_then_on(void)
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], again[ORDER_FDS_MAX];
	uint32_t pid;

	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE);
	CHECK(!answer.net && greets(fds[0]) && fds[3] < 0);
	pid = pid_of(order.box);
	CHECK(pid && is_offline(pid));
	CHECK(open_net(order.box, pid, again));
	CHECK(leads(pid, again[0]));
	drop_fds(again);
	CHECK(destroy(order.box));
	drop_fds(fds);
}

static void adopted(void)
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], again[ORDER_FDS_MAX], third[ORDER_FDS_MAX];
	uint32_t pid;

	order.net = true;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	pid = pid_of(order.box);
	// The next daemon: the one before is gone with its listener.
	fd_drop(&fds[3]);
	fd_drop(&fds[4]);
	CHECK(greet_warden() && is_offline(pid));
	CHECK(open_net(order.box, pid, again));
	CHECK(leads(pid, again[0]));
	// The next warden, while that daemon lives: the old sockets are still open.
	CHECK(next_warden());
	CHECK(!strcmp(net_by, "nft") || is_offline(pid));
	CHECK(open_net(order.box, pid, third));
	CHECK(leads(pid, third[0]));
	drop_fds(again);
	CHECK(leads(pid, third[0]));
	drop_fds(third);
	CHECK(is_offline(pid));
	CHECK(destroy(order.box));
	drop_fds(fds);
}

static void end(void)
{
	int status = -1;

	fd_drop(&sock);
	kill(warden_pid, SIGTERM);
	CHECK(waitpid(warden_pid, &status, 0) == warden_pid);
	leave_home();
}

TEST(begin, "a warden that steers by sk_lookup starts, and says so")
{
	if (!skipped())
		begin_with("sk_lookup");
}

TEST(built, "a box is built with its network, which is closed, opened and ends with its listener")
{
	if (!skipped())
		build_and_close();
}

TEST(live, "N-12 a box that was offline gets a network while it runs")
{
	if (!skipped())
		off_then_on();
}

TEST(adopt, "the next daemon, and the next warden, open the network again")
{
	if (!skipped())
		adopted();
}

TEST(forged, "the host's own network and descriptors that are no socket are refused")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], again[ORDER_FDS_MAX];

	if (skipped())
		return;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	CHECK(!order_net(order.box, true, socket(AF_INET, SOCK_DGRAM, 0), again));
	CHECK_STR(answer.reason, "bad_socket");
	CHECK(!order_net(order.box, true, socket(AF_UNIX, SOCK_DGRAM, 0), again));
	CHECK_STR(answer.reason, "bad_socket");
	CHECK(!order_net(order.box, true, open("/dev/null", O_RDONLY), again));
	CHECK_STR(answer.reason, "bad_socket");
	CHECK(is_offline(pid_of(order.box)) && destroy(order.box));
	drop_fds(fds);
}

TEST(foreign, "another box's network namespace is refused, by the next warden, too")
{
	struct order one = build_order(), other = build_order();
	int fds[ORDER_FDS_MAX], others[ORDER_FDS_MAX], again[ORDER_FDS_MAX];
	uint32_t pid;

	if (skipped())
		return;
	CHECK(ask(&one, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	CHECK(ask(&other, &answer, others) && answer.kind == ANSWER_DONE && greets(others[0]));
	pid = pid_of(other.box);
	for (int life = 0; life < 2; life++) {
		CHECK(!order_net(one.box, true, socket_of(pid), again));
		CHECK_STR(answer.reason, "bad_socket");
		CHECK(is_offline(pid) && is_offline(pid_of(one.box)));
		CHECK(life || next_warden());
	}
	CHECK(open_net(other.box, pid, again) && leads(pid, again[0]));
	drop_fds(again);
	CHECK(destroy(one.box) && destroy(other.box));
	drop_fds(fds);
	drop_fds(others);
}

TEST(change, "a warden that steers by nft starts, and says so")
{
	if (skipped())
		return;
	end();
	begin_with("nft");
}

TEST(built_nft, "by nft: a box is built with its network")
{
	if (!skipped())
		build_and_close();
}

TEST(live_nft, "by nft: a box that was offline gets a network while it runs")
{
	if (!skipped())
		off_then_on();
}

TEST(adopt_nft, "by nft: the next daemon, and the next warden, open the network again")
{
	if (!skipped())
		adopted();
}

TEST(none, "a warden that cannot steer refuses a box with a network, and builds one without")
{
	struct order order = build_order();
	int fds[ORDER_FDS_MAX], again[ORDER_FDS_MAX];
	uint32_t pid;

	if (skipped())
		return;
	end();
	begin_with("none");
	order.net = true;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_REFUSED);
	CHECK_STR(answer.reason, "no_network");
	order.net = false;
	CHECK(ask(&order, &answer, fds) && answer.kind == ANSWER_DONE && greets(fds[0]));
	pid = pid_of(order.box);
	CHECK(!order_net(order.box, true, socket_of(pid), again));
	CHECK_STR(answer.reason, "no_network");
	CHECK(is_offline(pid) && destroy(order.box));
	drop_fds(fds);
}

TEST(last, "a warden ends when it is told to")
{
	if (!skipped())
		end();
}
