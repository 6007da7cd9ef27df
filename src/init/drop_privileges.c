// docs/ISOLATION.md STEP-9: the order is the security. execve came before the user namespace, so
// the memory of pid 1 belongs to the outer one; PR_SET_DUMPABLE then closes /proc/1/mem,
// /proc/1/exe and ptrace even to a box root with every capability. Limits are set while the
// builder's capabilities last, filters last, because they forbid some of the earlier steps. System
// calls for ids are raw: libc's would signal threads that do not exist. A failed step ends the box.
#include "init/drop_privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/weak.h"
#include "init/setup_rootfs.h"
#include "os/fd.h"
#include "protocol/talk.h"

#define FILTER_MAX 4096	      // the kernel's own limit
#define CHILD_FILTER_MAX 1024 // loaded for each command, so it should be short
#define CLOSE_RANGE_FLAG_CLOEXEC 4
#define SAVED_GID 65534

#define BIT(cap) (1u << (cap))
#define CAPS_KEPT                                                                                  \
	(BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |              \
	 BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL) | BIT(CAP_SETFCAP) |                    \
	 BIT(CAP_SYS_CHROOT) | BIT(CAP_AUDIT_WRITE) | BIT(CAP_NET_BIND_SERVICE))

struct init_config {
	struct talk_init_config head;
	struct sock_filter code[2 * FILTER_MAX + CHILD_FILTER_MAX];
};

static struct init_config init_config; // pages are touched only as far as filled

static bool is_init_config_sound(size_t len)
{
	size_t code = 0;

	if (len < sizeof(init_config.head) || init_config.head.version != TALK_VERSION)
		return false;
	for (int i = 0; i < 3; i++) {
		if (init_config.head.filter_len[i] > (i < 2 ? FILTER_MAX : CHILD_FILTER_MAX))
			return false;
		code += init_config.head.filter_len[i];
	}
	return len - sizeof(init_config.head) == code * sizeof(struct sock_filter);
}

static const char *read_init_config(struct drop_privileges *out)
{
	ssize_t len = 0;

	// By pread: all boxes share the file, and with it its offset.
	while ((size_t)len < sizeof(init_config)) {
		ssize_t n = pread(TALK_FD_INIT_CONFIG, (char *)&init_config + len,
				  sizeof(init_config) - (size_t)len, len);

		if (n < 0)
			return "read the init config";
		if (n == 0)
			break;
		len += n;
	}
	errno = EPROTO;
	if (!is_init_config_sound((size_t)len))
		return "parse the init config";
	out->joins_by_clone = init_config.head.joins_by_clone != 0;
	out->filter = init_config.code + init_config.head.filter_len[0] +
		      init_config.head.filter_len[1];
	out->filter_len = (uint16_t)(weak(CLONE3) ? 0 : init_config.head.filter_len[2]);
	return NULL;
}

// Lowering must work. Raising depends on the host, and a lower limit than asked is accepted.
static bool drop_privileges_set_limit(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit now, want = {soft, hard};

	if (setrlimit(what, &want) == 0)
		return true;
	if (getrlimit(what, &now) < 0 || hard <= now.rlim_max)
		return false;
	want.rlim_max = now.rlim_max;
	if (want.rlim_cur > want.rlim_max)
		want.rlim_cur = want.rlim_max;
	return setrlimit(what, &want) == 0;
}

static const char *drop_privileges_limit(void)
{
	// Core 1, not 0: with 0 a piped core_pattern still starts its helper on the host.
	if (!drop_privileges_set_limit(RLIMIT_CORE, 1, 1))
		return "limit core dumps";
	if (!weak(NOFILE) && !drop_privileges_set_limit(RLIMIT_NOFILE, init_config.head.nofile_soft,
							init_config.head.nofile_hard))
		return "limit files";
	if (!drop_privileges_set_limit(RLIMIT_MSGQUEUE, 819200, 819200))
		return "limit message queues";
	if (!drop_privileges_set_limit(RLIMIT_SIGPENDING, 4096, 4096))
		return "limit signals";
	return NULL;
}

static const char *settle_fds(struct drop_privileges *out)
{
	int null;
	ssize_t n;

	syscall(SYS_close_range, TALK_FD_END, ~0u, 0);
	if (out->joins_by_clone)
		close(TALK_FD_CGROUP_2);
	syscall(SYS_close_range, TALK_FD_CONTROL, ~0u, CLOSE_RANGE_FLAG_CLOEXEC);
	if (weak(FDS))
		fcntl(TALK_FD_CGROUP, F_SETFD, 0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return "open /dev/null";
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return "set up stdio";
	if (null > 2)
		close(null);
	out->oom = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (out->oom >= 0) {
		n = pread(out->oom, out->oom_own, sizeof(out->oom_own) - 1, 0);
		if (n <= 0)
			fd_drop(&out->oom);
	}
	umask(022);
	return NULL;
}

static const char *join_user_namespace(void)
{
	if (!weak(USERNS) && setns(TALK_FD_USERNS, CLONE_NEWUSER) < 0)
		return "join the user namespace";
	// The groups of a root command, so that the most common case need not set them again.
	if (syscall(SYS_setgroups, 1, &(gid_t){0}) < 0)
		return "drop groups";
	// The saved gid differs, so that no process has all of our ids: prlimit() checks nothing
	// else, and with it box root could lower our RLIMIT_NOFILE.
	if (syscall(SYS_setresgid, 0, 0, SAVED_GID) < 0)
		return "become gid 0";
	if (syscall(SYS_setresuid, 0, 0, 0) < 0)
		return "become uid 0";
	// The change of ids reset this. Later only children change ids, and they set it again.
	if (prctl(PR_SET_DUMPABLE, weak(UNDUMPABLE) ? 1 : 0, 0, 0, 0) < 0)
		return "become undumpable";
	close(TALK_FD_INIT_CONFIG);
	close(TALK_FD_USERNS);
	return NULL;
}

static const char *drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {
		{.effective = CAPS_KEPT, .permitted = CAPS_KEPT, .inheritable = 0},
	};

	if (weak(CAPABILITIES))
		return NULL;
	// Up to the first capability that this kernel does not know; it knows all that are kept.
	for (int cap = 0; cap < 64; cap++) {
		if (cap < 32 && CAPS_KEPT & BIT(cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL && cap > CAP_AUDIT_READ)
			break;
		return "drop the bounding set";
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return "drop ambient capabilities";
	if (syscall(SYS_capset, &head, caps) < 0)
		return "drop capabilities";
	return NULL;
}

static const char *settle_signals(sigset_t *set)
{
	static const unsigned long default_action[4]; // as the kernel has it: SIG_DFL

	// Commands would inherit ignored signals. By the raw call: a C library reserves 32 and 33,
	// but glibc's posix_spawn() leaves them ignored in its children, and we may have been
	// started by it.
	for (int number = 1; number < _NSIG; number++)
		syscall(SYS_rt_sigaction, number, default_action, NULL, 8);
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	return sigprocmask(SIG_SETMASK, set, NULL) < 0 ? "block SIGCHLD" : NULL;
}

// The first filter has a listener that is notified of sync and syncfs, so that they can be paced.
// In a container that has a listener already there cannot be another (EBUSY): then the filter
// allows both.
static bool drop_privileges_load_filter(const struct sock_fprog *program, int *listener)
{
	int n = -1;

	if (listener)
		n = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				 SECCOMP_FILTER_FLAG_NEW_LISTENER, program);
	if (n >= 0)
		*listener = n;
	else if (!listener || errno == EBUSY)
		n = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
	return n >= 0;
}

static const char *load_filters(struct drop_privileges *out)
{
	struct sock_filter *code = init_config.code;

	out->syncs = -1;

	for (int i = 0; i < 2; code += init_config.head.filter_len[i++]) {
		struct sock_fprog program = {
			.len = (unsigned short)init_config.head.filter_len[i],
			.filter = code,
		};

		if (program.len > 0 && !(weak(SECCOMP) && i == 0) && !(weak(ARGUMENTS) && i == 1) &&
		    !drop_privileges_load_filter(&program, i == 0 ? &out->syncs : NULL))
			return i == 0 ? "load the first filter" : "load the second filter";
	}
	return NULL;
}

#define STEP(call)                                                                                 \
	do {                                                                                       \
		const char *failed_ = (call);                                                      \
		if (failed_)                                                                       \
			return failed_;                                                            \
	} while (0)

const char *drop_privileges_run(struct drop_privileges *out)
{
	sigset_t signals;

	weak_open();
	STEP(read_init_config(out));
	STEP(drop_privileges_limit());
	STEP(settle_signals(&signals));
	STEP(setup_rootfs_box());
	STEP(settle_fds(out));
	STEP(join_user_namespace());
	prctl(PR_SET_NAME, "cove-init", 0, 0, 0);
	STEP(drop_capabilities());
	if (!weak(NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return "set no_new_privs";
	out->children = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (out->children < 0)
		return "open a signalfd";
	if (chdir("/") < 0)
		return "change to the root directory";
	STEP(load_filters(out));
	return NULL;
}
