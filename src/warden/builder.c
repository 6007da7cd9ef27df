// Isolation section 3, steps 2 to 10; the order is the security. We are pid 1 of new pid, mount,
// network, ipc and uts namespaces that the outer user namespace owns, in the zygote's bare mount
// namespace: a read-only tmpfs with empty directories to attach to, and a /dev beside it.
//
//	/h/l0 /h/l1 /h/up   the lowers and the disk, idmapped, so that overlay can name them
//	/h/t                the box's one small tmpfs: shm, run and its /proc/meminfo
//	/dev                a mount of its own, read-only, shared by all boxes
//	/e /sys /loadavg /blank  an empty directory, static files
//
// The overlay is laid over the zygote's root and we chroot into it: a chroot break-out climbs to
// the topmost mount of the root, which is the overlay again. From then on every name is the image's
// word, so mount points are opened O_NOFOLLOW as directories and mounted upon by fd. Only beneath
// our own /proc and /dev may names be used again.
//
// Nothing here runs under the warden's own filter: the zygote was born before it.
#include "warden/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/weak.h"
#include "model/talk.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/net.h"
#include "os/ns.h"

#define SCRATCH_MAX (64ull << 20)
#define SCRATCH_INODES "4096"
#define DIR_FLAGS (O_PATH | O_DIRECTORY | (weak(NOFOLLOW) ? 0 : O_NOFOLLOW) | O_CLOEXEC)
#define ROOT_FLAGS ((weak(NOSUID) ? 0 : MOUNT_ATTR_NOSUID) | (weak(NODEV) ? 0 : MOUNT_ATTR_NODEV))

struct build {
	const struct builder_kit *kit;
	const struct builder_plan *plan;
	const struct builder_fds *fds;
	int root, usr;		// overlays
	int dev, shm, run, sys; // copies to be attached inside
	int meminfo, loadavg, blank;
	int empty[BUILDER_MASKS_MAX];
	int proc, pts;
};

static int join(struct build *b)
{
	for (int i = 0; i < b->plan->task_count; i++)
		if (write(b->fds->tasks[i], "0", 1) != 1)
			return -1;
	return 0;
}

static int network(struct build *b)
{
	if (weak(NETNS))
		return 0;
	if (b->fds->net >= 0)
		return setns(b->fds->net, CLONE_NEWNET);
	return net_loopback(b->kit->proc);
}

static int attach_layers(struct build *b)
{
	if (mount_attach(b->fds->root, AT_FDCWD, "/h/l0"))
		return -1;
	if (b->plan->has_usr && mount_attach(b->fds->usr, AT_FDCWD, "/h/l1"))
		return -1;
	return mount_attach(b->fds->disk, AT_FDCWD, "/h/up");
}

// From here to the exec files are made as the box's root: overlay turns read-only, and mkdir fails
// with EOVERFLOW, when the maker's id has no mapping.
static int become_box_root(struct build *b)
{
	return ns_files_as(b->plan->base);
}

static int write_meminfo(uint64_t memory)
{
	static const char *const zeros[] = {
		"Buffers:",	"Cached:",     "SwapCached:", "Active:",       "Inactive:",
		"SwapTotal:",	"SwapFree:",   "Dirty:",      "Writeback:",    "AnonPages:",
		"Mapped:",	"Shmem:",      "Slab:",	      "SReclaimable:", "SUnreclaim:",
		"KernelStack:", "PageTables:",
	};
	unsigned long long kib = memory / 1024;
	char text[1024];
	size_t len;
	int fd, result;

	len = (size_t)snprintf(text, sizeof(text),
			       "MemTotal:       %8llu kB\nMemFree:        %8llu kB\n"
			       "MemAvailable:   %8llu kB\n",
			       kib, kib, kib);
	for (size_t i = 0; i < sizeof(zeros) / sizeof(*zeros); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%-15s %8u kB\n", zeros[i],
					0u);
	fd = open("/h/t/meminfo", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return -1;
	result = fd_write_all(fd, text, len);
	close(fd);
	return result;
}

static int make_scratch(struct build *b)
{
	uint64_t size = b->plan->memory / 8 < SCRATCH_MAX ? b->plan->memory / 8 : SCRATCH_MAX;
	char bytes[24], id[16];
	const struct mount_option options[] = {
		{"source", "tmpfs"}, {"size", bytes}, {"nr_inodes", SCRATCH_INODES},
		{"mode", "0755"},    {"uid", id},     {"gid", id},
		{NULL, NULL},
	};
	int tree;

	snprintf(bytes, sizeof(bytes), "%llu", weak(SCRATCH) ? 0 : (unsigned long long)size);
	snprintf(id, sizeof(id), "%u", b->plan->base);
	tree = mount_new("tmpfs", options, MOUNT_SAFE);
	if (tree < 0 || mount_attach(tree, AT_FDCWD, "/h/t"))
		return -1;
	if (mkdir("/h/t/shm", 01777) || mkdir("/h/t/run", 0755) || mkdir("/h/t/run/lock", 01777))
		return -1;
	return write_meminfo(b->plan->memory);
}

// Copies are taken now, while the names are ours, and attached when the root is the box's.
static int take_copies(struct build *b)
{
	const struct {
		const char *path;
		int *to;
	} copies[] = {
		{"/dev", &b->dev},     {"/h/t/shm", &b->shm},	      {"/h/t/run", &b->run},
		{"/sys", &b->sys},     {"/h/t/meminfo", &b->meminfo}, {"/loadavg", &b->loadavg},
		{"/blank", &b->blank},
	};

	for (size_t i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
		*copies[i].to = mount_copy(AT_FDCWD, copies[i].path);
		if (*copies[i].to < 0)
			return -1;
	}
	for (int i = 0; b->kit->empty[i]; i++) {
		b->empty[i] = mount_copy(AT_FDCWD, "/e");
		if (b->empty[i] < 0)
			return -1;
	}
	return mount_change(b->meminfo, MOUNT_STILL, 0, -1);
}

// Relative names: the box reads them in its own mountinfo.
static int make_overlays(struct build *b)
{
	struct mount_option options[] = {
		{"source", "overlay"},
		{"lowerdir", "l0"},
		{"upperdir", "up/r/u"},
		{"workdir", "up/r/w"},
		{b->plan->is_volatile ? "volatile" : NULL, NULL},
		{NULL, NULL},
	};

	if (chdir("/h"))
		return -1;
	b->root = weak(OVERLAY) ? mount_copy(AT_FDCWD, "l0")
				: mount_new("overlay", options, ROOT_FLAGS);
	if (b->root < 0 || !b->plan->has_usr)
		return b->root < 0 ? -1 : 0;
	options[1].value = "l1";
	options[2].value = "up/usr/u";
	options[3].value = "up/usr/w";
	b->usr = mount_new("overlay", options, MOUNT_SAFE);
	return b->usr < 0 ? -1 : 0;
}

static int switch_root(struct build *b)
{
	if (mount_attach(b->root, AT_FDCWD, weak(ROOT) ? "/e" : "/"))
		return -1;
	if (fchdir(b->root))
		return -1;
	return chroot(".");
}

// Mounts `tree` on a directory of the image, which must be one.
static int mount_inside(int tree, const char *name)
{
	int at = openat(AT_FDCWD, name, DIR_FLAGS);
	int result;

	if (at < 0 && errno == ENOENT && mkdir(name, 0755) == 0)
		at = openat(AT_FDCWD, name, DIR_FLAGS);
	if (at < 0)
		return -1;
	result = mount_attach(tree, at, "");
	close(at);
	return result;
}

static int mount_usr(struct build *b)
{
	return b->plan->has_usr ? mount_inside(b->usr, "usr") : 0;
}

// Whoever holds this copy decides when the overlays end, see warden/shroud.h.
static int bear_witness(struct build *b)
{
	struct builder_witness witness = {.number = b->plan->number};
	int tree, result;

	if (b->plan->is_volatile)
		return 0;
	tree = mount_copy_all("/");
	if (tree < 0)
		return -1;
	memcpy(witness.box, b->plan->box, sizeof(witness.box));
	result = fd_send(b->kit->sock, &witness, sizeof(witness), &tree, 1, 0) < 0 ? -1 : 0;
	close(tree);
	return result;
}

static int mount_dev(struct build *b)
{
	char uid[16], gid[16];
	const struct mount_option options[] = {
		{"source", "devpts"}, {"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"},
		{"uid", uid},	      {"gid", gid},	     {"max", "64"},	   {NULL, NULL},
	};

	snprintf(uid, sizeof(uid), "%u", b->plan->base);
	snprintf(gid, sizeof(gid), "%u", b->plan->base + 5);
	b->pts = mount_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (b->pts < 0 || mount_inside(b->dev, "dev"))
		return -1;
	if (mount_attach(b->pts, AT_FDCWD, "/dev/pts"))
		return -1;
	return mount_attach(b->shm, AT_FDCWD, "/dev/shm");
}

static int mount_rest(struct build *b)
{
	if (mount_inside(b->run, "run"))
		return -1;
	return mount_inside(b->sys, "sys");
}

// Read-only at first, so that what is bound out of it is born read-only in one call.
static int mount_proc(struct build *b)
{
	static const struct mount_option options[] = {{"source", "proc"}, {NULL, NULL}};

	b->proc = mount_new("proc", options, MOUNT_STILL);
	return b->proc < 0 ? -1 : mount_inside(b->proc, "proc");
}

// A name that this very /proc lacks needs no mask.
static int bind_over(const char *from, const char *to)
{
	if (mount(from, to, NULL, MS_BIND, NULL) && errno != ENOENT)
		return -1;
	return 0;
}

// An empty read-only file over each name, one attached and the others bound from it. Not a null
// device: that one can be opened for writing on any mount, and then /proc seems writable.
static int blank_proc(struct build *b)
{
	const char *first = NULL;

	for (int i = 0; b->kit->blank[i]; i++) {
		const char *name = b->kit->blank[i];

		if (first ? bind_over(first, name)
			  : mount_attach(b->blank, AT_FDCWD, name) && errno != ENOENT)
			return -1;
		if (!first && !access(name, F_OK))
			first = name;
	}
	return 0;
}

static int mask_proc(struct build *b)
{
	const struct builder_kit *kit = b->kit;

	for (int i = 0; kit->still[i] && !weak(READONLY); i++)
		if (bind_over(kit->still[i], kit->still[i]))
			return -1;
	if (mount_change(b->proc, 0, MOUNT_ATTR_RDONLY, -1))
		return -1;
	if (weak(MASKS))
		return 0;
	if (blank_proc(b))
		return -1;
	for (int i = 0; kit->empty[i]; i++)
		if (mount_attach(b->empty[i], AT_FDCWD, kit->empty[i]) && errno != ENOENT)
			return -1;
	if (mount_attach(b->meminfo, AT_FDCWD, "/proc/meminfo"))
		return -1;
	return mount_attach(b->loadavg, AT_FDCWD, "/proc/loadavg");
}

// Our own cgroups become the root of what the box sees of them; hence not at the clone.
static int settle(struct build *b)
{
	if (unshare(CLONE_NEWCGROUP))
		return -1;
	if (sethostname(b->plan->host, strlen(b->plan->host)))
		return -1;
	return setsid() < 0 ? -1 : 0;
}

// The zygote keeps 3 to 8 taken, so none of ours stands in the way of another. All the rest is
// close-on-exec.
static int arrange_fds(struct build *b)
{
	const int places[][2] = {
		{b->kit->null, 0},
		{b->kit->null, 1},
		{b->kit->null, 2},
		{b->kit->kit, TALK_FD_KIT},
		{b->fds->userns, TALK_FD_USERNS},
		{b->fds->leaf[0], TALK_FD_LEAF},
		{b->fds->leaf[1], TALK_FD_LEAF_2},
		{b->fds->listen, TALK_FD_LISTEN},
		{b->fds->control, TALK_FD_CONTROL},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (places[i][0] >= 0 && dup2(places[i][0], places[i][1]) < 0)
			return -1;
	if (b->plan->leaf_count < GROUP_LEAF_JOINS)
		close(TALK_FD_LEAF_2);
	return close_range(TALK_FD_END, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int execute(struct build *b)
{
	char *const argv[] = {(char *)"cove-init", NULL};
	char *const env[] = {NULL};

	return (int)syscall(SYS_execveat, b->kit->program, "", argv, env, AT_EMPTY_PATH);
}

// An image need not have what every command may count on.
static int make_homes(struct build *b)
{
	(void)b;
	if (mkdir("/workspace", 0755) && errno != EEXIST)
		return -1;
	return mkdir("/tmp", 01777) && errno != EEXIST ? -1 : 0;
}

static const struct {
	const char *note; // what the daemon reads when it fails
	int (*run)(struct build *b);
} steps[] = {
	{"join the cgroups", join},
	{"bring up the loopback", network},
	{"attach the layers", attach_layers},
	{"take the box's ids", become_box_root},
	{"make the scratch file system", make_scratch},
	{"copy the shared mounts", take_copies},
	{"make the overlay", make_overlays},
	{"switch to the new root", switch_root},
	{"bad_image: make /workspace and /tmp", make_homes},
	{"bad_image: mount /usr", mount_usr},
	{"tell of the overlays", bear_witness},
	{"bad_image: mount /dev", mount_dev},
	{"bad_image: mount /run and /sys", mount_rest},
	{"bad_image: mount /proc", mount_proc},
	{"mask /proc", mask_proc},
	{"settle in", settle},
	{"arrange the descriptors", arrange_fds},
	{"execute pid 1", execute},
};

static void tell_broken(int control, const char *note, int errnum)
{
	struct talk talk = {.kind = TALK_BROKEN};
	char room[256];
	size_t len;

	talk.failed.step = TALK_STEP_SETUP;
	talk.failed.errnum = errnum;
	snprintf(talk.failed.note, sizeof(talk.failed.note), "%s", note);
	len = talk_encode(&talk, room, sizeof(room));
	fd_send(control, room, len, NULL, 0, 0);
}

void builder_run(const struct builder_kit *kit, const struct builder_plan *plan,
		 const struct builder_fds *fds)
{
	struct build build = {.kit = kit, .plan = plan, .fds = fds, .usr = -1};

	umask(0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (steps[i].run(&build) == 0)
			continue;
		tell_broken(fds->control, steps[i].note, errno);
		break;
	}
	_exit(1);
}
