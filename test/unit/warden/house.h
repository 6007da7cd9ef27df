// A real warden on a scratch directory, ordered about through its socket as the daemon would, and a
// census of what it holds: groups, mounts, children, descriptors.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/cgroup.h"
#include "os/fd.h"
#include "protocol/order.h"
#include "protocol/talk.h"
#include "warden/group.h"
#include "warden/warden.h"

#define PATIENCE_MS 20000

static char home[64], instance[CGROUP_INSTANCE_ROOM];
static pid_t warden_pid;
static int sock = -1;
static uint32_t last_id;
static const char *net_by = "sk_lookup"; // how its boxes get their network

static inline void path_of(char *room, size_t size, const char *name)
{
	snprintf(room, size, "%s/%s", home, name);
}

static inline bool skipped(void)
{
	static bool told;

	if (geteuid() == 0)
		return false;
	if (!told)
		printf("# skipped: a warden needs root\n");
	told = true;
	return true;
}

static inline int dial(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int64_t deadline = clock_ms() + PATIENCE_MS;

	path_of(name.sun_path, sizeof(name.sun_path), "run/warden.sock");
	while (clock_ms() < deadline) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0)
			return fd;
		close(fd);
		usleep(2000);
	}
	return -1;
}

static inline void start_process(void)
{
	char data[80], run[80], log[80], *argv[5];

	path_of(data, sizeof(data), "data");
	path_of(run, sizeof(run), "run");
	path_of(log, sizeof(log), "log");
	fflush(stdout);
	warden_pid = fork();
	if (warden_pid != 0)
		return;
	dup2(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
	argv[0] = mem_fmt("--data=%s", data);
	argv[1] = mem_fmt("--run=%s", run);
	argv[2] = mem_str("--uid=0");
	argv[3] = mem_str("--disk=directory");
	argv[4] = mem_fmt("--steer=%s", net_by);
	_exit(warden_main(5, argv)); // the leak check would need calls that the filter forbids
}

// A warden on an empty data directory of its own.
static inline bool house_begin(const char *name)
{
	char path[80];
	auto_fd data = -1;

	snprintf(home, sizeof(home), "/tmp/cove-%s-%d", name, getpid());
	path_of(path, sizeof(path), "data");
	if (mkdir(home, 0711) != 0 || mkdir(path, 0711) != 0)
		return false;
	data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_err err = cgroup_instance(data, instance);

	path_of(path, sizeof(path), "run");
	if (err || mkdir(path, 0711) != 0)
		return false;
	start_process();
	return true;
}

static inline bool wait_readable(int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};

	return poll(&one, 1, PATIENCE_MS) == 1;
}

static int sent_with = -1; // an fd for orders that bring one

static inline bool send_order(struct order *order)
{
	static char room[ORDER_SIZE_MAX];
	size_t len;

	order->id = ++last_id;
	len = order_encode(order, room, sizeof(room));
	return len > 0 &&
	       fd_send(sock, room, len, &sent_with, order_brings(order), 0) == (ssize_t)len;
}

static inline bool take_answer(struct answer *out, int *fds)
{
	static char room[ORDER_SIZE_MAX];
	int count = ORDER_FDS_MAX;
	ssize_t len;

	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fds[i] = -1;
	if (!wait_readable(sock))
		return false;
	len = fd_recv(sock, room, sizeof(room), fds, &count, 0);
	if (len <= 0)
		return false;
	auto_err err = answer_decode(room, (size_t)len, out);

	return !err;
}

static inline bool ask(struct order *order, struct answer *out, int *fds)
{
	return send_order(order) && take_answer(out, fds) && out->id == order->id;
}

// Dials, says HELLO and hears what the host is. A child of a warden that was killed may hold its
// listener for a moment yet: then whoever dialled is hung up on.
static inline bool greet_as(const char *next, struct answer *out)
{
	struct order hello = {.kind = ORDER_HELLO, .version = ORDER_VERSION};
	int fds[ORDER_FDS_MAX];

	snprintf(hello.next, sizeof(hello.next), "%s", next);
	for (int tries = 0; tries < 3; tries++) {
		fd_drop(&sock);
		sock = dial();
		if (sock >= 0 && ask(&hello, out, fds))
			return out->kind == ANSWER_DONE;
	}
	return false;
}

static inline struct order build_order(void)
{
	struct order order = {
		.kind = ORDER_BUILD, .host = "box", .name = "host", .ephemeral = true};

	id_box(order.box);
	order.limits = LIMITS_DEFAULT;
	order.limits.disk = 0;
	order.limits.memory = 128 << 20;
	return order;
}

static inline bool destroy(const char *box)
{
	static struct answer done;
	struct order order = {.kind = ORDER_DESTROY};
	int fds[ORDER_FDS_MAX];

	memcpy(order.box, box, sizeof(order.box));
	return ask(&order, &done, fds) && done.kind == ANSWER_DONE;
}

// Pid 1's greeting, or what it says instead.
static inline bool greets(int control)
{
	static char room[TALK_SIZE_MAX];
	struct talk talk = {0};
	ssize_t len;

	if (!wait_readable(control))
		return false;
	len = recv(control, room, sizeof(room), 0);
	if (len <= 0 || !talk_decode(room, (size_t)len, &talk)) {
		printf("# no greeting: %zd bytes\n", len);
		return false;
	}
	if (talk.kind == TALK_BROKEN)
		printf("# broken: %s: %s\n", talk.failed.note, strerror(talk.failed.errnum));
	return talk.kind == TALK_READY;
}

static inline void drop_fds(int *fds)
{
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&fds[i]);
}

// -- the census ------------------------------------------------------------------------------

// User namespaces apart: id ranges keep theirs for the next box.
static inline int count_fds(pid_t pid)
{
	char path[64], target[64];
	DIR *dir;
	struct dirent *entry;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target));

		count += len > 0 && !str_starts((struct str){target, (size_t)len}, "user:");
	}
	if (dir)
		closedir(dir);
	return count;
}

// The group itself and what is beneath it.
static inline int count_groups(int at, const char *name, int depth)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int count = dir != NULL;

	while (dir && depth > 0 && (entry = readdir(dir)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			count += count_groups(fd, entry->d_name, depth - 1);
	if (dir)
		closedir(dir);
	return count;
}

static inline int count_all_groups(void)
{
	struct cgroup_host *host = mem_new_of(struct cgroup_host);
	auto_err err = cgroup_discover(host);
	int count = 0;

	for (int i = 0; !err && i < host->count; i++) {
		char path[300];

		snprintf(path, sizeof(path), "%s/cove/%s", host->mounts[i].path, instance);
		count += count_groups(AT_FDCWD, path, 4);
	}
	free(host);
	return count;
}

static inline int count_lines(const char *path)
{
	static char text[1 << 18];
	ssize_t len = fd_get(AT_FDCWD, path, text, sizeof(text));
	int count = 0;

	for (ssize_t i = 0; i < len; i++)
		count += text[i] == '\n';
	return count;
}

// Processes whose /proc/PID/`file` has `mark` in it; *last is one of them.
static inline int count_processes(const char *file, const char *mark, pid_t *first)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], text[2048];
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		snprintf(path, sizeof(path), "/proc/%s/%s", entry->d_name, file);
		if (pid <= 0 || fd_get(AT_FDCWD, path, text, sizeof(text)) < 0 ||
		    !strstr(text, mark))
			continue;
		if (count++ == 0)
			*first = pid; // /proc is in their order
	}
	if (dir)
		closedir(dir);
	return count;
}

// The zygote of the warden; 0: not found.
static inline pid_t zygote_pid(void)
{
	for (pid_t pid = warden_pid + 1; pid < warden_pid + 4096; pid++) {
		char path[64], text[512];
		int parent = 0;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		if (fd_get(AT_FDCWD, path, text, sizeof(text)) > 0 &&
		    sscanf(text, "%*d (cove-zygote) %*c %d", &parent) == 1 && parent == warden_pid)
			return pid;
	}
	return 0;
}

static inline int count_children(void)
{
	char mark[32];
	pid_t none;

	snprintf(mark, sizeof(mark), "\nPPid:\t%d\n", warden_pid);
	return count_processes("status", mark, &none);
}

struct inventory {
	int groups, mounts, children, fds;
};

static inline struct inventory take_inventory(void)
{
	char path[64];
	struct inventory inventory = {.groups = count_all_groups(), .children = count_children()};

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", warden_pid);
	// What others mount and unmount on this host reaches the warden, too, and is not its own.
	inventory.mounts = count_lines(path) - count_lines("/proc/self/mountinfo");
	inventory.fds = count_fds(warden_pid);
	return inventory;
}

// The trash is emptied by a child in its own time; all else must be so at once.
static inline bool same(struct inventory before)
{
	struct inventory now;

	for (int i = 0; i < 500; i++) {
		now = take_inventory();
		if (memcmp(&now, &before, sizeof(now)) == 0)
			return true;
		usleep(20000);
	}
	printf("# groups %d->%d mounts %d->%d children %d->%d fds %d->%d\n", before.groups,
	       now.groups, before.mounts, now.mounts, before.children, now.children, before.fds,
	       now.fds);
	return false;
}

static inline bool trash_is_empty(void)
{
	char path[80];
	struct dirent *entry;
	bool empty = true;
	DIR *dir;

	path_of(path, sizeof(path), "data/trash");
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		empty = empty && entry->d_name[0] == '.';
	if (dir)
		closedir(dir);
	return empty;
}

// The child that empties the trash of earlier boxes is gone by then: it is nobody's census.
static inline struct inventory settled(void)
{
	struct inventory before = take_inventory();

	for (int still = 0, tries = 0; still < 10 && tries < 2000; still++, tries++) {
		struct inventory now;

		usleep(20000);
		now = take_inventory();
		if (memcmp(&now, &before, sizeof(now)) != 0 || !trash_is_empty())
			still = 0;
		before = now;
	}
	return before;
}

static inline void leave_home(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", home, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
}
