// Finds and removes leaked resources. Two questions to the warden: its boxes, and the resources in
// kernel and disk that belong to no box (an inventory). Tapes are the daemon's, and are listed
// here. A resource is removed only after it was seen without an owner for TIMER_ORPHAN.
#include "manager/sweep_leaked.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "box/tape.h"
#include "manager/alert.h"
#include "types/timers.h"

#define ASK_MS 5000
#define AGAIN_MS 100 // a kill may need a moment
#define TRIES 5

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

struct sweep_leaked *sweep_leaked_new(struct manager *manager)
{
	struct sweep_leaked *leaked_all = mem_new_of(struct sweep_leaked);

	leaked_all->manager = manager;
	return leaked_all;
}

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

static fallible sweep_leaked_order_plain(struct sweep_leaked *leaked_all, struct order *order,
					 struct answer *answer)
{
	struct manager *manager = leaked_all->manager;
	int none[ORDER_FDS_MAX];

	return ask_order(manager->ask, order, answer, none, loop_now(manager->loop) + ASK_MS);
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
	auto_free struct answer *answer = mem_new_of(struct answer);

	TRY(sweep_leaked_order_plain(leaked_all, &(struct order){.kind = ORDER_INVENTORY}, answer));
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
	auto_free struct answer *answer = mem_new_of(struct answer);
	struct order order = {.kind = ORDER_DESTROY};

	if (leaked->kind == KIND_TEMPLATE) {
		order.kind = ORDER_FORGET;
		memcpy(order.name, leaked->name, sizeof(leaked->name));
	} else {
		memcpy(order.box, leaked->name, sizeof(order.box));
	}
	return sweep_leaked_order_plain(leaked_all, &order, answer);
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
		alert_tell("cleanup_failed", "warning", "stray", name, err);
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
static void count_gone(struct sweep_leaked *leaked_all)
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

fallible sweep_leaked_go(struct sweep_leaked *leaked_all, struct sweep_round *round)
{
	const struct manager *manager = leaked_all->manager;

	if (!manager->settled || manager->unknown || manager->doubtful)
		return OK;
	leaked_all->round = round;
	TRY(sweep_leaked_look(leaked_all));
	end_ripe(leaked_all);
	if (was_tried(leaked_all))
		TRY(sweep_leaked_verify(leaked_all));
	count_gone(leaked_all);
	return OK;
}
