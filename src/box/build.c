// Has the warden build a box and waits for the greeting of its pid 1; has it frozen, thawed,
// stopped, started again, destroyed. A failed build is undone before the error is returned. If the
// warden dies meanwhile, the state of the box is unknown, and the error says so.
//
// A stopped box is the same struct box with a closed channel and no cgroups: its records and tapes
// belong to its id, not to one run. A start is a BUILD on the disk that the warden kept, followed
// by the greeting of a new pid 1.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/context_private.h"
#include "box/exec_cgroup.h"
#include "box/freeze.h"
#include "box/private.h"
#include "box/procs.h"
#include "box/unit.h"
#include "os/fd.h"

#define UNDO_MS 20000
#define CGROUP_STEP_MS 5

// True if the image has something else where a mount point must be. Other errors at those steps are
// the host's.
static bool is_bad_image(const char *note, int errnum)
{
	return !strncmp(note, "bad_image:", strlen("bad_image:")) &&
	       (errnum == ENOTDIR || errnum == ELOOP || errnum == EEXIST || errnum == ENOENT);
}

static fallible explain_broken(const struct box *box)
{
	int errnum = box->broken.failed.errnum;
	const char *note = box->broken.failed.note;

	if (box->phase != BOX_BROKEN)
		return err_sys(0, "the box ended before its greeting");
	if (box->broken.kind == TALK_READY)
		return err_sys(0, "pid 1 speaks version %u", box->broken.ready.version);
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_while(
			err_new(NO_SPACE, "no_space", "there is no space for another sandbox"),
			"%s", note);
	if (errnum == ENOMEM || errnum == EAGAIN)
		return err_while(
			err_new(EXHAUSTED, "host_full", "the host has no room for another sandbox"),
			"%s: %s", note, strerror(errnum));
	if (is_bad_image(note, errnum))
		return err_while(
			err_hint(err_new(INVALID, "bad_image",
					 "a mount point of the template is not a directory"),
				 "/dev, /proc, /run and /sys must be directories of the image, "
				 "or absent"),
			"%s: %s", note, strerror(errnum));
	if (!strncmp(note, "bad_volume:", strlen("bad_volume:")) &&
	    (errnum == ENOTDIR || errnum == ELOOP || errnum == EROFS || errnum == ENOENT))
		return err_while(
			err_hint(
				err_new(INVALID, "bad_volume_path",
					"a volume cannot be mounted at its path"),
				"path and subpath must be directories, or absent where they can be "
				"made; links are not followed"),
			"%s: %s", note, strerror(errnum));
	return err_sys(errnum, "build step '%s'", note);
}

static fallible await_greeting(struct box *box, int64_t deadline)
{
	while (box->phase == BOX_GREETING)
		TRY(condition_wait(&box->greeted, deadline), "wait for pid 1");
	return box->phase == BOX_ALIVE ? OK : explain_broken(box);
}

// NOT_FOUND: the box never existed; treat it as destroyed.
static fallible order_destroy(struct ask *ask, const char *id, int64_t deadline,
			      uint64_t *out_cpu_us)
{
	auto_err err = ask_end(ask, ORDER_DESTROY, id, deadline, out_cpu_us);

	return err && err_kind(err) == ERR_NOT_FOUND ? OK : take_ptr(err);
}

bool box_foretell(struct ask *ask, const struct order *build)
{
	struct order order = *build;

	if (build->mounts)
		return false; // they are ordered first, each with an answer

	order.kind = ORDER_BUILD;
	order.ahead = true;
	return ask_is_expected(ask, build->box) && ask_send(ask, &order);
}

// Destroys the box whether or not the order was carried out: it has no owner.
void box_forget(struct loop *loop, struct ask *ask, const char *id)
{
	uint64_t cpu_us = 0;
	auto_err err = OK;

	task_shield(true);
	err = order_destroy(ask, id, loop_now(loop) + UNDO_MS, &cpu_us);
	if (err)
		log_event(LOG_ERROR, "box.undo", "sandbox", id, "error", err_trail(err), NULL);
	task_shield(false);
}

// Each volume of the box, before its BUILD.
static fallible order_mounts(struct ask *ask, const struct order *build, int64_t deadline)
{
	auto_free struct order *order = mem_new_of(struct order);

	for (uint32_t i = 0; i < build->mounts; i++) {
		const struct volume_mount *mount = &build->volumes->at[i];

		*order = (struct order){
			.kind = ORDER_MOUNT, .number = i, .read_only = mount->read_only};
		memcpy(order->volume, mount->id, sizeof(order->volume));
		memcpy(order->path, mount->path, sizeof(order->path));
		memcpy(order->subpath, mount->subpath, sizeof(order->subpath));
		TRY(ask_plain(ask, order, build->box, deadline), "mount the volume %s",
		    mount->name);
	}
	return OK;
}

// Sends BUILD and takes the fds of the answer. *out_refused: the warden has undone it.
static fallible order_build(struct box *box, const struct order *build, bool again,
			    int64_t deadline, bool *out_refused)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = *build;
	int fds[ORDER_FDS_MAX];
	struct err *err;

	order.kind = ORDER_BUILD;
	order.again = again;
	err = order_mounts(box->ask, build, deadline);
	if (!err)
		err = ask_order(box->ask, &order, answer, fds, deadline);
	*out_refused = err && err_kind(err) != ERR_TIMEOUT && err_kind(err) != ERR_CANCELLED &&
		       strcmp(err_reason(err), ASK_NO_FILES) != 0;
	TRY(err);
	fd_drop(&box->oom);
	box->oom = fds[1];
	box_net_give(box, answer, fds);
	box_exec_cgroup_give(box_exec_cgroup_add(box, answer->exec_cgroup, fds[2], NULL, 0), true);
	return channel_open(&box->channel, box->loop, fds[0]);
}

// *out_mute: pid 1 ended without a message.
static fallible build_once(struct loop *loop, struct ask *ask, const struct order *build,
			   int tapes_dir, struct box **out, bool *out_mute)
{
	struct box *box = box_new(loop, ask, build->box, tapes_dir);
	int64_t deadline = loop_now(loop) + BOX_READY_MS;
	uint32_t links = ask_links(ask);
	bool refused = false;
	struct err *err = order_build(box, build, build->again, deadline, &refused);
	bool built = !err;

	if (refused)
		box->phase = BOX_DESTROYED;
	box->at.ephemeral = build->ephemeral;
	if (!err)
		err = await_greeting(box, deadline);
	if (!err) {
		*out = box;
		return OK;
	}
	box->stopping = true;
	if (box->phase != BOX_DESTROYED)
		box_forget(loop, ask, build->box);
	*out_mute = built && box->phase == BOX_LOST && ask_is_same(ask, links);
	box_unref(box);
	// A build fails when the warden dies, and its error may arrive before the loss of the
	// connection.
	if (err_kind(err) == ERR_INTERNAL && !ask_is_same(ask, links))
		err = err_recast(err, ERR_UNAVAILABLE, "no_warden",
				 "the warden, which creates sandboxes, has just ended");
	return err_while(err, "build %s", build->box);
}

// A box that was killed during its build, or prebuilt and killed as it was taken, is built once
// more: no command of a client has run in it.
fallible box_build(struct loop *loop, struct ask *ask, const struct order *build, int tapes_dir,
		   struct box **out)
{
	bool mute = false;
	struct err *err = build_once(loop, ask, build, tapes_dir, out, &mute);

	if (!err || !mute)
		return err;
	log_event(LOG_WARN, "box.rebuilt", "sandbox", build->box, "error", err_trail(err), NULL);
	err_free(err);
	return build_once(loop, ask, build, tapes_dir, out, &mute);
}

fallible box_destroy(struct box *box, int64_t deadline)
{
	struct err *err;

	if (box->phase == BOX_DESTROYED)
		return OK;
	box->stopping = true;
	box_ref(box);
	err = order_destroy(box->ask, box->id, deadline, &box->ended_cpu_us);
	if (!err) {
		channel_close(&box->channel);
		box_end_kinds(box, BOX_END_LOST);
		box->phase = BOX_DESTROYED;
	}
	box_unref(box);
	return err_while(err, "destroy %s", box->id);
}

// ------------------------------------------------------------------------ freeze, stop and start

bool box_is_busy(const struct box *box)
{
	uint32_t calm = context_warm_count(box) + prewarmed_count(box), idle;

	return units_are_busy(box, &idle) || box->exec_count > calm + idle;
}

uint64_t box_cpu_us(const struct box *box)
{
	uint64_t sum = 0;

	list_each (at, &box->exec_cgroups)
		sum += box_exec_cgroup_used_us(link_of(at, struct box_cgroup, all));
	return sum;
}

uint64_t box_ended_cpu_us(const struct box *box)
{
	return box->ended_cpu_us;
}

bool box_is_unseen(const struct box *box)
{
	return box->unseen;
}

fallible box_ask_cpu(struct box *box, uint64_t *out_before_us, uint64_t *out_us, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_ADOPT, .cpu = true};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, box->id, sizeof(order.box));
	TRY(ask_order(box->ask, &order, answer, none, deadline));
	*out_before_us = box->cpu_us;
	*out_us = box->cpu_us = answer->cpu_us;
	return OK;
}

bool box_freeze_files(struct box *box, bool hard)
{
	if (hard)
		box_file_worker_rest_end(box);
	return box_exec_cgroup_freeze(box);
}

fallible box_order(const struct box *box, enum order_kind kind, int64_t deadline)
{
	return ask_plain(box->ask, &(struct order){.kind = kind}, box->id, deadline);
}

fallible box_pause(struct box *box, int64_t deadline)
{
	context_warm_end(box);
	prewarmed_freeze(box);
	return err_while(box_order(box, ORDER_PAUSE, deadline), "pause %s", box->id);
}

static bool has_taken_cgroups(const struct box *box)
{
	list_each (at, &box->exec_cgroups) {
		const struct box_cgroup *exec_cgroup = link_of(at, struct box_cgroup, all);

		if (exec_cgroup->taken || exec_cgroup->kills)
			return true;
	}
	return false;
}

// Waits until the tasks that hold cgroups of the ended box have released them, then frees them.
static void drop_cgroups(struct box *box, int64_t deadline)
{
	while (has_taken_cgroups(box) && loop_now(box->loop) < deadline)
		err_free(task_sleep_until(loop_now(box->loop) + CGROUP_STEP_MS));
	if (!has_taken_cgroups(box))
		box_exec_cgroup_free_all(box);
}

static void box_quiet(struct box *box, int64_t deadline)
{
	channel_close(&box->channel);
	box_end_kinds(box, BOX_END_STOPPED);
	drop_cgroups(box, deadline);
	contexts_settle(box);
	procs_settle(box); // pid 1, which would repeat the ends, is gone
	box_net_drop(box);
	box->phase = BOX_STOPPED;
}

fallible box_stop(struct box *box, int64_t deadline)
{
	struct err *err;

	if (box->phase == BOX_STOPPED || box->phase == BOX_DESTROYED)
		return OK;
	box_ref(box);
	box->stopping = true;
	task_shield(true);
	err = ask_end(box->ask, ORDER_STOP, box->id, deadline, &box->ended_cpu_us);
	if (!err)
		box_quiet(box, deadline);
	else if (box->phase == BOX_ALIVE)
		box->stopping = false;
	task_shield(false);
	box_unref(box);
	return err_while(err, "stop %s", box->id);
}

static fallible box_rebuild(struct box *box, const struct order *build, bool fresh,
			    int64_t deadline)
{
	bool refused;

	if (fresh)
		TRY(order_destroy(box->ask, box->id, deadline, &box->ended_cpu_us));
	TRY(order_build(box, build, !fresh, deadline, &refused));
	while (box->phase == BOX_GREETING)
		TRY(condition_wait(&box->greeted, deadline), "wait for pid 1");
	return box->phase == BOX_ALIVE ? OK : explain_broken(box);
}

fallible box_again(struct box *box, const struct order *build, bool fresh)
{
	int64_t deadline = loop_now(box->loop) + BOX_READY_MS;
	struct err *err;

	if (box->phase != BOX_STOPPED)
		return err_new(CONFLICT, "not_stopped", "the sandbox is not stopped");
	drop_cgroups(box, deadline);
	if (!link_empty(&box->exec_cgroups))
		return err_new(UNAVAILABLE, "box_starting", "the sandbox has not quite ended");
	box_ref(box);
	box->phase = BOX_GREETING;
	box->ended_cpu_us = 0;
	box->stopping = false;
	box->broken = (struct talk){0};
	err = box_rebuild(box, build, fresh, deadline);
	if (err) {
		// Stopped again; its files stay, if it had any.
		task_shield(true);
		box->stopping = true;
		err_free(box_order(box, fresh ? ORDER_DESTROY : ORDER_STOP,
				   loop_now(box->loop) + BOX_READY_MS));
		box_quiet(box, deadline);
		task_shield(false);
	}
	box_unref(box);
	return err_while(err, "start %s again", box->id);
}

struct box *box_stopped(struct loop *loop, struct ask *ask, const char *id, int tapes_dir)
{
	struct box *box = box_new(loop, ask, id, tapes_dir);

	box->phase = BOX_STOPPED;
	return box;
}
