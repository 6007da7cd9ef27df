// Terminals and dialogues. The slave of a pty is opened by TIOCGPTPEER, so no path is looked up
// that the box could have changed. In the child the fds of a dialogue get their high numbers by way
// of 0, 1 and 2: pid 1 may hold fds of any number, and one must not overwrite the next.
#include "init/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/raw_syscall.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

void stdio_size(int master, const struct talk_exec *exec)
{
	struct winsize size = {.ws_row = exec->rows, .ws_col = exec->cols};

	ioctl(master, TIOCSWINSZ, &size);
}

static bool make_pty(const struct talk_exec *exec, uint32_t uid, struct stdio *out)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlocked = 0;
	int slave = -1;

	out->ours[0] = master;
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return false;
	stdio_size(master, exec);
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return false;
	for (int i = 0; i < 3; i++)
		out->theirs[i] = slave;
	// Output waits here between the pty, which drops bytes once read, and the disk.
	if ((exec->flags & TALK_EXEC_SPOOL) && pipe2(out->ours + 1, O_CLOEXEC) < 0)
		return false;
	// As grantpt() does: the slave belongs to the user.
	return uid == 0 || fchown(slave, uid, (gid_t)-1) == 0;
}

static bool make_dialogue(struct stdio *out)
{
	int to[2], err[2], talk[2];

	if (pipe2(to, O_CLOEXEC) < 0)
		return false;
	out->ours[0] = to[0];
	out->theirs[1] = to[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return false;
	out->ours[1] = err[0];
	out->theirs[2] = err[1];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) < 0)
		return false;
	out->ours[2] = talk[0];
	out->theirs[0] = talk[1];
	return true;
}

bool stdio_make(const struct talk_exec *exec, uint32_t uid, struct stdio *out)
{
	*out = (struct stdio){{-1, -1, -1}, {-1, -1, -1}};
	return exec->flags & TALK_EXEC_PTY ? make_pty(exec, uid, out) : make_dialogue(out);
}

static long take_three(int in, int out, int err)
{
	long n = RAW_3(SYS_dup3, in, 0, 0);

	if (n >= 0)
		n = RAW_3(SYS_dup3, out, 1, 0);
	if (n >= 0)
		n = RAW_3(SYS_dup3, err, 2, 0);
	return n;
}

static long take_dialogue(void)
{
	long n = RAW_3(SYS_dup3, 0, TALK_DIALOGUE_FD, 0);

	if (n >= 0)
		n = RAW_3(SYS_dup3, 1, TALK_DIALOGUE_OUT, 0);
	if (n >= 0)
		n = RAW_3(SYS_dup3, 2, TALK_DIALOGUE_ERR, 0);
	if (n >= 0)
		n = RAW_3(SYS_close_range, 3, TALK_DIALOGUE_FD - 1, 0);
	if (n >= 0)
		n = RAW_3(SYS_close_range, TALK_DIALOGUE_ERR + 1, ~0u, 0);
	if (n >= 0)
		n = RAW_4(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
	if (n >= 0 && RAW_3(SYS_dup3, n, 1, 0) >= 0)
		n = RAW_3(SYS_dup3, n, 2, 0);
	return n < 0 ? n : RAW_3(SYS_close_range, 3, TALK_DIALOGUE_FD - 1, 0);
}

long stdio_take(uint32_t flags, int in, int out, int err)
{
	long n = take_three(in, out, err);

	if (n >= 0 && (flags & TALK_EXEC_DIALOGUE))
		return take_dialogue();
	if (n >= 0)
		n = RAW_3(SYS_close_range, 3, ~0u, 0);
	if (n >= 0)
		n = RAW_3(SYS_ioctl, 0, TIOCSCTTY, 0);
	return n;
}
