// The processes of the box as ps(1) reads them: /proc/PID/stat, the owner of /proc/PID, and
// /proc/PID/cmdline, which a process can overwrite. Texts are cut, and have no NUL. A signal to one
// process goes through a pidfd, after its start time was compared, because a pid may be reused.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/handlers.h"
#include "init/reply.h"
#include "init/user.h"
#include "os/fd.h"
#include "os/thread.h"

#define TICK_MS 10 // USER_HZ is 100 on every architecture
#define LISTED_MAX 4096

static struct {
	uint32_t uid;
	char name[USER_NAME_MAX + 1];
	char command[FILEOP_COMMAND_MAX + 1];
} room;

// The last name is kept: processes of one user stand together.
static struct str processes_user(uint32_t uid)
{
	if (!room.name[0] || room.uid != uid) {
		room.uid = uid;
		user_name(uid, room.name);
	}
	return str_of(room.name);
}

// Its arguments with spaces between; a kernel thread and a zombie have none, but a name.
static struct str processes_command(int pid)
{
	char path[32];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : fd_read_all(fd, room.command, FILEOP_COMMAND_MAX);
	if (fd >= 0)
		close(fd);
	while (len > 0 && !room.command[len - 1])
		len--;
	if (len <= 0) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		len = fd_get(AT_FDCWD, path, room.command, sizeof(room.command));
		len = len > 0 && room.command[len - 1] == '\n' ? len - 1 : len;
	}
	len = len > 0 ? len : 0;
	for (ssize_t i = 0; i < len; i++)
		if (!room.command[i])
			room.command[i] = ' ';
	room.command[len] = 0;
	return (struct str){room.command, (size_t)len};
}

static bool processes_look(int pid, struct fileop_process *out)
{
	struct thread_look look;
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (!thread_look_process(pid, &look) || stat(path, &st) < 0)
		return false;
	*out = (struct fileop_process){
		.pid = pid,
		.ppid = look.parent,
		.state = (uint8_t)look.state,
		.cpu_ms = look.cpu * TICK_MS,
		.rss = look.rss_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.started_ms = look.started * TICK_MS,
		.user = processes_user(st.st_uid),
		.command = processes_command(pid),
	};
	return true;
}

bool processes_list(const struct fileop_request *ask, struct fileop_reply *reply)
{
	DIR *dir = opendir("/proc");
	struct reply_batch batch;
	struct dirent *entry;

	(void)ask;
	if (!dir)
		return false;
	reply_begin(&batch, FILEOP_PROCESSES_ARE);
	while ((entry = readdir(dir))) {
		struct fileop_process process;
		uint64_t pid;

		// The worker itself is no process of the box's users.
		if (!str_to_u64(str_of(entry->d_name), 1, INT32_MAX, &pid) ||
		    (int)pid == getpid() || !processes_look((int)pid, &process))
			continue;
		if (batch.count == LISTED_MAX) {
			reply->more = true;
			break;
		}
		fileop_put_process(&batch.pack, &process);
		reply_item(&batch);
	}
	closedir(dir);
	reply_flush(&batch);
	reply->count = batch.count;
	return true;
}

bool processes_signal(const struct fileop_request *ask, struct fileop_reply *reply)
{
	auto_fd_errno fd = (int)syscall(SYS_pidfd_open, (int)ask->pid, 0);
	struct thread_look look;

	(void)reply;
	if (fd < 0)
		return false;
	if (!thread_look_process((int)ask->pid, &look) || look.started * TICK_MS != ask->since) {
		errno = ESRCH;
		return false;
	}
	return syscall(SYS_pidfd_send_signal, fd, (int)ask->number, NULL, 0) == 0;
}
