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

#define PROCESSES_MAX 32768
#define TICK_MS 10 // USER_HZ is 100 on every architecture
#define LINE_MAX_DEPTH 512

// Fields of /proc/PID/stat, less two.
enum stat_field { STATE, PARENT, SESSION = 3, START = 19, STAT_FIELDS };

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

static bool to_int(struct str text, int *out)
{
	uint64_t value;

	if (!str_to_u64(text, 0, INT32_MAX, &value))
		return false;
	*out = (int)value;
	return true;
}

// After the name, which may contain any byte, at the last bracket: the third field and on.
static bool init_sweep_read_process(int pid, struct process *out)
{
	struct str rest, field[STAT_FIELDS];
	char path[32], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (fd_get(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	rest = str_of(at + 2);
	for (int i = 0; i < STAT_FIELDS; i++)
		if (!str_cut(&rest, ' ', &field[i]))
			return false;
	*out = (struct process){.pid = pid};
	if (str_is(field[STATE], "Z") || str_is(field[STATE], "X"))
		return false; // a zombie
	return to_int(field[PARENT], &out->parent) && to_int(field[SESSION], &out->session) &&
	       str_to_u64(field[START], 0, UINT64_MAX, &out->start);
}

static void read_group(int pid, char *room, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (fd_get(AT_FDCWD, path, room, size) < 0)
		room[0] = 0;
}

static void init_sweep_read_all(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	seen.count = 0;
	while (dir && seen.count < PROCESSES_MAX && (entry = readdir(dir))) {
		uint64_t pid;

		if (str_to_u64(str_of(entry->d_name), 2, INT32_MAX, &pid) &&
		    init_sweep_read_process((int)pid, &seen.all[seen.count]))
			seen.count++;
	}
	if (dir)
		closedir(dir);
}

static const struct process *init_sweep_find(int pid)
{
	for (int i = 0; i < seen.count; i++)
		if (seen.all[i].pid == pid)
			return &seen.all[i];
	return NULL;
}

static bool descends(const struct process *process, int root)
{
	for (int i = 0; i < LINE_MAX_DEPTH && process; i++) {
		if (process->parent == root)
			return true;
		process = init_sweep_find(process->parent);
	}
	return false;
}

static bool shares_group(int pid)
{
	if (!seen.group[0])
		return false;
	read_group(pid, seen.other, sizeof(seen.other));
	return strcmp(seen.group, seen.other) == 0;
}

static bool is_in_cgroup(int pid)
{
	read_group(pid, seen.other, sizeof(seen.other));
	return strstr(seen.other, seen.exec_cgroup[0]) || strstr(seen.other, seen.exec_cgroup[1]);
}

static bool signal_one(const struct process *process, int number)
{
	int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	struct process again;
	bool done;

	if (fd < 0)
		return false;
	done = init_sweep_read_process(process->pid, &again) && again.start == process->start &&
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

	if (!init_sweep_read_process(1, &init))
		init.session = -1;
	init_sweep_read_all();
	for (int i = 0; i < 2; i++)
		snprintf(seen.exec_cgroup[i], sizeof(seen.exec_cgroup[i]), ":/x-%u%c",
			 ask->depth ? ask->depth - 1 : 0, "\n."[i]);
	shell = init_sweep_find(root);
	read_group(root, seen.group, sizeof(seen.group));
	read_group(self, seen.other, sizeof(seen.other));
	if (strcmp(seen.group, seen.other) == 0)
		seen.group[0] = 0; // it has no cgroup of its own
	for (int i = 0; i < seen.count; i++) {
		struct process *process = &seen.all[i];

		if (process->pid == root || process->pid == self || process->start < since ||
		    process->session == init.session)
			continue;
		if (ask->depth) {
			if (is_in_cgroup(process->pid))
				reply->count += signal_one(process, (int)ask->number);
			continue;
		}
		if ((shell && process->session == shell->session) || descends(process, root) ||
		    shares_group(process->pid))
			reply->count += signal_one(process, (int)ask->number);
	}
	return true;
}
