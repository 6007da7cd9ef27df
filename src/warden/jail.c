// The child that unpacks archives. The order of the steps is the security, as for a box: namespaces
// first, then the target directory becomes the root, then the user namespace, after which nothing
// outside can be named. libarchive and its decoders run only behind the seccomp filter.
//
// The root is changed by a mount over "/" and chroot, not by pivot_root, which fails on an
// initramfs. The child has no fd outside and no capability to chroot a second time.
//
// syscalls: clone3 close_range dup2 dup3 prctl setrlimit prlimit64 mount move_mount fchdir
// syscalls: chroot setns setgroups setresuid setresgid capset capget seccomp mkdirat renameat
// syscalls: openat close syncfs write read exit_group fcntl getdents64 futex getrandom gettid
// syscalls: tgkill statx mprotect setpriority setfsgid flistxattr fgetxattr fsetxattr lseek umask
#include "warden/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <locale.h>
#include <openssl/crypto.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/caps.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/path.h"
#include "os/seccomp.h"
#include "warden/export.h"
#include "warden/helper.h"
#include "warden/oci.h"
#include "warden/unpack.h"

#define MEMORY_MAX (512ull << 20)
#define CPU_SECONDS 30
#define CPU_MIB 3 // seconds of CPU for each 10 MiB of a layer
#define NICE 10
#define FILES_OPEN 64
#define EXPORT_CPU_SECONDS 1800
#define EXPORT_FILES_OPEN 1024 // two for each directory on a path

#define GROUP_MEMORY (256ull << 20)
#define GROUP_TASKS 64

enum { REPORT = HELPER_KEEP_FIRST, ARCHIVE, TREE, USERNS };

// System calls of unpacking: memory, files, and exit.
static const char *const calls[] = {
	"brk",		"mmap",		  "munmap",
	"mremap",	"madvise",	  "mprotect",
	"read",		"write",	  "pread64",
	"pwrite64",	"lseek",	  "close",
	"openat",	"openat2",	  "mkdirat",
	"mknodat",	"unlinkat",	  "symlinkat",
	"linkat",	"renameat",	  "renameat2",
	"readlinkat",	"fstat",	  "newfstatat",
	"statx",	"fstatfs",	  "faccessat",
	"faccessat2",	"getdents64",	  "fchown",
	"fchownat",	"fchmod",	  "utimensat",
	"fsetxattr",	"flistxattr",	  "fremovexattr",
	"ftruncate",	"fcntl",	  "syncfs",
	"futex",	"getrandom",	  "clock_gettime",
	"rt_sigreturn", "rt_sigprocmask", "rt_sigaction",
	"getpid",	"gettid",	  "tgkill",
	"exit",		"exit_group",	  "restart_syscall",
	NULL,
};

// Of an export: no file is made or changed, but the one that is open.
static const char *const export_calls[] = {
	"brk",
	"mmap",
	"munmap",
	"mremap",
	"madvise",
	"mprotect",
	"read",
	"write",
	"pread64",
	"lseek",
	"close",
	"openat",
	"readlinkat",
	"fstat",
	"newfstatat",
	"statx",
	"getdents64",
	"flistxattr",
	"fgetxattr",
	"fcntl",
	"futex",
	"getrandom",
	"clock_gettime",
	"rt_sigreturn",
	"rt_sigaction",
	"rt_sigprocmask",
	"getpid",
	"gettid",
	"tgkill",
	"exit",
	"exit_group",
	"restart_syscall",
	"fsync",
	"fadvise64",
	NULL,
};

static fallible limit(int what, uint64_t most)
{
	struct rlimit limit = {most, most};

	return setrlimit(what, &limit) ? err_sys(errno, "limit %d", what) : OK;
}

static fallible limits(uint64_t bytes_max, bool is_export, bool is_long)
{
	struct stat st;
	uint64_t packed = fstat(ARCHIVE, &st) || !S_ISREG(st.st_mode) ? 0 : (uint64_t)st.st_size;
	uint64_t seconds = CPU_SECONDS + (packed >> 20) * CPU_MIB / 10;

	// Running boxes have priority over an import. EACCES: a nice cove's is lower already.
	if (setpriority(PRIO_PROCESS, 0, NICE) && errno != EACCES)
		return err_sys(errno, "lower the priority");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	TRY(limit(RLIMIT_AS, MEMORY_MAX));
#endif
	TRY(limit(RLIMIT_CPU, is_long ? EXPORT_CPU_SECONDS : seconds));
	TRY(limit(RLIMIT_FSIZE, bytes_max));
	TRY(limit(RLIMIT_CORE, 1)); // 0 would still start the helper of core_pattern
	return limit(RLIMIT_NOFILE, is_export ? EXPORT_FILES_OPEN : FILES_OPEN);
}

static fallible change_root(int tree)
{
	if (mount_private() || mount_attach(tree, AT_FDCWD, "/") || fchdir(tree) || chroot("."))
		return err_sys(errno, "enter the jail's directory");
	return OK;
}

static fallible become_box(int userns)
{
	if (setns(userns, CLONE_NEWUSER) || setgroups(0, NULL) || setresgid(0, 0, 0) ||
	    setresuid(0, 0, 0))
		return err_sys(errno, "take the ids of a box");
	// A change of ids resets both, so they come after it.
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0))
		return err_sys(errno, "bind the jail to its warden");
	return OK;
}

static fallible jail_confine(const struct jail *jail)
{
	bool is_export = jail->trees;

	if (weak(JAIL) && !is_export)
		return fchdir(TREE) ? err_sys(errno, "enter the jail's directory") : OK;
	TRY(limits(jail->bytes_max, is_export, is_export || jail->raw));
	if (!is_export)
		TRY(change_root(TREE)); // of an export it is changed
	TRY(become_box(USERNS));
	close(TREE);
	close(USERNS);
	TRY(caps_keep(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_FOWNER) |
		      CAPS_BIT(CAP_FSETID) | (jail->raw ? CAPS_BIT(CAP_SETFCAP) : 0)));
	TRY(caps_no_new_privs());
	return seccomp_confine(SECCOMP_THREADS, is_export ? export_calls : calls);
}

// The archive was an image: move it aside, and make the root from its layers.
static fallible unpack_image(struct unpack *unpack)
{
	uint64_t bytes_max = unpack->bytes_max;
	auto_fd stage = -1;
	auto_fd root = -1;
	struct err *err;

	if (renameat(AT_FDCWD, "root", AT_FDCWD, "stage"))
		return err_sys(errno, "set the image aside");
	TRY(path_dir(AT_FDCWD, "root", 0755, &root));
	TRY(path_dir(AT_FDCWD, "stage", 0755, &stage));
	unpack_done(unpack);
	unpack_begin(unpack, root, bytes_max);
	err = oci_apply(stage, unpack);
	unpack->extract.root = -1; // closed here
	return err;
}

static fallible jail_work(struct unpack *unpack, const struct jail *jail)
{
	auto_fd root = -1;

	if (jail->raw)
		root = openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else
		TRY(path_dir(AT_FDCWD, "root", 0755, &root));
	if (root < 0)
		return err_sys(errno, "open the root of an archive");
	unpack->extract.root = root;
	if (jail->raw) {
		umask(0);
		TRY(unpack_raw(unpack, ARCHIVE, jail->digest));
		return syncfs(root) ? err_sys(errno, "write the files out") : OK;
	}
	if (jail->digest) {
		TRY(unpack_layer(unpack, ARCHIVE, jail->parent >= 0, jail->digest));
		return syncfs(root) ? err_sys(errno, "write the files out") : OK;
	}
	TRY(unpack_tar(unpack, ARCHIVE, -1));
	if (oci_is_image(root))
		TRY(unpack_image(unpack));
	if (!unpack->files)
		return err_new(INVALID, "bad_archive", "the archive is empty");
	return syncfs(root) ? err_sys(errno, "write the files out") : OK;
}

// A compromised decoder must not write into the warden's log. Sanitizer builds still report there.
static bool leave_stdio(void)
{
	auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	const int last = 1;
#else
	const int last = 2;
#endif

	for (int fd = 0; fd <= last; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return false;
	return true;
}

static bool jail_join(const struct group_door *door)
{
	for (int i = 0; i < door->task_count; i++)
		if (write(door->tasks[i], "0", 1) != 1)
			return false;
	return true;
}

static _Noreturn void jail_child(const struct jail *jail)
{
	struct unpack unpack;
	struct path_copied linked = {0};
	struct answer *sums = mem_new_of(struct answer);
	struct err *err = OK;
	int fds[] = {jail->report, jail->archive, jail->tree, jail->userns};

	// The cgroup confines too: on v1 it allows no device node.
	if (jail->parent >= 0)
		err = path_link(jail->parent, jail->into, &linked);
	if ((!weak(JAIL) && !jail_join(jail->door)) || (!weak(JAIL_STDIO) && !leave_stdio()))
		_exit(1);
	if (jail->trees)
		err = export_mount(jail->trees);
	if (helper_keep(fds, sizeof(fds) / sizeof(*fds)))
		_exit(1);
	// Names in archives are UTF-8. OpenSSL must not look for its configuration in this root.
	setlocale(LC_CTYPE, "C.UTF-8");
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	unpack_begin(&unpack, -1, jail->bytes_max);
	if (!err)
		err = jail_confine(jail);
	if (!err && jail->trees) {
		err = export_write(jail->trees, ARCHIVE, jail->zstd, sums);
	} else {
		if (!err)
			err = jail_work(&unpack, jail);
		sums->files = unpack.files;
		sums->bytes = unpack.bytes;
		sums->dropped = unpack.dropped;
	}
	jail_report_write(REPORT, err, sums);
	_exit(0);
}

static bool is_open(const struct group_door *door)
{
	return door->into >= 0 || door->task_count > 0;
}

fallible jail_open(struct groups *groups, struct group_door *door)
{
	const struct limits most = {
		.memory = GROUP_MEMORY,
		.cpu_milli = 1000,
		.pids = GROUP_TASKS,
	};
	auto_fd oom = -1;
	struct err *err;

	if (is_open(door))
		return OK;
	group_drop(groups, JAIL_GROUP, 0); // of an earlier warden; its jails died with it
	TRY(group_make(groups, JAIL_GROUP, 0, door), "make the jail's cgroup");
	err = group_limit(groups, JAIL_GROUP, &most, &oom);
	if (err)
		jail_close(groups, door); // a jail without limits is none
	return err;
}

void jail_close(struct groups *groups, struct group_door *door)
{
	if (!is_open(door))
		return;
	group_door_close(door);
	group_drop(groups, JAIL_GROUP, 0);
}

fallible jail_start(const struct jail *jail, int *out_pid)
{
	struct clone_args args = {
		.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
		.exit_signal = SIGCHLD,
	};
	if (jail->door->into >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)jail->door->into;
	}
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return err_sys(errno, "clone the jail");
	if (pid == 0)
		jail_child(jail);
	*out_pid = (int)pid;
	return OK;
}

void jail_report_write(int fd, struct err *outcome, const struct answer *sums)
{
	struct jail_report report = {.magic = JAIL_MAGIC,
				     .files = sums->files,
				     .bytes = sums->bytes,
				     .dropped = sums->dropped};
	auto_err err = outcome;

	memcpy(report.digest, sums->digest, sizeof(report.digest));
	memcpy(report.diff_id, sums->diff_id, sizeof(report.diff_id));
	report.ok = !err;
	if (err) {
		const char *hint = err_hint_of(err);

		report.kind = err_kind(err);
		snprintf(report.reason, sizeof(report.reason), "%s", err_reason(err));
		// An internal error goes to the warden's log only, so send its trail.
		snprintf(report.message, sizeof(report.message), "%s",
			 err_kind(err) == ERR_INTERNAL ? err_trail(err) : err_message(err));
		snprintf(report.hint, sizeof(report.hint), "%s", hint ? hint : "");
	}
	(void)fd_write_all(fd, &report, sizeof(report));
}

// Text of a hostile child: make it printable and terminated.
static void jail_clean(char *text, size_t size, bool is_word)
{
	text[size - 1] = 0;
	for (char *c = text; *c; c++) {
		bool fine = is_word ? (*c >= 'a' && *c <= 'z') || *c == '_' : *c >= ' ' && *c < 127;

		if (!fine)
			*c = is_word ? '_' : '?';
	}
}

// "": none, or no digest.
static void take_digest(const char from[ORDER_DIGEST + 1], char out[ORDER_DIGEST + 1])
{
	memset(out, 0, ORDER_DIGEST + 1);
	for (int i = 0; i < ORDER_DIGEST; i++)
		if (!from[i] || !strchr("0123456789abcdef", from[i]))
			return;
	memcpy(out, from, ORDER_DIGEST);
}

static fallible explain_death(int status)
{
	int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	if (by == SIGXCPU || by == SIGKILL || by == SIGABRT)
		return err_new(TOO_LARGE, "archive_too_large",
			       "unpacking takes too much time or memory");
	return err_sys(EPROTO, "a jail ended without a word, status %d", status);
}

fallible jail_report_read(int fd, int status, struct answer *out)
{
	struct jail_report report;
	ssize_t got;

	do
		got = read(fd, &report, sizeof(report));
	while (got < 0 && errno == EINTR);
	if (got != sizeof(report) || report.magic != JAIL_MAGIC)
		return explain_death(status);
	if (report.ok) {
		out->files = report.files;
		out->bytes = report.bytes;
		out->dropped = report.dropped;
		take_digest(report.digest, out->digest);
		take_digest(report.diff_id, out->diff_id);
		return OK;
	}
	jail_clean(report.reason, sizeof(report.reason), true);
	jail_clean(report.message, sizeof(report.message), false);
	jail_clean(report.hint, sizeof(report.hint), false);
	switch (report.kind) {
	case ERR_INVALID:
	case ERR_CONFLICT:
	case ERR_TOO_LARGE:
	case ERR_NO_SPACE:
		return err_from(report.kind, report.reason, report.message,
				report.hint[0] ? report.hint : NULL);
	default:
		return err_sys(EIO, "in the child: %s", report.message);
	}
}
