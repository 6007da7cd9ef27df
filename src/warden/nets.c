#include "warden/nets.h"

#include <fcntl.h>
#include <sched.h>

#include "os/fd.h"
#include "os/net.h"

static int open_own(int proc)
{
	return openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
}

void nets_open(struct nets *nets, int proc)
{
	*nets = (struct nets){.home = open_own(proc)};
}

int nets_take(struct nets *nets)
{
	return nets->count > 0 ? nets->ready[--nets->count] : -1;
}

int nets_refill(struct nets *nets, int proc)
{
	int fd;

	if (nets->home < 0 || nets->count == NETS_READY)
		return 0;
	if (unshare(CLONE_NEWNET))
		return -1;
	fd = net_loopback(proc) ? -1 : open_own(proc);
	if (setns(nets->home, CLONE_NEWNET))
		fd_drop(&fd);
	if (fd < 0)
		return -1;
	nets->ready[nets->count++] = fd;
	return 0;
}
