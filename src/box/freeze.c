// Freezes, thaws, stops and starts a box. A stopped box is the same struct box with a closed
// channel and no cgroups: its records and tapes belong to its id, not to one run. A start is a
// BUILD on the disk that the warden kept, followed by the greeting of a new pid 1.
#include "box/freeze.h"

#include <string.h>

#include "base/mem.h"
#include "box/context_private.h"
#include "box/exec_cgroup.h"
#include "box/private.h"
#include "box/procs.h"
#include "box/session_private.h"
#include "box/unit.h"
#include "os/fd.h"

#define CGROUP_STEP_MS 5

bool box_is_busy(const struct box *box)
{
	uint32_t calm = context_warm_count(box) + prewarmed_count(box), idle;

	if (box->sessions)
		list_each (at, &box->sessions->all) {
			const struct session *session = link_of(at, struct session, link);

			if (session->run || session->waiting || session->starting)
				return true;
			calm += session->shell != NULL;
		}
	if (box->contexts)
		list_each (at, &box->contexts->all) {
			const struct context *context = link_of(at, struct context, link);

			if (context->run || context->waiting || context->starting)
				return true;
			calm += context->shell != NULL;
		}
	return units_are_busy(box, &idle) || box->exec_count > calm + idle;
}

uint64_t box_cpu_us(const struct box *box)
{
	uint64_t sum = 0;

	list_each (at, &box->exec_cgroups)
		sum += box_exec_cgroup_used_us(link_of(at, struct box_cgroup, all));
	return sum;
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

static fallible box_freeze_order_plain(const struct box *box, enum order_kind kind,
				       int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = kind};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, box->id, sizeof(order.box));
	return ask_order(box->ask, &order, answer, none, deadline);
}

fallible box_pause(struct box *box, int64_t deadline)
{
	context_warm_end(box);
	prewarmed_freeze(box);
	return err_while(box_freeze_order_plain(box, ORDER_PAUSE, deadline), "pause %s", box->id);
}

fallible box_thaw(struct box *box, int64_t deadline)
{
	return err_while(box_freeze_order_plain(box, ORDER_THAW, deadline), "thaw %s", box->id);
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

static void quiet(struct box *box, int64_t deadline)
{
	channel_close(&box->channel);
	box_tell_kinds(box, BOX_END_STOPPED);
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
	err = box_freeze_order_plain(box, ORDER_STOP, deadline);
	if (!err)
		quiet(box, deadline);
	else if (box->phase == BOX_ALIVE)
		box->stopping = false;
	task_shield(false);
	box_unref(box);
	return err_while(err, "stop %s", box->id);
}

// NOT_FOUND counts as OK.
static fallible drop_remains(const struct box *box, int64_t deadline)
{
	struct err *err = box_freeze_order_plain(box, ORDER_DESTROY, deadline);

	if (!err || err_kind(err) != ERR_NOT_FOUND)
		return err;
	err_free(err);
	return OK;
}

static fallible box_freeze_rebuild(struct box *box, const struct order *build, bool fresh,
				   int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = *build;
	int fds[ORDER_FDS_MAX];

	order.kind = ORDER_BUILD;
	order.again = !fresh;
	if (fresh)
		TRY(drop_remains(box, deadline));
	TRY(ask_order(box->ask, &order, answer, fds, deadline));
	fd_drop(&box->oom);
	box->oom = fds[1];
	box_net_give(box, answer, fds);
	box_exec_cgroup_give(box_exec_cgroup_add(box, answer->exec_cgroup, fds[2], NULL, 0), true);
	TRY(channel_open(&box->channel, box->loop, fds[0]));
	while (box->phase == BOX_GREETING)
		TRY(condition_wait(&box->greeted, deadline), "wait for pid 1");
	if (box->phase == BOX_ALIVE)
		return OK;
	return err_sys(box->broken.failed.errnum, "build step '%s'", box->broken.failed.note);
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
	box->stopping = false;
	box->broken = (struct talk){0};
	err = box_freeze_rebuild(box, build, fresh, deadline);
	if (err) {
		// Stopped again; its files stay, if it had any.
		task_shield(true);
		box->stopping = true;
		err_free(box_freeze_order_plain(box, fresh ? ORDER_DESTROY : ORDER_STOP,
						loop_now(box->loop) + BOX_READY_MS));
		quiet(box, deadline);
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
