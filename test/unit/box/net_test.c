// The way out of a box, by way of a real pid 1 and a fake warden that makes real sockets in its
// network.
#include "box/net.h"

#include "box/files.h"
#include "box/private.h"
#include "unit/box/fake_warden.h"

static struct box *box;

static int64_t in(int64_t ms)
{
	return loop_now(fixture.loop) + ms;
}

TEST(opens, "the fixture opens, in a network namespace of its own")
{
	CHECK(testbox_cannot(true) || unshare(CLONE_NEWNET) == 0);
	CHECK(fixture_open());
}

BOX_TEST(builds, "a box without a network has no egress sockets")
{
	struct order order = {.kind = ORDER_BUILD, .host = "box", .limits = LIMITS_DEFAULT};
	struct box_net net;

	CHECK_OK(ask_wait_linked(fixture.ask, in(5000)));
	snprintf(order.name, sizeof(order.name), "real");
	id_box(order.box);
	CHECK_OK(box_build(fixture.loop, fixture.ask, &order, fixture.tapes, &box));
	CHECK(!box_net_take(box, &net) && box->net.port == 0);
}

// The namespace of a socket, by its inode.
static ino_t network_of(int sock)
{
	auto_fd netns = ioctl(sock, SIOCGSKNS);
	struct stat st = {0};

	fstat(netns, &st);
	return st.st_ino;
}

BOX_TEST(opened,
	 "the network is attached through a socket of the box, and its sockets are taken once")
{
	struct files files = {.box = box, .deadline = in(20000)};
	struct fileop_port ports[64];
	struct box_net net, none;
	size_t count = 0;

	CHECK_OK(box_net_set(box, true, in(20000)));
	CHECK(box_net_take(box, &net) && !box_net_take(box, &none));
	auto_fd listener = net.listener, udp = net.udp, inside = -1;

	CHECK(net_port(listener) == box->net.port && net_port(udp) == 53);
	CHECK_OK(files_socket(&files, &inside));
	CHECK(network_of(listener) == network_of(inside) && network_of(udp) == network_of(inside));
	CHECK_OK(files_ports(&files, ports, 64, &count));
	for (size_t i = 0; i < count && i < 64; i++)
		CHECK(ports[i].port != net_port(listener)); // the box did not open it
}

BOX_TEST(anew, "attached again it has new sockets; detached it has none")
{
	uint16_t port = box->net.port;
	struct box_net net;

	CHECK_OK(box_net_set(box, true, in(20000)));
	CHECK(box->net.port && box->net.port != port);
	CHECK_OK(box_net_set(box, false, in(20000)));
	CHECK(!box_net_take(box, &net) && box->net.port == 0);
	CHECK_OK(box_net_set(box, true, in(20000))); // closed with the box when not taken
	CHECK(box->net.port);
}

BOX_TEST(ends, "the network ends with its box")
{
	CHECK_OK(box_destroy(box, in(20000)));
	CHECK_ERR(box_net_set(box, true, in(20000)), UNAVAILABLE);
	box_free(box);
}

TEST(closes, "the fixture closes")
{
	fixture_close();
}
