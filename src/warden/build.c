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
// syscalls: close pidfd_send_signal waitid
#include "warden/build.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "os/fd.h"
#include "warden/bury.h"
#include "warden/disk_driver.h"
#include "warden/netcell.h"
#include "warden/parts.h"
#include "warden/post.h"

// What it shall be, and what the next life shall be told of it.
static void build_describe(struct warden *warden, struct cell *cell, const struct order *order)
{
	struct note *note = &cell->note;

	note->ephemeral = order->ephemeral;
	note->again = order->again;
	note->disk = order->limits.disk;
	note->inodes = order->limits.inodes;
	cell->keeps = order->again;
	cell->net = order->net && !weak(NETNS);
	cell->number = ++warden->builds;
	cell->awaits = !order->ephemeral || weak(VOLATILE);
}

// Whom it is for.
static void assign(struct cell *cell, const struct order *order)
{
	cell->ahead = false;
	cell->build_order = order->id;
	cell->build_owed = true;
	memcpy(cell->trace, order->trace, sizeof(cell->trace));
}

static void warden_build_begin(struct warden *warden, struct cell *cell)
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
	warden_build_begin(warden, cell);
	build_describe(warden, cell, order);
	assign(cell, order);
	return cell;
}

struct cell *cell_new(const char *box)
{
	struct cell *cell = mem_new_of(struct cell);

	snprintf(cell->id, sizeof(cell->id), "%s", box);
	cell->pidfd = -1;
	for (int i = 0; i < ORDER_FDS_MAX; i++)
		cell->fds[i] = -1;
	cell->group_mount = cell->mounts = cell->steer = cell->netns = -1;
	return cell;
}

// The refusal is sent when the burial has undone everything.
static void build_fail(struct warden *warden, struct cell *cell, struct err *failure)
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

static fallible build_watch(struct warden *warden, struct cell *cell)
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
static void build_announce(struct warden *warden, struct cell *cell)
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
	ids_built(warden->ids, cell->note.slot, &cell->userns);
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
		build_fail(warden, cell, err);
		return;
	}
	cell->state = CELL_ALIVE;
	cell->keeps = false;
	if (cell->doomed) {
		bury_begin(warden, cell);
		return;
	}
	build_announce(warden, cell);
}

// The process is there; what it can be asked for by its number alone. Its way out is opened while
// the builder goes its own, and a berth has one whether it will be wanted or not.
static fallible build_receive(struct warden *warden, struct cell *cell,
			      const struct zygote_answer *answer)
{
	auto_fd net = answer->net;

	cell->pid = answer->pid;
	cell->pidfd = answer->pidfd;
	cell->is_child = true;
	if (answer->errnum)
		return err_sys(answer->errnum, "clone a builder");
	TRY(build_watch(warden, cell));
	cell->note.started = note_started(cell->pid);
	cell->note.netns = netcell_inode(net);
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
	err = build_receive(warden, cell, answer);
	if (err) {
		build_fail(warden, cell, err);
		return;
	}
	if (!cell->ahead) {
		complete(warden, cell);
		return;
	}
	if (cell->late) {
		build_fail(warden, cell, take_ptr(cell->late));
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
	warden_build_begin(warden, cell);
	cell->ahead = true;
	cell->note.ephemeral = true; // it has nothing to keep
	err = parts_ground(warden, cell);
	if (err)
		build_fail(warden, cell, err);
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

static void bring_goods(struct warden *warden, struct cell *cell, const struct order *order)
{
	build_describe(warden, cell, order);
	if (!cell->late)
		cell->late = fit_net(warden, cell);
	parts_goods(warden, order, cell);
}

// While the daemon writes down that it wants the box. What is wrong with it is said when it asks.
static void build_furnish(struct warden *warden, struct cell *cell, const struct order *order)
{
	if (!cell || cell->state != CELL_BERTH || cell->doomed || cell->late || cell->furnished)
		return;
	cell->furnished = true;
	cell->note.born_us = clock_us(); // before its layers are taken: see templates_idle()
	warden->furnished = *order;
	bring_goods(warden, cell, order);
}

static bool is_alike(const struct order *a, const struct order *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->host, b->host) &&
	       !memcmp(&a->limits, &b->limits, sizeof(a->limits)) && a->ephemeral == b->ephemeral &&
	       a->net == b->net;
}

static void take_berth(struct warden *warden, struct cell *cell, const struct order *order)
{
	auto_err late = take_ptr(cell->late); // of the laying, or of goods that came ahead

	warden->berth = NULL;
	if (late)
		cell->late = err_while(parts_lost(), "%s", err_trail(late));
	else if (cell->furnished && !is_alike(&warden->furnished, order))
		cell->late = parts_lost();
	if (!cell->furnished) {
		cell->note.born_us = clock_us();
		bring_goods(warden, cell, order);
	}
	assign(cell, order);
	if (cell->state == CELL_BERTH)
		complete(warden, cell);
	// Else its pidfd is under way to us.
}

static fallible refuse(const struct cell *cell)
{
	if (cell->ahead)
		return parts_lost();
	return err_new(CONFLICT, "box_exists", "there is a box of this id already");
}

static bool is_free(const struct cell *cell, const struct order *order)
{
	if (order->again)
		return cell->state == CELL_KEPT;
	return cell->ahead && !cell->doomed &&
	       (cell->state == CELL_BUILDING || cell->state == CELL_BERTH);
}

static void build_now(struct warden *warden, const struct order *order, struct cell *kept)
{
	struct cell *cell = cell_for(warden, order, kept);
	struct err *err = parts_all(warden, order, cell);

	if (err)
		build_fail(warden, cell, err);
	else
		await(warden, cell);
}

static struct repair *repair_of(struct warden *warden, const char *box)
{
	list_each (at, &warden->repairs)
		if (!strcmp(link_of(at, struct repair, link)->order.box, box))
			return link_of(at, struct repair, link);
	return NULL;
}

// e2fsck takes as long as the disk is large: the order waits for it, and nobody else does.
static fallible repair_begin(struct warden *warden, const struct order *order, bool *out_waits)
{
	struct repair *repair = repair_of(warden, order->box);
	int pid = 0;

	if (repair && repair->owed)
		return err_hint(
			err_new(UNAVAILABLE, "disk_busy", "the sandbox's disk is being repaired"),
			"try again in a moment");
	if (!repair)
		TRY(disk_repair(warden->disk, order->box, &pid));
	if (pid > 0) {
		repair = mem_new_of(struct repair);
		repair->pid = pid;
		link_add(&warden->repairs, &repair->link);
	}
	*out_waits = repair != NULL;
	if (repair) {
		repair->order = *order;
		repair->owed = true;
	}
	return OK;
}

static fallible repair_end(struct warden *warden, const struct order *order, int status)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));

	if (!disk_is_repaired(status))
		return err_sys(EIO, "repair the disk of %s: e2fsck ended with status %d",
			       order->box, status);
	if (!cell)
		return disk_none(order->box);
	if (!is_free(cell, order))
		return refuse(cell);
	build_now(warden, order, cell);
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
		err = repair->owed ? repair_end(warden, &repair->order, status) : OK;
		if (err)
			post_refusal(warden, ORDER_BUILD, repair->order.id, repair->order.box, err);
		log_trace(NULL);
		free(repair);
		return true;
	}
	return false;
}

void build_forget(struct warden *warden)
{
	list_each (at, &warden->repairs)
		link_of(at, struct repair, link)->owed = false;
}

fallible build_begin(struct warden *warden, const struct order *order)
{
	struct cell *cell = map_get(warden->boxes, str_of(order->box));
	bool waits = false;

	if (order->ahead) {
		build_furnish(warden, cell, order);
		return OK;
	}
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
		return parts_lost();
	}
	if (cell && cell->ahead) {
		take_berth(warden, cell, order);
		return OK;
	}
	if (order->again)
		TRY(repair_begin(warden, order, &waits));
	if (!waits)
		build_now(warden, order, cell);
	return OK;
}

size_t build_count(const struct warden *warden)
{
	return map_count(warden->boxes) - warden->kept - (warden->berth ? 1 : 0);
}
