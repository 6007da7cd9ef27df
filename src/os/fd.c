// A passed descriptor is closed by its receiver: the kernel does so inside of recvmsg() if there is
// no room, and close() of a socket with SO_LINGER waits as long as the peer chose. So there is room
// for as many as one message can carry, and unexpected ones are closed by fd_on_leaked().
//
// syscalls: read write openat close fcntl sendmsg recvmsg setsockopt
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/weak.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define FDS_BORNE 32   // more than any message of ours has
#define FDS_PASSED 253 // SCM_MAX_FD of the kernel

union side_room {
	char room[CMSG_SPACE(FDS_PASSED * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};

static void close_leaked(int fd)
{
	close(fd);
}

static void (*drop_leaked)(int fd) = close_leaked;

void fd_on_leaked(void (*drop)(int fd))
{
	drop_leaked = drop ? drop : close_leaked;
}

void fd_wake(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN && errno != EBADF) {
	}
}

int fd_write_all(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_all(int fd, void *room, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, (char *)room + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

static int fd_open_again(int dir, const char *path, int flags)
{
	int fd;

	do {
		fd = openat(dir, path, flags | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	return fd;
}

// Kernel files take a value in one write; a part of it would be another value.
int fd_put(int dir, const char *path, const char *text)
{
	int fd = fd_open_again(dir, path, O_WRONLY);
	ssize_t n;
	int kept;

	if (fd < 0)
		return -1;
	do {
		n = write(fd, text, strlen(text));
	} while (n < 0 && errno == EINTR);
	kept = errno;
	close(fd);
	errno = kept;
	return n < 0 ? -1 : 0;
}

ssize_t fd_get(int dir, const char *path, char *room, size_t size)
{
	int fd = fd_open_again(dir, path, O_RDONLY);
	ssize_t n;
	int kept;

	if (fd < 0)
		return -1;
	n = fd_read_all(fd, room, size - 1);
	kept = errno;
	close(fd);
	errno = kept;
	if (n < 0)
		return -1;
	room[n] = 0;
	return n;
}

int fd_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !(flags & O_NONBLOCK) == !on)
		return flags < 0 ? -1 : 0;
	return fcntl(fd, F_SETFL, flags ^ O_NONBLOCK);
}

ssize_t fd_send_parts(int sock, struct iovec *parts, int part_count, const int *fds, int count,
		      int flags)
{
	union {
		char room[CMSG_SPACE(FDS_BORNE * sizeof(int))];
		struct cmsghdr align;
	} side;
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)part_count};
	ssize_t n;

	if (count > FDS_BORNE) {
		errno = EINVAL;
		return -1;
	}
	if (count > 0) {
		struct cmsghdr *head;

		memset(&side, 0, sizeof(side));
		message.msg_control = side.room;
		message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, (size_t)count * sizeof(int));
	}
	do {
		n = sendmsg(sock, &message, flags | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n;
}

ssize_t fd_send(int sock, const void *bytes, size_t len, const int *fds, int count, int flags)
{
	struct iovec part = {.iov_base = (void *)bytes, .iov_len = len};

	return fd_send_parts(sock, &part, 1, fds, count, flags);
}

// Takes the fds out of `message`; returns how many came, of which at most `room` are kept.
static int take_fds(struct msghdr *message, int *fds, int room)
{
	int came = 0;

	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
	     head = CMSG_NXTHDR(message, head)) {
		size_t count;

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
			if (came < room)
				fds[came] = fd;
			else
				drop_leaked(fd);
			came++;
		}
	}
	return came;
}

static void close_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		drop_leaked(fds[i]);
}

// One message into `room`, with its control data in the first `beside` bytes of `side`.
static ssize_t fd_receive(int sock, void *room, size_t size, union side_room *side, size_t beside,
			  struct msghdr *message, int flags)
{
	struct iovec part = {.iov_base = room, .iov_len = size};
	ssize_t n;

	*message = (struct msghdr){
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = side->room,
		.msg_controllen = beside,
	};
	do {
		n = recvmsg(sock, message, flags | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	message->msg_iov = NULL;
	return n;
}

ssize_t fd_recv_any(int sock, void *room, size_t size, int *fds, int *count, int flags)
{
	union side_room side;
	struct msghdr message;
	int space = *count;
	ssize_t n = fd_receive(sock, room, size, &side, sizeof(side), &message, flags);
	int came;

	if (n < 0)
		return -1;
	came = take_fds(&message, fds, space);
	if (came > space || (message.msg_flags & MSG_TRUNC)) {
		close_all(fds, came < space ? came : space);
		*count = 0;
		errno = EPROTO;
		return -1;
	}
	// The control buffer was large enough, so this process was at its fd limit.
	if (message.msg_flags & MSG_CTRUNC) {
		close_all(fds, came);
		came = FD_LOST;
	}
	*count = came;
	return n;
}

// The pid of the sender by SCM_CREDENTIALS; 0: SO_PASSCRED was not set when it was sent.
static int sender_of(struct msghdr *message)
{
	struct ucred who;

	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head;
	     head = CMSG_NXTHDR(message, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(head), sizeof(who));
		return who.pid;
	}
	return 0;
}

ssize_t fd_recv_bytes(int sock, void *room, size_t size, int *sender, int flags)
{
	union side_room side;
	size_t beside = weak(CLOSER) ? CMSG_SPACE(sizeof(struct ucred)) : sizeof(side);
	struct msghdr message;
	ssize_t n = fd_receive(sock, room, size, &side, beside, &message, flags);

	if (n < 0)
		return -1;
	if (take_fds(&message, NULL, 0) > 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		errno = EPROTO;
		return -1;
	}
	if (sender)
		*sender = sender_of(&message);
	return n;
}

int fd_ask_sender(int sock)
{
	int on = 1, off = 0;

	// From Linux 6.16 on a peer that passes descriptors gets EPERM.
	if (!weak(PASSRIGHTS))
		setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
	return setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

ssize_t fd_recv(int sock, void *room, size_t size, int *fds, int *count, int flags)
{
	int none = 0, *number = count ? count : &none;
	ssize_t n = fd_recv_any(sock, room, size, fds, number, flags);

	if (n < 0 || *number != FD_LOST)
		return n;
	*number = 0;
	errno = EMFILE;
	return -1;
}

void fd_drop(int *fd)
{
	int kept = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = kept;
}
