// Drops the daemon's privileges; the order matters. Landlock rules are opened by path while root
// can reach the directories. The bounding set is emptied while CAP_SETPCAP is there. The kernel
// clears PR_SET_PDEATHSIG at a change of user, so it is set again. The seccomp filter comes last
// and forbids, among others, new executable memory: the NSS modules that getaddrinfo() would load
// later are loaded before.
//
// Calls made by the C library and the crypto library:
// syscalls: brk close clock_nanosleep exit exit_group fstat futex getpid getppid getrandom gettid
// syscalls: lseek madvise mmap mprotect mremap munmap newfstatat nanosleep openat pread64 prlimit64
// syscalls: read restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_yield
// syscalls: set_robust_list sigaltstack sysinfo tgkill uname write writev
#include "serve/drop.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/secret.h"
#include "base/weak.h"
#include "os/caps.h"
#include "os/seccomp.h"
#include "os/syscalls.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 // since 6.3
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif
#define CALLS_MAX 512 // of the kernel
#define PATHS_FIXED 7
#define NSS_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Calls of the sanitizers' runtimes, mostly when they report something.
static const char *const sanitizer_calls[] = {
	"clone",
	"dup",
	"dup2",
	"dup3",
	"getdents64",
	"getuid",
	"geteuid",
	"ioctl",
	"kill",
	"personality",
	"pipe2",
	"prctl",
	"ptrace",
	"readlink",
	"readlinkat",
	"sched_getaffinity",
	"stat",
	"lstat",
	"process_vm_readv",
	"wait4",
	"fcntl",
	"access",
	"faccessat",
	"getcwd",
	"mincore",
};
#endif

static fallible drop_become(const struct drop *drop)
{
	uint64_t left = 0;

	TRY(caps_bound(0));
	TRY(caps_keep(CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID)));
	if (setgroups(0, NULL) || setresgid(drop->gid, drop->gid, drop->gid) ||
	    setresuid(drop->uid, drop->uid, drop->uid))
		return err_sys(errno, "become user %d", (int)drop->uid);
	TRY(caps_now(&left));
	if (left)
		return err_new(INTERNAL, "internal", "capabilities survived the change of user");
	return OK;
}

static fallible die_with_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM))
		return err_sys(errno, "ask for the parent's death");
	// The supervisor may have died before the prctl.
	if (getppid() != parent)
		return err_new(UNAVAILABLE, "no_parent", "the supervisor is gone");
	return OK;
}

// A missing module would not be found by getaddrinfo() either.
static void load_nss_modules(void)
{
	FILE *conf = fopen("/etc/nsswitch.conf", "re");
	char line[512], library[64], *rest, *service;

	while (conf && fgets(line, sizeof(line), conf)) {
		line[strcspn(line, "#\n")] = 0;
		rest = line;
		if (strncmp(line, "hosts:", 6) != 0)
			continue;
		for (rest += 6; (service = strsep(&rest, " \t"));) {
			if (!service[0] || strspn(service, NSS_LETTERS) != strlen(service))
				continue; // an action: [NOTFOUND=return]
			snprintf(library, sizeof(library), "libnss_%s.so.2", service);
			(void)dlopen(library, RTLD_NOW);
		}
	}
	if (conf)
		fclose(conf);
}

static fallible confine_calls(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const char *all[CALLS_MAX + COUNT(sanitizer_calls) + 1] = {NULL};
	size_t count = 0;

	while (syscalls_daemon[count] && count < CALLS_MAX) {
		all[count] = syscalls_daemon[count];
		count++;
	}
	for (size_t i = 0; i < COUNT(sanitizer_calls); i++)
		all[count++] = sanitizer_calls[i];
	return seccomp_confine(SECCOMP_THREADS, all);
#else
	// Older kernels lack it; the filter enforces the same.
	(void)prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
	return seccomp_confine(SECCOMP_THREADS, syscalls_daemon);
#endif
}

fallible drop_rights(const struct drop *drop)
{
	struct caps_path paths[PATHS_FIXED + DROP_READABLE_MAX] = {
		{drop->daemon_dir, true}, {drop->run_dir, true}, {"/etc", false},
		{"/lib", false},	  {"/lib64", false},	 {"/usr/lib", false},
		{"/usr/share", false},
	};
	size_t count = PATHS_FIXED;
	uint8_t hash[SECRET_HASH];
	pid_t parent = getppid();

	// The crypto library reads its configuration at first use: do it now.
	secret_sha256("", 0, hash);
	TRY(caps_no_new_privs());
	for (size_t i = 0; i < DROP_READABLE_MAX && drop->readable[i]; i++)
		paths[count++] = (struct caps_path){drop->readable[i], false};
	TRY(caps_landlock(paths, count), "confine the file system");
	TRY(drop_become(drop));
	TRY(die_with_parent(parent));
	load_nss_modules();
	return weak(DAEMON_CALLS) ? OK : confine_calls();
}
