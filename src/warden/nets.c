// A stock of network namespaces in the zygote, each with loopback up. `want` grows by one whenever
// the stock is empty, and is halved when, over `want` takes, never more than half were used. The
// zygote unshares, keeps an fd of the new namespace, and returns to its own by setns.
#include "warden/nets.h"

#include <fcntl.h>
#include <sched.h>

#include "os/fd.h"
#include "os/mount.h"
#include "os/net.h"

#define PROC_USES 32 // then its dentry cache is too large

static int open_own(int proc)
{
	return openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
}

void nets_open(struct nets *nets, int proc)
{
	*nets = (struct nets){
		.home = open_own(proc), .proc = -1, .want = NETS_LEAST, .low = NETS_LEAST};
}

bool nets_are_missing(const struct nets *nets)
{
	return nets->home >= 0 && nets->count < nets->want;
}

bool nets_are_few(const struct nets *nets)
{
	return nets->count < nets->want / 2;
}

int nets_refill(struct nets *nets, int proc)
{
	int fd;

	if (!nets_are_missing(nets))
		return 0;
	if (nets->made++ % PROC_USES == 0) {
		fd_drop(&nets->proc);
		nets->proc = mount_own_proc();
	}
	if (nets->proc < 0 || unshare(CLONE_NEWNET))
		return -1;
	fd = net_loopback(nets->proc) ? -1 : open_own(proc);
	if (setns(nets->home, CLONE_NEWNET))
		fd_drop(&fd);
	if (fd < 0)
		return -1;
	nets->ready[nets->count++] = fd;
	return 0;
}

static void look_at_want(struct nets *nets)
{
	if (nets->taken < nets->want)
		return;
	if (nets->low > nets->want / 2)
		nets->want = nets->want / 2 < NETS_LEAST ? NETS_LEAST : nets->want / 2;
	nets->taken = 0;
	nets->low = nets->want;
}

int nets_take(struct nets *nets, int proc, bool must)
{
	if (nets->count == 0) {
		nets->low = 0;
		nets->want += nets->want < NETS_MOST;
		if (!must || nets_refill(nets, proc) || nets->count == 0)
			return -1;
	}
	nets->count--;
	nets->taken++;
	nets->low = nets->count < nets->low ? nets->count : nets->low;
	look_at_want(nets);
	return nets->ready[nets->count];
}
