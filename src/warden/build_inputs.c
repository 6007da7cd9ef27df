// Makes the inputs of a build: cgroups, sockets, user namespace, state file; then layers and disk.
// Each is recorded in struct warden_box as soon as it is made, so teardown undoes a partial build.
// The base goes to the zygote, the rootfs mounts to pid 1, each as a copy.
//
// syscalls: socketpair setsockopt close open_tree mount_setattr move_mount fsopen fsconfig fsmount
#include "warden/build_inputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "protocol/rootfs_mounts.h"
#include "protocol/talk.h"
#include "warden/disk_driver.h"
#include "warden/listener.h"

#define CONTROL_BYTES (2 * TALK_SIZE_MAX)
#define FILES_PART 2	  // share of fs.file-max, for all processes of one box
#define NOFILE_LEAST 1024 // programs rely on this many

// Descriptors that are passed on: the base to the zygote, the rootfs mounts to pid 1.
struct build_inputs {
	int control[2], listen;
	int root, usr, disk;
	struct group_door door;
	struct group_exec exec_cgroup;
};

static void drop_parts(struct build_inputs *inputs)
{
	fd_drop(&inputs->control[0]);
	fd_drop(&inputs->control[1]);
	fd_drop(&inputs->listen);
	fd_drop(&inputs->root);
	fd_drop(&inputs->usr);
	fd_drop(&inputs->disk);
	group_door_close(&inputs->door);
	group_exec_close(&inputs->exec_cgroup);
}
#define auto_parts on_exit_call(drop_parts) struct build_inputs
#define NO_PARTS                                                                                   \
	{                                                                                          \
		.control = {-1, -1}, .listen = -1, .root = -1, .usr = -1, .disk = -1,              \
		.door.into = -1, .exec_cgroup.meter = -1,                                          \
	}

// A detached, read-only, idmapped copy of a lower directory.
static fallible layer_idmap(int lower, int userns, int *out_tree)
{
	auto_fd tree = mount_copy(lower, "");

	if (tree < 0)
		return err_sys(errno, "copy the mount of a layer");
	if (mount_change(tree, MOUNT_SAFE | (weak(OVERLAY) ? 0 : MOUNT_ATTR_RDONLY), 0, userns))
		return err_sys(errno, "map the ids of a layer");
	*out_tree = take_fd(&tree);
	return OK;
}

static fallible take_layers(struct warden *warden, const char *name, int userns,
			    struct build_inputs *inputs)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(template_find(warden->templates, name, &root, &usr));
	TRY(layer_idmap(root, userns, &inputs->root));
	if (usr >= 0)
		TRY(layer_idmap(usr, userns, &inputs->usr));
	return OK;
}

static fallible make_control(struct build_inputs *inputs)
{
	int bytes = CONTROL_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, inputs->control))
		return err_sys(errno, "make a control socket");
	for (int i = 0; i < 2; i++)
		if (setsockopt(inputs->control[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes,
			       sizeof(bytes)))
			return err_sys(errno, "widen a control socket");
	return OK;
}

static fallible take_disk(struct warden *warden, const struct order *order, struct warden_box *box,
			  struct build_inputs *inputs)
{
	struct limits limits = order->limits;

	if (weak(DISK))
		limits.disk = 0;
	if (order->again)
		return disk_again(warden->disk, order->box, &limits, box->userns, &inputs->disk);
	TRY(disk_make(warden->disk, order->box, &limits, !order->ephemeral, box->userns,
		      &inputs->disk));
	box->has.disk = true;
	return OK;
}

static fallible take_base_rootfs(struct warden *warden, struct warden_box *box,
				 struct build_inputs *inputs)
{
	uint32_t root;

	TRY(ids_take(warden->ids, &box->state_file.slot, &box->userns), "take an id range");
	box->has.slot = true;
	root = ids_base(box->state_file.slot);
	box->has.state = true; // also a partially written one is removed
	TRY(box_state_write(warden->state_dir, box->id, &box->state_file));
	TRY(box_listener_make(warden->listeners, box->id, &inputs->listen));
	box->has.listener = true;
	TRY(group_make(warden->groups, box->id, root, &inputs->door));
	box->has.groups = true;
	TRY(group_exec(warden->groups, box->id, 0, "", root, NULL, &inputs->exec_cgroup));
	box->exec_cgroups = 1;
	return make_control(inputs);
}

static fallible take_mount_list(struct warden *warden, const struct order *order,
				struct warden_box *box, struct build_inputs *inputs)
{
	TRY(take_layers(warden, order->name, box->userns, inputs), "take the layers of %s",
	    order->name);
	return take_disk(warden, order, box, inputs);
}

// The prebuilt box has ended and is being removed. The daemon tries again.
fallible build_inputs_lost(void)
{
	return err_new(EXHAUSTED, "prebuilt_lost",
		       "the prebuilt box for this create is still being removed");
}

// The first message to pid 1, queued in its socket.
static fallible tell_base_rootfs(const struct warden_box *box, const struct limits *limits,
				 const struct build_inputs *inputs)
{
	struct rootfs_mounts_base_rootfs base_rootfs = {.base = ids_base(box->state_file.slot),
							.memory = limits->memory};

	if (fd_send(inputs->control[0], &base_rootfs, sizeof(base_rootfs), NULL, 0, MSG_DONTWAIT) <
	    0)
		return err_sys(errno, "send pid 1 its configuration");
	return OK;
}

_Static_assert(ROOTFS_MOUNTS_BOX >= sizeof(((struct order *)0)->box) &&
		       ROOTFS_MOUNTS_HOST >= sizeof(((struct order *)0)->host),
	       "rootfs mounts have room for every field of an order");

// The second message to pid 1, whether or not it already runs.
static fallible tell_mounts(const struct warden *warden, const struct order *order,
			    const struct warden_box *box, const struct build_inputs *inputs)
{
	struct rootfs_mounts mounts = {
		.has_usr = inputs->usr >= 0,
		.is_volatile = order->ephemeral && !weak(VOLATILE),
		.memory = order->limits.memory,
		.nofile = warden->files_max / FILES_PART / order->limits.pids,
		.number = box->number,
	};
	const int fds[ROOTFS_MOUNTS_FDS_MAX] = {[ROOTFS_MOUNTS_ROOT] = inputs->root,
						[ROOTFS_MOUNTS_DISK] = inputs->disk,
						[ROOTFS_MOUNTS_USR] = inputs->usr};

	if (mounts.nofile < NOFILE_LEAST)
		mounts.nofile = NOFILE_LEAST;
	snprintf(mounts.host, sizeof(mounts.host), "%s", order->host);
	snprintf(mounts.box, sizeof(mounts.box), "%s", box->id);
	if (fd_send(box->fds[0], &mounts, sizeof(mounts), fds, rootfs_mounts_fds(&mounts),
		    MSG_DONTWAIT) < 0)
		return errno == EPIPE || errno == ECONNRESET
			       ? build_inputs_lost()
			       : err_sys(errno, "send pid 1 its rootfs mounts");
	return OK;
}

static bool is_limited(const struct warden_box *box, const struct limits *limits)
{
	return box->limits.memory == limits->memory && box->limits.pids == limits->pids &&
	       box->limits.cpu_milli == limits->cpu_milli;
}

// Called while the builder runs. Only the builder is in these cgroups before the daemon is told.
static void warden_build_inputs_limit(struct warden *warden, struct warden_box *box,
				      const struct limits *limits)
{
	if (box->build_err || is_limited(box, limits))
		return;
	fd_drop(&box->fds[1]);
	box->limits = *limits;
	box->build_err = group_limit(warden->groups, box->id, limits, &box->fds[1]);
}

// Hands the base to the zygote. The descriptors for the daemon are then owned by `box`.
static fallible warden_build_inputs_lay(struct warden *warden, struct warden_box *box,
					const struct limits *limits, struct build_inputs *inputs)
{
	struct builder_plan plan = {
		.base = ids_base(box->state_file.slot),
		.has_into = inputs->door.into >= 0,
		.task_count = (uint8_t)inputs->door.task_count,
		.cgroup_count = (uint8_t)inputs->exec_cgroup.join_count,
	};
	struct builder_fds fds = {
		.control = inputs->control[1],
		.listen = inputs->listen,
		.userns = box->userns,
		.into = inputs->door.into,
	};

	memcpy(fds.tasks, inputs->door.tasks, sizeof(fds.tasks));
	memcpy(fds.exec_cgroup, inputs->exec_cgroup.joins, sizeof(fds.exec_cgroup));
	TRY(tell_base_rootfs(box, limits, inputs));
	TRY(zygote_send(warden->zygote, &plan, &fds));
	box->fds[0] = take_fd(&inputs->control[0]);
	box->fds[2] = take_fd(&inputs->exec_cgroup.meter);
	return OK;
}

// The devices that a box reads from and writes to: that of its disk, and that of the data
// directory, which holds images and the pool. I/O through a loop device is charged to the box's
// cgroup again.
static void limit_io(struct warden *warden, struct warden_box *box, uint64_t bytes, int disk)
{
	struct stat own, data;

	if (box->build_err || !bytes || weak(IO))
		return;
	if (fstat(disk, &own) || fstat(warden->data, &data)) {
		box->build_err = err_sys(errno, "look at the disks of %s", box->id);
		return;
	}
	box->build_err = group_limit_io(warden->groups, box->id, bytes,
					(dev_t[]){own.st_dev, data.st_dev}, 2);
}

fallible build_inputs_all(struct warden *warden, const struct order *order, struct warden_box *box)
{
	auto_parts inputs = NO_PARTS;

	TRY(take_base_rootfs(warden, box, &inputs));
	TRY(take_mount_list(warden, order, box, &inputs));
	TRY(warden_build_inputs_lay(warden, box, &order->limits, &inputs));
	box->build_err = tell_mounts(warden, order, box, &inputs); // the clone is already running
	warden_build_inputs_limit(warden, box, &order->limits);
	limit_io(warden, box, order->limits.io, inputs.disk);
	return OK;
}

fallible build_inputs_base_rootfs(struct warden *warden, struct warden_box *box)
{
	auto_parts inputs = NO_PARTS;

	TRY(take_base_rootfs(warden, box, &inputs));
	TRY(warden_build_inputs_lay(warden, box, &warden->usual, &inputs));
	warden_build_inputs_limit(warden, box, &warden->usual);
	return OK;
}

void build_inputs_mounts(struct warden *warden, const struct order *order, struct warden_box *box)
{
	auto_parts inputs = NO_PARTS;

	if (!box->build_err)
		box->build_err = take_mount_list(warden, order, box, &inputs);
	if (!box->build_err)
		box->build_err = tell_mounts(warden, order, box, &inputs);
	warden_build_inputs_limit(warden, box, &order->limits);
	limit_io(warden, box, order->limits.io, inputs.disk);
}
