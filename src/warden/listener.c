// Binds the socket of a box's pid 1 in RUN/box. Only the daemon's user can search that directory,
// so the sockets need no owner. Nothing in it is chowned by name: the daemon could have replaced
// it.
//
// syscalls: socket bind listen unlinkat close umask fchdir
#include "warden/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/path.h"

#define CALLERS 8 // pending connections: one daemon, and those that gave up

fallible box_listener_open_dir(int run, uid_t uid, gid_t gid, int *out_dir)
{
	auto_fd dir = -1;

	TRY(path_dir(run, "box", 0700, &dir));
	if (fchown(dir, uid, gid) || fchmod(dir, 0700))
		return err_sys(errno, "give RUN/box to the daemon");
	*out_dir = take_fd(&dir);
	return OK;
}

fallible box_listener_make(int dir, const char *box, int *out_fd)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	mode_t mask;
	int result;

	if (fd < 0)
		return err_sys(errno, "make the socket of %s", box);
	// Bind by a relative name: a run directory may be longer than sun_path, and must be the one
	// that was opened. All other paths in the warden are absolute, or relative to fds.
	if (fchdir(dir))
		return err_sys(errno, "go to the sockets of boxes");
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", box);
	mask = umask(0111);
	result = bind(fd, (struct sockaddr *)&name, sizeof(name));
	if (result && errno == EADDRINUSE && unlinkat(dir, box, 0) == 0)
		result = bind(fd, (struct sockaddr *)&name, sizeof(name));
	umask(mask);
	if (result)
		return err_sys(errno, "bind the socket of %s", box);
	if (listen(fd, CALLERS)) {
		struct err *err = err_sys(errno, "listen on the socket of %s", box);

		unlinkat(dir, box, 0);
		return err;
	}
	*out_fd = take_fd(&fd);
	return OK;
}

void box_listener_drop(int dir, const char *box)
{
	unlinkat(dir, box, 0);
}
