#include "os/net.h"

#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"

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
	return fd_put(proc, "sys/net/ipv4/ping_group_range", "0 2147483647");
}
