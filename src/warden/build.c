// A box is built in two parts. The base is the same for every box: an id range with its user
// namespace, cgroups, the sockets of pid 1, a clone in new namespaces. The rootfs mounts are what
// the order names: template layers, a disk, limits. The base may have been prebuilt. Each part is
// recorded in struct warden_box as it is made, so teardown can undo any failure.
//
// The state file in RUN/cells is written before anything is made, and holds the pid before the
// daemon is told of the box. A box whose state file has no pid was promised to no client: the next
// warden destroys it. A builder that is still running then fails, because its cgroups are removed.
//
// syscalls: close pidfd_send_signal waitid
// syscalls: socketpair setsockopt open_tree mount_setattr move_mount fsopen fsconfig fsmount
#include "warden/build.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "os/mount.h"
#include "os/thread.h"
#include "protocol/rootfs_mounts.h"
#include "protocol/talk.h"
#include "warden/archive.h"
#include "warden/box_network.h"
#include "warden/disk_driver.h"
#include "warden/jail.h"
#include "warden/reply_queue.h"
#include "warden/snapshot.h"
#include "warden/teardown.h"
#include "warden/volumes.h"

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

static fallible take_layers(struct warden *warden, const struct order *order, int userns,
			    struct build_inputs *inputs)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(snapshot_find(warden, order, &root, &usr));
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
	if (snapshot_is_loaded_for(warden, order)) {
		TRY(disk_load_end(warden->disk, order->box, &limits, box->userns, &inputs->disk));
		box->has.disk = true;
		return OK;
	}
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
	TRY(volumes_pending(warden, order));
	TRY(take_layers(warden, order, box->userns, inputs), "take the layers of %s", order->name);
	return take_disk(warden, order, box, inputs);
}

// The prebuilt box has ended and is being removed. The daemon tries again.
static fallible prebuilt_lost(void)
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

_Static_assert(ROOTFS_MOUNTS_PATH == sizeof(((struct order *)0)->path),
	       "a message about a volume has room for its paths");

// The messages that follow the second one.
static fallible tell_volumes(struct warden *warden, const struct order *order,
			     const struct warden_box *box)
{
	for (uint32_t i = 0; i < order->mounts; i++) {
		struct rootfs_mounts_volume volume = {0};
		const struct order *mount;
		auto_fd tree = -1;

		TRY(volumes_take(warden, order, i, box->userns, &mount, &tree));
		memcpy(volume.path, mount->path, sizeof(volume.path));
		memcpy(volume.subpath, mount->subpath, sizeof(volume.subpath));
		if (fd_send(box->fds[0], &volume, sizeof(volume), &tree, 1, MSG_DONTWAIT) < 0)
			return errno == EPIPE || errno == ECONNRESET
				       ? prebuilt_lost()
				       : err_sys(errno, "send pid 1 a volume");
	}
	volumes_forget(warden, order->box);
	return OK;
}

// The second message to pid 1, whether or not it already runs.
static fallible tell_mounts(struct warden *warden, const struct order *order,
			    const struct warden_box *box, const struct build_inputs *inputs)
{
	struct rootfs_mounts mounts = {
		.has_usr = inputs->usr >= 0,
		.is_volatile = order->ephemeral && !weak(VOLATILE),
		.memory = order->limits.memory,
		.nofile = warden->files_max / FILES_PART / order->limits.pids,
		.number = box->number,
		.volumes = order->mounts,
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
			       ? prebuilt_lost()
			       : err_sys(errno, "send pid 1 its rootfs mounts");
	return tell_volumes(warden, order, box);
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

// Both parts, for a box without a prebuilt base. The message with the rootfs mounts waits in pid
// 1's socket. An error after the clone was requested is stored in box->build_err.
static fallible build_inputs_all(struct warden *warden, const struct order *order,
				 struct warden_box *box)
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

// The base of a prebuilt box, with the limits of the last box.
static fallible build_inputs_base_rootfs(struct warden *warden, struct warden_box *box)
{
	auto_parts inputs = NO_PARTS;

	TRY(take_base_rootfs(warden, box, &inputs));
	TRY(warden_build_inputs_lay(warden, box, &warden->usual, &inputs));
	warden_build_inputs_limit(warden, box, &warden->usual);
	return OK;
}

// The rootfs mounts of a prebuilt box. Does nothing if box->build_err is set, and sets it on
// failure.
static void build_inputs_mounts(struct warden *warden, const struct order *order,
				struct warden_box *box)
{
	auto_parts inputs = NO_PARTS;

	if (!box->build_err)
		box->build_err = take_mount_list(warden, order, box, &inputs);
	if (!box->build_err)
		box->build_err = tell_mounts(warden, order, box, &inputs);
	warden_build_inputs_limit(warden, box, &order->limits);
	limit_io(warden, box, order->limits.io, inputs.disk);
}

// Fills in limits and the content of the state file.
static void build_describe(struct warden *warden, struct warden_box *box, const struct order *order)
{
	struct box_state *state_file = &box->state_file;

	state_file->ephemeral = order->ephemeral;
	state_file->again = order->again;
	state_file->disk = order->limits.disk;
	state_file->inodes = order->limits.inodes;
	box->keeps = order->again;
	box->net = order->net && !weak(NETNS);
	box->number = ++warden->builds;
	box->awaits = !order->ephemeral || weak(VOLATILE);
}

// Records which order the box is for.
static void build_assign(struct warden_box *box, const struct order *order)
{
	box->build_order = order->id;
	memcpy(box->trace, order->trace, sizeof(box->trace));
}

static void warden_build_begin(struct warden *warden, struct warden_box *box)
{
	box->state_file = (struct box_state){.born_us = clock_us()};
	memcpy(box->state_file.boot, warden->boot, sizeof(box->state_file.boot));
	box->limits = (struct limits){0};
}

// A new box, or the box of which only a disk was kept.
static struct warden_box *warden_box_for(struct warden *warden, const struct order *order,
					 struct warden_box *kept)
{
	struct warden_box *box = kept;

	if (kept)
		warden_box_move(warden, kept, BOX_EVENT_ORDERED);
	else
		box = warden_box_new(warden, order->box, WARDEN_BOX_BUILDING);
	warden_build_begin(warden, box);
	build_describe(warden, box, order);
	build_assign(box, order);
	return box;
}

// The refusal is sent when teardown has undone everything.
static void build_fail(struct warden *warden, struct warden_box *box, struct err *failure)
{
	auto_err err = failure;

	log_trace(box->trace);
	log_event(err_http(err) >= 500 ? LOG_ERROR : LOG_INFO, "build.failed", "sandbox", box->id,
		  "reason", err_reason(err), "trail", err_trail(err), NULL);
	log_trace(NULL);
	if (box->build_order) {
		box->refusal = mem_new_of(struct answer);
		reply_queue_describe(err, ORDER_BUILD, box->build_order, box->refusal);
	}
	box->build_order = 0;
	if (box == warden->prebuilt)
		warden->next[0] = 0; // see prebuilt_turn()
	teardown_begin(warden, box, BOX_EVENT_FAILED);
}

static void build_await(struct warden *warden, struct warden_box *box)
{
	link_add(&warden->building, &box->link);
	warden->building_count++;
}

static fallible build_watch(struct warden *warden, struct warden_box *box)
{
	siginfo_t info;
	struct err *err;

	if (teardown_watch(warden, box) == 0)
		return OK;
	err = err_sys(errno, "watch the end of a box");
	// Without the watch the exit must be seen here. The process is still a builder, and dies at
	// once.
	syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0);
	waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED);
	fd_drop(&box->pidfd);
	return err;
}

// The box has a process, and the daemon may be told.
static void build_announce(struct warden *warden, struct warden_box *box)
{
	char took[24];

	snprintf(took, sizeof(took), "%lld", (long long)(clock_us() - box->state_file.born_us));
	log_trace(box->trace);
	log_event(LOG_DEBUG, "box.cloned", "sandbox", box->id, "us", took, NULL);
	log_trace(NULL);
	if (box->build_order) {
		warden->answer = (struct answer){.kind = ANSWER_DONE,
						 .to = ORDER_BUILD,
						 .id = box->build_order,
						 .exec_cgroup = 0,
						 .net = box->net};
		reply_queue_answer(warden, &warden->answer, box->fds, answer_fds(&warden->answer));
	}
	// Else the daemon that asked is gone. The next daemon finds the box by its socket.
	box->build_order = 0;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&box->fds[i]);
	ids_built(warden->ids, box->state_file.slot, &box->userns);
}

static void zygote_witness(struct warden *warden, struct zygote_answer *answer)
{
	struct warden_box *box = map_get(warden->boxes, str_of(answer->witness.box));

	if (box && box->awaits && box->number == answer->witness.number && !box->keeps) {
		box->mounts = answer->mounts;
		box->awaits = false;
		return;
	}
	// The box is gone or being stopped. A stop waits for its mounts, so keep no reference.
	fd_drop(&answer->mounts);
}

bool build_read_zygote(struct warden *warden)
{
	struct zygote_answer answer;

	for (;;) {
		switch (zygote_take(warden->zygote, &answer)) {
		case ZYGOTE_ANSWER:
			build_answered(warden, &answer);
			continue;
		case ZYGOTE_WITNESS:
			zygote_witness(warden, &answer);
			continue;
		case ZYGOTE_NOTHING:
			return true;
		case ZYGOTE_LOST:
			return false;
		}
	}
}

// The box has a process and its order.
static void build_complete(struct warden *warden, struct warden_box *box)
{
	struct err *err = take_ptr(box->build_err);

	box->state_file.pid = box->pid;
	if (!err) // the pid is in the state file before anybody is told of the box
		err = box_state_write(warden->state_dir, box->id, &box->state_file);
	if (!err && box->state == WARDEN_BOX_DOOMED && box->waiter_count)
		err = err_new(CANCELLED, "destroyed", "the box was deleted while it was built");
	if (err) {
		build_fail(warden, box, err);
		return;
	}
	if (box->state == WARDEN_BOX_DOOMED) { // by the end of the warden: a disk of before stays
		teardown_begin(warden, box, BOX_EVENT_CLONED);
		return;
	}
	warden_box_move(warden, box, BOX_EVENT_CLONED);
	box->keeps = false;
	build_announce(warden, box);
}

// The clone exists, known by its pidfd alone. The network is opened while the builder runs; a
// prebuilt box gets one whether or not its order will want it.
static fallible build_receive(struct warden *warden, struct warden_box *box,
			      const struct zygote_answer *answer)
{
	bool ahead = box == warden->prebuilt;
	struct thread_look look;
	auto_fd net = answer->net;

	box->pid = answer->pid;
	box->pidfd = answer->pidfd;
	if (answer->errnum)
		return err_sys(answer->errnum, "clone a builder");
	TRY(build_watch(warden, box));
	box->state_file.started = thread_look_process(box->pid, &look) ? look.started : 0;
	box->state_file.netns = box_network_inode(net);
	if (box->state == WARDEN_BOX_DOOMED || weak(NETNS) ||
	    !(box->net || (ahead && warden->network.by != NETWORK_BY_NONE)))
		return OK;
	TRY(box_network_open(warden, box, net, &box->fds[3]));
	if (ahead)
		box->netns = take_fd(&net);
	return OK;
}

void build_answered(struct warden *warden, const struct zygote_answer *answer)
{
	struct warden_box *box;
	struct err *err = OK;

	if (link_empty(&warden->building))
		return;
	box = link_of(warden->building.next, struct warden_box, link);
	link_drop(&box->link);
	warden->building_count--;
	err = build_receive(warden, box, answer);
	if (!err && box != warden->prebuilt) {
		build_complete(warden, box);
		return;
	}
	if (!err)
		err = take_ptr(box->build_err);
	if (err)
		build_fail(warden, box, err);
	else if (box->state == WARDEN_BOX_DOOMED)
		teardown_begin(warden, box, BOX_EVENT_CLONED);
	else
		warden_box_move(warden, box, BOX_EVENT_CLONED);
}

static void build_ahead(struct warden *warden, const char *box_id)
{
	struct warden_box *box = warden_box_new(warden, box_id, WARDEN_BOX_PREBUILDING);
	struct err *err;

	warden->prebuilt = box;
	warden_build_begin(warden, box);
	box->state_file.ephemeral = true; // a prebuilt box has nothing to keep
	err = build_inputs_base_rootfs(warden, box);
	if (err)
		build_fail(warden, box, err);
	else
		build_await(warden, box);
}

// A prebuilt box has a network if the host can give one.
static fallible fit_net(struct warden *warden, struct warden_box *box)
{
	auto_fd netns = take_fd(&box->netns);

	if (warden_box_is_building(box) || box->net == (netns >= 0))
		return OK;
	return box->net ? box_network_open(warden, box, netns, &box->fds[3])
			: box_network_undo(warden, box, netns);
}

static void bring_mounts(struct warden *warden, struct warden_box *box, const struct order *order)
{
	build_describe(warden, box, order);
	if (!box->build_err)
		box->build_err = fit_net(warden, box);
	build_inputs_mounts(warden, order, box);
}

// Called while the daemon writes the create record. An error is reported with the BUILD order.
static void build_set_up(struct warden *warden, struct warden_box *box, const struct order *order)
{
	// The disk of a snapshot is loaded first, by the order itself.
	if (!box || box->build_err || order->mounts || snapshot_is_loaded_for(warden, order) ||
	    !warden_box_move(warden, box, BOX_EVENT_SET_UP))
		return;
	box->state_file.born_us = clock_us(); // before its layers are opened: see templates_idle()
	warden->set_up = *order;
	bring_mounts(warden, box, order);
}

static bool is_alike(const struct order *a, const struct order *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->host, b->host) &&
	       !memcmp(&a->limits, &b->limits, sizeof(a->limits)) && a->ephemeral == b->ephemeral &&
	       a->net == b->net && a->mounts == b->mounts;
}

static void take_prebuilt(struct warden *warden, struct warden_box *box, const struct order *order)
{
	auto_err late = take_ptr(box->build_err); // of the prebuild, or of mounts that came ahead
	bool is_set_up = box->state == WARDEN_BOX_SET_UP, is_cloned = !warden_box_is_building(box);

	warden->prebuilt = NULL;
	if (late)
		box->build_err = err_while(prebuilt_lost(), "%s", err_trail(late));
	else if (is_set_up && !is_alike(&warden->set_up, order))
		box->build_err = prebuilt_lost();
	if (!is_set_up) {
		box->state_file.born_us = clock_us();
		bring_mounts(warden, box, order);
	}
	build_assign(box, order);
	warden_box_move(warden, box, BOX_EVENT_ORDERED);
	if (is_cloned)
		build_complete(warden, box);
	// Else its pidfd is on its way from the zygote.
}

static fallible build_refuse(const struct warden *warden, const struct warden_box *box)
{
	if (box == warden->prebuilt)
		return prebuilt_lost();
	return err_new(CONFLICT, "box_exists", "there is a box of this id already");
}

static bool is_free(const struct warden_box *box, const struct order *order)
{
	if (order->again)
		return box->state == WARDEN_BOX_KEPT;
	return box->state == WARDEN_BOX_PREBUILDING || box->state == WARDEN_BOX_PREBUILT ||
	       box->state == WARDEN_BOX_SET_UP;
}

static void build_now(struct warden *warden, const struct order *order, struct warden_box *kept)
{
	struct warden_box *box = warden_box_for(warden, order, kept);
	struct err *err = build_inputs_all(warden, order, box);

	if (err)
		build_fail(warden, box, err);
	else
		build_await(warden, box);
}

static struct repair *repair_of(struct warden *warden, const char *box_id)
{
	list_each (at, &warden->repairs)
		if (!strcmp(link_of(at, struct repair, link)->order.box, box_id))
			return link_of(at, struct repair, link);
	return NULL;
}

static void build_wait(struct warden *warden, const struct order *order, int pid, int report)
{
	struct repair *repair = mem_new_of(struct repair);

	repair->order = *order;
	repair->pid = pid;
	repair->report = report;
	link_add(&warden->repairs, &repair->link);
}

static fallible build_load_begin(struct warden *warden, const struct order *order)
{
	int pid = 0, report = -1;

	if (repair_of(warden, order->box))
		return build_refuse(warden, NULL);
	TRY(snapshot_load(warden, order, &pid, &report));
	build_wait(warden, order, pid, report);
	if (warden->prebuilt && !strcmp(warden->prebuilt->id, order->box)) // it waits, too
		memcpy(warden->next, order->box, sizeof(warden->next));
	return OK;
}

static fallible build_disk_busy(void)
{
	return err_hint(err_new(UNAVAILABLE, "disk_busy", "the sandbox's disk is being repaired"),
			"try again in a moment");
}

// e2fsck takes as long as the disk is large. Only this order waits for it.
static fallible repair_begin(struct warden *warden, const struct order *order, bool *out_waits)
{
	struct repair *repair = repair_of(warden, order->box);
	int pid = 0;

	if (repair && repair->order.id)
		return build_disk_busy();
	if (!repair)
		TRY(disk_repair(warden->disk, order->box, &pid));
	if (pid > 0)
		build_wait(warden, order, pid, -1);
	else if (repair)
		repair->order = *order;
	*out_waits = repair || pid > 0;
	return OK;
}

static fallible repair_end(struct warden *warden, const struct order *order, int status)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));

	if (!disk_is_repaired(status))
		return err_sys(EIO, "repair the disk of %s: e2fsck ended with status %d",
			       order->box, status);
	if (!box)
		return disk_none(order->box);
	if (!is_free(box, order))
		return build_refuse(warden, box);
	build_now(warden, order, box);
	return OK;
}

static void build_go(struct warden *warden, const struct order *order, struct warden_box *box);

static fallible build_load_end(struct warden *warden, const struct order *order, int report,
			       int status)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	auto_free struct answer *sums = mem_new_of(struct answer);

	TRY(jail_report_read(report, status, sums));
	if (!order->id)
		return err_new(CANCELLED, "destroyed", "the box was deleted while it was built");
	if (box && !is_free(box, order))
		return build_refuse(warden, box);
	memcpy(warden->next, order->next, sizeof(warden->next));
	build_go(warden, order, box);
	return OK;
}

bool build_reaped(struct warden *warden, int pid, int status)
{
	list_each (at, &warden->repairs) {
		struct repair *repair = link_of(at, struct repair, link);
		struct err *err;

		if (repair->pid != pid)
			continue;
		link_drop(&repair->link);
		log_trace(repair->order.trace);
		if (repair->report >= 0) {
			err = build_load_end(warden, &repair->order, repair->report, status);
			disk_load_undo(warden->disk, repair->order.box); // if it is still there
		} else {
			err = repair->order.id ? repair_end(warden, &repair->order, status) : OK;
		}
		if (err && repair->order.id)
			reply_queue_refusal(warden, ORDER_BUILD, repair->order.id,
					    repair->order.box, err);
		else
			err_free(err);
		fd_drop(&repair->report);
		log_trace(NULL);
		free(repair);
		return true;
	}
	return false;
}

void build_forget(struct warden *warden)
{
	list_each (at, &warden->repairs)
		link_of(at, struct repair, link)->order.id = 0;
}

void build_cancel(struct warden *warden, const char *box_id)
{
	struct repair *repair = repair_of(warden, box_id);

	if (!repair || repair->report < 0)
		return;
	if (repair->order.id)
		reply_queue_refusal(
			warden, ORDER_BUILD, repair->order.id, box_id,
			err_new(CANCELLED, "destroyed", "the box was deleted while it was built"));
	repair->order.id = 0;
	kill(repair->pid, SIGKILL);
}

// Everything that it waited for is there.
static void build_go(struct warden *warden, const struct order *order, struct warden_box *box)
{
	if (box && box == warden->prebuilt)
		take_prebuilt(warden, box, order);
	else
		build_now(warden, order, box);
}

fallible build_begin(struct warden *warden, const struct order *order)
{
	struct warden_box *box = map_get(warden->boxes, str_of(order->box));
	bool waits = false;

	if (order->ahead) {
		build_set_up(warden, box, order);
		return OK;
	}
	snprintf(warden->next, sizeof(warden->next), "%s", order->next);
	warden->asked_us = clock_us();
	warden->usual = order->limits;
	if (box && !is_free(box, order))
		return build_refuse(warden, box);
	if (!box && order->again)
		return disk_none(order->box);
	if (build_count(warden) >= warden->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"this host holds %u boxes and no more", warden->boxes_max),
				"delete boxes first");
	if (box && box == warden->prebuilt && !warden_box_is_building(box) &&
	    teardown_has_ended(box)) {
		teardown_begin(warden, box, BOX_EVENT_REMOVE);
		return prebuilt_lost();
	}
	if (snapshot_is_loaded_for(warden, order))
		return build_load_begin(warden, order);
	if (order->again && (box->has.archive || archive_is_busy(warden, order->box)))
		return build_disk_busy();
	if (order->again)
		TRY(repair_begin(warden, order, &waits));
	if (!waits)
		build_go(warden, order, box);
	return OK;
}

size_t build_count(const struct warden *warden)
{
	return map_count(warden->boxes) - warden->kept - (warden->prebuilt ? 1 : 0);
}

// The base of the next box is built ahead of its order: cgroups, a clone in new namespaces, /dev,
// /proc, the exec of pid 1, which waits for its rootfs mounts. There is at most one prebuilt box,
// while a daemon is connected; the next is built after the first command of the box that took it.
// Boxes in a burst are built from scratch. A prebuilt box runs no foreign code and is hidden from
// the daemon: in no list, and only BUILD and DESTROY apply to it. Its state file has no pid, so the
// next warden destroys it. Its rootfs mounts may be sent before its order, while the daemon writes
// the create record. It is destroyed if no order follows or another daemon connects. After one
// ended or failed none is tried until the next box was ordered: a failure in a loop must not keep
// the host busy.
#define PATIENCE_US 60000000 // how long a named box may wait for its order
#define PAUSE_US 5000 // after an order: the new box is used first, and more orders may follow

// A weak build serves one attack only, and prebuilds nothing.
static bool prebuilt_is_wanted(const struct warden *warden)
{
	return !WEAK_BUILD && warden->next[0] && !map_get(warden->boxes, str_of(warden->next)) &&
	       build_count(warden) < warden->boxes_max;
}

void prebuilt_expect(struct warden *warden, const char *next)
{
	memcpy(warden->next, next, sizeof(warden->next));
	warden->asked_us = 0;
	if (warden->prebuilt && warden->prebuilt->state == WARDEN_BOX_SET_UP)
		teardown_begin(warden, warden->prebuilt, BOX_EVENT_REMOVE);
	if (!warden->prebuilt && prebuilt_is_wanted(warden))
		build_ahead(warden, warden->next);
}

int64_t prebuilt_due(const struct warden *warden)
{
	const struct warden_box *prebuilt = warden->prebuilt;

	if (warden->building_count)
		return CLOCK_NEVER;
	if (prebuilt && prebuilt->state == WARDEN_BOX_SET_UP)
		return prebuilt->state_file.born_us + PATIENCE_US;
	if (prebuilt && prebuilt->state != WARDEN_BOX_PREBUILT)
		return CLOCK_NEVER; // it is being removed
	if (prebuilt ? !strcmp(prebuilt->id, warden->next) : !prebuilt_is_wanted(warden))
		return CLOCK_NEVER;
	return warden->asked_us + PAUSE_US;
}

void prebuilt_turn(struct warden *warden)
{
	if (warden->prebuilt)
		teardown_begin(warden, warden->prebuilt, BOX_EVENT_REMOVE);
	else
		build_ahead(warden, warden->next);
}
