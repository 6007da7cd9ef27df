// Has the warden build a box and waits for the greeting of its pid 1; has it destroyed. A failed
// build is undone before the error is returned. If the warden dies meanwhile, the state of the box
// is unknown, and the error says so.
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/box.h"
#include "box/exec_cgroup.h"
#include "box/private.h"

#define UNDO_MS 20000

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
	return err_sys(errnum, "build step '%s'", note);
}

static fallible await_greeting(struct box *box, int64_t deadline)
{
	while (box->phase == BOX_GREETING)
		TRY(condition_wait(&box->greeted, deadline), "wait for pid 1");
	return box->phase == BOX_ALIVE ? OK : explain_broken(box);
}

static fallible order_destroy(struct ask *ask, const char *id, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_DESTROY};
	int none[ORDER_FDS_MAX];
	auto_err err = OK;

	memcpy(order.box, id, sizeof(order.box));
	err = ask_order(ask, &order, answer, none, deadline);
	if (err && err_kind(err) == ERR_NOT_FOUND)
		return OK; // NOT_FOUND: it never existed; treat it as destroyed
	return take_ptr(err);
}

bool box_foretell(struct ask *ask, const struct order *build)
{
	struct order order = *build;

	order.kind = ORDER_BUILD;
	order.ahead = true;
	return ask_is_expected(ask, build->box) && ask_tell(ask, &order);
}

// Destroys the box whether or not the order was carried out: it has no owner.
void box_forget(struct loop *loop, struct ask *ask, const char *id)
{
	auto_err err = OK;

	task_shield(true);
	err = order_destroy(ask, id, loop_now(loop) + UNDO_MS);
	if (err)
		log_event(LOG_ERROR, "box.undo", "sandbox", id, "error", err_trail(err), NULL);
	task_shield(false);
}

static fallible order_build(struct box *box, const struct order *build, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = *build;
	int fds[ORDER_FDS_MAX];
	struct err *err;

	order.kind = ORDER_BUILD;
	err = ask_order(box->ask, &order, answer, fds, deadline);
	if (err && err_kind(err) != ERR_TIMEOUT && err_kind(err) != ERR_CANCELLED &&
	    strcmp(err_reason(err), ASK_NO_FILES) != 0)
		box->phase = BOX_DESTROYED; // refused: the warden has undone it
	TRY(err);
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
	struct err *err = order_build(box, build, deadline);
	bool built = !err;

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
	err = order_destroy(box->ask, box->id, deadline);
	if (!err) {
		channel_close(&box->channel);
		box_tell_kinds(box, BOX_END_LOST);
		box->phase = BOX_DESTROYED;
	}
	box_unref(box);
	return err_while(err, "destroy %s", box->id);
}
