// Network attach is done by the warden from outside, which may not open a box's /proc: it enters
// the network namespace through a socket of the box. A file worker creates that socket
// (protocol/fileop.h); it is sent with the order and closed.
//
// syscalls: close getsockname
#include "box/net.h"

#include "base/mem.h"
#include "box/files.h"
#include "box/private.h"
#include "loop/closer.h"
#include "os/fd.h"
#include "os/net.h"

void box_net_drop(struct box *box)
{
	fd_drop(&box->net.listener);
	fd_drop(&box->net.udp);
	box->net.port = 0;
}

void box_net_give(struct box *box, const struct answer *answer, const int *fds)
{
	int last = answer_fds(answer);

	box_net_drop(box);
	if (!answer->net)
		return;
	box->net.listener = fds[last - 2];
	box->net.udp = fds[last - 1];
	box->net.port = net_port(box->net.listener);
}

bool box_net_take(struct box *box, struct box_net *out)
{
	if (box->net.listener < 0)
		return false;
	*out = (struct box_net){.listener = box->net.listener, .udp = box->net.udp};
	box->net.listener = box->net.udp = -1;
	return true;
}

static fallible box_net_order(struct box *box, bool on, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_NETWORK, .net = on};
	struct files files = {.box = box, .deadline = deadline};
	int fds[ORDER_FDS_MAX];
	auto_closer_fd sock = -1;

	if (on && !(box->features & TALK_CAN_NET))
		return err_hint(err_new(CONFLICT, "box_too_old",
					"this sandbox was started before there was a network"),
				"stop it and start it again");
	if (on)
		TRY(files_socket(&files, &sock));
	memcpy(order.box, box->id, sizeof(order.box));
	TRY(ask_order_with(box->ask, &order, sock, answer, fds, deadline));
	box_net_give(box, answer, fds);
	return OK;
}

fallible box_net_set(struct box *box, bool on, int64_t deadline)
{
	struct err *err;

	box_ref(box);
	err = err_while(box_net_order(box, on, deadline), "%s the network of %s",
			on ? "attach" : "detach", box->id);
	box_unref(box);
	return err;
}
