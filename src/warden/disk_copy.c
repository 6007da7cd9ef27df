// Runs one copy of a disk in a child, with no other descriptors than those of the copy and a pipe
// for the report. The child ends with the warden. It goes on at the usual priority, because a box
// is frozen meanwhile.
//
// syscalls: clone pipe2 prctl close_range dup2 dup3 fcntl exit_group write
// syscalls: mknodat fchownat flistxattr fgetxattr fsetxattr ioctl openat syncfs setfsgid
#include "warden/disk_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "os/fd.h"
#include "warden/helper.h"
#include "warden/jail.h"

static _Noreturn void disk_copy_run(struct disk_copy *copy, int report)
{
	int fds[1 + DISK_COPY_FDS] = {report};
	struct err *outcome;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < copy->count; i++)
		fds[1 + i] = copy->fds[i];
	if (helper_keep(fds, 1 + copy->count))
		_exit(1);
	for (int i = 0; i < copy->count; i++)
		copy->fds[i] = fds[1 + i];
	outcome = copy->run(copy);
	jail_report_write(fds[0], outcome,
			  &(struct answer){.files = copy->files, .bytes = copy->bytes});
	_exit(0);
}

void disk_copy_done(struct disk_copy *copy)
{
	for (int i = 0; i < copy->count; i++)
		fd_drop(&copy->fds[i]);
	copy->count = 0;
}

fallible disk_copy_start(struct disk_copy *copy, int *out_pid, int *out_report)
{
	struct err *err = OK;
	int pipes[2], pid;

	if (pipe2(pipes, O_CLOEXEC))
		err = err_sys(errno, "make a pipe for the copy of a disk");
	if (!err) {
		auto_fd in = pipes[0];
		auto_fd out = pipes[1];

		pid = fork();
		if (pid == 0)
			disk_copy_run(copy, out);
		if (pid < 0) {
			err = err_sys(errno, "fork to copy a disk");
		} else {
			*out_pid = pid;
			*out_report = take_fd(&in);
		}
	}
	disk_copy_done(copy);
	return err;
}
