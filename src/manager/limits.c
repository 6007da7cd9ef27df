// A change of limits holds the sandbox like a step of manager/pause: no start, stop or snapshot
// runs meanwhile. Its tenant is charged the larger limits until the outcome is known. If the warden
// refuses, it is given the former limits again, because some may have been changed. If it does not
// answer, `next` stays in the record, and limits_settle() goes back to the former limits; should
// the sandbox use more by then, the wanted ones are in force, and stay.
#include "manager/limits.h"

#include <stdio.h>

#include "base/log.h"
#include "manager/pause.h"
#include "manager/sweep.h"

#define LIMITS_ASK_MS (11 * 60 * 1000) // a disk image is copied; more than the warden's patience

static bool can_have_limits(const struct entry *entry)
{
	enum state state = entry->record.state;

	return state == STATE_RUNNING || state == STATE_PAUSED || state == STATE_FROZEN ||
	       state_is_stopped(state);
}

static bool limits_are_equal(const struct limits *a, const struct limits *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static fallible limits_order(struct entry *entry, const struct limits *limits)
{
	struct manager *manager = entry->manager;
	struct order order = {.kind = ORDER_LIMIT, .limits = *limits};
	struct err *err;

	task_shield(true); // the warden goes on, whether or not the client waits
	err = ask_plain(manager->ask, &order, entry->record.id,
			loop_now(manager->loop) + LIMITS_ASK_MS);
	task_shield(false);
	return err;
}

// Whether the warden has done all that it will do.
static bool limits_are_answered(const struct err *err)
{
	return !err || (err_kind(err) != ERR_UNAVAILABLE && err_kind(err) != ERR_TIMEOUT &&
			err_kind(err) != ERR_CANCELLED);
}

static fallible limits_settle(struct entry *entry)
{
	const struct limits next = entry->record.next;
	struct limits limits = entry->record.limits;
	struct err *err;

	if (!next.memory)
		return OK;
	err = limits_order(entry, &limits);
	if (err && limits_are_answered(err) && entry->listed) {
		err_free(err);
		err = limits_order(entry, &next);
		limits = next;
	}
	if (!entry->listed)
		err_free(take_ptr(err));
	TRY(err, "settle the limits of %s", entry->record.id);
	entry_set_limits(entry, &limits, NULL);
	return entry_keep_now(entry);
}

static fallible limits_fit_host(const struct manager *manager, uint32_t said,
				const struct limits *limits)
{
	const struct order_host *host = ask_host(manager->ask);

	if (said >> LIMIT_INODES & 1)
		return err_new(INVALID, "bad_field", "'limits.inodes' cannot be changed");
	if (!host)
		return err_new(UNAVAILABLE, "no_warden", "cove is starting; try again in a moment");
	if (said >> LIMIT_DISK & 1 && !host->can_limit_disk)
		return err_hint(err_new(INVALID, "no_disk_limit",
					"this host cannot keep a limit on disk space"),
				"leave diskMB out; 'cove doctor' tells what is missing");
	if (said >> LIMIT_IO & 1 && limits->io && strcmp(host->cgroup, "v2") != 0)
		return err_hint(err_new(INVALID, "no_io_limit",
					"this host cannot keep a limit on disk bandwidth"),
				"leave ioMBps out: cgroup v1 does not cover buffered writes");
	return OK;
}

static fallible limits_admit(struct entry *entry, const struct limits *next)
{
	struct manager *manager = entry->manager;
	const struct limits *now = &entry->record.limits;

	TRY(account_ask_change(entry->account, entry->weight, now, next));
	if (entry->weight != ACCOUNT_RUNNING && next->disk <= now->disk)
		return OK;
	if (next->memory > now->memory || next->pids > now->pids || next->disk > now->disk)
		return admit_ask(manager->admit, loop_now(manager->loop));
	return OK;
}

static void limits_publish(const struct entry *entry)
{
	static const enum limit shown[] = {LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS, LIMIT_DISK};
	const struct record *record = &entry->record;
	char text[4][24];

	for (size_t i = 0; i < 4; i++) {
		uint64_t value = limit_of(&record->limits, shown[i]);

		if (shown[i] == LIMIT_CPUS)
			snprintf(text[i], sizeof(text[i]), "%g", (double)value / 1000);
		else
			snprintf(text[i], sizeof(text[i]), "%llu",
				 (unsigned long long)(value / limit_rows[shown[i]].unit));
	}
	event_publish(EVENT_BOX_LIMITS, "tenant", record->tenant, "sandbox", record->id, "name",
		      record->name[0] ? record->name : NULL, "memoryMB", text[0], "cpus", text[1],
		      "pids", text[2], "diskMB", text[3], NULL);
}

// Those that the warden or the kernel keeps; the daemon keeps the others.
static bool limits_need_warden(const struct limits *a, const struct limits *b)
{
	return a->memory != b->memory || a->cpu_milli != b->cpu_milli || a->pids != b->pids ||
	       a->disk != b->disk || a->io != b->io;
}

static fallible limits_put(struct entry *entry, const struct limits *next)
{
	const struct limits was = entry->record.limits;
	struct err *err = OK;

	entry_set_limits(entry, &was, next);
	err = entry_keep_now(entry);
	if (err) {
		entry_set_limits(entry, &was, NULL);
		entry_keep(entry);
		return err;
	}
	if (limits_need_warden(&was, next))
		err = limits_order(entry, next);
	if (!entry->listed) {
		err_free(err);
		return err_new(NOT_FOUND, "no_sandbox", "the sandbox was deleted meanwhile");
	}
	if (!err) {
		entry_set_limits(entry, next, NULL);
		return entry_keep_now(entry);
	}
	if (limits_are_answered(err)) {
		auto_err open = limits_settle(entry);

		if (open)
			log_event(LOG_WARN, "limits.open", "sandbox", entry->record.id, "trail",
				  err_trail(open), NULL);
	}
	return err;
}

static fallible limits_check_state(const struct entry *entry)
{
	if (can_have_limits(entry))
		return OK;
	return err_hint(
		err_new(CONFLICT, "not_running", "the limits of the sandbox cannot be changed now"),
		"its state is %s", state_word(entry->record.state));
}

static fallible limits_change_held(struct entry *entry, const struct json *object)
{
	struct manager *manager = entry->manager;
	struct limits next;
	uint32_t said = 0;

	TRY(limits_check_state(entry));
	TRY(limits_settle(entry));
	next = entry->record.limits;
	TRY(spec_read_limits(object, &manager->bounds, &next, &said));
	TRY(limits_fit_host(manager, said, &next));
	if (limits_are_equal(&next, &entry->record.limits))
		return OK;
	TRY(limits_admit(entry, &next));
	TRY(limits_put(entry, &next));
	if (entry->box)
		entry_keep_output(entry);
	limits_publish(entry);
	return OK;
}

fallible limits_change(struct entry *entry, const struct json *object)
{
	struct err *err;

	TRY(pause_hold(entry));
	err = limits_change_held(entry, object);
	pause_release(entry);
	return err;
}

// One at a time: there are few.
static void limits_sweep_one(struct entry *entry)
{
	auto_err err = pause_hold(entry);

	if (err)
		return;
	if (can_have_limits(entry)) {
		err = limits_settle(entry);
	} else {
		const struct limits limits = entry->record.limits;

		entry_set_limits(entry, &limits, NULL);
		entry_keep(entry);
	}
	pause_release(entry);
	if (err)
		log_event(LOG_WARN, "limits.open", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
}

fallible limits_sweep(void *arg, struct sweep_round *round)
{
	struct manager *manager = arg;
	uint64_t after = 0;

	(void)round;
	for (;;) {
		struct entry *open = NULL;

		list_each (at, &manager->entries) {
			struct entry *entry = link_of(at, struct entry, link);

			if (entry->record.next.memory && entry->record.seq > after &&
			    !entry->moving && (!open || entry->record.seq < open->record.seq))
				open = entry;
		}
		if (!open)
			return OK;
		after = open->record.seq;
		entry_ref(open);
		limits_sweep_one(open);
		entry_unref(open);
	}
}
