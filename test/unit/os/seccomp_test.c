// The filters of a box, judged for both architectures on either: a small machine runs the BPF over
// made-up system calls and tells what the kernel would answer.
#include "os/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/calls.h"
#include "tap.h"

#define ANSWER(errnum) (SECCOMP_RET_ERRNO | (errnum))

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	if (offset > sizeof(*data) - sizeof(word))
		abort();
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

static bool holds(uint16_t code, uint32_t a, uint32_t k)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == k;
	case BPF_JGT:
		return a > k;
	case BPF_JGE:
		return a >= k;
	case BPF_JSET:
		return a & k;
	default:
		abort();
	}
}

static uint32_t run(const struct seccomp_program *program, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < program->len; pc++) {
		const struct sock_filter *at = &program->code[pc];

		switch (BPF_CLASS(at->code)) {
		case BPF_LD:
			a = load(data, at->k);
			break;
		case BPF_ALU:
			if (BPF_OP(at->code) != BPF_AND)
				abort();
			a &= at->k;
			break;
		case BPF_JMP:
			if (BPF_OP(at->code) == BPF_JA)
				pc += at->k;
			else
				pc += holds(at->code, a, at->k) ? at->jt : at->jf;
			break;
		case BPF_RET:
			return at->k;
		default:
			abort();
		}
	}
	abort();
}

struct machine {
	uint32_t arch;
	struct seccomp_program filters[SECCOMP_FILTER_COUNT];
};

static const uint32_t arches[] = {AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64};
#define each_machine(m) for (struct machine *m = machines(); m < machines() + 2; m++)

static struct machine *machines(void)
{
	static struct machine all[2];

	for (int i = 0; i < 2 && !all[1].filters[SECCOMP_FILTER_COUNT - 1].code; i++) {
		all[i].arch = arches[i];
		for (int f = 0; f < SECCOMP_FILTER_COUNT; f++) {
			auto_err err = seccomp_build(f, arches[i], &all[i].filters[f]);

			if (err) {
				printf("# %s\n", err_trail(err));
				abort();
			}
		}
	}
	return all;
}

static int number(const struct machine *m, const char *name)
{
	for (const struct calls_new *call = calls_new; call->name; call++)
		if (strcmp(call->name, name) == 0)
			return call->number;
	return seccomp_syscall_resolve_name_arch(m->arch, name);
}

static uint32_t ask_fourth(const struct machine *m, enum seccomp_filter filter, const char *name,
			   uint64_t a3)
{
	struct seccomp_data data = {.nr = number(m, name), .arch = m->arch, .args = {0, 0, 0, a3}};

	return run(&m->filters[filter], &data);
}

static uint32_t ask(const struct machine *m, enum seccomp_filter filter, const char *name,
		    uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data data = {.nr = number(m, name), .arch = m->arch, .args = {a0, a1, a2}};

	return run(&m->filters[filter], &data);
}

TEST(denied, "every denied call (docs/ISOLATION.md SEC-2) that the architecture has is EPERM")
{
	each_machine(m)
	{
		int judged = 0;

		for (const char *const *name = calls_denied; *name; name++) {
			int nr = number(m, *name);

			if (nr < 0)
				continue;
			if (ask(m, SECCOMP_ALLOW, *name, 0, 0, 0) != ANSWER(EPERM))
				printf("# %s\n", *name);
			CHECK(ask(m, SECCOMP_ALLOW, *name, 0, 0, 0) == ANSWER(EPERM));
			judged++;
		}
		CHECK(judged > 54);
	}
}

TEST(allowed, "every call of the allow list that the architecture has is allowed")
{
	each_machine(m)
	{
		for (const char *const *name = calls_allowed; *name; name++) {
			uint32_t want = strncmp(*name, "sync", 4) != 0 || (*name)[4] == '_'
						? SECCOMP_RET_ALLOW
						: SECCOMP_RET_USER_NOTIF; // sync, syncfs

			if (number(m, *name) >= 0)
				CHECK(ask(m, SECCOMP_ALLOW, *name, 0, 0, 0) == want);
		}
	}
}

TEST(unknown, "a call that nobody listed is ENOSYS")
{
	each_machine(m)
	{
		for (int nr = 470; nr < 1000; nr++) {
			struct seccomp_data data = {.nr = nr, .arch = m->arch};

			CHECK(run(&m->filters[SECCOMP_ALLOW], &data) == ANSWER(ENOSYS));
		}
	}
}

TEST(namespaces, "clone with any CLONE_NEW flag is EPERM, without one it is allowed")
{
	static const uint64_t flags[] = {CLONE_NEWNS,	CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
					 CLONE_NEWUSER, CLONE_NEWPID,	 CLONE_NEWNET, 0x80};

	each_machine(m)
	{
		CHECK(ask(m, SECCOMP_ALLOW, "clone", SIGCHLD, 0, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ALLOW, "clone", 0x3d0f00, 0, 0) == SECCOMP_RET_ALLOW);
		for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
			CHECK(ask(m, SECCOMP_ALLOW, "clone", flags[i], 0, 0) == ANSWER(EPERM));
			CHECK(ask(m, SECCOMP_ALLOW, "clone", flags[i] | SIGCHLD | CLONE_VM, 0, 0) ==
			      ANSWER(EPERM));
			CHECK(ask(m, SECCOMP_ALLOW, "clone", flags[i] | CLONE_NEWUSER, 0, 0) ==
			      ANSWER(EPERM));
		}
	}
}

TEST(clone3, "clone3 is pid 1's alone")
{
	each_machine(m)
	{
		CHECK(ask(m, SECCOMP_ALLOW, "clone3", 0, 0, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ARGUMENTS, "clone3", 0, 0, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_CHILDREN, "clone3", 0, 0, 0) == ANSWER(ENOSYS));
		CHECK(ask(m, SECCOMP_CHILDREN, "clone", 0, 0, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_CHILDREN, "read", 0, 0, 0) == SECCOMP_RET_ALLOW);
	}
}

TEST(terminal, "TIOCSTI, TIOCLINUX and TIOCCONS are refused, also with high bits set")
{
	static const uint64_t bad[] = {0x5412, 0x541c, 0x541d};

	each_machine(m)
	{
		for (int i = 0; i < 3; i++) {
			CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, bad[i], 0) == ANSWER(EPERM));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, bad[i] | 1ull << 32, 0) ==
			      ANSWER(EPERM));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, bad[i] | ~0ull << 32, 0) ==
			      ANSWER(EPERM));
		}
		CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, 0x5413, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ALLOW, "ioctl", 0, 0x5413, 0) == SECCOMP_RET_ALLOW);
	}
}

TEST(listener, "a box answers no listener; without one sync passes")
{
	struct seccomp_program open = {0};
	auto_err err = seccomp_build(SECCOMP_ALLOW, AUDIT_ARCH_X86_64, &open);
	struct seccomp_data data = {.nr = 162, .arch = AUDIT_ARCH_X86_64}; // sync

	CHECK(!err);
	CHECK(run(&open, &data) == SECCOMP_RET_USER_NOTIF);
	seccomp_drop_listener(&open);
	CHECK(run(&open, &data) == SECCOMP_RET_ALLOW);
	seccomp_free(&open);
	each_machine(m)
	{
		CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, 0xc0502100, 0) == ANSWER(EPERM));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, 0xc0182101, 0) == ANSWER(EPERM));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, 0x40182103 | 1ull << 40, 0) ==
		      ANSWER(EPERM));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "ioctl", 0, 0x2200, 0) == SECCOMP_RET_ALLOW);
	}
}

TEST(families, "UNIX, INET, INET6 and NETLINK are the only families, vsock and AF_ALG are not, "
	       "whatever their high bits")
{
	static const char *const calls[] = {"socket", "socketpair"};

	each_machine(m)
	{
		for (int c = 0; c < 2; c++) {
			for (uint64_t family = 0; family < 70000; family++) {
				bool fine = family == AF_UNIX ||
					    (c == 0 && (family == AF_INET || family == AF_INET6 ||
							family == AF_NETLINK));
				uint32_t want = fine ? SECCOMP_RET_ALLOW : ANSWER(EAFNOSUPPORT);

				CHECK(ask(m, SECCOMP_ARGUMENTS, calls[c], family, 1, 0) == want);
				CHECK(ask(m, SECCOMP_ARGUMENTS, calls[c], family | 1ull << 32, 1,
					  0) == want);
			}
			for (int bit = 5; bit < 32; bit++)
				CHECK(ask(m, SECCOMP_ARGUMENTS, calls[c], AF_INET | 1ull << bit, 1,
					  0) == ANSWER(EAFNOSUPPORT));
			CHECK(ask(m, SECCOMP_ARGUMENTS, calls[c], AF_VSOCK, 1, 0) ==
			      ANSWER(EAFNOSUPPORT));
			CHECK(ask(m, SECCOMP_ARGUMENTS, calls[c], AF_ALG, 5, 0) ==
			      ANSWER(EAFNOSUPPORT));
		}
	}
}

TEST(netlink, "of netlink only the route protocol is open")
{
	each_machine(m)
	{
		CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_NETLINK, 3, 0) == SECCOMP_RET_ALLOW);
		for (uint64_t protocol = 1; protocol < 5000; protocol++) {
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_NETLINK, 3, protocol) ==
			      ANSWER(EPROTONOSUPPORT));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_NETLINK | 1ull << 32, 3,
				  protocol | 1ull << 32) == ANSWER(EPROTONOSUPPORT));
		}
		CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_NETLINK, 3, 1ull << 31) ==
		      ANSWER(EPROTONOSUPPORT));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_INET, 1, 6) == SECCOMP_RET_ALLOW);
	}
}

TEST(core, "the core limit can be read but not changed, and nobody is told")
{
	each_machine(m)
	{
		CHECK(ask(m, SECCOMP_ARGUMENTS, "setrlimit", 4, 1, 0) == ANSWER(0));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "setrlimit", 4 | 1ull << 32, 1, 0) == ANSWER(0));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "setrlimit", 7, 1, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ARGUMENTS, "prlimit64", 0, 4, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ARGUMENTS, "prlimit64", 0, 4, 1ull << 40) == ANSWER(0));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "prlimit64", 0, 4, 8) == ANSWER(0));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "prlimit64", 0, 7, 8) == SECCOMP_RET_ALLOW);
	}
}

TEST(personality, "personality takes the harmless values only")
{
	static const uint64_t good[] = {0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff};

	each_machine(m)
	{
		for (int i = 0; i < 6; i++)
			CHECK(ask(m, SECCOMP_ALLOW, "personality", good[i], 0, 0) ==
			      SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ALLOW, "personality", 0x400000, 0, 0) == ANSWER(EPERM));
	}
}

TEST(protocols, "of the internet families a box has TCP, UDP and ICMP")
{
	static const int families[] = {AF_INET, AF_INET6};
	static const uint64_t odd[] = {2, 33, 132, 136, 255, 262, 1ull << 31};

	each_machine(m)
	{
		for (int f = 0; f < 2; f++) {
			int family = families[f];

			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_STREAM | 0x80800,
				  0) == SECCOMP_RET_ALLOW);
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_STREAM, 6) ==
			      SECCOMP_RET_ALLOW);
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_DGRAM, 17) ==
			      SECCOMP_RET_ALLOW);
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_DGRAM, 1) ==
			      SECCOMP_RET_ALLOW);
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_DGRAM, 58) ==
			      SECCOMP_RET_ALLOW);
			for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
				CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_STREAM,
					  odd[i]) == ANSWER(EPROTONOSUPPORT));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_RAW | 0x800, 1) ==
			      ANSWER(EPERM));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, SOCK_SEQPACKET, 0) ==
			      ANSWER(ESOCKTNOSUPPORT));
			CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", family, 6, 0) ==
			      ANSWER(ESOCKTNOSUPPORT));
		}
		CHECK(ask(m, SECCOMP_ARGUMENTS, "socket", AF_UNIX, SOCK_SEQPACKET, 0) ==
		      SECCOMP_RET_ALLOW);
	}
}

TEST(host_wide, "huge pages and the aio calls, which the whole host shares, are refused")
{
	static const char *const aio[] = {"io_setup",  "io_destroy",   "io_submit",
					  "io_cancel", "io_getevents", "io_pgetevents"};

	each_machine(m)
	{
		for (size_t i = 0; i < sizeof(aio) / sizeof(*aio); i++)
			CHECK(ask(m, SECCOMP_ALLOW, aio[i], 0, 0, 0) == ANSWER(ENOSYS));
		CHECK(ask_fourth(m, SECCOMP_ARGUMENTS, "mmap", 0x22) == SECCOMP_RET_ALLOW);
		CHECK(ask_fourth(m, SECCOMP_ARGUMENTS, "mmap", 0x40022) == ANSWER(ENOMEM));
		CHECK(ask_fourth(m, SECCOMP_ARGUMENTS, "mmap", 0x54040022) == ANSWER(ENOMEM));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "memfd_create", 0, 3, 0) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ARGUMENTS, "memfd_create", 0, 4, 0) == ANSWER(ENOMEM));
		CHECK(ask(m, SECCOMP_ARGUMENTS, "shmget", 0, 1, 01666) == SECCOMP_RET_ALLOW);
		CHECK(ask(m, SECCOMP_ARGUMENTS, "shmget", 0, 1, 05666) == ANSWER(ENOMEM));
	}
}

TEST(wrong_arch, "i386, x32 and AArch32 are ENOSYS in every filter")
{
	each_machine(m)
	{
		uint32_t other = m->arch == AUDIT_ARCH_X86_64 ? AUDIT_ARCH_I386 : AUDIT_ARCH_ARM;

		for (int f = 0; f < SECCOMP_FILTER_COUNT; f++) {
			for (int nr = 0; nr < 500; nr++) {
				struct seccomp_data data = {.nr = nr, .arch = other};

				CHECK(run(&m->filters[f], &data) == ANSWER(ENOSYS));
				data.arch = m->arch;
				data.nr = 0x40000000 | nr;
				if (m->arch == AUDIT_ARCH_X86_64)
					CHECK(run(&m->filters[f], &data) == ANSWER(ENOSYS));
			}
		}
	}
}

TEST(size, "the filters are small enough to load in a fraction of a millisecond")
{
	each_machine(m)
	{
		printf("# %s: %u + %u + %u instructions\n",
		       m->arch == AUDIT_ARCH_X86_64 ? "x86_64" : "aarch64", m->filters[0].len,
		       m->filters[1].len, m->filters[2].len);
		CHECK(m->filters[0].len < 1200 && m->filters[1].len < 400 &&
		      m->filters[2].len < 40);
	}
}

#define THREAD (CLONE_VM | CLONE_THREAD)
static const struct {
	const char *name;
	uint64_t args[3];
	uint32_t threads, warden; // the verdicts
} own_rows[] = {
	{"read", {0}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"bpf", {0}, ANSWER(EPERM), ANSWER(EPERM)}, // not listed
	{"clone", {THREAD}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"clone", {THREAD | CLONE_SIGHAND | 1ull << 32}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"clone", {SIGCHLD}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"clone", {CLONE_VM | SIGCHLD}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"clone", {CLONE_THREAD}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"clone", {THREAD | CLONE_NEWUSER}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"clone", {THREAD | CLONE_NEWNET}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"clone3", {0}, ANSWER(ENOSYS), SECCOMP_RET_ALLOW},
	{"mmap", {0, 1, PROT_READ | PROT_WRITE}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"mmap", {0, 1, PROT_READ | PROT_EXEC}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"mmap", {0, 1, PROT_WRITE | PROT_EXEC}, ANSWER(EPERM), ANSWER(EPERM)},
	{"mprotect", {0, 1, PROT_EXEC}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"mprotect", {0, 1, PROT_EXEC | 1ull << 32}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
	{"mprotect", {0, 1, PROT_WRITE | PROT_EXEC | 0x10}, ANSWER(EPERM), ANSWER(EPERM)},
	{"socketpair", {AF_UNIX}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"socketpair", {AF_INET}, ANSWER(EAFNOSUPPORT), ANSWER(EAFNOSUPPORT)},
	{"socket", {AF_UNIX, 1, 0}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"socket", {AF_INET6, 1, 6}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"socket", {AF_INET, 2, 17}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"socket", {AF_INET, 1, 262}, ANSWER(EPROTONOSUPPORT), SECCOMP_RET_ALLOW},
	{"socket", {AF_NETLINK, 3, 0}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"socket", {AF_NETLINK, 3, 9}, ANSWER(EPROTONOSUPPORT), ANSWER(EPROTONOSUPPORT)},
	{"socket", {AF_PACKET, 3, 0}, ANSWER(EAFNOSUPPORT), ANSWER(EAFNOSUPPORT)},
	{"ioctl", {0, 0x541b}, SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW},
	{"ioctl", {0, 0x5412}, ANSWER(EPERM), SECCOMP_RET_ALLOW},
};

TEST(own, "our own processes are bounded by argument too: the daemon has threads and adds no code")
{
	static const char *const names[] = {"read",   "clone",	    "clone3", "mmap", "mprotect",
					    "socket", "socketpair", "ioctl",  NULL};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	printf("# skipped: the run-time of a sanitizer needs a wider list\n");
	return;
#endif
	for (int a = 0; a < 2; a++) {
		struct machine m = {.arch = arches[a]};

		for (int f = 0; f < 2; f++) {
			auto_err err = seccomp_build_own(f ? SECCOMP_WARDEN : SECCOMP_THREADS,
							 names, m.arch, &m.filters[f]);

			CHECK(!err);
		}
		for (size_t i = 0; i < sizeof(own_rows) / sizeof(*own_rows); i++) {
			const uint64_t *args = own_rows[i].args;
			uint32_t threads = ask(&m, 0, own_rows[i].name, args[0], args[1], args[2]);
			uint32_t warden = ask(&m, 1, own_rows[i].name, args[0], args[1], args[2]);

			if (threads != own_rows[i].threads || warden != own_rows[i].warden)
				printf("# row %zu: %s\n", i, own_rows[i].name);
			CHECK(threads == own_rows[i].threads);
			CHECK(warden == own_rows[i].warden);
		}
		seccomp_free(&m.filters[0]);
		seccomp_free(&m.filters[1]);
	}
}

TEST(real, "the kernel takes them and answers as the simulation")
{
	static const char *const calls[] = {"exit_group", "write",	 "close", "munmap",
					    "mmap",	  "madvise",	 "futex", "brk",
					    "mprotect",	  "sigaltstack", NULL};
	struct machine *mine = machines() + (seccomp_arch_native() == AUDIT_ARCH_X86_64);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		for (int f = 0; f < SECCOMP_FILTER_COUNT; f++) {
			struct sock_fprog prog = {mine->filters[f].len, mine->filters[f].code};

			if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
				_exit(1);
		}
		if (socket(AF_VSOCK, SOCK_STREAM, 0) != -1 || errno != EAFNOSUPPORT)
			_exit(2);
		if (unshare(CLONE_NEWUSER) != -1 || errno != EPERM)
			_exit(3);
		if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
			_exit(4);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		auto_err err = seccomp_confine(SECCOMP_THREADS, calls);

		if (err)
			_exit(1);
		_exit(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EPERM ? 0 : 2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
