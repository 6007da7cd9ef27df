// A box without a warden: namespaces of its own over the host's files, one exec cgroup, and the
// real pid 1. The test program is that pid 1 when executed with the name `cove-init`, so
// every variant (the address sanitizer too) is tested as it was built. Ids are shifted as in a real
// box, so it can read world-readable files.
//
// The thread sanitizer build runs the installed pid 1: the children that share its memory
// are no threads that the sanitizer knows, and a file worker would carry ten megabytes of its
// tables, which exceeds the memory limit of a small box.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "protocol/rootfs_mounts.h"
#include "protocol/talk.h"

__attribute__((constructor(101))) static void testbox_be_init(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], "cove-init") == 0)
		_exit(init_main());
}

#ifdef __SANITIZE_THREAD__
#define SLOT_INIT COVE_INIT
#else
#define SLOT_INIT "/proc/self/exe"
#endif
#define SLOT_BASE 1048576
#define SLOT_MAP "0 1048576 65536"

// Path at which pid 1 listens for another daemon; "": it exits with the first.
static char slot_listens[96];

// The program that becomes pid 1; "": this one.
static char slot_program[96];

struct testbox {
	int control;
	int pid;
	bool by_clone;
	char group[2][128]; // directories in which exec cgroups are made; v2 uses one
	int exec_cgroups;
};

static const char *testbox_v2(void)
{
	if (access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0)
		return "/sys/fs/cgroup";
	if (access("/sys/fs/cgroup/unified/cgroup.controllers", F_OK) == 0)
		return "/sys/fs/cgroup/unified";
	return NULL;
}

// Why the test cannot run here; NULL: it can.
__attribute__((unused)) static const char *testbox_cannot(bool by_clone)
{
	if (geteuid() != 0)
		return "needs root";
	if (by_clone && !testbox_v2())
		return "no cgroup2 mount";
	if (!by_clone && access("/sys/fs/cgroup/cpuacct/tasks", W_OK) < 0)
		return "no cgroup v1";
	return NULL;
}

static void testbox_cgroup_path(const struct testbox *slot, int which, int exec_cgroup,
				const char *file, char *room, size_t size)
{
	snprintf(room, size, "%s/x-%d%s%s", slot->group[which], exec_cgroup, file ? "/" : "",
		 file ? file : "");
}

// CLONE_INTO_CGROUP asks for the right to write cgroup.procs of both groups.
static void testbox_give(const char *group, bool by_clone)
{
	char path[640];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	if (by_clone && chown(path, SLOT_BASE, SLOT_BASE) < 0)
		perror(path);
}

static int testbox_make_cgroup(struct testbox *slot, int exec_cgroup, int *fds)
{
	int count = slot->by_clone ? 1 : 2;
	char path[512];

	for (int i = 0; i < count; i++) {
		testbox_cgroup_path(slot, i, exec_cgroup, NULL, path, sizeof(path));
		mkdir(path, 0755);
		testbox_give(path, slot->by_clone);
		testbox_cgroup_path(slot, i, exec_cgroup, slot->by_clone ? "." : "tasks", path,
				    sizeof(path));
		fds[i] = open(path,
			      (slot->by_clone ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC);
	}
	return count;
}

// One more exec cgroup: its join fds. Returns how many.
static int testbox_cgroup(struct testbox *slot, int *fds)
{
	return testbox_make_cgroup(slot, slot->exec_cgroups++, fds);
}

// The same exec cgroup again, as a new cgroup, after a kill.
__attribute__((unused)) static int testbox_renew(struct testbox *slot, int exec_cgroup, int *fds)
{
	char path[512];

	testbox_cgroup_path(slot, 0, exec_cgroup, NULL, path, sizeof(path));
	for (int i = 0; i < 5000 && rmdir(path) < 0; i++)
		usleep(2000);
	return testbox_make_cgroup(slot, exec_cgroup, fds);
}

static int testbox_init_config(bool by_clone)
{
	// The first two allow all; the third forbids clone3, as the real one does.
	struct {
		struct talk_init_config head;
		struct sock_filter code[6];
	} init_config = {
		.head = {.version = TALK_VERSION,
			 .joins_by_clone = by_clone,
			 .nofile_soft = 1024,
			 .nofile_hard = 4096,
			 .filter_len = {1, 1, 4}},
		.code = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
			 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
			 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
			 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
			 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)},
	};
	int fd = memfd_create("kit", MFD_CLOEXEC);

	if (fd >= 0)
		fd_write_all(fd, &init_config, sizeof(init_config));
	return fd;
}

static int testbox_userns(void)
{
	char path[64];
	int gate[2], fd;
	int pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -1;
	pid = (int)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		char byte;

		close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	fd_put(AT_FDCWD, path, SLOT_MAP);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	fd_put(AT_FDCWD, path, SLOT_MAP);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	close(gate[0]);
	close(gate[1]);
	waitpid(pid, NULL, 0);
	return fd;
}

// Ends in pid 1. `group`: the v2 group that it lives in, or NULL.
static void testbox_build(const char *group, const int *fds, int count)
{
	char name[] = "cove-init";
	char *argv[] = {name, NULL}, *env[] = {NULL};
	const char *program = slot_program[0] ? slot_program : SLOT_INIT;
	int self = open(program, O_RDONLY | O_CLOEXEC);
	int high[8];
	char path[512];

	if (group) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", group);
		fd_put(AT_FDCWD, path, "0");
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		_exit(90);
	for (int i = 0; i < count; i++)
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < count; i++)
		dup2(high[i], TALK_FD_CONTROL + i);
	if (self < TALK_FD_CONTROL + count)
		self = open(program, O_RDONLY | O_CLOEXEC);
	signal(SIGPIPE, SIG_IGN); // as a careless builder would leave it
	syscall(SYS_execveat, self, "", argv, env, AT_EMPTY_PATH);
	_exit(91);
}

static int testbox_listener(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, slot_listens, sizeof(slot_listens));
	unlink(slot_listens);
	if (bind(sock, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(sock, 4) < 0)
		perror("testbox listener");
	return sock;
}

// Connects as the next daemon; -1: no pid 1 listens.
__attribute__((unused)) static int testbox_connect(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (connect(sock, (struct sockaddr *)&at, sizeof(at)) < 0)
		fd_drop(&sock);
	return sock;
}

// False: errno.
__attribute__((unused)) static bool testbox_open(struct testbox *slot, bool by_clone)
{
	static int serial;
	int pair[2], fds[6], count = 3;
	const char *v1[2] = {"/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/freezer"};

	*slot = (struct testbox){.by_clone = by_clone, .control = -1};
	for (int i = 0; i < (by_clone ? 1 : 2); i++) {
		// A test that was killed may have left a cgroup, and had the same pid.
		do
			snprintf(slot->group[i], sizeof(slot->group[i]), "%s/cove-test-%d-%d",
				 by_clone ? testbox_v2() : v1[i], getpid(), ++serial);
		while (mkdir(slot->group[i], 0755) < 0 && errno == EEXIST);
		if (access(slot->group[i], F_OK) < 0)
			return false;
		testbox_give(slot->group[i], by_clone);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	if (!slot_program[0]) // an older pid 1 does not ask
		fd_send(pair[0], &(struct rootfs_mounts_base_rootfs){.is_set_up = true},
			sizeof(struct rootfs_mounts_base_rootfs), NULL, 0, 0);
	fds[0] = pair[1];
	fds[1] = testbox_init_config(by_clone);
	fds[2] = testbox_userns();
	count += testbox_cgroup(slot, fds + 3);
	if (slot_listens[0]) {
		if (by_clone)
			fds[count++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		fds[count++] = testbox_listener();
	}
	slot->pid = (int)syscall(SYS_clone,
				 CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD,
				 0, 0, 0, 0);
	if (slot->pid == 0)
		testbox_build(by_clone ? slot->group[0] : NULL, fds, count);
	for (int i = 0; i < count; i++)
		close(fds[i]);
	slot->control = pair[0];
	return slot->pid > 0;
}

__attribute__((unused)) static void testbox_kill_cgroup(const struct testbox *slot, int exec_cgroup)
{
	char path[512];

	testbox_cgroup_path(slot, 0, exec_cgroup, "cgroup.kill", path, sizeof(path));
	fd_put(AT_FDCWD, path, "1");
}

// Kills what is left and removes the cgroups. Returns the wait status of pid 1.
__attribute__((unused)) static int testbox_close(struct testbox *slot)
{
	char path[512];
	int status = -1;

	fd_drop(&slot->control);
	for (int i = 0; i < 2000 && waitpid(slot->pid, &status, WNOHANG) == 0; i++) {
		if (i == 1500)
			kill(slot->pid, SIGKILL);
		usleep(10000);
	}
	for (int i = 0; i < (slot->by_clone ? 1 : 2); i++) {
		for (int exec_cgroup = 0; exec_cgroup < slot->exec_cgroups; exec_cgroup++) {
			testbox_cgroup_path(slot, i, exec_cgroup, NULL, path, sizeof(path));
			for (int try = 0; try < 2000 && rmdir(path) < 0 && errno == EBUSY; try++)
				usleep(5000);
		}
		rmdir(slot->group[i]);
	}
	return status;
}
