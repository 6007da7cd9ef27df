// Seccomp filters. Two filters apply to a box and a third to its commands, stacked; the strictest
// verdict wins. The first judges by number, the second by argument, and reads only the low half of
// an argument, as the kernel does with an int: TIOCSTI | 1<<32 is TIOCSTI. libseccomp gives the
// numbers on every architecture; the programs are ours, because its rules cannot express "anything
// but these, on 32 bits", and ours load in half the time. A table from numbers to verdicts is
// compiled: runs of equal verdicts become the leaves of a binary search tree, so that a filter of
// 300 calls has some 150 instructions.
#include "os/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/calls.h"

#define BPF_CALLS 512 // numbers at or above this get the table's `otherwise`
#define BPF_CODE_MAX 2048

// Loads the low half of argument `n`: the kernel reads an int from it, whatever the high half is.
#define BPF_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * (n))
#define BPF_ARG_HIGH(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 20 + 8 * (n))
#define BPF_IF(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define BPF_IF_ANY(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)
#define BPF_IF_OVER(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, k, yes, no)
#define BPF_MASK(k) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, k)
#define BPF_SAY(action) BPF_STMT(BPF_RET | BPF_K, action)

#define X32_BIT 0x40000000u
#define JUMP_MAX 255 // the longest conditional jump

struct bpf_table {
	uint32_t arch;	    // AUDIT_ARCH_ word
	uint32_t bad_arch;  // the verdict for every other, x32 included
	uint32_t otherwise; // for numbers that were not set
	struct {
		uint32_t action;
		const struct sock_filter *block; // instead of the action; ends with BPF_SAY
		uint16_t block_len;
	} calls[BPF_CALLS];
};

struct run {
	uint32_t start; // up to the start of the next
	uint32_t action;
	const struct sock_filter *block;
	uint16_t block_len;
};

struct code {
	struct sock_filter *at;
	size_t len, room;
	bool failed;
};

static void bpf_begin(struct bpf_table *table, uint32_t arch, uint32_t bad_arch, uint32_t otherwise)
{
	memset(table, 0, sizeof(*table));
	table->arch = arch;
	table->bad_arch = bad_arch;
	table->otherwise = otherwise;
	for (int i = 0; i < BPF_CALLS; i++)
		table->calls[i].action = otherwise;
}

static int seccomp_number_of(uint32_t arch, const char *name)
{
	int number = seccomp_syscall_resolve_name_arch(arch, name);

	for (const struct calls_new *call = calls_new; number < 0 && call->name; call++)
		if (strcmp(call->name, name) == 0)
			number = call->number;
	return number;
}

// A call that the architecture lacks is left out: it gets `otherwise`.
static void bpf_set(struct bpf_table *table, const char *name, uint32_t action)
{
	int number = seccomp_number_of(table->arch, name);

	if (number >= 0 && number < BPF_CALLS)
		table->calls[number].action = action;
}

static void bpf_set_block(struct bpf_table *table, const char *name, const struct sock_filter *code,
			  size_t len)
{
	int number = seccomp_number_of(table->arch, name);

	if (number < 0 || number >= BPF_CALLS)
		return;
	table->calls[number].block = code;
	table->calls[number].block_len = (uint16_t)len;
}

static void bpf_add(struct code *code, struct sock_filter one)
{
	if (code->len == code->room)
		code->failed = true;
	else
		code->at[code->len++] = one;
}

static size_t find_runs(const struct bpf_table *table, struct run *runs)
{
	size_t count = 0;

	for (uint32_t i = 0; i <= BPF_CALLS; i++) {
		struct run next = {.start = i, .action = table->otherwise};

		if (i < BPF_CALLS) {
			next.action = table->calls[i].action;
			next.block = table->calls[i].block;
			next.block_len = table->calls[i].block_len;
		}
		if (count && runs[count - 1].action == next.action && !next.block &&
		    !runs[count - 1].block)
			continue;
		runs[count++] = next;
	}
	return count;
}

static void bpf_leaf(struct code *code, const struct run *run)
{
	if (!run->block) {
		bpf_add(code, (struct sock_filter)BPF_SAY(run->action));
		return;
	}
	for (uint16_t i = 0; i < run->block_len; i++)
		bpf_add(code, run->block[i]);
}

// At or above the middle run: to the right; else on to the left, which comes first. A left half
// that is too long for a conditional jump is skipped by an unconditional one, which has 32 bits.
static void tree(struct code *code, const struct run *runs, size_t count)
{
	size_t middle = count / 2;
	size_t here = code->len, left;

	if (count == 1) {
		bpf_leaf(code, runs);
		return;
	}
	bpf_add(code,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, runs[middle].start, 0, 0));
	tree(code, runs, middle);
	if (code->failed)
		return;
	left = code->len - here - 1;
	if (left <= JUMP_MAX) {
		code->at[here].jt = (uint8_t)left;
	} else {
		bpf_add(code, (struct sock_filter){0});
		if (code->failed)
			return;
		memmove(&code->at[here + 2], &code->at[here + 1], left * sizeof(*code->at));
		code->at[here].jf = 1;
		code->at[here + 1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)left);
	}
	tree(code, runs + middle, count - middle);
}

// Writes the program to `room`; returns its length, 0 if it does not fit as a whole.
static size_t bpf_compile(const struct bpf_table *table, struct sock_filter *room, size_t size)
{
	struct code code = {.at = room, .room = size};
	static struct run runs[BPF_CALLS + 1];
	size_t count = find_runs(table, runs);

	bpf_add(&code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4));
	bpf_add(&code, (struct sock_filter)BPF_IF(table->arch, 1, 0));
	bpf_add(&code, (struct sock_filter)BPF_SAY(table->bad_arch));
	bpf_add(&code, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0));
	if (table->arch == AUDIT_ARCH_X86_64) {
		bpf_add(&code,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
		bpf_add(&code, (struct sock_filter)BPF_SAY(table->bad_arch));
	}
	tree(&code, runs, count);
	return code.failed ? 0 : code.len;
}

#define ANSWER(errnum) (SECCOMP_RET_ERRNO | (errnum))
#define LENGTH(array) (sizeof(array) / sizeof(*(array)))
#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME)
// The same on every architecture that we support.
#define REFUSED_TIOCSTI 0x5412
#define REFUSED_TIOCLINUX 0x541c
#define REFUSED_TIOCCONS 0x541d

static const struct sock_filter clone_block[] = {
	BPF_ARG(0),
	BPF_IF_ANY(NAMESPACES, 0, 1),
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

static const struct sock_filter personality_block[] = {
	BPF_ARG(0),
	BPF_IF(0, 6, 0),
	BPF_IF(0x8, 5, 0),
	BPF_IF(0x20000, 4, 0),
	BPF_IF(0x20008, 3, 0),
	BPF_IF(0x40000, 2, 0),
	BPF_IF(0xffffffff, 1, 0), // a query
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

// The listener of the first filter is passed on by pid 1 to the daemon; pid 1 must not answer it.
#define IOCTL_TYPE 0xff00
#define SECCOMP_TYPE ('!' << 8)
static const struct sock_filter ioctl_block[] = {
	BPF_ARG(1),
	BPF_IF(REFUSED_TIOCSTI, 5, 0),
	BPF_IF(REFUSED_TIOCLINUX, 4, 0),
	BPF_IF(REFUSED_TIOCCONS, 3, 0),
	BPF_MASK(IOCTL_TYPE),
	BPF_IF(SECCOMP_TYPE, 1, 0),
	BPF_SAY(SECCOMP_RET_ALLOW),
	BPF_SAY(ANSWER(EPERM)),
};

// Of netlink only ROUTE; of the internet TCP, UDP and ICMP: MPTCP, SCTP, DCCP, UDP-Lite add attack
// surface, and their traffic reaches no listener of ours. The errors are those of a kernel without
// the family, type or protocol: EPERM here breaks useradd and su, which try audit. A raw socket is
// EPERM, as without CAP_NET_RAW.
#define SOCK_TYPE 0xf
static const struct sock_filter socket_block[] = {
	BPF_ARG(0),
	BPF_IF(AF_UNIX, 16, 0),
	BPF_IF(AF_INET, 3, 0),
	BPF_IF(AF_INET6, 2, 0),
	BPF_IF(AF_NETLINK, 10, 0),
	BPF_SAY(ANSWER(EAFNOSUPPORT)),
	BPF_ARG(1),
	BPF_MASK(SOCK_TYPE),
	BPF_IF(SOCK_RAW, 10, 0),
	BPF_IF_OVER(SOCK_DGRAM, 10, 0),
	BPF_ARG(2),
	BPF_IF(IPPROTO_TCP, 6, 0),
	BPF_IF(IPPROTO_UDP, 5, 0),
	BPF_IF(IPPROTO_ICMP, 4, 0),
	BPF_IF(IPPROTO_ICMPV6, 3, 0),
	BPF_ARG(2), // netlink continues here
	BPF_IF(0, 1, 0),
	BPF_SAY(ANSWER(EPROTONOSUPPORT)),
	BPF_SAY(SECCOMP_RET_ALLOW),
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(ANSWER(ESOCKTNOSUPPORT)),
};

static const struct sock_filter socketpair_block[] = {
	// TIPC pairs are sockets too.
	BPF_ARG(0),
	BPF_IF(AF_UNIX, 0, 1),
	BPF_SAY(SECCOMP_RET_ALLOW),
	BPF_SAY(ANSWER(EAFNOSUPPORT)),
};

// Huge pages are shared by the whole host, and charged to no memory limit. ENOMEM is the error of a
// host without any.
#define MAP_HUGE 0x40000
#define MFD_HUGE 0x4
#define SHM_HUGE 0x800
#define NO_FLAG(argument, flag)                                                                    \
	{                                                                                          \
		BPF_ARG(argument), BPF_IF_ANY(flag, 0, 1), BPF_SAY(ANSWER(ENOMEM)),                \
			BPF_SAY(SECCOMP_RET_ALLOW)                                                 \
	}
static const struct sock_filter mmap_block[] = NO_FLAG(3, MAP_HUGE);
static const struct sock_filter memfd_create_block[] = NO_FLAG(1, MFD_HUGE);
static const struct sock_filter shmget_block[] = NO_FLAG(2, SHM_HUGE);

// A box must not lower its core limit from 1 to 0: with 0 a piped core_pattern runs its helper on
// the host (docs/ISOLATION.md SEC-6). The call succeeds and changes nothing. Reading the limit
// works.
static const struct sock_filter setrlimit_block[] = {
	BPF_ARG(0),
	BPF_IF(RLIMIT_CORE, 0, 1),
	BPF_SAY(ANSWER(0)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

static const struct sock_filter prlimit64_block[] = {
	BPF_ARG(1),	    BPF_IF(RLIMIT_CORE, 0, 4),
	BPF_ARG(2), // the new limit, a pointer: both halves count
	BPF_IF(0, 0, 3),    BPF_ARG_HIGH(2),	       BPF_IF(0, 0, 1), BPF_SAY(SECCOMP_RET_ALLOW),
	BPF_SAY(ANSWER(0)),
};

#define block(table, name, code) bpf_set_block(table, name, code, LENGTH(code))

static void fill_allow(struct bpf_table *table)
{
	for (const char *const *name = calls_allowed; *name; name++)
		bpf_set(table, *name, SECCOMP_RET_ALLOW);
	for (const char *const *name = calls_denied; *name; name++)
		bpf_set(table, *name, ANSWER(EPERM));
	bpf_set(table, "sync", SECCOMP_RET_USER_NOTIF);
	bpf_set(table, "syncfs", SECCOMP_RET_USER_NOTIF);
	block(table, "clone", clone_block);
	block(table, "personality", personality_block);
}

static void fill_arguments(struct bpf_table *table)
{
	block(table, "ioctl", ioctl_block);
	block(table, "socket", socket_block);
	block(table, "socketpair", socketpair_block);
	block(table, "mmap", mmap_block);
	block(table, "memfd_create", memfd_create_block);
	block(table, "shmget", shmget_block);
	block(table, "setrlimit", setrlimit_block);
	block(table, "prlimit64", prlimit64_block);
}

static void fill_children(struct bpf_table *table)
{
	bpf_set(table, "clone3", ANSWER(ENOSYS));
}

static fallible seccomp_compile(const struct bpf_table *table, struct seccomp_program *out)
{
	auto_free struct sock_filter *code = mem_new(BPF_CODE_MAX * sizeof(*code));
	size_t len = bpf_compile(table, code, BPF_CODE_MAX);

	if (len == 0)
		return err_sys(E2BIG, "compile a filter");
	out->len = (uint16_t)len;
	out->code = take_ptr(code);
	return OK;
}

fallible seccomp_build(enum seccomp_filter which, uint32_t arch, struct seccomp_program *out)
{
	static const struct {
		uint32_t otherwise;
		void (*fill)(struct bpf_table *table);
	} rows[SECCOMP_FILTER_COUNT] = {
		[SECCOMP_ALLOW] = {ANSWER(ENOSYS), fill_allow},
		[SECCOMP_ARGUMENTS] = {SECCOMP_RET_ALLOW, fill_arguments},
		[SECCOMP_CHILDREN] = {SECCOMP_RET_ALLOW, fill_children},
	};
	auto_free struct bpf_table *table = mem_new_of(struct bpf_table);

	bpf_begin(table, arch ? arch : seccomp_arch_native(), ANSWER(ENOSYS),
		  rows[which].otherwise);
	rows[which].fill(table);
	return seccomp_compile(table, out);
}

void seccomp_drop_listener(struct seccomp_program *program)
{
	for (uint16_t i = 0; i < program->len; i++)
		if (program->code[i].code == (BPF_RET | BPF_K) &&
		    program->code[i].k == SECCOMP_RET_USER_NOTIF)
			program->code[i].k = SECCOMP_RET_ALLOW;
}

bool seccomp_can_listen(void)
{
	struct sock_filter allow = BPF_SAY(SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			      SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) < 0);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0;
}

void seccomp_free(struct seccomp_program *program)
{
	free(program->code);
	*program = (struct seccomp_program){0};
}

// Filters of the host's processes. A process that only has threads neither forks nor enters a
// namespace: glibc starts a thread by clone with CLONE_THREAD and CLONE_VM once clone3 is ENOSYS.
#define THREAD (CLONE_THREAD | CLONE_VM)
static const struct sock_filter thread_block[] = {
	BPF_ARG(0),	      BPF_IF_ANY(NAMESPACES, 2, 0), BPF_MASK(THREAD),
	BPF_IF(THREAD, 1, 0), BPF_SAY(ANSWER(EPERM)),	    BPF_SAY(SECCOMP_RET_ALLOW),
};

// mmap and mprotect have the protection in the same argument.
static const struct sock_filter no_exec_block[] = {
	BPF_ARG(2),
	BPF_IF_ANY(PROT_EXEC, 0, 1),
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

// The warden starts programs, whose loader maps code: but no writable code.
static const struct sock_filter no_write_exec_block[] = {
	BPF_ARG(2),
	BPF_MASK(PROT_WRITE | PROT_EXEC),
	BPF_IF(PROT_WRITE | PROT_EXEC, 0, 1),
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

// The daemon: unix sockets, TCP and UDP, and rtnetlink, which is read-only without capabilities.
static const struct sock_filter own_socket_block[] = {
	BPF_ARG(0),
	BPF_IF(AF_UNIX, 10, 0),
	BPF_IF(AF_INET, 3, 0),
	BPF_IF(AF_INET6, 2, 0),
	BPF_IF(AF_NETLINK, 5, 0),
	BPF_SAY(ANSWER(EAFNOSUPPORT)),
	BPF_ARG(2),
	BPF_IF(IPPROTO_IP, 4, 0),
	BPF_IF(IPPROTO_TCP, 3, 0),
	BPF_IF(IPPROTO_UDP, 2, 3),
	BPF_ARG(2),
	BPF_IF(NETLINK_ROUTE, 0, 1),
	BPF_SAY(SECCOMP_RET_ALLOW),
	BPF_SAY(ANSWER(EPROTONOSUPPORT)),
};

// The warden: nftables as well.
static const struct sock_filter warden_socket_block[] = {
	BPF_ARG(0),
	BPF_IF(AF_UNIX, 8, 0),
	BPF_IF(AF_INET, 7, 0),
	BPF_IF(AF_INET6, 6, 0),
	BPF_IF(AF_NETLINK, 1, 0),
	BPF_SAY(ANSWER(EAFNOSUPPORT)),
	BPF_ARG(2),
	BPF_IF(NETLINK_ROUTE, 2, 0),
	BPF_IF(NETLINK_NETFILTER, 1, 0),
	BPF_SAY(ANSWER(EPROTONOSUPPORT)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

// The daemon queries the fill of a pipe or socket, sets terminal sizes, and answers the listeners
// of boxes; resolver and crypto library set sockets non-blocking.
static const struct sock_filter own_ioctl_block[] = {
	BPF_ARG(1),
	BPF_IF(FIONREAD, 7, 0),
	BPF_IF(FIONBIO, 6, 0),
	BPF_IF(TIOCGWINSZ, 5, 0),
	BPF_IF(TIOCSWINSZ, 4, 0),
	BPF_IF(TCGETS, 3, 0),
	BPF_MASK(IOCTL_TYPE),
	BPF_IF(SECCOMP_TYPE, 1, 0),
	BPF_SAY(ANSWER(EPERM)),
	BPF_SAY(SECCOMP_RET_ALLOW),
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(COVE_SANITIZED)
#define SANITIZED true
#else
#define SANITIZED false
#endif

// Calls of the sanitizers' run-time, in builds that have it.
static const char *const sanitizer_calls[] = {
	"sigaltstack",
	"sched_yield",
	"clock_nanosleep",
	"nanosleep",
	"readlinkat",
	"readlink",
	"getpid",
	"gettid",
	"prctl",
	"rt_sigaction",
	"rt_sigprocmask",
	"munmap",
	"mmap",
	"mprotect",
	"madvise",
	"mincore",
	"sched_getaffinity",
	"getrusage",
	"prlimit64",
	"tgkill",
	"openat",
	"set_robust_list",
	NULL,
};

#define ROW(process, call, code)                                                                   \
	{                                                                                          \
		SECCOMP_##process, call, code, LENGTH(code)                                        \
	}
static const struct {
	enum seccomp_process process;
	const char *call;
	const struct sock_filter *code;
	size_t len;
} own_blocks[] = {
	ROW(THREADS, "clone", thread_block),	      ROW(THREADS, "mmap", no_exec_block),
	ROW(THREADS, "mprotect", no_exec_block),      ROW(THREADS, "socket", own_socket_block),
	ROW(THREADS, "socketpair", socketpair_block), ROW(THREADS, "ioctl", own_ioctl_block),
	ROW(WARDEN, "mmap", no_write_exec_block),     ROW(WARDEN, "mprotect", no_write_exec_block),
	ROW(WARDEN, "socket", warden_socket_block),   ROW(WARDEN, "socketpair", socketpair_block),
};

fallible seccomp_build_own(enum seccomp_process process, const char *const *names, uint32_t arch,
			   struct seccomp_program *out)
{
	auto_free struct bpf_table *table = mem_new_of(struct bpf_table);

	bpf_begin(table, arch ? arch : seccomp_arch_native(), SECCOMP_RET_KILL_PROCESS,
		  ANSWER(EPERM));
	for (const char *const *name = names; *name; name++) {
		bpf_set(table, *name, SECCOMP_RET_ALLOW);
		for (size_t i = 0; i < LENGTH(own_blocks) && !SANITIZED; i++)
			if (own_blocks[i].process == process &&
			    strcmp(own_blocks[i].call, *name) == 0)
				bpf_set_block(table, *name, own_blocks[i].code, own_blocks[i].len);
	}
	if (process == SECCOMP_THREADS)
		bpf_set(table, "clone3", ANSWER(ENOSYS));
	for (const char *const *name = sanitizer_calls; SANITIZED && *name; name++)
		bpf_set(table, *name, SECCOMP_RET_ALLOW);
	return seccomp_compile(table, out);
}

fallible seccomp_confine(enum seccomp_process process, const char *const *names)
{
	on_exit_call(seccomp_free) struct seccomp_program program = {0};
	struct sock_fprog prog;

	TRY(seccomp_build_own(process, names, 0, &program));
	prog = (struct sock_fprog){program.len, program.code};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
		return err_sys(errno, "load our own filter");
	return OK;
}
