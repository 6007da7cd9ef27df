// A small child of the warden that clones builders. It holds its own fds in a row above fd 16, with
// 0, 1 and 3 to 9 on /dev/null, and unmaps libraries that a builder does not call: a clone copies
// every mapping. Requests are answered in order; a lost answer would be taken for the next one's,
// so the zygote exits on a failed send. Network namespaces are made ahead when it is idle.
//
// syscalls: sendmsg recvmsg kill wait4 close
#include "warden/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/ns.h"
#include "os/seccomp.h"
#include "protocol/talk.h"
#include "warden/helper.h"
#include "warden/nets.h"

#define QUEUE_BYTES (4 << 20)
#define OWN_FDS 16    // the zygote's own fds start here; received ones are below
#define IDLE_MS 2     // without a request: time to make namespaces if few are left
#define CALM_MS 20    // if enough are left: a new box has run its first command by then
#define SPARE_FDS 512 // above all fds that the warden holds at this time

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u // since 6.3
#endif
#define NOFILE_SOFT 4096
#define NOFILE_HARD 65536

static int memfd(const char *name, unsigned flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	// Older kernels have no MFD_EXEC, and all their memfds are executable.
	if (fd < 0 && errno == EINVAL && flags)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static fallible seal(int fd)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		return err_sys(errno, "seal a memfd");
	return OK;
}

// The program and the configuration of pid 1 (protocol/talk.h), as memfds sealed against writes: no
// box can change what the next one starts from. The caller owns the fds.
static fallible init_config_program(int *out_fd)
{
	auto_fd fd = memfd("cove-init", MFD_EXEC);

	if (fd < 0 || fd_write_all(fd, pid1_start, (size_t)(pid1_end - pid1_start)))
		return err_sys(errno, "put the program of pid 1 into a memfd");
	// One file serves all boxes, and an open fd would let a box lock and watch it across boxes.
	// Its owner, the host's root, has no id in a box, so no capability of a box overrides the
	// mode.
	if (!weak(PROGRAM) && fchmod(fd, 0111))
		return err_sys(errno, "make the program of pid 1 unreadable");
	TRY(seal(fd));
	*out_fd = take_fd(&fd);
	return OK;
}

static void free_programs(struct seccomp_program (*programs)[SECCOMP_FILTER_COUNT])
{
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++)
		seccomp_free(&(*programs)[i]);
}

static fallible init_config_make(bool joins_by_clone, int *out_fd)
{
	on_exit_call(free_programs) struct seccomp_program filters[SECCOMP_FILTER_COUNT] = {0};
	auto_fd fd = memfd("cove-init-config", 0);
	struct talk_init_config init_config = {.version = TALK_VERSION,
					       .joins_by_clone = joins_by_clone};
	struct rlimit files;

	_Static_assert(SECCOMP_FILTER_COUNT ==
			       sizeof(init_config.filter_len) / sizeof(*init_config.filter_len),
		       "the init config holds every filter");
	if (getrlimit(RLIMIT_NOFILE, &files))
		return err_sys(errno, "read the limit of open files");
	init_config.nofile_hard = files.rlim_max < NOFILE_HARD ? (uint32_t)files.rlim_max
							       : NOFILE_HARD;
	init_config.nofile_soft = init_config.nofile_hard < NOFILE_SOFT ? init_config.nofile_hard
									: NOFILE_SOFT;
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++) {
		TRY(seccomp_build(i, 0, &filters[i]));
		init_config.filter_len[i] = filters[i].len;
	}
	if (weak(SYNC_PACE) || !seccomp_can_listen())
		seccomp_drop_listener(&filters[SECCOMP_ALLOW]);
	if (fd < 0 || fd_write_all(fd, &init_config, sizeof(init_config)))
		return err_sys(errno, "write the init config");
	for (int i = 0; i < SECCOMP_FILTER_COUNT; i++)
		if (fd_write_all(fd, filters[i].code, filters[i].len * sizeof(*filters[i].code)))
			return err_sys(errno, "write a filter into the init config");
	TRY(seal(fd));
	*out_fd = take_fd(&fd);
	return OK;
}

#define CPU "/sys/devices/system/cpu/"

static const char *const dirs[] = {
	"h",
	"h/l0",
	"h/l1",
	"h/up",
	"h/t",
	"h/dev",
	"h/proc",
	"e",
	"dev",
	"sys",
	"sys/devices",
	"sys/devices/system",
	"sys/devices/system/cpu",
};
static const char *const copies[] = {CPU "online", CPU "possible", CPU "present"};

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {
	{"null", 1, 3},	  {"zero", 1, 5},    {"full", 1, 7},
	{"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
static const struct {
	const char *name, *to;
} links[] = {
	{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
	{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static int base_rootfs_write_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	int result;

	if (fd < 0)
		return -1;
	result = fd_write_all(fd, text, strlen(text));
	close(fd);
	return result;
}

static int fill_root(int root)
{
	char text[256];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		if (mkdirat(root, dirs[i], 0755))
			return -1;
	for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
		if (fd_get(AT_FDCWD, copies[i], text, sizeof(text)) < 0)
			continue; // a kernel without SMP has no such file
		if (base_rootfs_write_file(root, copies[i] + 1, text))
			return -1;
	}
	if (base_rootfs_write_file(root, "blank", ""))
		return -1;
	return base_rootfs_write_file(root, "loadavg", "0.00 0.00 0.00 1/1 1\n");
}

static int fill_dev(int dev)
{
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)))
			return -1;
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlinkat(links[i].to, dev, links[i].name))
			return -1;
	return mkdirat(dev, "pts", 0755) || mkdirat(dev, "shm", 0755) ? -1 : 0;
}

// pivot_root fails on an initramfs. There the old root stays below ours, covered: path lookup
// cannot reach beneath the topmost mount of the root.
static int leave_host(int root)
{
	if (mount_attach(root, AT_FDCWD, "/") || fchdir(root))
		return -1;
	if (syscall(SYS_pivot_root, ".", ".") == 0)
		return umount2(".", MNT_DETACH) || chdir("/") ? -1 : 0;
	if (errno != EINVAL)
		return -1;
	return chroot(".") || chdir("/") ? -1 : 0;
}

// Leaves the host's mounts behind: one tmpfs becomes the root, a second one its /dev. Both are
// filled, then made read-only, so that a clone of this mount namespace copies two mounts and not
// the host's hundreds. The content: see warden/builder.c and init/setup_rootfs.c. 0, or -1 with
// errno and *out_step naming the step that failed.
static int base_rootfs_build(const char **out_step)
{
	static const struct mount_option options[] = {
		{"source", "cove"}, {"size", "256k"}, {"nr_inodes", "64"},
		{"mode", "0755"},   {NULL, NULL},
	};
	int root, dev;

	*out_step = "a mount namespace";
	umask(0);
	if (unshare(CLONE_NEWNS) || mount_private())
		return -1;
	*out_step = "the root";
	root = mount_new("tmpfs", options, MOUNT_SAFE | MOUNT_ATTR_NOEXEC);
	if (root < 0 || fill_root(root))
		return -1;
	*out_step = "/dev";
	dev = weak(DEVICES) ? mount_copy(AT_FDCWD, "/dev")
			    : mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (dev < 0 || (!weak(DEVICES) && fill_dev(dev)))
		return -1;
	*out_step = "leave the host's mounts";
	if (leave_host(root))
		return -1;
	*out_step = "make it read-only";
	if (mount_change(root, MOUNT_STILL, 0, -1) || mount_attach(dev, AT_FDCWD, "/dev") ||
	    mount_change(dev, MOUNT_ATTR_RDONLY, 0, -1))
		return -1;
	close(root);
	close(dev);
	return 0;
}

struct zygote {
	int sock, pid;
};

// One message back: at start (pid 0) whether it is ready, then one for each clone.
struct reply {
	int errnum, pid;
	char step[48];
};

_Static_assert(sizeof(struct reply) != sizeof(struct rootfs_mounts_witness),
	       "who speaks is told by the length");

// A lost answer would be taken for the next one's: exit, and the next warden starts a new zygote.
static void reply_with(int sock, struct reply reply, const int *fds, int count)
{
	if (fd_send(sock, &reply, sizeof(reply), fds, count, 0) < 0)
		_exit(1);
}

static _Noreturn void fail_start(int sock, const char *step)
{
	struct reply reply = {.errnum = errno};

	snprintf(reply.step, sizeof(reply.step), "%s", step);
	reply_with(sock, reply, NULL, 0);
	_exit(1);
}

// 0, 1 and 3 to 9 are /dev/null: a builder puts its own fds there, and no received fd can get these
// numbers. 2 stays, for error messages of the C library. All other fds of the warden are closed.
static int zygote_arrange_fds(struct builder_init_config *init_config, int *sock)
{
	int *const own[] = {sock, &init_config->program, &init_config->init_config,
			    &init_config->proc, &init_config->null};
	const int count = sizeof(own) / sizeof(*own);

	init_config->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	init_config->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < count; i++) {
		*own[i] = fcntl(*own[i], F_DUPFD_CLOEXEC, SPARE_FDS);
		if (*own[i] < 0)
			return -1;
	}
	for (int i = 0; i < count; i++) {
		*own[i] = dup3(*own[i], OWN_FDS + i, O_CLOEXEC);
		if (*own[i] < 0)
			return -1;
	}
	for (int fd = 0; fd < TALK_FD_END; fd++)
		if (fd != 2 && dup2(init_config->null, fd) < 0)
			return -1;
	if (close_range(TALK_FD_END, OWN_FDS - 1, 0))
		return -1;
	builder_find_masks(init_config, init_config->proc);
	return close_range((unsigned)(OWN_FDS + count), ~0u, 0);
}

// CLONE_PARENT: the box is the warden's child, because the warden waits for it and destroys it.
static void clone_one(int sock, const struct builder_init_config *init_config,
		      const struct builder_plan *plan, const struct builder_fds *fds)
{
	int pidfd = -1, shown[2];
	struct clone_args args = {
		.flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD | CLONE_PARENT |
			 (weak(PIDNS) ? 0 : CLONE_NEWPID) |
			 (fds->net < 0 && !weak(NETNS) ? CLONE_NEWNET : 0),
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
	};
	long pid;

	if (plan->has_into) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)fds->into;
	}
	kill_point("zygote.plan_heard", NULL);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		builder_run(init_config, plan, fds);
	kill_point("zygote.cloned", NULL);
	shown[0] = pidfd;
	shown[1] = fds->net;
	reply_with(sock, (struct reply){.errnum = pid < 0 ? errno : 0, .pid = (int)pid}, shown,
		   pid < 0 ? 0 : 1 + (fds->net >= 0));
	fd_drop(&pidfd);
}

// Idle: makes a namespace. False: a request came, or nothing is missing.
static bool zygote_prepare(int sock, const struct builder_init_config *init_config,
			   struct nets *nets)
{
	struct pollfd one = {.fd = sock, .events = POLLIN};
	int ms = nets_are_few(nets) ? IDLE_MS : CALM_MS;

	if (!nets_are_missing(nets) || poll(&one, 1, ms) != 0)
		return false;
	return nets_refill(nets, init_config->proc) == 0;
}

static _Noreturn void zygote_serve(int sock, const struct builder_init_config *init_config)
{
	struct nets nets;

	nets_open(&nets, init_config->proc);
	for (;;) {
		while (zygote_prepare(sock, init_config, &nets))
			;
		struct builder_plan plan;
		struct builder_fds fds;
		int flat[BUILDER_FDS_MAX], count = BUILDER_FDS_MAX;
		ssize_t len = fd_recv(sock, &plan, sizeof(plan), flat, &count, 0);

		if (len <= 0)
			_exit(0);
		if (len == sizeof(plan) && builder_unpack(&plan, flat, count, &fds)) {
			// Not by the clone: the warden needs an fd of it, and must not find the
			// builder in the host's.
			fds.net = nets_take(&nets, init_config->proc, true);
			clone_one(sock, init_config, &plan, &fds);
			fd_drop(&fds.net);
		} else {
			reply_with(sock, (struct reply){.errnum = EPROTO}, NULL, 0);
		}
		for (int i = 0; i < count; i++)
			close(flat[i]);
	}
}

static int leave_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const kept[] = {"/libc.so", "/ld-", "vdso", "san.so"};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)arg;
	if (!strstr(info->dlpi_name, ".so"))
		return 0; // the program itself
	for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
		if (strstr(info->dlpi_name, kept[i]))
			return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = (start + info->dlpi_phdr[i].p_memsz + page - 1) & ~(page - 1);

		start &= ~(page - 1);
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			madvise((void *)start, end - start, MADV_DONTFORK);
	}
	return 0;
}

// A clone copies every mapping, and libraries are most of them. A builder calls only the C library,
// so the others are unmapped; unless symbols are bound lazily, because the loader would search all
// of them.
static void leave_libraries(void)
{
	bool bound = false;

	for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
		bound |= (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_BIND_NOW) ||
			 (entry->d_tag == DT_FLAGS_1 && entry->d_un.d_val & DF_1_NOW);
	if (bound)
		dl_iterate_phdr(leave_library, NULL);
}

static _Noreturn void zygote_live(int parent, int sock, struct builder_init_config init_config)
{
	const char *step = "arrange its descriptors";
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_NAME, "cove-zygote", 0, 0, 0);
	setsid(); // signals of the terminal are for the supervisor alone
	if (getppid() != parent)
		_exit(1);
	if (zygote_arrange_fds(&init_config, &sock) || base_rootfs_build(&step))
		fail_start(sock, step);
	init_config.sock = sock;
	leave_libraries();
	reply_with(sock, (struct reply){0}, NULL, 0);
	zygote_serve(sock, &init_config);
}

static fallible wait_ready(struct zygote *zygote)
{
	struct reply reply = {0};
	int count = 0;
	ssize_t len = fd_recv(zygote->sock, &reply, sizeof(reply), NULL, &count, 0);

	if (len == 0 || (len < 0 && errno == ECONNRESET))
		return err_new(UNAVAILABLE, NS_HELPER_LOST, "the zygote was killed");
	if (len != sizeof(reply))
		return err_sys(errno, "read from the zygote");
	reply.step[sizeof(reply.step) - 1] = 0;
	if (reply.errnum)
		return err_sys(reply.errnum, "start the zygote: %s", reply.step);
	if (fd_nonblock(zygote->sock, true))
		return err_sys(errno, "set up the zygote's socket");
	return OK;
}

fallible zygote_start(bool joins_by_clone, struct zygote **out)
{
	auto_fd program = -1;
	auto_fd init_config = -1;
	struct zygote *zygote;
	struct err *err;
	int pair[2], queue = QUEUE_BYTES, parent = getpid(), pid;

	TRY(init_config_program(&program));
	TRY(init_config_make(joins_by_clone, &init_config));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return err_sys(errno, "make the zygote's socket");
	for (int i = 0; i < 2; i++)
		setsockopt(pair[i], SOL_SOCKET, SO_SNDBUFFORCE, &queue, sizeof(queue));
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		zygote_live(parent, pair[1],
			    (struct builder_init_config){.program = program,
							 .init_config = init_config});
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return err_new(UNAVAILABLE, NS_HELPER_LOST, "fork the zygote: %s", strerror(errno));
	}
	zygote = mem_new_of(struct zygote);
	*zygote = (struct zygote){.sock = pair[0], .pid = pid};
	err = wait_ready(zygote);
	if (err) {
		zygote_stop(zygote);
		return err;
	}
	*out = zygote;
	return OK;
}

void zygote_stop(struct zygote *zygote)
{
	if (!zygote)
		return;
	helper_end(zygote->pid);
	fd_drop(&zygote->sock);
	free(zygote);
}

int zygote_fd(const struct zygote *zygote)
{
	return zygote->sock;
}

bool zygote_reaped(struct zygote *zygote, int pid)
{
	if (zygote->pid != pid)
		return false;
	zygote->pid = -1;
	return true;
}

fallible zygote_send(struct zygote *zygote, const struct builder_plan *plan,
		     const struct builder_fds *fds)
{
	int flat[BUILDER_FDS_MAX];
	int count = builder_pack(plan, fds, flat);

	if (fd_send(zygote->sock, plan, sizeof(*plan), flat, count, MSG_DONTWAIT) < 0)
		return err_sys(errno, "order a clone from the zygote");
	return OK;
}

enum zygote_news zygote_take(struct zygote *zygote, struct zygote_answer *out)
{
	union {
		struct reply reply;
		struct rootfs_mounts_witness witness;
	} news;
	int fds[2], count = 2;
	ssize_t len = fd_recv(zygote->sock, &news, sizeof(news), fds, &count, MSG_DONTWAIT);

	if (len < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return ZYGOTE_NOTHING;
	if (len == sizeof(news.witness)) {
		*out = (struct zygote_answer){.pidfd = -1,
					      .net = -1,
					      .witness = news.witness,
					      .mounts = count ? fds[0] : -1};
		return ZYGOTE_WITNESS;
	}
	if (len != sizeof(news.reply))
		return ZYGOTE_LOST;
	*out = (struct zygote_answer){.errnum = news.reply.errnum,
				      .pid = news.reply.pid,
				      .pidfd = count ? fds[0] : -1,
				      .net = count > 1 ? fds[1] : -1};
	return ZYGOTE_ANSWER;
}
