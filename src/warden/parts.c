// Each part stands in the cell as soon as it is made, whether or not the next one can be: the
// burial undoes what stands there. The ground goes to the zygote, the goods to pid 1, each as a
// copy.
//
// syscalls: socketpair setsockopt close open_tree mount_setattr move_mount fsopen fsconfig fsmount
#include "warden/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/weak.h"
#include "model/goods.h"
#include "model/talk.h"
#include "os/fd.h"
#include "os/mount.h"
#include "warden/disk_driver.h"
#include "warden/ear.h"

#define CONTROL_BYTES (2 * TALK_SIZE_MAX)
#define FILES_PART 2	  // of fs.file-max, for all processes of one box
#define NOFILE_LEAST 1024 // what programs take for granted

// What a box is put together from; the ground goes to the zygote, the goods to pid 1, each a copy.
struct parts {
	int control[2], listen;
	int root, usr, disk;
	struct group_door door;
	struct group_leaf leaf;
};

static void drop_parts(struct parts *parts)
{
	fd_drop(&parts->control[0]);
	fd_drop(&parts->control[1]);
	fd_drop(&parts->listen);
	fd_drop(&parts->root);
	fd_drop(&parts->usr);
	fd_drop(&parts->disk);
	group_door_close(&parts->door);
	group_leaf_close(&parts->leaf);
}
#define auto_parts on_exit_call(drop_parts) struct parts
#define NO_PARTS                                                                                   \
	{                                                                                          \
		.control = {-1, -1}, .listen = -1, .root = -1, .usr = -1, .disk = -1,              \
		.door.into = -1, .leaf.meter = -1,                                                 \
	}

// A detached, read-only copy of a lower, seen through the box's ids.
static fallible shift(int lower, int userns, int *out_tree)
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
			    struct parts *parts)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(template_find(warden->templates, name, &root, &usr));
	TRY(shift(root, userns, &parts->root));
	if (usr >= 0)
		TRY(shift(usr, userns, &parts->usr));
	return OK;
}

static fallible make_control(struct parts *parts)
{
	int bytes = CONTROL_BYTES;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, parts->control))
		return err_sys(errno, "make a control socket");
	for (int i = 0; i < 2; i++)
		if (setsockopt(parts->control[i], SOL_SOCKET, SO_SNDBUFFORCE, &bytes,
			       sizeof(bytes)))
			return err_sys(errno, "widen a control socket");
	return OK;
}

static fallible take_disk(struct warden *warden, const struct order *order, struct cell *cell,
			  struct parts *parts)
{
	struct limits limits = order->limits;

	if (weak(DISK))
		limits.disk = 0;
	if (order->again)
		return disk_again(warden->disk, order->box, &limits, cell->userns, &parts->disk);
	TRY(disk_make(warden->disk, order->box, &limits, !order->ephemeral, cell->userns,
		      &parts->disk));
	cell->has_disk = true;
	return OK;
}

static fallible take_ground(struct warden *warden, struct cell *cell, struct parts *parts)
{
	uint32_t root;

	TRY(ids_take(warden->ids, &cell->note.slot, &cell->userns), "take an id range");
	cell->has_slot = true;
	root = ids_base(cell->note.slot);
	cell->has_note = true; // also one that was begun is removed
	TRY(note_write(warden->cells, cell->id, &cell->note));
	TRY(ear_make(warden->ears, cell->id, &parts->listen));
	cell->has_ear = true;
	TRY(group_make(warden->groups, cell->id, root, &parts->door));
	cell->has_groups = true;
	TRY(group_leaf(warden->groups, cell->id, 0, "", root, NULL, &parts->leaf));
	cell->leaves = 1;
	return make_control(parts);
}

static fallible take_goods(struct warden *warden, const struct order *order, struct cell *cell,
			   struct parts *parts)
{
	TRY(take_layers(warden, order->name, cell->userns, parts), "take the layers of %s",
	    order->name);
	return take_disk(warden, order, cell, parts);
}

// What was laid ahead has ended, and is being cleared away. The daemon tries again.
fallible parts_lost(void)
{
	return err_new(EXHAUSTED, "berth_lost", "the place of the box is not free yet");
}

// The first word that pid 1 will hear waits for it in the socket.
static fallible tell_ground(const struct cell *cell, const struct limits *limits,
			    const struct parts *parts)
{
	struct goods_ground ground = {.base = ids_base(cell->note.slot), .memory = limits->memory};

	if (fd_send(parts->control[0], &ground, sizeof(ground), NULL, 0, MSG_DONTWAIT) < 0)
		return err_sys(errno, "tell pid 1 of its ground");
	return OK;
}

_Static_assert(GOODS_BOX >= sizeof(((struct order *)0)->box) &&
		       GOODS_HOST >= sizeof(((struct order *)0)->host),
	       "goods have room for what orders have");

// And the second, whether it is there already or not.
static fallible tell_goods(const struct warden *warden, const struct order *order,
			   const struct cell *cell, const struct parts *parts)
{
	struct goods goods = {
		.has_usr = parts->usr >= 0,
		.is_volatile = order->ephemeral && !weak(VOLATILE),
		.memory = order->limits.memory,
		.nofile = warden->files_max / FILES_PART / order->limits.pids,
		.number = cell->number,
	};
	const int fds[GOODS_FDS_MAX] = {
		[GOODS_ROOT] = parts->root, [GOODS_DISK] = parts->disk, [GOODS_USR] = parts->usr};

	if (goods.nofile < NOFILE_LEAST)
		goods.nofile = NOFILE_LEAST;
	snprintf(goods.host, sizeof(goods.host), "%s", order->host);
	snprintf(goods.box, sizeof(goods.box), "%s", cell->id);
	if (fd_send(cell->fds[0], &goods, sizeof(goods), fds, goods_fds(&goods), MSG_DONTWAIT) < 0)
		return errno == EPIPE || errno == ECONNRESET
			       ? parts_lost()
			       : err_sys(errno, "tell pid 1 of its goods");
	return OK;
}

static bool is_limited(const struct cell *cell, const struct limits *limits)
{
	return cell->limits.memory == limits->memory && cell->limits.pids == limits->pids &&
	       cell->limits.cpu_milli == limits->cpu_milli;
}

// While the builder is at it. Nobody but the builder lives there before the daemon is told.
static void warden_parts_limit(struct warden *warden, struct cell *cell,
			       const struct limits *limits)
{
	if (cell->late || is_limited(cell, limits))
		return;
	fd_drop(&cell->fds[1]);
	cell->limits = *limits;
	cell->late = group_limit(warden->groups, cell->id, limits, &cell->fds[1]);
}

// Takes the ground as far as the zygote. What of it the daemon will get is the cell's from then on.
static fallible warden_parts_lay(struct warden *warden, struct cell *cell,
				 const struct limits *limits, struct parts *parts)
{
	struct builder_plan plan = {
		.base = ids_base(cell->note.slot),
		.has_into = parts->door.into >= 0,
		.task_count = (uint8_t)parts->door.task_count,
		.leaf_count = (uint8_t)parts->leaf.join_count,
	};
	struct builder_fds fds = {
		.control = parts->control[1],
		.listen = parts->listen,
		.userns = cell->userns,
		.into = parts->door.into,
	};

	memcpy(fds.tasks, parts->door.tasks, sizeof(fds.tasks));
	memcpy(fds.leaf, parts->leaf.joins, sizeof(fds.leaf));
	TRY(tell_ground(cell, limits, parts));
	TRY(zygote_send(warden->zygote, &plan, &fds));
	cell->fds[0] = take_fd(&parts->control[0]);
	cell->fds[2] = take_fd(&parts->leaf.meter);
	return OK;
}

// The devices that a box's files are read from and written to: that of its disk, and that of the
// data directory, where images and the pool lie. What passes a loop device is charged to the box
// again.
static void limit_io(struct warden *warden, struct cell *cell, uint64_t bytes, int disk)
{
	struct stat own, data;

	if (cell->late || !bytes || weak(IO))
		return;
	if (fstat(disk, &own) || fstat(warden->data, &data)) {
		cell->late = err_sys(errno, "look at the disks of %s", cell->id);
		return;
	}
	cell->late = group_limit_io(warden->groups, cell->id, bytes,
				    (dev_t[]){own.st_dev, data.st_dev}, 2);
}

fallible parts_all(struct warden *warden, const struct order *order, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	TRY(take_ground(warden, cell, &parts));
	TRY(take_goods(warden, order, cell, &parts));
	TRY(warden_parts_lay(warden, cell, &order->limits, &parts));
	cell->late = tell_goods(warden, order, cell, &parts); // the clone is on its way
	warden_parts_limit(warden, cell, &order->limits);
	limit_io(warden, cell, order->limits.io, parts.disk);
	return OK;
}

fallible parts_ground(struct warden *warden, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	TRY(take_ground(warden, cell, &parts));
	TRY(warden_parts_lay(warden, cell, &warden->usual, &parts));
	warden_parts_limit(warden, cell, &warden->usual);
	return OK;
}

void parts_goods(struct warden *warden, const struct order *order, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	if (!cell->late)
		cell->late = take_goods(warden, order, cell, &parts);
	if (!cell->late)
		cell->late = tell_goods(warden, order, cell, &parts);
	warden_parts_limit(warden, cell, &order->limits);
	limit_io(warden, cell, order->limits.io, parts.disk);
}
