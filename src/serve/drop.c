// The order matters. Landlock's rules are opened by path while root can still reach the
// directories. The bounding set is emptied while there is a capability to do it with. The kernel
// forgets the death signal at a change of user, so it is set again. The filter comes last: it
// forbids the rest.
//
// What the C library and the crypto library do behind our back:
// syscalls: brk close clock_nanosleep exit exit_group fstat futex getpid getppid getrandom gettid
// syscalls: lseek madvise mmap mprotect mremap munmap newfstatat nanosleep openat pread64 prlimit64
// syscalls: read restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_yield
// syscalls: set_robust_list sigaltstack sysinfo tgkill uname write writev
#include "serve/drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/secret.h"
#include "gen/syscalls_daemon.h"
#include "os/caps.h"
#include "os/seccomp.h"

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// What the sanitizers' runtimes call, most of it when they have something to report.
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

static fallible become(const struct drop *drop)
{
	uint64_t left = 0;

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
	// It may have died while there was nobody to tell.
	if (getppid() != parent)
		return err_new(UNAVAILABLE, "no_parent", "the supervisor is gone");
	return OK;
}

fallible drop_rights(const struct drop *drop)
{
	const struct caps_path paths[] = {
		{drop->daemon_dir, true}, {drop->run_dir, true}, {"/etc", false},
		{"/lib", false},	  {"/lib64", false},	 {"/usr/lib", false},
		{"/usr/share", false},
	};
	uint8_t hash[SECRET_HASH];
	pid_t parent = getppid();

	// The crypto library reads its configuration at the first use: let it be now.
	secret_sha256("", 0, hash);
	TRY(caps_no_new_privs());
	TRY(caps_landlock(paths, COUNT(paths)), "confine the file system");
	TRY(become(drop));
	TRY(die_with_parent(parent));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const char *all[COUNT(syscalls_daemon) + COUNT(sanitizer_calls)];
	size_t count = 0;

	for (size_t i = 0; syscalls_daemon[i]; i++)
		all[count++] = syscalls_daemon[i];
	for (size_t i = 0; i < COUNT(sanitizer_calls); i++)
		all[count++] = sanitizer_calls[i];
	return seccomp_confine(all, count);
#else
	return seccomp_confine(syscalls_daemon, COUNT(syscalls_daemon) - 1);
#endif
}
