// Signals the processes that a command has started: its descendants, those in its session, those in
// its cgroup; of these, the ones that are not older than asked for. Or all processes of one exec
// cgroup, whose first process may be gone. Each is signalled by a pidfd, after a second check of
// its start time, because its pid may have been reused. Processes in pid 1's own session are
// spared: only the fork template is there (prefork.c), which may live in the exec cgroup.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/handlers.h"
#include "os/fd.h"
#include "os/thread.h"

#define PROCESSES_MAX 32768
#define TICK_MS 10 // USER_HZ is 100 on every architecture
#define LINE_MAX_DEPTH 512

struct process {
	int pid, parent, session;
	uint64_t start; // ticks since boot
};

static struct {
	struct process all[PROCESSES_MAX];
	int count;
	char group[1024], other[1024];
	char exec_cgroup[2][32]; // the end of its line in /proc/PID/cgroup, or followed by a mark
} seen;

// False: there is none, or a zombie.
static bool process_read(int pid, struct process *out)
{
	struct thread_look look;

	if (!thread_look_process(pid, &look) || look.state == THREAD_DEAD || look.state == 'X')
		return false;
	*out = (struct process){pid, look.parent, look.session, look.started};
	return true;
}

static void read_group(int pid, char *room, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (fd_get(AT_FDCWD, path, room, size) < 0)
		room[0] = 0;
}

static void processes_read(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	seen.count = 0;
	while (dir && seen.count < PROCESSES_MAX && (entry = readdir(dir))) {
		uint64_t pid;

		if (str_to_u64(str_of(entry->d_name), 2, INT32_MAX, &pid) &&
		    process_read((int)pid, &seen.all[seen.count]))
			seen.count++;
	}
	if (dir)
		closedir(dir);
}

static const struct process *process_find(int pid)
{
	for (int i = 0; i < seen.count; i++)
		if (seen.all[i].pid == pid)
			return &seen.all[i];
	return NULL;
}

static bool process_descends(const struct process *process, int root)
{
	for (int i = 0; i < LINE_MAX_DEPTH && process; i++) {
		if (process->parent == root)
			return true;
		process = process_find(process->parent);
	}
	return false;
}

// Of the processes that descend from `shell`, or share its session or cgroup; or, with an exec
// cgroup, of that one.
static bool process_is_wanted(const struct process *process, const struct fileop_request *ask,
			      const struct process *shell)
{
	if (!ask->depth && ((shell && process->session == shell->session) ||
			    process_descends(process, (int)ask->pid)))
		return true;
	read_group(process->pid, seen.other, sizeof(seen.other));
	if (ask->depth)
		return strstr(seen.other, seen.exec_cgroup[0]) ||
		       strstr(seen.other, seen.exec_cgroup[1]);
	return seen.group[0] && strcmp(seen.group, seen.other) == 0;
}

static bool signal_one(const struct process *process, int number)
{
	int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct process again;
	bool done;

	if (fd < 0)
		return false;
	done = process_read(process->pid, &again) && again.start == process->start &&
	       (number == 0 || syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0);
	close(fd);
	return done;
}

bool sweep_serve(const struct fileop_request *ask, struct fileop_reply *reply)
{
	uint64_t since = ask->since / TICK_MS;
	int root = (int)ask->pid, self = getpid();
	const struct process *shell;
	struct process init;

	if (!process_read(1, &init))
		init.session = -1;
	processes_read();
	for (int i = 0; i < 2; i++)
		snprintf(seen.exec_cgroup[i], sizeof(seen.exec_cgroup[i]), ":/x-%u%c",
			 ask->depth ? ask->depth - 1 : 0, "\n."[i]);
	shell = process_find(root);
	read_group(root, seen.group, sizeof(seen.group));
	read_group(self, seen.other, sizeof(seen.other));
	if (strcmp(seen.group, seen.other) == 0)
		seen.group[0] = 0; // it has no cgroup of its own
	for (int i = 0; i < seen.count; i++) {
		struct process *process = &seen.all[i];

		if (process->pid == root || process->pid == self || process->start < since ||
		    process->session == init.session)
			continue;
		if (process_is_wanted(process, ask, shell))
			reply->count += signal_one(process, (int)ask->number);
	}
	return true;
}
