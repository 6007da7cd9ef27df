// A round: those that are due are listed, oldest first; each is asked to end without waiting, so
// that a bad one blocks nobody; then all are given until the patience is over. What is still there
// then counts as a failed attempt, is told of as an alert, and is due again in the next round.
//
// A cell of the warden's that no record names may belong to somebody who is just being written
// down: it is remembered when it is first seen, and buried when it has been so for TIMER_ORPHAN.
// When the warden cannot be asked, nothing is known of cells, and none is touched.
#include "fleet/sweep.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fleet/life.h"
#include "model/timers.h"

#define PATIENCE_MS 8000
#define STEP_MS 20
#define ASK_MS 5000

enum why { WHY_ORPHAN, WHY_STUCK, WHY_OLD };

struct due {
	struct entry *entry; // held
	enum why why;
	int64_t since;
};

struct stray {
	char id[ID_BOX_LEN + 1];
	int64_t first_ms; // loop time
	bool seen;	  // in this round
};

struct sweep {
	struct fleet *fleet;
	bool running;
	struct bell done;
	uint64_t rounds;
	struct sweep_round last, total;
	struct sweep_round history[SWEEP_HISTORY];
	struct {
		const char *name;
		struct err *(*run)(void *arg, struct sweep_round *round);
		void *arg;
	} parts[SWEEP_PARTS_MAX];
	size_t part_count;
	struct stray *strays;
	size_t stray_count;
};

struct sweep *sweep_new(struct fleet *fleet)
{
	struct sweep *sweep = mem_new_of(struct sweep);

	sweep->fleet = fleet;
	bell_init(&sweep->done);
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

static void alert(const char *what, const char *box, struct err *failed)
{
	auto_err err = failed;

	log_event(LOG_ERROR, "alert", "alert", "cleanup_failed", "severity", "warning", "what",
		  what, "sandbox", box, "trail", err ? err_trail(err) : NULL, NULL);
}

// Whether it is due, and why.
static bool is_due(const struct entry *entry, int64_t now, enum why *out)
{
	int64_t age = now - entry->idle.busy_ms; // in its state

	switch (entry->record.state) {
	case STATE_CREATING:
		*out = WHY_ORPHAN;
		return !entry->ticket && age >= timer_ms(TIMER_ORPHAN);
	case STATE_DELETING:
		*out = WHY_STUCK;
		return age >= timer_ms(TIMER_ORPHAN);
	case STATE_FAILED:
		*out = WHY_OLD;
		return !entry->record.disk_kept && !entry->burying &&
		       age >= timer_ms(TIMER_MAX_AGE);
	default:
		return false;
	}
}

static int by_age(const void *a, const void *b)
{
	const struct due *x = a, *y = b;

	return x->since < y->since ? -1 : x->since > y->since;
}

static struct due *list_due(struct sweep *sweep, struct sweep_round *round, size_t *out_count)
{
	int64_t now = loop_now(sweep->fleet->loop);
	struct due *all = mem_new((map_count(sweep->fleet->by_id) + 1) * sizeof(*all));
	size_t count = 0;

	list_each (at, &sweep->fleet->entries) {
		struct entry *entry = link_of(at, struct entry, link);
		enum why why;

		round->scanned++;
		if (!is_due(entry, now, &why))
			continue;
		round->orphans_found += why == WHY_ORPHAN;
		all[count++] = (struct due){entry, why, entry->idle.busy_ms};
	}
	qsort(all, count, sizeof(*all), by_age);
	if (count > SWEEP_BATCH) {
		round->backlog += count - SWEEP_BATCH;
		count = SWEEP_BATCH;
	}
	for (size_t i = 0; i < count; i++)
		entry_hold(all[i].entry);
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
	struct loop *loop = sweep->fleet->loop;
	struct who cove = WHO_COVE;
	size_t count = 0;
	auto_free struct due *all = list_due(sweep, round, &count);
	int64_t deadline = loop_now(loop) + PATIENCE_MS;

	for (size_t i = 0; i < count; i++)
		if (all[i].entry->record.state != STATE_CREATING)
			err_free(life_delete(sweep->fleet, &cove, str_of(all[i].entry->record.id),
					     false));
	while (!all_gone(all, count) && loop_now(loop) < deadline)
		err_free(task_sleep_until(loop_now(loop) + STEP_MS));
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = all[i].entry;

		if (entry->listed) {
			round->failed_attempts++;
			alert("sandbox", entry->record.id, OK);
		} else {
			count_gone(round, all[i].why);
		}
		entry_drop(entry);
	}
}

static struct stray *stray_of(struct sweep *sweep, const char *id)
{
	for (size_t i = 0; i < sweep->stray_count; i++)
		if (!strcmp(sweep->strays[i].id, id))
			return &sweep->strays[i];
	return NULL;
}

struct round_ref {
	struct sweep *sweep;
	struct sweep_round *round;
};

static void see_stray(struct sweep *sweep, const char *id)
{
	struct stray *stray = stray_of(sweep, id);

	if (!stray) {
		sweep->strays = mem_grow(sweep->strays, sweep->stray_count + 1,
					 sizeof(*sweep->strays));
		stray = &sweep->strays[sweep->stray_count++];
		*stray = (struct stray){.first_ms = loop_now(sweep->fleet->loop)};
		memcpy(stray->id, id, sizeof(stray->id));
	}
	stray->seen = true;
}

static void see_cell(void *arg, const struct order_cell *cell)
{
	struct round_ref *ref = arg;

	ref->round->scanned++;
	if (!map_get(ref->sweep->fleet->by_id, str_of(cell->box)) &&
	    cell->state != ORDER_CELL_GOING)
		see_stray(ref->sweep, cell->box);
}

// What the kernel has of boxes that not even the warden knows.
static fallible see_odds(struct sweep *sweep)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_CENSUS};
	int none[ORDER_FDS_MAX];

	TRY(ask_order(sweep->fleet->ask, &order, answer, none,
		      loop_now(sweep->fleet->loop) + ASK_MS));
	for (uint32_t i = 0; i < answer->odd_count && i < ORDER_ODDS_MAX; i++) {
		const struct order_odd *odd = &answer->odds[i];

		if (!strcmp(odd->what, "group_without_cell") && id_is_box(str_of(odd->name)) &&
		    !map_get(sweep->fleet->by_id, str_of(odd->name)))
			see_stray(sweep, odd->name);
	}
	return OK;
}

static fallible bury_stray(struct sweep *sweep, const char *id)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_BURY};
	int none[ORDER_FDS_MAX];

	memcpy(order.box, id, sizeof(order.box));
	log_event(LOG_WARN, "box.stray", "sandbox", id, NULL);
	return ask_order(sweep->fleet->ask, &order, answer, none,
			 loop_now(sweep->fleet->loop) + ASK_MS);
}

static fallible sweep_strays(struct sweep *sweep, struct sweep_round *round)
{
	struct loop *loop = sweep->fleet->loop;
	struct round_ref ref = {sweep, round};
	size_t kept = 0;

	for (size_t i = 0; i < sweep->stray_count; i++)
		sweep->strays[i].seen = false;
	TRY(ask_cells(sweep->fleet->ask, see_cell, &ref, loop_now(loop) + ASK_MS));
	TRY(see_odds(sweep));
	for (size_t i = 0; i < sweep->stray_count; i++) {
		struct stray *stray = &sweep->strays[i];
		bool ripe = loop_now(loop) - stray->first_ms >= timer_ms(TIMER_ORPHAN);

		// A record may have come for it while others were buried.
		if (!stray->seen || map_get(sweep->fleet->by_id, str_of(stray->id)))
			continue;
		round->orphans_found += ripe;
		if (ripe) {
			struct err *err = bury_stray(sweep, stray->id);

			if (!err) {
				round->orphans_terminated++;
				continue;
			}
			round->failed_attempts++;
			alert("stray", stray->id, err);
		}
		sweep->strays[kept++] = *stray;
	}
	sweep->stray_count = kept;
	return OK;
}

static void keep_round(struct sweep *sweep, const struct sweep_round *round)
{
	struct sweep_round *total = &sweep->total;

#define X(field, word) total->field += round->field;
	SWEEP_COUNTS(X)
#undef X
	total->backlog = round->backlog;
	total->duration_ms += round->duration_ms;
	sweep->last = *round;
	sweep->history[sweep->rounds++ % SWEEP_HISTORY] = *round;
	log_event(round->duration_ms > SWEEP_SLOW_MS ? LOG_WARN : LOG_DEBUG, "sweep.done", NULL);
}

static void go_round(struct sweep *sweep)
{
	struct sweep_round round = {.started_ms = clock_wall_ms()};
	int64_t began = loop_now(sweep->fleet->loop);
	struct err *err;

	sweep->running = true;
	task_shield(true);
	sweep_records(sweep, &round);
	err = sweep_strays(sweep, &round);
	if (err) {
		round.failed_attempts++;
		alert("strays", NULL, err);
	}
	for (size_t i = 0; i < sweep->part_count; i++) {
		err = sweep->parts[i].run(sweep->parts[i].arg, &round);
		if (err) {
			round.failed_attempts++;
			alert(sweep->parts[i].name, NULL, err);
		}
	}
	task_shield(false);
	round.duration_ms = loop_now(sweep->fleet->loop) - began;
	keep_round(sweep, &round);
	sweep->running = false;
	bell_ring(&sweep->done);
}

fallible sweep_run(struct sweep *sweep, struct sweep_round *out)
{
	uint64_t rounds = sweep->rounds;

	if (!sweep->running)
		go_round(sweep);
	while (sweep->rounds == rounds)
		TRY(bell_wait(&sweep->done, CLOCK_NEVER));
	*out = sweep->last;
	return OK;
}

static void keep_sweeping(void *arg)
{
	struct sweep *sweep = arg;
	auto_err err = ask_wait_linked(sweep->fleet->ask, CLOCK_NEVER);

	while (!err) {
		struct sweep_round ignored;

		err = sweep_run(sweep, &ignored);
		if (!err)
			err = task_sleep_until(loop_now(sweep->fleet->loop) +
					       timer_ms(TIMER_SWEEP));
	}
}

void sweep_open(struct sweep *sweep)
{
	task_start(sweep->fleet->loop, "sweep", keep_sweeping, sweep);
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
