// What is refused, and with which word. Arguments are chosen so that a call which is let through
// fails at once or does no harm. Calls that this architecture lacks have no line.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit.h"

#define NS_TIME 0x80
#define NS_MNT 0x20000
#define NS_CGROUP 0x2000000
#define NS_UTS 0x4000000
#define NS_IPC 0x8000000
#define NS_USER 0x10000000
#define NS_PID 0x20000000
#define NS_NET 0x40000000

// From 424 on the numbers are the same on every architecture; libc may not know the names.
#define NR_pidfd_send_signal 424
#define NR_io_uring_setup 425
#define NR_io_uring_enter 426
#define NR_io_uring_register 427
#define NR_open_tree 428
#define NR_move_mount 429
#define NR_fsopen 430
#define NR_fsconfig 431
#define NR_fsmount 432
#define NR_fspick 433
#define NR_pidfd_open 434
#define NR_clone3 435
#define NR_openat2 437
#define NR_pidfd_getfd 438
#define NR_process_madvise 440
#define NR_mount_setattr 442
#define NR_quotactl_fd 443
#define NR_memfd_secret 447
#define NR_set_mempolicy_home_node 450
#define NR_statmount 457
#define NR_listmount 458
#define NR_nothing 2000

static char page[4096];

// clang-format off
#define CALL(name, ...) {#name, SYS_##name, {__VA_ARGS__}},
#define NEWER(name, ...) {#name, NR_##name, {__VA_ARGS__}},
static const struct {
	const char *name;
	long number, args[5];
} denied[] = {
	CALL(acct, -1)
	CALL(add_key, -1, -1)
	CALL(adjtimex, -1)
	CALL(bpf, 0, -1, 8)
	CALL(clock_adjtime, 0, -1)
	CALL(clock_settime, 0, -1)
	CALL(delete_module, -1)
	CALL(fanotify_init, -1, -1)
	CALL(fanotify_mark, -1, -1)
	CALL(finit_module, -1, -1)
	NEWER(fsconfig, -1)
	NEWER(fsmount, -1)
	NEWER(fsopen, -1)
	NEWER(fspick, -1, -1)
	CALL(init_module, -1, 1, -1)
	NEWER(io_uring_enter, -1)
	NEWER(io_uring_register, -1)
	NEWER(io_uring_setup, 1, -1)
#ifdef SYS_ioperm
	CALL(ioperm, 0, 1, 0)
#endif
#ifdef SYS_iopl
	CALL(iopl, 0)
#endif
	CALL(kcmp, 1, 1, 0)
	CALL(kexec_load, -1, -1, -1)
#ifdef SYS_kexec_file_load
	CALL(kexec_file_load, -1, -1)
#endif
	CALL(keyctl, 0, -3)
	CALL(mbind, -1, -1)
	NEWER(memfd_secret, -1)
	CALL(migrate_pages, 0, -1)
#ifdef SYS_modify_ldt
	CALL(modify_ldt, 0)
#endif
	CALL(mount, -1, -1, -1)
	NEWER(mount_setattr, -1, -1)
	NEWER(move_mount, -1, -1, -1, -1)
	CALL(move_pages, 0, -1)
	CALL(name_to_handle_at, -1, -1, -1)
#ifdef SYS_nfsservctl
	CALL(nfsservctl, -1)
#endif
	CALL(open_by_handle_at, -1, -1)
	NEWER(open_tree, -1, -1)
	CALL(perf_event_open, -1)
	NEWER(pidfd_getfd, -1, -1)
	CALL(pivot_root, -1, -1)
	NEWER(process_madvise, -1)
	CALL(quotactl, -1)
	NEWER(quotactl_fd, -1)
	CALL(reboot, 0, 0, 0)
	CALL(remap_file_pages, -1, -1)
	CALL(request_key, -1)
	CALL(set_mempolicy, -1, -1)
	NEWER(set_mempolicy_home_node, -1)
	CALL(setdomainname, -1, -1)
	CALL(sethostname, -1, -1)
	CALL(setns, -1, 0)
	CALL(settimeofday, -1, 0)
	NEWER(statmount, -1)
	CALL(swapoff, -1)
	CALL(swapon, -1)
	CALL(syslog, 10)
	CALL(umount2, -1)
	CALL(userfaultfd, -1)
#ifdef SYS_uselib
	CALL(uselib, -1)
#endif
#ifdef SYS_ustat
	CALL(ustat, -1)
#endif
	CALL(vhangup, 0)
	NEWER(nothing, 0)
};
// clang-format on

static const char *result(long got)
{
	return audit_errno(got < 0 ? errno : 0);
}

static void calls(void)
{
	for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++)
		printf("call %s %s\n", denied[i].name,
		       result(syscall(denied[i].number, denied[i].args[0], denied[i].args[1],
				      denied[i].args[2], denied[i].args[3], denied[i].args[4])));
}

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = {
	{"cgroup", NS_CGROUP}, {"ipc", NS_IPC},	  {"mnt", NS_MNT},   {"net", NS_NET},
	{"pid", NS_PID},       {"time", NS_TIME}, {"user", NS_USER}, {"uts", NS_UTS},
};

static void end_child(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
}

static void namespaces(void)
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
		struct {
			unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal,
				rest[6];
		} args = {.flags = spaces[i].flag, .exit_signal = SIGCHLD};
		long pid;

		printf("unshare %s %s\n", spaces[i].name,
		       result(syscall(SYS_unshare, spaces[i].flag)));
		if (spaces[i].flag != NS_TIME) { // clone() has a signal in that place
			pid = syscall(SYS_clone, spaces[i].flag | SIGCHLD, 0, 0, 0, 0);
			printf("clone %s %s\n", spaces[i].name, result(pid));
			end_child(pid);
		}
		pid = syscall(NR_clone3, &args, sizeof(args));
		printf("clone3 %s %s\n", spaces[i].name, result(pid));
		end_child(pid);
	}
}

static int try_socket(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void sockets(void)
{
	static const struct {
		const char *name;
		int type, number;
	} protocols[] = {
		{"mptcp", SOCK_STREAM, 262},
		{"sctp", SOCK_STREAM, 132},
		{"sctp packets", SOCK_SEQPACKET, 0},
		{"dccp", 6, 33},
		{"udplite", SOCK_DGRAM, 136},
		{"icmp", SOCK_DGRAM, 1},
		{"udp", SOCK_DGRAM, 17},
	};
	int pair[2];

	printf("socket vsock %s\n", audit_errno(try_socket(40, SOCK_STREAM, 0)));
	for (int family = 1; family < 48; family++) {
		static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
		int best = EAFNOSUPPORT;

		for (int i = 0; i < 3 && best != 0; i++) {
			int errnum = try_socket(family, types[i], 0);

			if (errnum != EAFNOSUPPORT)
				best = errnum;
		}
		if (best != EAFNOSUPPORT)
			printf("socket family %d %s\n", family, audit_errno(best));
	}
	for (int protocol = 0; protocol < 32; protocol++) {
		int errnum = try_socket(AF_NETLINK, SOCK_RAW, protocol);

		if (errnum != EPROTONOSUPPORT)
			printf("netlink %d %s\n", protocol, audit_errno(errnum));
	}
	printf("socket inet raw %s\n", audit_errno(try_socket(AF_INET, SOCK_RAW, 1)));
	printf("socket inet6 raw %s\n", audit_errno(try_socket(AF_INET6, SOCK_RAW, 58)));
	for (size_t i = 0; i < sizeof(protocols) / sizeof(*protocols); i++)
		printf("socket inet %s %s\n", protocols[i].name,
		       audit_errno(try_socket(AF_INET, protocols[i].type, protocols[i].number)));
	printf("socketpair tipc %s\n", result(socketpair(30, SOCK_STREAM, 0, pair)));
}

static void personalities(void)
{
	static const unsigned long values[] = {0,	0x8,	  0x20000, 0x20008,
					       0x40000, 0x400000, 0x6,	   0xffffffff};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		printf("personality %#lx %s\n", values[i],
		       result(syscall(SYS_personality, values[i])));
	syscall(SYS_personality, 0);
}

static void ioctls(void)
{
	static const struct {
		const char *name;
		unsigned long request;
	} rows[] = {{"TIOCSTI", 0x5412}, {"TIOCLINUX", 0x541c}, {"TIOCCONS", 0x541d}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		printf("ioctl %s %s\n", rows[i].name,
		       result(syscall(SYS_ioctl, 0, rows[i].request, page)));
		printf("ioctl %s with bit 32 %s\n", rows[i].name,
		       result(syscall(SYS_ioctl, 0, rows[i].request | 1ul << 32, page)));
	}
}

static void on_pid_1(void)
{
	struct iovec ours = {page, 8}, theirs = {page, 8};
	long pidfd = syscall(NR_pidfd_open, 1, 0);

	printf("ptrace pid 1 %s\n", result(ptrace(PTRACE_ATTACH, 1, 0, 0)));
	printf("process_vm_readv pid 1 %s\n",
	       result(syscall(SYS_process_vm_readv, 1, &ours, 1, &theirs, 1, 0)));
	printf("process_vm_writev pid 1 %s\n",
	       result(syscall(SYS_process_vm_writev, 1, &ours, 1, &theirs, 1, 0)));
	printf("pidfd_getfd pid 1 %s\n", result(syscall(NR_pidfd_getfd, pidfd, 3, 0)));
	printf("prlimit pid 1 %s\n", result(syscall(SYS_prlimit64, 1, 7 /* nofile */, 0, page)));
	if (pidfd >= 0)
		close((int)pidfd);
}

// Allowed on purpose: tools need them, and the kernel holds them to the box.
static void allowed(void)
{
	static const unsigned long long how[3] = {O_PATH};
	long fd = syscall(SYS_memfd_create, "x", 1);
	long pid;

	printf("call memfd_create %s\n", result(fd));
	if (fd >= 0)
		close((int)fd);
	fd = syscall(NR_openat2, AT_FDCWD, "/", how, sizeof(how));
	printf("call openat2 %s\n", result(fd));
	if (fd >= 0)
		close((int)fd);
	printf("call chroot %s\n", result(chroot("/")));
	printf("call seccomp %s\n", result(syscall(SYS_seccomp, 2, 0, &(unsigned){0x7fff0000})));
	pid = fork();
	if (pid == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? errno : 0);
	else {
		int status = 0;

		waitpid((pid_t)pid, &status, 0);
		printf("call ptrace %s\n", audit_errno(WEXITSTATUS(status)));
	}
}

// What the whole host has one store of, charged to nobody.
static void host_wide(void)
{
	void *context = NULL;

	printf("host-wide aio %s\n", result(syscall(SYS_io_setup, 1, &context)));
	printf("host-wide huge mmap %s\n",
	       result(syscall(SYS_mmap, 0, 1 << 21, 3, 0x44022, -1, 0))); // MAP_NORESERVE
	printf("host-wide huge memfd %s\n", result(syscall(SYS_memfd_create, "x", 4)));
	printf("host-wide huge shm %s\n", result(syscall(SYS_shmget, 0, 1 << 21, 05600)));
}

static void nodes(void)
{
	static const struct {
		const char *name;
		mode_t mode;
		unsigned device[2];
	} rows[] = {{"block", S_IFBLK, {7, 0}},
		    {"mem", S_IFCHR, {1, 1}},
		    {"kmsg", S_IFCHR, {1, 11}},
		    {"null", S_IFCHR, {1, 3}}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		long made = mknod("/tmp/.audit-node", rows[i].mode | 0600,
				  makedev(rows[i].device[0], rows[i].device[1]));

		printf("mknod %s %s\n", rows[i].name, result(made));
		unlink("/tmp/.audit-node");
	}
}

void audit_calls(void)
{
	calls();
	namespaces();
	sockets();
	personalities();
	ioctls();
	on_pid_1();
	allowed();
	host_wide();
	nodes();
}
