// What was stored becomes what is: sessions with their leases and open runs. Whatever does not
// parse is kept apart from what is absent: a lease that cannot be read is quarantined, a lease
// whose session is missing is kept until its runner is gone.
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "conv/admission.h"
#include "conv/book.h"
#include "conv/faults.h"
#include "conv/inner.h"
#include "conv/logs.h"
#include "conv/runs.h"
#include "conv/slot.h"
#include "model/timers.h"

#define SETTLE_MS 50

static void alert(const struct conv *conv, const char *what)
{
	conv->convs->alerts++;
	log_event(LOG_ERROR, "alert", "alert", what, "severity", "critical", "session", conv->id,
		  "sandbox", conv->box, NULL);
}

// The id is the stored one. A record without one, written by an older version, gets what its own
// owner gives, and keeps it.
static bool load_place(struct conv *conv, const char *box)
{
	enum owner_kind kind;

	if (!box[0]) {
		struct owner owner = {str_of(conv->org), str_of(conv->user), str_of(conv->bot),
				      str_of(conv->key)};

		owner_derive(&owner, conv->route.kind == OWNER_SES, str_of(conv->route.tag),
			     &conv->route);
		conv->sandbox = mem_str(conv->route.id);
		memcpy(conv->box, conv->route.id, sizeof(conv->box));
		owner_class_of(str_of(conv->box), &conv->class);
		return true;
	}
	conv->sandbox = mem_str(box);
	if (owner_is_id(str_of(box), &kind)) {
		memcpy(conv->box, box, sizeof(conv->box));
		memcpy(conv->route.id, box, sizeof(conv->route.id));
	} else {
		owner_legacy_id(str_of(box), conv->box);
		conv->route.kind = OWNER_LEGACY;
	}
	if (!owner_class_of(str_of(box), &conv->class))
		log_event(LOG_ERROR, "session.bad_sandbox", "session", conv->id, NULL);
	return false;
}

static void name(struct conv *conv, const struct store_conv *row)
{
	snprintf(conv->tenant, sizeof(conv->tenant), "%s", row->tenant);
	conv->key = mem_str(row->id);
	conv->id = mem_str(conv_id_of(conv->tenant, conv->key));
}

static fallible load_sessions(struct convs *convs)
{
	auto_arena arena = arena_new();
	struct store_conv *rows = NULL;
	size_t count = 0;

	TRY(store_conv_load(convs->store, STORE_SESSION, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct conv *conv = conv_new(convs);
		bool whole = book_read_session(&rows[i], conv);

		name(conv, &rows[i]);
		conv->version = rows[i].version;
		conv->born = true;
		conv->lone = !whole; // nothing is launched for what cannot be read
		if (!whole)
			owner_directory(str_of(conv->key), conv->directory);
		conv->derived = load_place(conv, rows[i].box);
		// Without a row of its own a lease is not "none": what was there is not known.
		conv->lease.next_generation = (uint64_t)convs_now(convs);
		if (conv_list(conv))
			logs_open(conv);
		if (!whole)
			alert(conv, "session_unreadable");
	}
	return OK;
}

static struct conv *orphan(struct convs *convs, const struct store_conv *row, const char *what)
{
	struct conv *conv = conv_new(convs);

	name(conv, row);
	conv->born = conv->lone = conv->deleting = true;
	conv->route.kind = OWNER_LEGACY; // whatever it is, its sandbox is not destroyed for it
	owner_directory(str_of(conv->key), conv->directory);
	load_place(conv, row->box);
	if (conv_list(conv))
		logs_open(conv);
	alert(conv, what);
	return conv;
}

static fallible load_leases(struct convs *convs)
{
	auto_arena arena = arena_new();
	struct store_conv *rows = NULL;
	size_t count = 0;

	TRY(store_conv_load(convs->store, STORE_LEASE, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct conv *conv = map_get(convs->by_key, str_of(rows[i].id));
		struct lease_event event = {
			.kind = LEASE_UNREADABLE,
			.now_ms = convs_now(convs),
			.error = "the stored lease does not parse",
		};

		if (!conv)
			conv = orphan(convs, &rows[i], "lease_without_session");
		conv->lease_version = rows[i].version;
		if (book_read_lease(&rows[i], &conv->lease)) {
			lease_clamp(&conv->lease, event.now_ms);
		} else {
			lease_hear(&conv->lease, &event, &conv->lease);
			alert(conv, "lease_unreadable");
		}
	}
	return OK;
}

static fallible load_runs(struct convs *convs)
{
	auto_arena arena = arena_new();
	struct store_conv *rows = NULL;
	size_t count = 0;

	TRY(store_conv_load(convs->store, STORE_RUN, arena, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		struct conv *conv = map_get(convs->by_key, str_of(rows[i].session));
		struct run *run;

		if (!conv || strcmp(rows[i].state, runs_state_word(RUN_COMPLETED)) == 0 ||
		    strcmp(rows[i].state, runs_state_word(RUN_FAILED)) == 0 ||
		    strcmp(rows[i].state, runs_state_word(RUN_INTERRUPTED)) == 0)
			continue;
		run = mem_new_of(struct run);
		run->conv = conv;
		run->earlier = true;
		if (book_read_run(&rows[i], run) && !runs_is_over(run)) {
			runs_weigh(run);
			runs_list(run);
		} else {
			log_event(LOG_ERROR, "run.unreadable", "session", conv->id, "run",
				  rows[i].id, NULL);
			runs_free(run);
		}
	}
	return OK;
}

static int by_age(const void *a, const void *b)
{
	const struct run *one = *(struct run *const *)a, *two = *(struct run *const *)b;

	if (one->state != two->state) // the one that runs is first
		return one->state > two->state ? -1 : 1;
	return one->created_ms < two->created_ms ? -1 : one->created_ms > two->created_ms;
}

// Rows come by id; runs go by age.
static void sort_runs(struct conv *conv)
{
	auto_free struct run **all = mem_new((conv->run_count + 1) * sizeof(void *));
	size_t count = 0;

	list_each (at, &conv->runs)
		all[count++] = link_of(at, struct run, link);
	qsort(all, count, sizeof(void *), by_age);
	for (size_t i = 0; i < count; i++) {
		link_drop(&all[i]->link);
		link_add(&conv->runs, &all[i]->link);
	}
}

static fallible load_load(struct convs *convs)
{
	TRY(slot_load(convs), "load routes");
	TRY(load_sessions(convs), "load sessions");
	TRY(load_leases(convs), "load leases");
	TRY(load_runs(convs), "load runs");
	list_each (at, &convs->all)
		sort_runs(link_of(at, struct conv, link));
	return OK;
}

void convs_configure(struct convs *convs, const struct convs_options *options)
{
	free(convs->isolate);
	free(convs->tag);
	convs->isolate = mem_str(options->isolate ? options->isolate : "");
	convs->tag = mem_str(options->tag ? options->tag : "");
	convs->threshold = options->threshold ? options->threshold : ADMISSION_THRESHOLD;
	convs->input_share = options->input_share ? options->input_share : CONV_INPUT_SHARE;
	memcpy(convs->class_max, options->class_max, sizeof(convs->class_max));
}

fallible convs_open(const struct convs_options *options, struct convs **out)
{
	struct convs *convs = mem_new_of(struct convs);
	struct err *err;

	convs->loop = options->loop;
	convs->store = options->store;
	convs->seam = options->seam;
	convs->dir = options->dir;
	convs->output_of = options->output_of;
	convs->output_arg = options->output_arg;
	convs_configure(convs, options);
	convs->by_key = map_new();
	convs->by_alias = map_new();
	convs->shares = map_new();
	link_init(&convs->all);
	bell_init(&convs->admitted);
	bell_init(&convs->idle);
	convs->wall_base = clock_steady_ms();
	convs->mono_base = clock_ms();
	// Numbers of connections are never given twice, not even by another life.
	convs->connections = (uint64_t)convs->wall_base;
	err = load_load(convs);
	if (err) {
		convs_free(convs);
		return err;
	}
	*out = convs;
	return OK;
}

// ----------------------------------------------------------------------------- maintenance

static bool is_forgotten(const struct conv *conv)
{
	int64_t age = convs_now(conv->convs) - conv->used_ms;

	return conv->born && !conv->deleting && !conv->run_count &&
	       age >= timer_ms(TIMER_RETENTION);
}

static void load_pass(struct convs *convs)
{
	list_each (at, &convs->all) {
		struct conv *conv = link_of(at, struct conv, link);
		struct wish wish = {.kind = WISH_DELETE};

		if (!is_forgotten(conv) || !conv->keeper)
			continue;
		log_event(LOG_INFO, "session.expired", "session", conv->id, NULL);
		conv_hold(conv);
		err_free(wish_ask(conv, &wish));
		conv_drop(conv);
		return; // the list may have changed: the rest is for the next pass
	}
}

static bool load_is_busy(const struct convs *convs)
{
	list_each (at, &convs->all)
		if (link_of(at, struct conv, link)->lease.state != LEASE_NONE)
			return true;
	return false;
}

static int64_t pause_ms(const struct convs *convs)
{
	int64_t pause = timer_ms(load_is_busy(convs) ? TIMER_MAINTAIN_BUSY : TIMER_MAINTAIN_IDLE);
	int64_t retention = timer_ms(TIMER_RETENTION) / 4;

	if (retention < pause)
		pause = retention;
	return pause > timer_ms(TIMER_MAINTAIN_LEAST) ? pause : timer_ms(TIMER_MAINTAIN_LEAST);
}

static void maintain(void *arg)
{
	struct convs *convs = arg;

	while (!convs->closing) {
		auto_err err = task_sleep_until(loop_now(convs->loop) + pause_ms(convs));

		if (err)
			break;
		load_pass(convs);
	}
	convs->maintainer = NULL;
	convs_end(convs);
}

// A record that had no id keeps the one that it got.
static void keep_derived(struct conv *conv)
{
	auto_err err = OK;

	if (!conv->derived)
		return;
	err = book_commit(conv, &(struct book_change){.session = true});
	conv->derived = err != NULL;
}

// A runner that nothing is written down about gets a lease, which finds it and has it stopped.
static void load_take_in(const struct seam_site *at, void *of)
{
	struct convs *convs = of;
	char key[CONV_KEY_MAX + 1];
	struct store_conv row = {.id = key, .tenant = at->tenant, .box = at->sandbox};
	struct conv *conv;

	auto_err err = owner_check_part(str_of(at->session), "session");

	if (err || convs->closing || !conv_key(at->tenant, str_of(at->session), key) ||
	    map_get(convs->by_key, str_of(key)))
		return;
	conv = orphan(convs, &row, "runner_without_lease");
	conv->lease.next_generation = (uint64_t)convs_now(convs);
	keeper_start(conv);
}

static void take_in_strays(struct convs *convs)
{
	const struct seam *seam = convs->seam;

	while (seam->sessions && !convs->closing) {
		auto_err err = seam->sessions(seam->arg, load_take_in, convs);

		if (!err)
			return;
		err_free(task_sleep_until(loop_now(convs->loop) + SETTLE_MS));
	}
}

static void load_begin(void *arg)
{
	struct convs *convs = arg;

	task_shield(true);
	logs_count(convs);
	list_each (at, &convs->all)
		keep_derived(link_of(at, struct conv, link));
	list_each (at, &convs->all) {
		struct conv *conv = link_of(at, struct conv, link);

		if (conv->born && !conv->keeper)
			keeper_start(conv);
	}
	convs->started = true;
	take_in_strays(convs);
	convs_end(convs);
}

void convs_start(struct convs *convs)
{
	convs_begin(convs);
	convs_begin(convs);
	task_start(convs->loop, "convs.start", load_begin, convs);
	convs->maintainer = task_start(convs->loop, "convs.maintain", maintain, convs);
}

void convs_stop(struct convs *convs)
{
	convs->closing = true;
	faults_clear(); // nobody hangs for longer than cove serves
	if (convs->maintainer)
		task_cancel(convs->maintainer);
	list_each (at, &convs->all)
		bell_ring(&link_of(at, struct conv, link)->wake);
	while (convs->tasks)
		err_free(bell_wait(&convs->idle, CLOCK_NEVER));
}

void convs_free(struct convs *convs)
{
	struct str name;
	void *share;

	if (!convs)
		return;
	convs->closing = true;
	list_each (at, &convs->all)
		conv_unlist(link_of(at, struct conv, link));
	slot_free(convs);
	map_free(convs->by_key);
	map_free(convs->by_alias);
	for (size_t at = 0; map_next(convs->shares, &at, &name, &share);)
		free(share);
	map_free(convs->shares);
	free(convs->isolate);
	free(convs->tag);
	free(convs);
}

fallible convs_drain(struct convs *convs, int64_t deadline)
{
	convs->draining = true;
	for (;;) {
		size_t left = 0;

		list_each (at, &convs->all) {
			struct conv *conv = link_of(at, struct conv, link);
			struct wish wish = {.kind = WISH_STOP, .reason = LEASE_FOR_DRAIN};

			if (conv->lease.state == LEASE_NONE ||
			    conv->lease.state == LEASE_QUARANTINED)
				continue;
			left++;
			if (lease_is_owned(&conv->lease) && conv->keeper) {
				conv_hold(conv);
				err_free(wish_ask(conv, &wish));
				conv_drop(conv);
				break; // the list may have changed
			}
		}
		if (!left)
			return OK;
		if (loop_now(convs->loop) >= deadline)
			return err_new(TIMEOUT, "runners_left", "%zu runners did not end", left);
		TRY(task_sleep_until(loop_now(convs->loop) + 20));
	}
}
