// System calls made in the name of another process: inject PID. Attaches to its first thread by
// ptrace, has it run one call after another at a system-call instruction of its vDSO, prints
// "NAME RESULT" for each (ok, or an errno by number), and lets it go on as if nothing had been.
// A child that a call makes is stopped from its birth, and killed.
#include <elf.h>
#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#define OPTIONS (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)
#define PAGE 4096
#define SCRATCH UINT64_MAX // an argument that stands for a page of the other process
#define THREAD (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)
#define MPTCP 262

struct call {
	const char *name;
	long number;
	uint64_t args[6];
};

static const struct call calls[] = {
	{"getpid", SYS_getpid, {0}}, // allowed: shows that the others are made at all
	{"fork", SYS_clone, {SIGCHLD}},
	{"vfork", SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}},
	{"clone_newuser", SYS_clone, {CLONE_NEWUSER | SIGCHLD}},
	{"thread_newuser", SYS_clone, {THREAD | CLONE_NEWUSER}},
	{"clone3", SYS_clone3, {0}},
#ifdef SYS_fork
	{"old_fork", SYS_fork, {0}},
	{"old_vfork", SYS_vfork, {0}},
#endif
	{"unshare", SYS_unshare, {CLONE_FS}},
	{"setns", SYS_setns, {-1u}},
	{"execve", SYS_execve, {0}},
	{"execveat", SYS_execveat, {-1u}},
	{"bpf", SYS_bpf, {-1u}},
	{"mmap_rwx",
	 SYS_mmap,
	 {0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1u}},
	{"mmap_exec", SYS_mmap, {0, PAGE, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1u}},
	{"mprotect_exec", SYS_mprotect, {SCRATCH, PAGE, PROT_READ | PROT_EXEC}},
	{"pkey_mprotect_exec", SYS_pkey_mprotect, {SCRATCH, PAGE, PROT_EXEC, -1u}},
	{"memfd_create", SYS_memfd_create, {SCRATCH}},
	{"socketpair_inet", SYS_socketpair, {AF_INET, SOCK_STREAM, 0, SCRATCH}},
	{"socket_netlink", SYS_socket, {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER}},
	{"socket_packet", SYS_socket, {AF_PACKET, SOCK_DGRAM}},
	{"socket_vsock", SYS_socket, {AF_VSOCK, SOCK_STREAM}},
	{"socket_alg", SYS_socket, {AF_ALG, SOCK_SEQPACKET}},
	{"socket_mptcp", SYS_socket, {AF_INET, SOCK_STREAM, MPTCP}},
	{"ioctl_tiocsti", SYS_ioctl, {0, 0x5412, SCRATCH}},
	{"ptrace", SYS_ptrace, {PTRACE_ATTACH}},
	{"process_vm_readv", SYS_process_vm_readv, {0}},
	{"pidfd_open", SYS_pidfd_open, {1}},
	{"kill", SYS_kill, {0}},
	{"prctl", SYS_prctl, {3}}, // PR_GET_DUMPABLE
	{"seccomp", SYS_seccomp, {2, 0, SCRATCH}},
	{"personality", SYS_personality, {-1u}},
	{"setresuid", SYS_setresuid, {-1u, -1u, -1u}},
	{"mount", SYS_mount, {0}},
	{"chroot", SYS_chroot, {0}},
	{"io_uring_setup", SYS_io_uring_setup, {1, SCRATCH}},
	{"io_setup", SYS_io_setup, {0}},
	{"userfaultfd", SYS_userfaultfd, {-1u}},
	{"perf_event_open", SYS_perf_event_open, {0}},
	{"keyctl", SYS_keyctl, {-1u}},
	{"shmget", SYS_shmget, {0}},
};

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void read_registers(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec room = {regs, sizeof(*regs)};

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &room))
		fail("read the registers");
}

static void write_registers(pid_t pid, const struct user_regs_struct *regs)
{
	struct iovec room = {(void *)regs, sizeof(*regs)};

	if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &room))
		fail("write the registers");
}

#if defined(__aarch64__)
static const unsigned char instruction[] = {0x01, 0x00, 0x00, 0xd4}; // svc #0
static void set_call(struct user_regs_struct *regs, uint64_t at, long number, const uint64_t *args)
{
	regs->pc = at;
	regs->regs[8] = (uint64_t)number;
	memcpy(regs->regs, args, 6 * sizeof(*args));
}
static int64_t result_of(const struct user_regs_struct *regs)
{
	return (int64_t)regs->regs[0];
}
#else
static const unsigned char instruction[] = {0x0f, 0x05}; // syscall
static void set_call(struct user_regs_struct *regs, uint64_t at, long number, const uint64_t *args)
{
	regs->rip = at;
	regs->rax = (uint64_t)number;
	regs->orig_rax = -1ul; // else the kernel believes a call was interrupted, and restarts it
	regs->rdi = args[0];
	regs->rsi = args[1];
	regs->rdx = args[2];
	regs->r10 = args[3];
	regs->r8 = args[4];
	regs->r9 = args[5];
}
static int64_t result_of(const struct user_regs_struct *regs)
{
	return (int64_t)regs->rax;
}
#endif

// The address of a system-call instruction in the vDSO of `pid`.
static uint64_t find_instruction(pid_t pid)
{
	static unsigned char code[16 * PAGE];
	unsigned long begin = 0, end = 0;
	char path[64], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "[vdso]"))
			sscanf(line, "%lx-%lx", &begin, &end);
	if (file)
		fclose(file);
	if (end - begin > sizeof(code))
		end = begin + sizeof(code);
	for (unsigned long at = begin; at < end; at += sizeof(long)) {
		long word = ptrace(PTRACE_PEEKTEXT, pid, at, NULL);

		memcpy(code + (at - begin), &word, sizeof(word));
	}
	for (unsigned long i = 0; i + sizeof(instruction) <= end - begin; i++)
		if (memcmp(code + i, instruction, sizeof(instruction)) == 0)
			return begin + i;
	errno = ENOENT;
	fail("find a system-call instruction");
}

static void kill_child(pid_t pid)
{
	unsigned long child = 0;

	if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child) || !child)
		fail("learn who was born");
	kill((pid_t)child, SIGKILL);
	while (waitpid((pid_t)child, NULL, __WALL) < 0 && errno == EINTR)
		;
}

// One step over the instruction; the call has returned when the trap of the step comes.
static void step(pid_t pid)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
			fail("take a step");
		if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
			fail("wait for the step");
		if (status >> 16 == 0 && WSTOPSIG(status) == SIGTRAP)
			return;
		if (status >> 16 && status >> 16 != PTRACE_EVENT_STOP)
			kill_child(pid);
	}
}

static int64_t make_call(pid_t pid, const struct user_regs_struct *saved, uint64_t at, long number,
			 const uint64_t *args)
{
	struct user_regs_struct regs = *saved;

	set_call(&regs, at, number, args);
	write_registers(pid, &regs);
	step(pid);
	read_registers(pid, &regs);
	return result_of(&regs);
}

int main(int argc, char **argv)
{
	const uint64_t page[6] = {0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1u};
	pid_t pid = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	struct user_regs_struct saved;
	uint64_t at, scratch;
	int status;

	if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS) ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) || waitpid(pid, &status, __WALL) != pid)
		fail("attach");
	read_registers(pid, &saved);
	at = find_instruction(pid);
	scratch = (uint64_t)make_call(pid, &saved, at, SYS_mmap, page);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		uint64_t args[6];
		int64_t result;

		for (int a = 0; a < 6; a++)
			args[a] = calls[i].args[a] == SCRATCH ? scratch : calls[i].args[a];
		result = make_call(pid, &saved, at, calls[i].number, args);
		if (result < 0 && result > -PAGE)
			printf("%s %d\n", calls[i].name, (int)-result);
		else
			printf("%s ok\n", calls[i].name);
	}
	write_registers(pid, &saved);
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL))
		fail("let go");
	return 0;
}
