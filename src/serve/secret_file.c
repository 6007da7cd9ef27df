// Runs as the daemon's user in the daemon's directory. A key is synced before anything is made with
// it. A truncated or zeroed key was left by an older version at a power cut: it is useless, and
// replaced.
//
// syscalls: openat read write fsync fchmod renameat renameat2 unlinkat close
#include "serve/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "os/path.h"

static fallible serve_secret_file_make(int dir, const char *name, uint8_t out[SECRET_HASH])
{
	uint8_t key[SECRET_HASH];

	secret_random(key, sizeof(key));
	TRY(path_write_sync(dir, name, 0600, (struct str){(const char *)key, sizeof(key)}),
	    "make the key %s", name);
	memcpy(out, key, sizeof(key));
	secret_wipe(key, sizeof(key));
	return OK;
}

fallible secret_file_key(int dir, const char *name, uint8_t out[SECRET_HASH])
{
	static const uint8_t torn[SECRET_HASH];
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return err_sys(errno, "open the key %s", name);
	if (fd >= 0 && read(fd, out, SECRET_HASH) == SECRET_HASH &&
	    memcmp(out, torn, sizeof(torn)) != 0)
		return OK;
	if (fd >= 0)
		log_event(LOG_ERROR, "key.made_anew", "file", name, "message",
			  "it was cut short: what was made with the old one is void", NULL);
	return serve_secret_file_make(dir, name, out);
}
