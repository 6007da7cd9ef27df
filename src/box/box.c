// A box is a socket to its pid 1, two counters of the kernel and a few leaves. It is alive from pid
// 1's greeting until the socket ends, whoever ended it; what the socket says is heard here and
// passed on to the execs. When pid 1 breaks the rules it is heard no more: every exec ends as
// box_lost and the owner is told, who then has it buried.
//
// It is freed at the end of the turn in which the last share is dropped, since callbacks of its
// socket may be up the stack.
//
// syscalls: close
#include "box/box.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/inner.h"
#include "box/leaf.h"
#include "box/pipe.h"
#include "box/tape.h"
#include "loop/closer.h"
#include "os/fd.h"

#define UNDO_MS 20000

static void free_box(struct later *later)
{
	struct box *box = link_of(later, struct box, free_later);

	channel_close(&box->channel);
	box_leaf_free_all(box);
	box_sync_drop(box);
	box_net_drop(box);
	procs_free(box);
	contexts_free(box);
	terms_free(box);
	understudies_free(box);
	tape_budget_drop(box->tape_budget);
	if (box->has_folder)
		tape_remove_folder(box->loop, box->tapes_dir, box->id);
	free(box);
}

struct tape_budget *box_tape_budget(struct box *box)
{
	if (!box->tape_budget)
		box->tape_budget = tape_budget_new(UINT64_MAX);
	return box->tape_budget;
}

void box_keep_output(struct box *box, uint64_t max, uint64_t floor, struct tape_quota *quota)
{
	tape_budget_set(box_tape_budget(box), max, floor, quota);
}

void box_hold(struct box *box)
{
	box->refs++;
}

void box_drop(struct box *box)
{
	if (--box->refs == 0)
		loop_later(box->loop, &box->free_later);
}

void box_free(struct box *box)
{
	if (!box)
		return;
	box->lost = NULL;
	understudies_end(box);
	sessions_end(box);
	contexts_close(box);
	terms_end(box);
	if (box->tape_budget)
		tape_budget_leave(box->tape_budget); // its owner may go now
	box_drop(box);
}

static void lose(struct box *box, const char *why)
{
	void (*lost)(struct box *, void *) = box->lost;

	if (box->phase >= BOX_BROKEN)
		return; // one that told why it failed ends at once: its reason stands
	if (!box->burying && box->phase == BOX_ALIVE)
		log_event(LOG_WARN, "box.lost", "sandbox", box->id, "why", why, NULL);
	box->phase = BOX_LOST;
	box_sync_drop(box);
	bell_ring(&box->greeted);
	box_adoption_lost(box);
	box_hold(box);
	understudies_end(box);
	exec_end_all(box);
	box_hand_end_all(box);
	sessions_end(box);
	contexts_end(box);
	terms_end(box);
	box->lost = NULL;
	if (lost && !box->burying)
		lost(box, box->lost_arg);
	box_drop(box);
}

void box_break(struct box *box, const char *why)
{
	channel_close(&box->channel);
	lose(box, why);
}

static void on_lost(struct channel *channel, const char *why)
{
	lose(link_of(channel, struct box, channel), why);
}

static void on_drained(struct channel *channel)
{
	exec_pay(link_of(channel, struct box, channel));
}

static void on_said(struct channel *channel, const struct talk *talk, int *fds, int count)
{
	struct box *box = link_of(channel, struct box, channel);

	if (talk->kind == TALK_HELD || talk->kind == TALK_HELD_END) {
		box_held(box, talk, fds, count);
		return;
	}
	if (talk->kind == TALK_SYNC) {
		box_sync_heard(box, fds, count);
		return;
	}
	if (talk->kind != TALK_READY && talk->kind != TALK_BROKEN) {
		if (!box_hand_heard(box, talk, fds, count))
			exec_heard(box, talk, fds, count);
		return;
	}
	if (count > 0 || box->phase != BOX_GREETING) {
		closer_drop_all(fds, count);
		box_break(box, "pid 1 greets out of turn");
		return;
	}
	if (talk->kind == TALK_READY && talk->ready.version == TALK_VERSION) {
		box->phase = BOX_ALIVE;
		box->features = talk->ready.features;
	} else {
		box->phase = BOX_BROKEN;
		box->broken = *talk;
	}
	bell_ring(&box->greeted);
}

// The image has something else where a mount point must be. Other errors at those steps are the
// host's own.
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
		TRY(bell_wait(&box->greeted, deadline), "wait for pid 1");
	return box->phase == BOX_ALIVE ? OK : explain_broken(box);
}

struct box *box_new(struct loop *loop, struct ask *ask, const char *id, int tapes_dir)
{
	struct box *box = mem_new_of(struct box);

	box->loop = loop;
	box->ask = ask;
	box->refs = 1;
	box->oom = box->net.listener = box->net.udp = box->sync.listener = -1;
	box->tapes_dir = tapes_dir;
	memcpy(box->id, id, sizeof(box->id));
	memcpy(box->at.box, id, sizeof(box->at.box));
	box->channel.said = on_said;
	box->channel.lost = on_lost;
	box->channel.drained = on_drained;
	box->free_later.run = free_box;
	bell_init(&box->greeted);
	bell_init(&box->leaf_settled);
	link_init(&box->leaves);
	link_init(&box->clean);
	link_init(&box->doubt);
	link_init(&box->execs);
	link_init(&box->lingerers);
	link_init(&box->hands);
	bell_init(&box->hand_free);
	return box;
}

static fallible order_bury(struct ask *ask, const char *id, int64_t deadline)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_BURY};
	int none[ORDER_FDS_MAX];
	auto_err err = OK;

	memcpy(order.box, id, sizeof(order.box));
	err = ask_order(ask, &order, answer, none, deadline);
	if (err && err_kind(err) == ERR_NOT_FOUND)
		return OK; // nothing is as gone as what never was
	return take_ptr(err);
}

bool box_foretell(struct ask *ask, const struct order *build)
{
	struct order order = *build;

	order.kind = ORDER_BUILD;
	order.ahead = true;
	return ask_is_expected(ask, build->box) && ask_tell(ask, &order);
}

// Whether the order was carried out or not: nobody will own that box.
void box_forget(struct loop *loop, struct ask *ask, const char *id)
{
	auto_err err = OK;

	task_shield(true);
	err = order_bury(ask, id, loop_now(loop) + UNDO_MS);
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
		box->phase = BOX_BURIED; // refused: the warden left nothing
	TRY(err);
	box->oom = fds[1];
	box_net_give(box, answer, fds);
	box_leaf_give(box_leaf_add(box, answer->leaf, fds[2], NULL, 0), true);
	return channel_open(&box->channel, box->loop, fds[0]);
}

// *out_mute: pid 1 ended before it could say anything.
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
	box->burying = true;
	if (box->phase != BOX_BURIED)
		box_forget(loop, ask, build->box);
	*out_mute = built && box->phase == BOX_LOST && ask_is_same(ask, links);
	box_drop(box);
	// A builder fails when the warden dies under it, and we may hear of that first.
	if (err_kind(err) == ERR_INTERNAL && !ask_is_same(ask, links))
		err = err_recast(err, ERR_UNAVAILABLE, "no_warden",
				 "the part of the server that makes sandboxes has just ended");
	return err_while(err, "build %s", build->box);
}

// Whoever is killed as it is made, or was made ahead and is killed as it is wanted, is made once
// more: nothing of anybody has run in it.
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

fallible box_bury(struct box *box, int64_t deadline)
{
	struct err *err;

	if (box->phase == BOX_BURIED)
		return OK;
	box->burying = true;
	box_hold(box);
	err = order_bury(box->ask, box->id, deadline);
	if (!err) {
		channel_close(&box->channel);
		understudies_end(box);
		exec_end_all(box);
		box_hand_end_all(box);
		sessions_end(box);
		contexts_end(box);
		terms_end(box);
		box->phase = BOX_BURIED;
	}
	box_drop(box);
	return err_while(err, "bury %s", box->id);
}

void box_set_user(struct box *box, const char *user)
{
	snprintf(box->user, sizeof(box->user), "%s", user);
}

bool box_is_alive(const struct box *box)
{
	return box->phase == BOX_ALIVE && !box->burying;
}

void box_on_loss(struct box *box, void (*lost)(struct box *box, void *arg), void *arg)
{
	box->lost = lost;
	box->lost_arg = arg;
}

uint32_t box_execs(const struct box *box)
{
	return box->exec_count;
}

void box_prepare(void)
{
	pipe_prepare();
}

const struct brink_at *box_at(const struct box *box)
{
	return &box->at;
}
