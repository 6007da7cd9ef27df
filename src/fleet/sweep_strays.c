// The warden is asked twice: what cells it has, and what the kernel and the disk hold that is no
// cell's (a census). Tapes are the daemon's own, and are looked for here.
#include "fleet/sweep_strays.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/tape.h"
#include "fleet/alert.h"
#include "model/timers.h"

#define ASK_MS 5000
#define AGAIN_MS 100 // what is being killed may need a moment
#define TRIES 5

enum kind {
	KIND_BOX,      // of any of the things that a box has at the warden
	KIND_TAPES,    // a folder of them
	KIND_TEMPLATE, // that nobody is making any more
};

struct stray {
	enum kind kind;
	char name[ID_BOX_LEN + 1];
	int64_t first_ms; // loop time
	bool seen;	  // at this look
	bool tried;	  // in this round
};

struct sweep_strays {
	struct fleet *fleet;
	struct stray *at;
	size_t count;
	struct sweep_round *round; // the one at hand
};

struct sweep_strays *sweep_strays_new(struct fleet *fleet)
{
	struct sweep_strays *strays = mem_new_of(struct sweep_strays);

	strays->fleet = fleet;
	return strays;
}

static struct stray *sweep_strays_find(struct sweep_strays *strays, enum kind kind,
				       const char *name)
{
	for (size_t i = 0; i < strays->count; i++)
		if (strays->at[i].kind == kind && !strcmp(strays->at[i].name, name))
			return &strays->at[i];
	return NULL;
}

static bool has_record(const struct sweep_strays *strays, const char *name)
{
	return map_get(strays->fleet->by_id, str_of(name)) != NULL;
}

static struct stray *sweep_strays_see(struct sweep_strays *strays, enum kind kind, const char *name)
{
	struct stray *stray = sweep_strays_find(strays, kind, name);

	if (!stray) {
		strays->at = mem_grow(strays->at, strays->count + 1, sizeof(*strays->at));
		stray = &strays->at[strays->count++];
		*stray = (struct stray){.kind = kind, .first_ms = loop_now(strays->fleet->loop)};
		memcpy(stray->name, name, strnlen(name, ID_BOX_LEN));
	}
	stray->seen = true;
	return stray;
}

static bool is_ripe(const struct sweep_strays *strays, const struct stray *stray)
{
	return stray->seen && (stray->kind == KIND_TEMPLATE || !has_record(strays, stray->name)) &&
	       loop_now(strays->fleet->loop) - stray->first_ms >= timer_ms(TIMER_ORPHAN);
}

// --------------------------------------------------------------------------------------- looking

static void sweep_strays_see_cell(void *arg, const struct order_cell *cell)
{
	struct sweep_strays *strays = arg;

	strays->round->scanned++;
	if (!has_record(strays, cell->box) && cell->state != ORDER_CELL_GOING)
		sweep_strays_see(strays, KIND_BOX, cell->box);
}

static fallible sweep_strays_order_plain(struct sweep_strays *strays, struct order *order,
					 struct answer *answer)
{
	struct fleet *fleet = strays->fleet;
	int none[ORDER_FDS_MAX];

	return ask_order(fleet->ask, order, answer, none, loop_now(fleet->loop) + ASK_MS);
}

// "group_without_cell", "disk_without_cell", …: the warden has nobody for it either.
static void see_odd(struct sweep_strays *strays, const struct order_odd *odd)
{
	const char *tail = strstr(odd->what, "_without_");

	if (!tail)
		return;
	if (!strcmp(tail, "_without_cell") && id_is_box(str_of(odd->name)) &&
	    !has_record(strays, odd->name))
		sweep_strays_see(strays, KIND_BOX, odd->name);
	else if (!strcmp(odd->what, ORDER_ODD_TEMPLATE))
		sweep_strays_see(strays, KIND_TEMPLATE, odd->name);
}

static fallible see_odds(struct sweep_strays *strays)
{
	auto_free struct answer *answer = mem_new_of(struct answer);

	TRY(sweep_strays_order_plain(strays, &(struct order){.kind = ORDER_CENSUS}, answer));
	for (uint32_t i = 0; i < answer->odd_count && i < ORDER_ODDS_MAX; i++)
		see_odd(strays, &answer->odds[i]);
	return OK;
}

// Known are those of a record, and those that are not ripe. Ripe ones are gone with the answer.
static bool know_tapes(const char *name, void *arg)
{
	struct sweep_strays *strays = arg;
	struct stray *stray;

	if (!id_is_box(str_of(name)) || has_record(strays, name))
		return true;
	stray = sweep_strays_see(strays, KIND_TAPES, name);
	if (stray->tried || !is_ripe(strays, stray))
		return true;
	stray->tried = true;
	strays->round->orphans_found++;
	log_event(LOG_WARN, "box.stray", "sandbox", name, "kind", "tapes", NULL);
	return false;
}

static fallible sweep_strays_look(struct sweep_strays *strays)
{
	struct fleet *fleet = strays->fleet;

	for (size_t i = 0; i < strays->count; i++)
		strays->at[i].seen = false;
	TRY(ask_cells(fleet->ask, sweep_strays_see_cell, strays, loop_now(fleet->loop) + ASK_MS));
	TRY(see_odds(strays));
	tape_remove_strays(fleet->loop, fleet->tapes_dir, know_tapes, strays);
	return OK;
}

// ---------------------------------------------------------------------------------------- ending

static fallible sweep_strays_end_once(struct sweep_strays *strays, const struct stray *stray)
{
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_BURY};

	if (stray->kind == KIND_TEMPLATE) {
		order.kind = ORDER_FORGET;
		memcpy(order.name, stray->name, sizeof(stray->name));
	} else {
		memcpy(order.box, stray->name, sizeof(order.box));
	}
	return sweep_strays_order_plain(strays, &order, answer);
}

// `name` is a copy: others may be seen while we wait.
static void sweep_strays_end(struct sweep_strays *strays, enum kind kind, const char *name)
{
	struct loop *loop = strays->fleet->loop;
	struct stray stray = {.kind = kind};
	struct err *err;

	memcpy(stray.name, name, sizeof(stray.name));
	log_event(LOG_WARN, "box.stray", "sandbox", name, NULL);
	err = sweep_strays_end_once(strays, &stray);
	for (int i = 1; err && err_kind(err) == ERR_UNAVAILABLE && i < TRIES; i++) {
		err_free(err);
		err_free(task_sleep_until(loop_now(loop) + AGAIN_MS));
		// An id that is derived may be somebody's by now.
		if (kind == KIND_BOX && has_record(strays, name))
			return;
		err = sweep_strays_end_once(strays, &stray);
	}
	if (err)
		alert_tell("cleanup_failed", "warning", "stray", name, err);
}

static void end_ripe(struct sweep_strays *strays)
{
	uint64_t count = 0;

	for (size_t i = 0; i < strays->count; i++) {
		char name[ID_BOX_LEN + 1];

		if (strays->at[i].kind == KIND_TAPES || !is_ripe(strays, &strays->at[i]))
			continue;
		strays->round->orphans_found++;
		if (count++ >= SWEEP_BATCH) {
			strays->round->backlog++;
			continue;
		}
		strays->at[i].tried = true;
		memcpy(name, strays->at[i].name, sizeof(name));
		sweep_strays_end(strays, strays->at[i].kind, name);
	}
}

// What was tried and is seen no more is gone; what is not seen at all was never ours to end.
static void count_gone(struct sweep_strays *strays)
{
	size_t kept = 0;

	for (size_t i = 0; i < strays->count; i++) {
		struct stray *stray = &strays->at[i];

		strays->round->orphans_terminated += stray->tried && !stray->seen;
		strays->round->failed_attempts += stray->tried && stray->seen;
		stray->tried = false;
		if (stray->seen)
			strays->at[kept++] = *stray;
	}
	strays->count = kept;
}

static bool was_tried(const struct sweep_strays *strays)
{
	for (size_t i = 0; i < strays->count; i++)
		if (strays->at[i].tried)
			return true;
	return false;
}

static fallible sweep_strays_verify(struct sweep_strays *strays)
{
	uint64_t scanned = strays->round->scanned;

	for (int i = 0; i < TRIES; i++) {
		bool left = false;

		TRY(sweep_strays_look(strays));
		for (size_t at = 0; at < strays->count; at++)
			left |= strays->at[at].tried && strays->at[at].seen;
		if (!left)
			break;
		err_free(task_sleep_until(loop_now(strays->fleet->loop) + AGAIN_MS));
	}
	strays->round->scanned = scanned;
	return OK;
}

fallible sweep_strays_go(struct sweep_strays *strays, struct sweep_round *round)
{
	const struct fleet *fleet = strays->fleet;

	if (!fleet->settled || fleet->unknown || fleet->doubtful)
		return OK;
	strays->round = round;
	TRY(sweep_strays_look(strays));
	end_ripe(strays);
	if (was_tried(strays))
		TRY(sweep_strays_verify(strays));
	count_gone(strays);
	return OK;
}
