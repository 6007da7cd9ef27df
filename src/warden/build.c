// A box is put together in two parts. Its ground is the same for all: an id range with its user
// namespace, groups, sockets to its pid 1, a clone in namespaces of its own. The goods are what the
// order names: the template's layers, a disk, limits. The ground may have been laid ahead. The cell
// notes each part as it is made, so that one way of undoing, the burial, fits every failure.
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
#include "model/goods.h"
#include "model/talk.h"
#include "os/fd.h"
#include "os/mount.h"
#include "warden/bury.h"
#include "warden/disk_driver.h"
#include "warden/ear.h"
#include "warden/netcell.h"
#include "warden/post.h"

#define CONTROL_BYTES (2 * TALK_SIZE_MAX)

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
	TRY(group_leaf(warden->groups, cell->id, 0, "", root, &parts->leaf));
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
static fallible berth_lost(void)
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
static fallible tell_goods(const struct order *order, const struct cell *cell,
			   const struct parts *parts)
{
	struct goods goods = {
		.has_usr = parts->usr >= 0,
		.is_volatile = order->ephemeral && !weak(VOLATILE),
		.memory = order->limits.memory,
		.number = cell->number,
	};
	const int fds[GOODS_FDS_MAX] = {
		[GOODS_ROOT] = parts->root, [GOODS_DISK] = parts->disk, [GOODS_USR] = parts->usr};

	snprintf(goods.host, sizeof(goods.host), "%s", order->host);
	snprintf(goods.box, sizeof(goods.box), "%s", cell->id);
	if (fd_send(cell->fds[0], &goods, sizeof(goods), fds, goods_fds(&goods), MSG_DONTWAIT) < 0)
		return errno == EPIPE || errno == ECONNRESET
			       ? berth_lost()
			       : err_sys(errno, "tell pid 1 of its goods");
	return OK;
}

static bool is_limited(const struct cell *cell, const struct limits *limits)
{
	return cell->limits.memory == limits->memory && cell->limits.pids == limits->pids &&
	       cell->limits.cpu_milli == limits->cpu_milli;
}

// While the builder is at it. Nobody but the builder lives there before the daemon is told.
static void limit(struct warden *warden, struct cell *cell, const struct limits *limits)
{
	if (cell->late || is_limited(cell, limits))
		return;
	fd_drop(&cell->fds[1]);
	cell->limits = *limits;
	cell->late = group_limit(warden->groups, cell->id, limits, &cell->fds[1]);
}

// Takes the ground as far as the zygote. What of it the daemon will get is the cell's from then on.
static fallible lay(struct warden *warden, struct cell *cell, const struct limits *limits,
		    struct parts *parts)
{
	struct builder_plan plan = {
		.base = ids_base(cell->note.slot),
		.has_into = parts->door.into >= 0,
		.shows_net = cell->net || cell->ahead,
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

static fallible put_together(struct warden *warden, const struct order *order, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	TRY(take_ground(warden, cell, &parts));
	TRY(take_goods(warden, order, cell, &parts));
	TRY(lay(warden, cell, &order->limits, &parts));
	cell->late = tell_goods(order, cell, &parts); // the clone is on its way
	limit(warden, cell, &order->limits);
	return OK;
}

static fallible lay_ahead(struct warden *warden, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	TRY(take_ground(warden, cell, &parts));
	TRY(lay(warden, cell, &warden->usual, &parts));
	limit(warden, cell, &warden->usual);
	return OK;
}

static fallible furnish(struct warden *warden, const struct order *order, struct cell *cell)
{
	auto_parts parts = NO_PARTS;

	TRY(take_goods(warden, order, cell, &parts));
	return tell_goods(order, cell, &parts);
}

// Whom it is for, and what the next life shall be told of it.
static void assign(struct warden *warden, struct cell *cell, const struct order *order)
{
	struct note *note = &cell->note;

	note->ephemeral = order->ephemeral;
	note->again = order->again;
	note->disk = order->limits.disk;
	note->inodes = order->limits.inodes;
	cell->ahead = false;
	cell->keeps = order->again;
	cell->build_order = order->id;
	cell->build_owed = true;
	cell->net = order->net && !weak(NETNS);
	cell->number = ++warden->builds;
	cell->awaits = !order->ephemeral || weak(VOLATILE);
	memcpy(cell->trace, order->trace, sizeof(cell->trace));
}

static void begin(struct warden *warden, struct cell *cell)
{
	cell->note = (struct note){.born_us = clock_us()};
	memcpy(cell->note.boot, warden->boot, sizeof(cell->note.boot));
	cell->limits = (struct limits){0};
	cell->state = CELL_BUILDING;
}

// A new one, or the one that has been nothing but a disk.
static struct cell *cell_for(struct warden *warden, const struct order *order, struct cell *kept)
{
	struct cell *cell = kept ? kept : cell_new(order->box);

	if (kept)
		warden->kept--;
	else
		map_put(warden->boxes, str_of(cell->id), cell);
	begin(warden, cell);
	assign(warden, cell, order);
	return cell;
}

struct cell *cell_new(const char *box)
{
	struct cell *cell = mem_new_of(struct cell);

	snprintf(cell->id, sizeof(cell->id), "%s", box);
	cell->pidfd = -1;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		cell->fds[i] = -1;
	cell->mounts = cell->steer = cell->netns = -1;
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
	if (cell->ahead)
		warden->next[0] = 0; // see warden/berth.c
	cell->state = CELL_ALIVE; // as far as the burial is concerned: there is no clone to await
	bury_begin(warden, cell);
}

static void await(struct warden *warden, struct cell *cell)
{
	link_add(&warden->building, &cell->link);
	warden->building_count++;
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

// Its process stands there, and has its order.
static void complete(struct warden *warden, struct cell *cell)
{
	struct err *err = take_ptr(cell->late);

	if (!err)
		err = sign(warden, cell);
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

// The process is there; what it can be asked for by its number alone. Its way out is opened while
// the builder goes its own, and a berth has one whether it will be wanted or not.
static fallible receive(struct warden *warden, struct cell *cell,
			const struct zygote_answer *answer)
{
	auto_fd net = answer->net;

	cell->pid = answer->pid;
	cell->pidfd = answer->pidfd;
	cell->is_child = true;
	if (answer->errnum)
		return err_sys(answer->errnum, "clone a builder");
	TRY(watch(warden, cell));
	cell->note.started = note_started(cell->pid);
	if (cell->doomed || weak(NETNS) ||
	    !(cell->net || (cell->ahead && warden->netout.by != NETOUT_NONE)))
		return OK;
	TRY(netcell_open(warden, cell, net, &cell->fds[3]));
	if (cell->ahead)
		cell->netns = take_fd(&net);
	return OK;
}

void build_answered(struct warden *warden, const struct zygote_answer *answer)
{
	struct cell *cell;
	struct err *err = OK;

	if (link_empty(&warden->building))
		return;
	cell = link_of(warden->building.next, struct cell, link);
	link_drop(&cell->link);
	warden->building_count--;
	err = receive(warden, cell, answer);
	if (err) {
		fail(warden, cell, err);
		return;
	}
	if (!cell->ahead) {
		complete(warden, cell);
		return;
	}
	if (cell->late) {
		fail(warden, cell, take_ptr(cell->late));
		return;
	}
	cell->state = CELL_BERTH;
	if (cell->doomed)
		bury_begin(warden, cell);
}

void build_ahead(struct warden *warden, const char *box)
{
	struct cell *cell = cell_new(box);
	struct err *err;

	map_put(warden->boxes, str_of(cell->id), cell);
	warden->berth = cell;
	begin(warden, cell);
	cell->ahead = true;
	cell->note.ephemeral = true; // it has nothing to keep
	err = lay_ahead(warden, cell);
	if (err)
		fail(warden, cell, err);
	else
		await(warden, cell);
}

// What stands there has a way out, as far as this host knows one.
static fallible fit_net(struct warden *warden, struct cell *cell)
{
	auto_fd netns = take_fd(&cell->netns);

	if (cell->state == CELL_BUILDING || cell->net == (netns >= 0))
		return OK;
	return cell->net ? netcell_open(warden, cell, netns, &cell->fds[3])
			 : netcell_undo(warden, cell, netns);
}

static void take_berth(struct warden *warden, struct cell *cell, const struct order *order)
{
	warden->berth = NULL;
	assign(warden, cell, order);
	cell->note.born_us = clock_us();
	if (cell->late) { // of the laying: nobody has asked for that
		err_free(cell->late);
		cell->late = berth_lost();
	}
	if (!cell->late)
		cell->late = fit_net(warden, cell);
	if (!cell->late)
		cell->late = furnish(warden, order, cell);
	limit(warden, cell, &order->limits);
	if (cell->state == CELL_BERTH)
		complete(warden, cell);
	// Else its pidfd is under way to us.
}

static fallible refuse(const struct cell *cell)
{
	if (cell->ahead)
		return berth_lost();
	return err_new(CONFLICT, "box_exists", "there is a box of this id already");
}

static bool is_free(const struct cell *cell, const struct order *order)
{
	if (order->again)
		return cell->state == CELL_KEPT;
	return cell->ahead && !cell->doomed &&
	       (cell->state == CELL_BUILDING || cell->state == CELL_BERTH);
}

fallible build_begin(struct warden *warden, const struct order *order)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));
	struct err *err;

	snprintf(warden->next, sizeof(warden->next), "%s", order->next);
	warden->asked_us = clock_us();
	warden->usual = order->limits;
	if (cell && !is_free(cell, order))
		return refuse(cell);
	if (!cell && order->again)
		return disk_none(order->box);
	if (build_count(warden) >= warden->boxes_max)
		return err_hint(err_new(EXHAUSTED, "too_many_boxes",
					"this host holds %u boxes and no more", warden->boxes_max),
				"delete boxes first");
	if (cell && cell->state == CELL_BERTH && bury_has_ended(cell)) {
		bury_begin(warden, cell);
		return berth_lost();
	}
	if (cell && cell->ahead) {
		take_berth(warden, cell, order);
		return OK;
	}
	cell = cell_for(warden, order, cell);
	err = put_together(warden, order, cell);
	if (err)
		fail(warden, cell, err);
	else
		await(warden, cell);
	return OK;
}

size_t build_count(const struct warden *warden)
{
	return map_count(warden->boxes) - warden->kept - (warden->berth ? 1 : 0);
}
