// The janitor's round: list the boxes that are due, oldest first; start the end of each without
// waiting, so that one bad box blocks no other; then give all of them until PATIENCE_MS. A box that
// is still there counts as a failed attempt, raises an alert, and is due again in the next round.
#include "manager/sweep.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "box/tape.h"
#include "manager/life.h"
#include "manager/publish.h"
#include "types/timers.h"

#define PATIENCE_MS 8000 // scaled
#define PATIENCE_LEAST_MS 250
#define STEP_MS 20
#define ASK_MS 5000
#define AGAIN_MS 100 // a kill may need a moment
#define TRIES 5

// --------------------------------------------------------------------------------- leaked
// resources
//
// Boxes, cgroups, disks, mounts, loop devices, state files, sockets, tapes and unfinished templates
// that carry cove's name and belong to no record. Two questions to the warden: its boxes, and the
// resources in kernel and disk that belong to no box (an inventory). Tapes are the daemon's, and
// are listed here. A resource may belong to a box that is just being recorded: it is removed after
// it was seen without an owner for TIMER_ORPHAN. Nothing counts as leaked while a record could not
// be read.

enum kind {
	KIND_BOX,      // any resource of a box that the warden has
	KIND_TAPES,    // a directory of tapes
	KIND_TEMPLATE, // whose import has ended
};

struct leaked {
	enum kind kind;
	char name[ID_BOX_LEN + 1];
	int64_t first_ms; // loop time
	bool seen;	  // in this listing
	bool tried;	  // in this round
};

struct sweep_leaked {
	struct manager *manager;
	struct leaked *at;
	size_t count;
	struct sweep_round *round; // the current round
};

static struct leaked *sweep_leaked_find(struct sweep_leaked *leaked_all, enum kind kind,
					const char *name)
{
	for (size_t i = 0; i < leaked_all->count; i++)
		if (leaked_all->at[i].kind == kind && !strcmp(leaked_all->at[i].name, name))
			return &leaked_all->at[i];
	return NULL;
}

static bool has_record(const struct sweep_leaked *leaked_all, const char *name)
{
	return map_get(leaked_all->manager->by_id, str_of(name)) != NULL;
}

static struct leaked *sweep_leaked_see(struct sweep_leaked *leaked_all, enum kind kind,
				       const char *name)
{
	struct leaked *leaked = sweep_leaked_find(leaked_all, kind, name);

	if (!leaked) {
		leaked_all->at = mem_grow(leaked_all->at, leaked_all->count + 1,
					  sizeof(*leaked_all->at));
		leaked = &leaked_all->at[leaked_all->count++];
		*leaked = (struct leaked){.kind = kind,
					  .first_ms = loop_now(leaked_all->manager->loop)};
		memcpy(leaked->name, name, strnlen(name, ID_BOX_LEN));
	}
	leaked->seen = true;
	return leaked;
}

static bool is_ripe(const struct sweep_leaked *leaked_all, const struct leaked *leaked)
{
	return leaked->seen &&
	       (leaked->kind == KIND_TEMPLATE || !has_record(leaked_all, leaked->name)) &&
	       loop_now(leaked_all->manager->loop) - leaked->first_ms >= timer_ms(TIMER_ORPHAN);
}

// --------------------------------------------------------------------------------------- looking

static void sweep_leaked_see_box(void *arg, const struct order_box *box)
{
	struct sweep_leaked *leaked_all = arg;

	leaked_all->round->scanned++;
	if (!has_record(leaked_all, box->box) && box->state != ORDER_BOX_GOING)
		sweep_leaked_see(leaked_all, KIND_BOX, box->box);
}

// "group_without_box", "disk_without_box", …: the warden knows no box for the resource.
static void see_odd(struct sweep_leaked *leaked_all, const struct order_odd *odd)
{
	const char *tail = strstr(odd->what, "_without_");

	if (!tail)
		return;
	if (!strcmp(tail, "_without_box") && id_is_box(str_of(odd->name)) &&
	    !has_record(leaked_all, odd->name))
		sweep_leaked_see(leaked_all, KIND_BOX, odd->name);
	else if (!strcmp(odd->what, ORDER_ODD_TEMPLATE))
		sweep_leaked_see(leaked_all, KIND_TEMPLATE, odd->name);
}

static fallible see_odds(struct sweep_leaked *leaked_all)
{
	struct manager *manager = leaked_all->manager;
	auto_free struct answer *answer = mem_new_of(struct answer);
	int none[ORDER_FDS_MAX];

	TRY(ask_order(manager->ask, &(struct order){.kind = ORDER_INVENTORY}, answer, none,
		      loop_now(manager->loop) + ASK_MS));
	for (uint32_t i = 0; i < answer->odd_count && i < ORDER_ODDS_MAX; i++)
		see_odd(leaked_all, &answer->odds[i]);
	return OK;
}

// Keeps the tapes of boxes with a record, and young ones. Others are removed on return.
static bool know_tapes(const char *name, void *arg)
{
	struct sweep_leaked *leaked_all = arg;
	struct leaked *leaked;

	if (!id_is_box(str_of(name)) || has_record(leaked_all, name))
		return true;
	leaked = sweep_leaked_see(leaked_all, KIND_TAPES, name);
	if (leaked->tried || !is_ripe(leaked_all, leaked))
		return true;
	leaked->tried = true;
	leaked_all->round->orphans_found++;
	log_event(LOG_WARN, "box.leaked", "sandbox", name, "kind", "tapes", NULL);
	return false;
}

static fallible sweep_leaked_look(struct sweep_leaked *leaked_all)
{
	struct manager *manager = leaked_all->manager;

	for (size_t i = 0; i < leaked_all->count; i++)
		leaked_all->at[i].seen = false;
	TRY(ask_boxes(manager->ask, sweep_leaked_see_box, leaked_all,
		      loop_now(manager->loop) + ASK_MS));
	TRY(see_odds(leaked_all));
	tape_remove_leaked_all(manager->loop, manager->tapes_dir, know_tapes, leaked_all);
	return OK;
}

// ---------------------------------------------------------------------------------------- ending

static fallible sweep_leaked_end_once(struct sweep_leaked *leaked_all, const struct leaked *leaked)
{
	struct manager *manager = leaked_all->manager;
	int64_t deadline = loop_now(manager->loop) + ASK_MS;
	struct order order = {.kind = ORDER_FORGET};
	char none[sizeof(order.box)] = "";

	if (leaked->kind != KIND_TEMPLATE)
		return ask_plain(manager->ask, &(struct order){.kind = ORDER_DESTROY}, leaked->name,
				 deadline);
	memcpy(order.name, leaked->name, sizeof(leaked->name));
	return ask_plain(manager->ask, &order, none, deadline);
}

// `name` is a copy: the list may change during a wait.
static void sweep_leaked_end(struct sweep_leaked *leaked_all, enum kind kind, const char *name)
{
	struct loop *loop = leaked_all->manager->loop;
	struct leaked leaked = {.kind = kind};
	struct err *err;

	memcpy(leaked.name, name, sizeof(leaked.name));
	log_event(LOG_WARN, "box.leaked", "sandbox", name, NULL);
	err = sweep_leaked_end_once(leaked_all, &leaked);
	for (int i = 1; err && err_kind(err) == ERR_UNAVAILABLE && i < TRIES; i++) {
		err_free(err);
		err_free(task_sleep_until(loop_now(loop) + AGAIN_MS));
		// A box of this id may have been recorded during the wait.
		if (kind == KIND_BOX && has_record(leaked_all, name))
			return;
		err = sweep_leaked_end_once(leaked_all, &leaked);
	}
	if (err)
		alert_publish("cleanup_failed", "warning", "stray", name, err);
}

static void end_ripe(struct sweep_leaked *leaked_all)
{
	uint64_t count = 0;

	for (size_t i = 0; i < leaked_all->count; i++) {
		char name[ID_BOX_LEN + 1];

		if (leaked_all->at[i].kind == KIND_TAPES ||
		    !is_ripe(leaked_all, &leaked_all->at[i]))
			continue;
		leaked_all->round->orphans_found++;
		if (count++ >= SWEEP_BATCH) {
			leaked_all->round->backlog++;
			continue;
		}
		leaked_all->at[i].tried = true;
		memcpy(name, leaked_all->at[i].name, sizeof(name));
		sweep_leaked_end(leaked_all, leaked_all->at[i].kind, name);
	}
}

// A resource that was tried and is not listed any more is gone. One that was never listed again was
// not ours.
static void sweep_leaked_count_gone(struct sweep_leaked *leaked_all)
{
	size_t kept = 0;

	for (size_t i = 0; i < leaked_all->count; i++) {
		struct leaked *leaked = &leaked_all->at[i];

		leaked_all->round->orphans_terminated += leaked->tried && !leaked->seen;
		leaked_all->round->failed_attempts += leaked->tried && leaked->seen;
		leaked->tried = false;
		if (leaked->seen)
			leaked_all->at[kept++] = *leaked;
	}
	leaked_all->count = kept;
}

static bool was_tried(const struct sweep_leaked *leaked_all)
{
	for (size_t i = 0; i < leaked_all->count; i++)
		if (leaked_all->at[i].tried)
			return true;
	return false;
}

static fallible sweep_leaked_verify(struct sweep_leaked *leaked_all)
{
	uint64_t scanned = leaked_all->round->scanned;

	for (int i = 0; i < TRIES; i++) {
		bool left = false;

		TRY(sweep_leaked_look(leaked_all));
		for (size_t at = 0; at < leaked_all->count; at++)
			left |= leaked_all->at[at].tried && leaked_all->at[at].seen;
		if (!left)
			break;
		err_free(task_sleep_until(loop_now(leaked_all->manager->loop) + AGAIN_MS));
	}
	leaked_all->round->scanned = scanned;
	return OK;
}

// A part of a round: lists, removes at most SWEEP_BATCH leaked resources, and lists again; what
// is still there is a failed attempt. Waits. UNAVAILABLE when the warden cannot be asked: nothing
// was touched.
static fallible sweep_leaked_go(struct sweep_leaked *leaked_all, struct sweep_round *round)
{
	const struct manager *manager = leaked_all->manager;

	if (!manager->settled || manager->unknown || manager->doubtful)
		return OK;
	leaked_all->round = round;
	TRY(sweep_leaked_look(leaked_all));
	end_ripe(leaked_all);
	if (was_tried(leaked_all))
		TRY(sweep_leaked_verify(leaked_all));
	sweep_leaked_count_gone(leaked_all);
	return OK;
}

// ------------------------------------------------------------------------------------------ rounds

enum why { WHY_ORPHAN, WHY_STUCK, WHY_OLD };

struct due {
	struct entry *entry; // referenced
	enum why why;
	int64_t since;
};

struct sweep {
	struct manager *manager;
	bool running;
	struct condition done;
	uint64_t rounds;
	struct sweep_round last, total;
	struct sweep_round history[SWEEP_HISTORY];
	struct {
		const char *name;
		struct err *(*run)(void *arg, struct sweep_round *round);
		void *arg;
	} parts[SWEEP_PARTS_MAX];
	size_t part_count;
	struct sweep_leaked leaked_all;
};

struct sweep *sweep_new(struct manager *manager)
{
	struct sweep *sweep = mem_new_of(struct sweep);

	sweep->manager = manager;
	sweep->leaked_all.manager = manager;
	condition_init(&sweep->done);
	return sweep;
}

void sweep_add(struct sweep *sweep, const char *name,
	       struct err *(*part)(void *arg, struct sweep_round *round), void *arg)
{
	if (sweep->part_count == SWEEP_PARTS_MAX)
		return;
	sweep->parts[sweep->part_count].name = name;
	sweep->parts[sweep->part_count].run = part;
	sweep->parts[sweep->part_count++].arg = arg;
}

// How long the entry has been in its state. The time of a failure survives restarts.
static int64_t age_of(const struct entry *entry, int64_t now)
{
	if (entry->record.state == STATE_FAILED && entry->record.failed_ms)
		return clock_steady_ms() - entry->record.failed_ms;
	return now - entry->idle.busy_ms;
}

// Whether the entry is due, and why.
static bool manager_sweep_is_due(const struct entry *entry, int64_t age, enum why *out)
{
	switch (entry->record.state) {
	case STATE_CREATING:
		*out = WHY_ORPHAN;
		return !entry->queued && !entry->pull && age >= timer_ms(TIMER_ORPHAN);
	case STATE_DELETING:
		*out = WHY_STUCK;
		return age >= timer_ms(TIMER_ORPHAN);
	case STATE_FAILED:
		*out = WHY_OLD;
		// An unreadable record, and a box without its files, are left for the operator.
		return !entry->record.disk_kept && !entry->destroying && !entry->unreadable &&
		       strcmp(entry->record.reason, RECORD_FILES_LOST) != 0 &&
		       age >= timer_ms(TIMER_MAX_AGE);
	default:
		return false;
	}
}

struct sweep_view sweep_look(const struct sweep *sweep)
{
	struct sweep_view view = {.duration_ms = sweep->rounds ? sweep->last.duration_ms : -1};
	int64_t now = loop_now(sweep->manager->loop);

	list_each (at, &sweep->manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		enum why why;

		if (!manager_sweep_is_due(entry, age_of(entry, now), &why))
			continue;
		view.orphaned += why == WHY_ORPHAN;
		view.stuck += why == WHY_STUCK;
	}
	return view;
}

static int by_age(const void *a, const void *b)
{
	const struct due *x = a, *y = b;

	return x->since < y->since ? -1 : x->since > y->since;
}

static struct due *list_due(struct sweep *sweep, struct sweep_round *round, size_t *out_count)
{
	int64_t now = loop_now(sweep->manager->loop);
	struct due *all = mem_new((map_count(sweep->manager->by_id) + 1) * sizeof(*all));
	size_t count = 0;

	list_each (at, &sweep->manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		enum why why;
		int64_t age;

		round->scanned++;
		age = age_of(entry, now);
		if (!manager_sweep_is_due(entry, age, &why))
			continue;
		round->orphans_found += why == WHY_ORPHAN;
		all[count++] = (struct due){entry, why, now - age};
	}
	qsort(all, count, sizeof(*all), by_age);
	if (count > SWEEP_BATCH) {
		round->backlog += count - SWEEP_BATCH;
		count = SWEEP_BATCH;
	}
	for (size_t i = 0; i < count; i++)
		entry_ref(all[i].entry);
	*out_count = count;
	return all;
}

static bool all_gone(const struct due *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].entry->listed)
			return false;
	return true;
}

static void count_gone(struct sweep_round *round, enum why why)
{
	round->orphans_terminated += why == WHY_ORPHAN;
	round->stuck_terminated += why == WHY_STUCK;
	round->old_deleted += why == WHY_OLD;
}

static void sweep_records(struct sweep *sweep, struct sweep_round *round)
{
	struct loop *loop = sweep->manager->loop;
	struct who cove = WHO_COVE;
	size_t count = 0;
	auto_free struct due *all = list_due(sweep, round, &count);
	int64_t patience = PATIENCE_MS / timers_scale_now();
	int64_t deadline = loop_now(loop) +
			   (patience > PATIENCE_LEAST_MS ? patience : PATIENCE_LEAST_MS);

	for (size_t i = 0; i < count; i++)
		if (all[i].entry->record.state != STATE_CREATING)
			err_free(life_delete(sweep->manager, &cove, str_of(all[i].entry->record.id),
					     LIFE_FORCED));
	while (!all_gone(all, count) && loop_now(loop) < deadline)
		err_free(task_sleep_until(loop_now(loop) + STEP_MS));
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = all[i].entry;

		if (entry->listed) {
			round->failed_attempts++;
			alert_publish("cleanup_failed", "warning", "sandbox", entry->record.id, OK);
		} else {
			count_gone(round, all[i].why);
			alert_clear("cleanup_failed", "sandbox", entry->record.id);
		}
		entry_unref(entry);
	}
}

static void sweep_record_round(struct sweep *sweep, const struct sweep_round *round)
{
	struct sweep_round *total = &sweep->total;

#define X(field, word) total->field += round->field;
	SWEEP_COUNTS(X)
#undef X
	total->backlog = round->backlog;
	total->duration_ms += round->duration_ms;
	sweep->last = *round;
	sweep->history[sweep->rounds++ % SWEEP_HISTORY] = *round;
	log_event(LOG_DEBUG, "sweep.done", NULL);
	metric_observe(METRIC_CLEANUP, NULL, (double)round->duration_ms / 1000);
	metric_add(METRIC_CLEANUP_FOUND, "orphaned", NULL, (double)round->orphans_found);
	metric_add(METRIC_CLEANUP_FOUND, "terminated", NULL, (double)round->orphans_terminated);
	metric_add(METRIC_CLEANUP_FOUND, "stuck", NULL, (double)round->stuck_terminated);
	metric_add(METRIC_CLEANUP_FOUND, "old", NULL, (double)round->old_deleted);
	metric_add(METRIC_CLEANUP_FAILED, NULL, NULL, (double)round->failed_attempts);
	if (round->duration_ms > SWEEP_SLOW_MS)
		alert_publish("sweep_slow", "warning", "sweep", NULL, OK);
	else
		alert_clear("sweep_slow", "sweep", NULL);
}

static void go_round(struct sweep *sweep)
{
	struct sweep_round round = {.started_ms = clock_wall_ms()};
	int64_t began = loop_now(sweep->manager->loop);
	struct err *err;

	sweep->running = true;
	task_shield(true);
	if (sweep->manager->settled) // otherwise it is unknown which boxes exist
		sweep_records(sweep, &round);
	err = sweep_leaked_go(&sweep->leaked_all, &round);
	if (err) {
		round.failed_attempts++;
		alert_publish("cleanup_failed", "warning", "leaked", NULL, err);
	} else {
		alert_clear("cleanup_failed", "leaked", NULL);
	}
	for (size_t i = 0; i < sweep->part_count; i++) {
		err = sweep->parts[i].run(sweep->parts[i].arg, &round);
		if (err) {
			round.failed_attempts++;
			alert_publish("cleanup_failed", "warning", sweep->parts[i].name, NULL, err);
		} else {
			alert_clear("cleanup_failed", sweep->parts[i].name, NULL);
		}
	}
	task_shield(false);
	round.duration_ms = loop_now(sweep->manager->loop) - began;
	sweep_record_round(sweep, &round);
	sweep->running = false;
	condition_signal(&sweep->done);
}

fallible sweep_run(struct sweep *sweep, struct sweep_round *out)
{
	uint64_t rounds = sweep->rounds;

	if (!sweep->running)
		go_round(sweep);
	while (sweep->rounds == rounds)
		TRY(condition_wait(&sweep->done, CLOCK_NEVER));
	*out = sweep->last;
	return OK;
}

static void sweep_task(void *arg)
{
	struct sweep *sweep = arg;
	auto_err err = ask_wait_linked(sweep->manager->ask, CLOCK_NEVER);

	while (!err && !sweep->manager->settled && !sweep->manager->unknown)
		err = task_sleep_until(loop_now(sweep->manager->loop) + STEP_MS);
	while (!err) {
		struct sweep_round ignored;

		err = sweep_run(sweep, &ignored);
		if (!err)
			err = task_sleep_until(loop_now(sweep->manager->loop) +
					       timer_ms(TIMER_SWEEP));
	}
}

void sweep_open(struct sweep *sweep)
{
	task_start(sweep->manager->loop, "sweep", sweep_task, sweep);
}

void sweep_round_put(struct json_out *out, const struct sweep_round *round)
{
#define X(field, word) json_put_int(out, word, (int64_t)round->field);
	SWEEP_COUNTS(X)
#undef X
	if (round->started_ms)
		json_put_time(out, "startedAt", round->started_ms);
	json_put_int(out, "durationMs", round->duration_ms);
}

static void put_round(struct json_out *out, const struct sweep_round *round)
{
	json_begin(out, '{');
	sweep_round_put(out, round);
	json_end(out, '}');
}

void sweep_put(struct json_out *out, const struct sweep *sweep)
{
	json_put_int(out, "rounds", (int64_t)sweep->rounds);
	json_put_bool(out, "running", sweep->running);
	json_key(out, "last");
	if (sweep->rounds)
		put_round(out, &sweep->last);
	else
		json_add_null(out);
	json_key(out, "total");
	put_round(out, &sweep->total);
	json_key(out, "history");
	json_begin(out, '[');
	for (uint64_t i = 0; i < sweep->rounds && i < SWEEP_HISTORY; i++)
		put_round(out, &sweep->history[(sweep->rounds - 1 - i) % SWEEP_HISTORY]);
	json_end(out, ']');
}
