// A box is put together from what its order names: an id range with its user namespace, the
// template's layers, a disk, groups with the limits, sockets to its pid 1. The cell notes each part
// as it is made, so that one way of undoing, the burial, fits every failure.
//
// For the next life of the warden there is a note in RUN/cells before anything is made, and the
// process stands in it before the daemon hears of the box. A box whose note names no process was
// promised to nobody: that life buries it, and the groups it removes are the fence that a builder
// which is still on its way runs into.
//
// syscalls: socketpair setsockopt close pidfd_send_signal waitid open_tree mount_setattr
// syscalls: move_mount fsopen fsconfig fsmount
#include "warden/build.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "model/talk.h"
#include "os/fd.h"
#include "os/mount.h"
#include "warden/bury.h"
#include "warden/disk_driver.h"
#include "warden/ear.h"
#include "warden/netcell.h"
#include "warden/post.h"

#define CONTROL_BYTES (2 * TALK_SIZE_MAX)

// All that goes to the builder; ours until the zygote has its copies.
struct parts {
	int userns; // the slot's, not ours
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

static fallible take_layers(struct warden *warden, const char *name, struct parts *parts)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(template_find(warden->templates, name, &root, &usr));
	TRY(shift(root, parts->userns, &parts->root));
	if (usr >= 0)
		TRY(shift(usr, parts->userns, &parts->usr));
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

static fallible take_note(struct warden *warden, const struct order *order, struct cell *cell)
{
	struct note *note = &cell->note;

	note->ephemeral = order->ephemeral;
	note->again = order->again;
	note->disk = order->limits.disk;
	note->inodes = order->limits.inodes;
	memcpy(note->boot, warden->boot, sizeof(note->boot));
	cell->has_note = true; // also one that was begun is removed
	return note_write(warden->cells, cell->id, note);
}

static fallible take_disk(struct warden *warden, const struct order *order, struct cell *cell,
			  struct parts *parts)
{
	struct limits limits = order->limits;

	if (weak(DISK))
		limits.disk = 0;
	if (order->again)
		return disk_again(warden->disk, order->box, &limits, parts->userns, &parts->disk);
	TRY(disk_make(warden->disk, order->box, &limits, !order->ephemeral, parts->userns,
		      &parts->disk));
	cell->has_disk = true;
	return OK;
}

static fallible gather(struct warden *warden, const struct order *order, struct cell *cell,
		       struct parts *parts)
{
	uint32_t root;

	TRY(ids_take(warden->ids, &cell->note.slot, &parts->userns), "take an id range");
	cell->has_slot = true;
	root = ids_base(cell->note.slot);
	TRY(take_note(warden, order, cell));
	TRY(ear_make(warden->ears, cell->id, &parts->listen));
	cell->has_ear = true;
	TRY(take_layers(warden, order->name, parts), "take the layers of %s", order->name);
	TRY(take_disk(warden, order, cell, parts), "take a disk");
	TRY(group_make(warden->groups, order->box, root, &parts->door));
	cell->has_groups = true;
	TRY(group_leaf(warden->groups, order->box, 0, "", root, &parts->leaf));
	cell->leaves = 1;
	return make_control(parts);
}

static fallible send_plan(struct warden *warden, const struct order *order, const struct cell *cell,
			  const struct parts *parts)
{
	struct builder_plan plan = {
		.base = ids_base(cell->note.slot),
		.has_usr = parts->usr >= 0,
		.is_volatile = order->ephemeral && !weak(VOLATILE),
		.has_into = parts->door.into >= 0,
		.shows_net = cell->net,
		.task_count = (uint8_t)parts->door.task_count,
		.leaf_count = (uint8_t)parts->leaf.join_count,
		.memory = order->limits.memory,
		.number = cell->number,
	};
	struct builder_fds fds = {
		.control = parts->control[1],
		.listen = parts->listen,
		.userns = parts->userns,
		.root = parts->root,
		.disk = parts->disk,
		.usr = parts->usr,
		.into = parts->door.into,
	};

	snprintf(plan.host, sizeof(plan.host), "%s", order->host);
	memcpy(plan.box, cell->id, sizeof(plan.box));
	memcpy(fds.tasks, parts->door.tasks, sizeof(fds.tasks));
	memcpy(fds.leaf, parts->leaf.joins, sizeof(fds.leaf));
	return zygote_send(warden->zygote, &plan, &fds);
}

static fallible put_together(struct warden *warden, const struct order *order, struct cell *cell)
{
	auto_parts parts = {
		.control = {-1, -1},
		.listen = -1,
		.root = -1,
		.usr = -1,
		.disk = -1,
		.door.into = -1,
		.leaf.meter = -1,
	};

	TRY(gather(warden, order, cell, &parts));
	TRY(send_plan(warden, order, cell, &parts));
	cell->fds[0] = take_fd(&parts.control[0]);
	cell->fds[2] = take_fd(&parts.leaf.meter);
	// While the zygote clones. Nobody but the builder lives there before the daemon is told.
	cell->late = group_limit(warden->groups, order->box, &order->limits, &cell->fds[1]);
	return OK;
}

// A new one, or the one that has been nothing but a disk.
static struct cell *cell_for(struct warden *warden, const struct order *order, struct cell *kept)
{
	struct cell *cell = kept ? kept : cell_new(order->box);

	if (kept)
		warden->kept--;
	else
		map_put(warden->boxes, str_of(cell->id), cell);
	cell->note = (struct note){.born_us = clock_us()};
	cell->state = CELL_BUILDING;
	cell->keeps = order->again;
	cell->build_order = order->id;
	cell->build_owed = true;
	cell->net = order->net && !weak(NETNS);
	cell->number = ++warden->builds;
	cell->awaits = !order->ephemeral || weak(VOLATILE);
	memcpy(cell->trace, order->trace, sizeof(cell->trace));
	return cell;
}

struct cell *cell_new(const char *box)
{
	struct cell *cell = mem_new_of(struct cell);

	snprintf(cell->id, sizeof(cell->id), "%s", box);
	cell->pidfd = -1;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		cell->fds[i] = -1;
	cell->mounts = cell->steer = -1;
	return cell;
}

// The refusal is sent when the burial has undone everything.
static void fail(struct warden *warden, struct cell *cell, struct err *failure)
{
	auto_err err = failure;

	log_trace(cell->trace);
	log_event(err_http(err) >= 500 ? LOG_ERROR : LOG_INFO, "build.failed", "sandbox", cell->id,
		  "reason", err_reason(err), "trail", err_trail(err), NULL);
	log_trace(NULL);
	if (cell->build_owed) {
		cell->refusal = mem_new_of(struct answer);
		post_describe(err, ORDER_BUILD, cell->build_order, cell->refusal);
	}
	cell->build_owed = false;
	cell->state = CELL_ALIVE; // as far as the burial is concerned: there is no clone to await
	bury_begin(warden, cell);
}

static void await(struct warden *warden, struct cell *cell)
{
	link_add(&warden->building, &cell->link);
	warden->building_count++;
}

fallible build_begin(struct warden *warden, const struct order *order)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));
	struct err *err;

	if (cell && (cell->state != CELL_KEPT || !order->again))
		return err_new(CONFLICT, "box_exists", "there is a box of this id already");
	if (!cell && order->again)
		return disk_none(order->box);
	if (map_count(warden->boxes) - warden->kept >= warden->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"this host holds %u boxes and no more", warden->boxes_max),
				"delete boxes first");
	cell = cell_for(warden, order, cell);
	err = put_together(warden, order, cell);
	if (err)
		fail(warden, cell, err);
	else
		await(warden, cell);
	return OK;
}

static fallible watch(struct warden *warden, struct cell *cell)
{
	siginfo_t info;
	struct err *err;

	if (bury_watch(warden, cell) == 0)
		return OK;
	err = err_sys(errno, "watch the end of a box");
	// Without the watch its end must be seen here: it is a builder still, and dies at once.
	syscall(SYS_pidfd_send_signal, cell->pidfd, SIGKILL, NULL, 0);
	waitid(P_PIDFD, (id_t)cell->pidfd, &info, WEXITED);
	fd_drop(&cell->pidfd);
	return err;
}

// The process stands in the note before anybody hears of it.
static fallible sign(struct warden *warden, struct cell *cell)
{
	cell->note.pid = cell->pid;
	cell->note.started = note_started(cell->pid);
	return note_write(warden->cells, cell->id, &cell->note);
}

// The box has a process, and its daemon may be told.
static void announce(struct warden *warden, struct cell *cell)
{
	char took[24];

	snprintf(took, sizeof(took), "%lld", (long long)(clock_us() - cell->note.born_us));
	log_trace(cell->trace);
	log_event(LOG_DEBUG, "box.cloned", "sandbox", cell->id, "us", took, NULL);
	log_trace(NULL);
	if (cell->build_owed) {
		warden->answer = (struct answer){.kind = ANSWER_DONE,
						 .to = ORDER_BUILD,
						 .id = cell->build_order,
						 .leaf = 0,
						 .net = cell->net};
		post_answer(warden, &warden->answer, cell->fds, answer_fds(&warden->answer));
	}
	// Else the daemon that asked is gone, and the next finds the box by its socket.
	cell->build_owed = false;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		fd_drop(&cell->fds[i]);
}

static void heard_witness(struct warden *warden, struct zygote_answer *answer)
{
	struct cell *cell = map_get(warden->boxes, str_of(answer->witness.box));

	if (cell && cell->awaits && cell->number == answer->witness.number && !cell->keeps) {
		cell->mounts = answer->mounts;
		cell->awaits = false;
		return;
	}
	// It is gone, or to be stopped, and then its end shall be waited for.
	fd_drop(&answer->mounts);
}

bool build_hear(struct warden *warden)
{
	struct zygote_answer answer;

	for (;;) {
		switch (zygote_take(warden->zygote, &answer)) {
		case ZYGOTE_ANSWER:
			build_answered(warden, &answer);
			continue;
		case ZYGOTE_WITNESS:
			heard_witness(warden, &answer);
			continue;
		case ZYGOTE_NOTHING:
			return true;
		case ZYGOTE_LOST:
			return false;
		}
	}
}

void build_answered(struct warden *warden, const struct zygote_answer *answer)
{
	auto_fd net = answer->net;
	struct cell *cell;
	struct err *err = OK;

	if (link_empty(&warden->building))
		return;
	cell = link_of(warden->building.next, struct cell, link);
	link_drop(&cell->link);
	warden->building_count--;
	cell->pid = answer->pid;
	cell->pidfd = answer->pidfd;
	cell->is_child = true;
	err = answer->errnum ? err_sys(answer->errnum, "clone a builder") : watch(warden, cell);
	if (!err)
		err = take_ptr(cell->late);
	if (!err)
		err = sign(warden, cell);
	if (!err && cell->net && !cell->doomed) // while the builder goes its own way
		err = netcell_open(warden, cell, net, &cell->fds[3]);
	if (!err && cell->doomed && cell->waiter_count)
		err = err_new(CANCELLED, "buried", "the box was deleted while it was built");
	if (err) {
		fail(warden, cell, err);
		return;
	}
	cell->state = CELL_ALIVE;
	cell->keeps = false;
	if (cell->doomed) {
		bury_begin(warden, cell);
		return;
	}
	announce(warden, cell);
}
