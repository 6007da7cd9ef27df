// Runs as the daemon's own user, so whatever stands at that name is its own doing. A key is whole
// or it does not count: one that a crash cut short is made anew.
//
// syscalls: openat read write fsync unlinkat close
#include "serve/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"

static fallible make(int dir, const char *name, uint8_t out[SECRET_HASH])
{
	auto_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(errno, "make the key %s", name);
	secret_random(out, SECRET_HASH);
	if (write(fd, out, SECRET_HASH) != SECRET_HASH || fsync(fd))
		return err_sys(errno, "write the key %s", name);
	return OK;
}

fallible keep_key(int dir, const char *name, uint8_t out[SECRET_HASH])
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return err_sys(errno, "open the key %s", name);
	if (fd >= 0 && read(fd, out, SECRET_HASH) == SECRET_HASH)
		return OK;
	if (fd >= 0 && unlinkat(dir, name, 0))
		return err_sys(errno, "remove the broken key %s", name);
	return make(dir, name, out);
}
