// sd_notify without a library: one datagram of NAME=VALUE lines to the socket in NOTIFY_SOCKET. The
// variable stays in our environment for the image that `cove upgrade` executes, and is removed from
// that of the children: the service manager accepts messages of its main process only.
#include "serve/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/log.h"

void notify_send(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	auto_fd fd = -1;

	if (!len || len >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, len);
	if (*path == '@') // abstract namespace
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_event(LOG_WARN, "serve.not_notified", "text", text, NULL);
}
