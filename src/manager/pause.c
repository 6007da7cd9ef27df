// Pause, freeze, stop and start. A step is an order to the warden between two states of the entry.
// `moving` is set before the first wait while a step is under way; all others wait for the
// condition. The state changes only after the warden has confirmed it: after a crash in between,
// adoption corrects the record by the state that it finds.
//
// A box that is being started counts as running from the first moment, so that quotas hold however
// many start at once; its record says stopped until it runs.
#include "manager/pause.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "box/freeze.h"
#include "manager/access.h"
#include "manager/adopt_queue.h"
#include "manager/create.h"
#include "manager/life.h"
#include "manager/network_attach.h"
#include "manager/operations.h"
#include "manager/queue.h"
#include "manager/sampler.h"
#include "store/store.h"

#define STEP_MS 30000
#define ARCHIVE_MS (65 * 60 * 1000) // more than the warden's patience
#define ARCHIVE_LOST_MS 60000	    // while a killed warden is started again
#define ARCHIVE_AGAIN_MS 50

static bool has_failed(const struct entry *entry)
{
	return entry->record.state == STATE_FAILED;
}

// The box has failed, but its files exist: a request can start it again.
static bool is_saved(const struct entry *entry)
{
	return has_failed(entry) && entry->record.disk_kept && !entry->destroying;
}

// The files are lost: a request starts the box with a new disk.
static bool has_lost_files(const struct entry *entry)
{
	return has_failed(entry) && !entry->record.disk_kept && !entry->destroying &&
	       !strcmp(entry->record.reason, RECORD_FILES_LOST);
}

static bool can_start(const struct entry *entry)
{
	return is_saved(entry) || has_lost_files(entry);
}

static fallible gone(const struct entry *entry)
{
	if (!entry->listed)
		return access_absent(str_of(entry->record.id));
	if (has_lost_files(entry))
		return err_hint(err_new(GONE, RECORD_FILES_LOST,
					"the files of the sandbox are lost: they were not on the "
					"disk when the host started again, as after a power cut"),
				"POST /v1/sandboxes/{id}/start starts it on a fresh disk from its "
				"template");
	if (is_saved(entry))
		return err_hint(err_new(GONE, "box_lost", "the sandbox has failed"),
				"POST /v1/sandboxes/{id}/start starts it on its files");
	if (has_failed(entry))
		return err_hint(err_new(GONE, "box_lost", "the sandbox has failed"),
				"delete it and create another");
	return err_new(GONE, "box_deleted", "the sandbox is being deleted");
}

static bool is_gone(const struct entry *entry)
{
	return !entry->listed || (has_failed(entry) && !can_start(entry)) ||
	       entry->record.state == STATE_DELETING;
}

fallible pause_hold(struct entry *entry)
{
	// Files of an archive may be on their way back to a disk.
	int64_t patience = entry->record.state == STATE_ARCHIVED ? ARCHIVE_MS : STEP_MS;
	int64_t deadline = loop_now(entry->manager->loop) + patience;
	struct err *err;

	entry_ref(entry);
	err = adopt_await(entry, deadline);
	while (!err && entry->listed && (entry->moving || entry->record.state == STATE_CREATING))
		err = condition_wait(&entry->changed, deadline);
	if (!err && is_gone(entry))
		err = gone(entry);
	if (err) {
		entry_unref(entry);
		return err_while(err, "wait for the sandbox's last change");
	}
	entry->moving = true;
	return OK;
}

void pause_release(struct entry *entry)
{
	entry->moving = false;
	condition_signal(&entry->changed);
	entry_unref(entry);
}

// A loss during the wait takes precedence.
static fallible step_commit(struct entry *entry, enum state state, const char *reason)
{
	if (is_gone(entry))
		return gone(entry);
	snprintf(entry->record.reason, sizeof(entry->record.reason), "%s", reason);
	entry_move(entry, state);
	return OK;
}

// The same for a change between states without processes: the reason stays.
static fallible step_still(struct entry *entry, enum state state)
{
	if (is_gone(entry))
		return gone(entry);
	entry_move(entry, state);
	return OK;
}

static int64_t deadline_of(const struct entry *entry)
{
	return loop_now(entry->manager->loop) + STEP_MS;
}

static fallible pause_freeze(struct entry *entry, enum state as)
{
	struct err *err = box_pause(entry->box, deadline_of(entry));

	if (err) {
		// The box may be partly frozen: thaw it.
		task_shield(true);
		err_free(box_order(entry->box, ORDER_THAW, deadline_of(entry)));
		task_shield(false);
		return err;
	}
	return step_commit(entry, as, "");
}

static fallible thaw(struct entry *entry)
{
	TRY(box_order(entry->box, ORDER_THAW, deadline_of(entry)));
	TRY(step_commit(entry, STATE_RUNNING, ""));
	attach_mend(entry); // another warden may have connected
	return OK;
}

static fallible manager_pause_stop(struct entry *entry, const char *why)
{
	int64_t began_us = clock_us();

	if (entry->record.ephemeral)
		return err_hint(err_new(CONFLICT, "ephemeral",
					"this sandbox keeps no files: it cannot be stopped"),
				"pause it, or delete it");
	sampler_before_end(entry);
	TRY(box_stop(entry->box, deadline_of(entry)));
	metric_observe(METRIC_BOX_STOP, NULL, (double)(clock_us() - began_us) / 1e6);
	metric_add(METRIC_BOXES_ENDED, "stopped", NULL, 1);
	entry_detach(entry);
	sampler_ended(entry, box_ended_cpu_us(entry->box));
	entry->record.disk_kept = true;
	return step_commit(entry, STATE_STOPPED, why);
}

static fallible order_start(struct entry *entry)
{
	struct manager *manager = entry->manager;
	struct order order = create_order(&entry->record);
	uint32_t links = ask_links(manager->ask);
	struct err *err;

	entry_need_box(entry);
	TRY(queue_enter(manager, entry));
	err = box_again(entry->box, &order, has_lost_files(entry));
	queue_leave(manager);
	if (!err)
		attach_take_or_mend(entry, links); // the box runs even if the attach fails
	return err;
}

// The warden has checked: the disk is missing or incomplete.
static fallible lose_files(struct entry *entry, struct err *why)
{
	log_event(LOG_ERROR, "box.files_lost", "sandbox", entry->record.id, "trail", err_trail(why),
		  NULL);
	err_free(why);
	if (!is_gone(entry)) {
		entry->record.disk_kept = false;
		snprintf(entry->record.reason, sizeof(entry->record.reason), RECORD_FILES_LOST);
		entry_move(entry, STATE_FAILED);
	}
	return gone(entry);
}

static fallible order_archive_once(struct entry *entry, bool again, uint64_t *out_bytes)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct manager *manager = entry->manager;
	struct order order = {
		.kind = ORDER_ARCHIVE, .limits = entry->record.limits, .again = again};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, entry->record.id, sizeof(order.box));
	TRY(ask_order(manager->ask, &order, answer, none, loop_now(manager->loop) + ARCHIVE_MS));
	*out_bytes = answer->bytes;
	return OK;
}

// The order may have been executed though its answer was lost: it is repeated until one comes.
static fallible order_archive(struct entry *entry, bool again, uint64_t *out_bytes)
{
	struct manager *manager = entry->manager;
	int64_t patience = loop_now(manager->loop) + ARCHIVE_LOST_MS;

	for (;;) {
		struct err *err = order_archive_once(entry, again, out_bytes);
		int64_t now = loop_now(manager->loop);

		if (!err || err_kind(err) != ERR_UNAVAILABLE || now >= patience)
			return err;
		err_free(err);
		TRY(task_sleep_until(now + ARCHIVE_AGAIN_MS));
		TRY(ask_wait_linked(manager->ask, patience));
	}
}

// The disk is whole and the archive gone when the warden answers: the sandbox is stopped.
static fallible pause_unarchive(struct entry *entry)
{
	uint64_t bytes = 0, disk = entry->record.limits.disk;
	struct err *err;

	// An archive of many long names can be larger than the disk.
	if (disk > entry->charged.disk)
		TRY(account_ask_disk(entry->account, disk - entry->charged.disk));
	task_shield(true); // the warden goes on, whether or not the client waits
	err = order_archive(entry, true, &bytes);
	task_shield(false);
	TRY(err, "unpack the files of %s", entry->record.id);
	return step_still(entry, STATE_STOPPED);
}

fallible pause_archive(struct entry *entry)
{
	uint64_t bytes = 0;
	struct err *err;

	if (entry->record.state == STATE_ARCHIVED)
		return OK;
	if (entry->record.state != STATE_STOPPED)
		return err_hint(err_new(CONFLICT, "not_stopped", "the sandbox is not stopped"),
				"stop it first; its state is %s", state_word(entry->record.state));
	err = order_archive(entry, false, &bytes);
	if (err && err_kind(err) == ERR_CANCELLED) { // ended by a request for the sandbox
		task_shield(true);
		err_free(order_archive(entry, true, &bytes));
		task_shield(false);
	}
	TRY(err, "archive %s", entry->record.id);
	entry->record.archive_bytes = bytes;
	return step_still(entry, STATE_ARCHIVED);
}

static void end_archiving(struct entry *entry)
{
	if (entry->archiving)
		operation_cancel(entry->archiving);
}

static fallible manager_pause_start(struct entry *entry)
{
	struct err *err;

	if (entry->manager->closing && !entry->manager->leaving)
		return err_new(UNAVAILABLE, "draining", "cove is shutting down");
	TRY(account_ask(entry->account, &entry->record.limits, ACCOUNT_KEPT, ACCOUNT_RUNNING));
	entry->starting = true;
	entry_weigh(entry);
	err = order_start(entry);
	entry->starting = false;
	entry_weigh(entry);
	if (err && !strcmp(err_reason(err), "no_disk"))
		return lose_files(entry, err);
	TRY(err, "start %s", entry->record.id);
	entry->destroyed = false;
	sampler_started(entry);
	entry->record.started_ms = clock_wall_ms();
	box_on_loss(entry->box, life_lost, entry);
	entry->launch_due = entry->record.launch != NULL;
	return step_commit(entry, STATE_RUNNING, "");
}

// After a step that has started the sandbox, by who asked for it. Others may use it meanwhile.
static fallible pause_launch(struct entry *entry)
{
	char tenant[RECORD_TENANT_MAX], id[ID_BOX_LEN + 1];
	auto_free char *text = NULL;

	if (!entry->launch_due || !entry->manager->launch)
		return OK;
	entry->launch_due = false;
	memcpy(tenant, entry->record.tenant, sizeof(tenant));
	memcpy(id, entry->record.id, sizeof(id));
	text = mem_str(entry->record.launch);
	return entry->manager->launch(entry->manager, tenant, id, text);
}

static fallible refuse_budget(void)
{
	return err_hint(
		err_new(CONFLICT, RECORD_BUDGET, "a budget that covers the sandbox is used up"),
		"the sandbox goes on when the period ends or the budget is raised; GET "
		"/v1/budgets shows them");
}

static fallible refuse_paused(const struct entry *entry)
{
	if (!strcmp(entry->record.reason, RECORD_BUDGET))
		return refuse_budget();
	return err_hint(err_new(CONFLICT, "paused", "the sandbox is paused"),
			"POST /v1/sandboxes/{id}/resume lets it run again");
}

static fallible pause_begin_running(struct entry *entry)
{
	switch (entry->record.state) {
	case STATE_RUNNING:
		return OK;
	case STATE_PAUSED:
	case STATE_FROZEN:
		return thaw(entry);
	case STATE_ARCHIVED:
		TRY(pause_unarchive(entry));
		return manager_pause_start(entry);
	case STATE_STOPPED:
	case STATE_FAILED:
		return manager_pause_start(entry);
	default:
		return gone(entry);
	}
}

// Moves the box to running from any state, step by step.
static fallible step_until_running(struct entry *entry)
{
	enum state from = entry->record.state;
	int64_t began_us = clock_us();

	TRY(pause_begin_running(entry));
	if (from != STATE_RUNNING)
		metric_observe(METRIC_BOX_WAKE, state_word(from),
			       (double)(clock_us() - began_us) / 1e6);
	return OK;
}

fallible pause_wake(struct entry *entry)
{
	struct err *err;

	if (entry->record.state == STATE_RUNNING && !entry->moving)
		return OK;
	// A box of an earlier daemon: adoption is finding out whether it exists.
	if (entry->record.state == STATE_CREATING && !entry->moving)
		return err_new(UNAVAILABLE, "box_starting", "the sandbox is being made");
	if (entry->record.state == STATE_PAUSED)
		return refuse_paused(entry);
	if (entry->over_budget && !entry->moving)
		return refuse_budget();
	end_archiving(entry);
	TRY(pause_hold(entry));
	if (entry->record.state == STATE_PAUSED)
		err = refuse_paused(entry);
	else
		err = has_failed(entry) ? gone(entry) : step_until_running(entry);
	entry_ref(entry);
	pause_release(entry);
	if (!err)
		err = pause_launch(entry);
	entry_unref(entry);
	return err;
}

fallible pause_step_down(struct entry *entry)
{
	struct err *err = OK;

	if (entry->moving || entry->visits)
		return OK;
	TRY(pause_hold(entry));
	if (entry->record.state == STATE_RUNNING && !box_is_busy(entry->box))
		err = pause_freeze(entry, STATE_FROZEN);
	else if (entry->record.state == STATE_FROZEN)
		err = manager_pause_stop(entry, "idle");
	if (!err)
		log_event(LOG_INFO, "box.idled", "sandbox", entry->record.id, "state",
			  state_word(entry->record.state), NULL);
	pause_release(entry);
	return err;
}

fallible pause_stop(struct entry *entry, const char *why)
{
	struct err *err = OK;

	TRY(pause_hold(entry));
	if (!state_is_stopped(entry->record.state) && !has_failed(entry))
		err = manager_pause_stop(entry, why);
	pause_release(entry);
	return err;
}

fallible pause_for_budget(struct entry *entry)
{
	struct err *err = OK;

	if (entry->moving || entry->visits)
		return OK;
	TRY(pause_hold(entry));
	if (entry->record.state == STATE_RUNNING && !box_is_busy(entry->box))
		err = pause_freeze(entry, STATE_PAUSED);
	else if (entry->record.state == STATE_FROZEN)
		err = step_commit(entry, STATE_PAUSED, "");
	if (!err && entry->record.state == STATE_PAUSED)
		err = step_commit(entry, STATE_PAUSED, RECORD_BUDGET);
	pause_release(entry);
	return err;
}

fallible pause_end_for_budget(struct entry *entry)
{
	struct err *err = OK;

	if (entry->moving)
		return OK;
	TRY(pause_hold(entry));
	if (entry->record.state == STATE_PAUSED && !strcmp(entry->record.reason, RECORD_BUDGET))
		err = thaw(entry);
	pause_release(entry);
	return err;
}

static fallible do_pause(struct entry *entry)
{
	switch (entry->record.state) {
	case STATE_RUNNING:
		return pause_freeze(entry, STATE_PAUSED);
	case STATE_FROZEN:
		return step_commit(entry, STATE_PAUSED, "");
	case STATE_PAUSED:
		return OK;
	default:
		return err_hint(err_new(CONFLICT, "not_running", "the sandbox does not run"),
				"only what runs can be paused");
	}
}

static fallible do_resume(struct entry *entry)
{
	return entry->over_budget && entry->record.state != STATE_RUNNING
		       ? refuse_budget()
		       : step_until_running(entry);
}

static fallible do_stop(struct entry *entry)
{
	return state_is_stopped(entry->record.state) || has_failed(entry)
		       ? OK
		       : manager_pause_stop(entry, "");
}

// The verbs of requests: POST /v1/sandboxes/{id}/VERB.
static const struct {
	const char *verb;
	struct err *(*step)(struct entry *entry);
} pause_verbs[] = {
	{"pause", do_pause},
	{"resume", do_resume},
	{"stop", do_stop},
	{"start", do_resume},
};

fallible pause_request(struct manager *manager, const struct who *who, struct str key,
		       const char *verb, const struct record **out)
{
	struct entry *entry;
	struct err *err;
	size_t i = 0;

	while (strcmp(pause_verbs[i].verb, verb) != 0) {
		i++;
		assert(i < sizeof(pause_verbs) / sizeof(*pause_verbs));
	}
	TRY(access_entry(manager, who, ACCESS_MAKE, key, &entry));
	if (pause_verbs[i].step == do_resume)
		end_archiving(entry);
	TRY(pause_hold(entry));
	err = pause_verbs[i].step(entry);
	// The answer must hold after a crash; a failed write stays queued in the store.
	if (!err && manager->store)
		err_free(store_flush(manager->store));
	entry_ref(entry);
	pause_release(entry);
	if (!err)
		err = pause_launch(entry);
	if (!err && !entry->listed)
		err = gone(entry);
	*out = &entry->record; // held by the table, if it is listed
	entry_unref(entry);
	return err;
}
