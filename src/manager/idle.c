// One task checks all boxes, each as rarely as its sleepAfter allows: every eighth of it, but at
// least every LOOK_MAX_MS. CPU counters are read only when all cheaper comparisons say idle. Boxes
// that are due are referenced, then moved one state down each.
//
// A box without use for FILES_MS keeps three descriptors: those of its exec cgroups are closed
// (box_freeze_files()) and reopened by the next command. All spans use the monotonic clock, so that
// a changed wall clock ends nothing. The end of a ttl is a time of the steady clock, converted to
// loop time when the entry is first checked.
#include "manager/idle.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/freeze.h"
#include "manager/archives.h"
#include "manager/life.h"
#include "manager/pause.h"
#include "types/timers.h"

#define LOOK_MIN_MS 50
#define LOOK_MAX_MS 15000
#define TICK_MS 1000
#define FILES_MS 5000
#define ASK_MS 10000
#define LOOKS 8
#define AUTO_DELETE_MAX 43200 // minutes
#define BATCH 64
#define CALM_US 1000	// CPU time between two checks that still counts as idle
#define CALM_PERMILLE 1 // the same, as a part of the time between them

struct idler {
	struct manager *manager;
	struct entry *due[BATCH]; // referenced
	size_t count;
	int64_t next; // when the next check is due
};

static void idle_want(struct idler *idler, struct entry *entry)
{
	if (idler->count == BATCH)
		return;
	entry_ref(entry);
	idler->due[idler->count++] = entry;
}

static void look_again(struct idler *idler, struct entry *entry, int64_t at)
{
	entry->idle.look_ms = at;
	if (at < idler->next)
		idler->next = at;
}

static int64_t span_of(const struct entry *entry)
{
	int64_t span = (int64_t)entry->record.retention.sleep_after_ms / LOOKS;

	if (span < LOOK_MIN_MS)
		return LOOK_MIN_MS;
	return span > LOOK_MAX_MS ? LOOK_MAX_MS : span;
}

// True if CPU time was used since the last check.
static bool has_worked(struct entry *entry, int64_t span)
{
	uint64_t now = box_cpu_us(entry->box), was = entry->idle.cpu_us;
	uint64_t used = now > was ? now - was : was - now;
	uint64_t calm = (uint64_t)span * CALM_PERMILLE;

	entry->idle.cpu_us = now;
	return used > (calm > CALM_US ? calm : CALM_US);
}

// Processes that an earlier daemon's commands left are not in our counters: ask the warden before
// the box is frozen. Unknown usage counts as use.
static bool has_worked_unseen(struct entry *entry, int64_t now)
{
	uint64_t before = 0, used = 0;
	auto_err err = box_ask_cpu(entry->box, &before, &used, now + ASK_MS);
	uint64_t calm = (uint64_t)(now - entry->idle.busy_ms) * CALM_PERMILLE;

	return err || used - before > (calm > CALM_US ? calm : CALM_US);
}

static void look_at_running(struct idler *idler, struct entry *entry, int64_t now)
{
	int64_t span = span_of(entry), sleep = (int64_t)entry->record.retention.sleep_after_ms;

	if (!sleep || entry->record.retention.keep_alive) {
		look_again(idler, entry, now + LOOK_MAX_MS);
		return;
	}
	if (entry->visits || box_is_busy(entry->box) || has_worked(entry, span))
		entry->idle.busy_ms = now;
	if (now - entry->idle.busy_ms >= sleep)
		idle_want(idler, entry);
	look_again(idler, entry, now + span);
}

static void look_at_frozen(struct idler *idler, struct entry *entry, int64_t now)
{
	int64_t due = entry->idle.busy_ms + timer_ms(TIMER_FROZEN);

	if (entry->record.ephemeral || entry->record.retention.keep_alive)
		return;
	if (now >= due)
		idle_want(idler, entry);
	look_again(idler, entry, now >= due ? now + span_of(entry) : due);
}

// When a stopped box with ENV_MAP_AUTO_DELETE is due, in loop time; CLOCK_NEVER: it is kept.
static int64_t deleted_at(const struct entry *entry)
{
	const char *text = env_map_get(&entry->record.labels, STR(ENV_MAP_AUTO_DELETE));
	uint64_t minutes;

	if (!state_is_stopped(entry->record.state) || entry->record.unsynced_ms || entry->moving ||
	    entry->visits || !text || !str_to_u64(str_of(text), 0, AUTO_DELETE_MAX, &minutes))
		return CLOCK_NEVER;
	return entry->idle.busy_ms + (int64_t)minutes * 60 * 1000;
}

// The same for one with archiveAfter.
static int64_t archived_at(const struct entry *entry)
{
	if (entry->record.state != STATE_STOPPED || !entry->record.retention.archive_after_ms ||
	    entry->moving || entry->visits)
		return CLOCK_NEVER;
	return entry->idle.busy_ms + (int64_t)entry->record.retention.archive_after_ms;
}

static void look_at_stopped(struct idler *idler, struct entry *entry, int64_t now)
{
	int64_t due = deleted_at(entry), archive = archived_at(entry);

	due = archive < due ? archive : due;
	if (now >= due)
		idle_want(idler, entry);
	look_again(idler, entry, due > now && due < now + LOOK_MAX_MS ? due : now + LOOK_MAX_MS);
}

// True: its ttl is over.
static bool has_ended(struct idler *idler, struct entry *entry, int64_t now)
{
	if (!entry->record.ends_ms || entry->record.state == STATE_DELETING)
		return false;
	if (!entry->idle.ends_ms)
		entry->idle.ends_ms = now + entry->record.ends_ms - clock_steady_ms();
	if (entry->record.unsynced_ms && (entry->idle.ttl_stopped || entry->moving))
		return false; // idleness stops it if it was woken
	if (entry->idle.ends_ms < idler->next)
		idler->next = entry->idle.ends_ms;
	return now >= entry->idle.ends_ms;
}

static void idle_look(struct idler *idler)
{
	int64_t now = loop_now(idler->manager->loop);

	idler->count = 0;
	idler->next = now + TICK_MS;
	list_each (at, &idler->manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (now - entry->idle.busy_ms >= FILES_MS)
			entry_close_files(entry, false);
		if (has_ended(idler, entry, now)) {
			idle_want(idler, entry);
		} else if (entry->moving || now < entry->idle.look_ms) {
			if (entry->idle.look_ms > now && entry->idle.look_ms < idler->next)
				idler->next = entry->idle.look_ms;
		} else if (entry->record.state == STATE_RUNNING && entry->box) {
			look_at_running(idler, entry, now);
		} else if (entry->record.state == STATE_FROZEN) {
			look_at_frozen(idler, entry, now);
		} else if (state_is_stopped(entry->record.state)) {
			look_at_stopped(idler, entry, now);
		}
	}
	if (idler->count == BATCH || idler->next < now + LOOK_MIN_MS)
		idler->next = now + LOOK_MIN_MS;
}

static fallible idle_act(struct idler *idler, struct entry *entry)
{
	int64_t now = loop_now(idler->manager->loop);
	struct who cove = WHO_COVE;

	if (has_ended(idler, entry, now)) {
		log_event(LOG_INFO, "box.ttl_over", "sandbox", entry->record.id, NULL);
		if (entry->record.unsynced_ms) {
			entry->idle.ttl_stopped = true;
			return pause_stop(entry, "ttl_over");
		}
		return life_delete(idler->manager, &cove, str_of(entry->record.id), 0);
	}
	if (state_is_stopped(entry->record.state)) {
		if (now >= archived_at(entry) && now < deleted_at(entry))
			return archives_idle(entry);
		if (now < deleted_at(entry))
			return OK;
		log_event(LOG_INFO, "box.auto_deleted", "sandbox", entry->record.id, NULL);
		return life_delete(idler->manager, &cove, str_of(entry->record.id), 0);
	}
	if (entry->record.state == STATE_RUNNING && entry->box && box_is_unseen(entry->box) &&
	    has_worked_unseen(entry, now)) {
		entry->idle.busy_ms = now;
		return OK;
	}
	return pause_step_down(entry);
}

static void idle_watch(void *arg)
{
	struct idler *idler = arg;

	for (;;) {
		idler->next = loop_now(idler->manager->loop) + TICK_MS;
		if (!idler->manager->closing)
			idle_look(idler);
		for (size_t i = 0; i < idler->count; i++) {
			struct entry *entry = idler->due[i];
			auto_err err = entry->listed ? idle_act(idler, entry) : OK;

			if (err)
				log_event(LOG_WARN, "box.idle_failed", "sandbox", entry->record.id,
					  "reason", err_reason(err), "trail", err_trail(err), NULL);
			entry_unref(entry);
		}
		idler->count = 0;
		auto_err err = task_sleep_until(idler->next);

		if (err && err_kind(err) == ERR_CANCELLED)
			break;
	}
	free(idler);
}

void idle_open(struct manager *manager)
{
	struct idler *idler = mem_new_of(struct idler);

	idler->manager = manager;
	task_start(manager->loop, "idle", idle_watch, idler);
}
