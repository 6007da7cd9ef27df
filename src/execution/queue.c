// The queue before a sandbox is made. Slots are bounded by the operator's setting, else by what the
// host has room for. Owners, which are tenants, take turns: each waits in a ring, and after a slot
// it goes to the end of the ring, as one that begins to wait does. So a thousand executions of one
// owner delay those of another by one turn. When there is no room the queue looks again after
// QUEUE_LOOK_MS, and whenever a slot becomes free.
#include "manager/queue.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "execution/private.h"
#include "manager/account.h"
#include "manager/admit.h"

#define QUEUE_LOOK_MS 500
#define STARTING_MAX 16 // sandboxes that are made at a time: below what the manager builds at once

struct queue_owner {
	char tenant[WHO_TENANT_MAX + 1];
	struct link waiting; // its executions, the oldest first
	uint32_t count;
	struct link turn; // of executions->owners
};

static struct queue_owner *queue_owner_of(struct link *link)
{
	return link_of(link, struct queue_owner, turn);
}

static struct queue_owner *queue_find_owner(const struct executions *executions, const char *tenant)
{
	list_each (at, &executions->owners)
		if (!strcmp(queue_owner_of(at)->tenant, tenant))
			return queue_owner_of(at);
	return NULL;
}

struct limits queue_limits(const struct execution *execution)
{
	struct limits limits = LIMITS_DEFAULT;

	limits.memory = execution->limits.memory;
	limits.disk = execution->limits.storage;
	limits.cpu_milli = execution->limits.cpu_milli;
	return limits;
}

static fallible queue_slots(const struct executions *executions)
{
	if (executions->max && executions->slots >= executions->max)
		return err_new(EXHAUSTED, "concurrency", "as many executions run as may");
	if (executions->starting >= STARTING_MAX)
		return err_new(EXHAUSTED, "builds_busy", "many sandboxes are being made");
	return admit_ask(executions->options.manager->admit, loop_now(executions->loop));
}

static bool queue_has_image(const struct execution *execution)
{
	return !execution->want.image || execution->pull == PULL_THERE;
}

static struct execution *queue_of(struct link *link)
{
	return link_of(link, struct execution, place);
}

static fallible queue_ask(struct execution *execution)
{
	struct executions *executions = execution->all;
	struct limits limits = queue_limits(execution);
	struct account *account = accounts_get(&executions->options.manager->accounts,
					       execution->tenant);

	TRY(queue_slots(executions));
	return account_ask(account, &limits, ACCOUNT_NONE, ACCOUNT_RUNNING);
}

// A literal for the record: reasons of errors live as long as the error.
static const char *queue_word(const struct err *err)
{
	static const char *const words[] = {"concurrency", "builds_busy", "host_memory",
					    "host_pids",   "host_files",  "daemon_files",
					    "host_disk",   "quota",	  "capacity_unknown"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(err_reason(err), words[i]))
			return words[i];
	return "no_room";
}

// Those that wait for something of their own, the image or the quota, hold up nobody else.
fallible queue_has_room(const struct executions *executions, struct execution *execution)
{
	TRY(queue_ask(execution));
	list_each (turn, &executions->owners) {
		const struct queue_owner *owner = queue_owner_of(turn);
		const struct execution *first = queue_of(owner->waiting.next);
		bool holds = queue_has_image(first) &&
			     (!first->wait_reason || strcmp(first->wait_reason, "quota") != 0);

		if (holds || !strcmp(owner->tenant, execution->tenant))
			return err_new(EXHAUSTED, "queued", "other executions wait");
	}
	return OK;
}

static void queue_hold_up(struct executions *executions, const char *reason)
{
	executions->held_up = reason;
	list_each (turn, &executions->owners)
		list_each (at, &queue_owner_of(turn)->waiting)
			if (queue_has_image(queue_of(at)))
				queue_of(at)->wait_reason = reason;
}

// Its oldest that may start. One without room in the quota of its owner holds back those behind it.
// *out_full: the host has no room for anybody.
static struct execution *queue_next_of(struct queue_owner *owner, bool *out_full)
{
	int64_t now = clock_steady_ms();

	list_each (at, &owner->waiting) {
		struct execution *execution = queue_of(at);
		auto_err err = OK;

		if (!queue_has_image(execution))
			execution->wait_reason = "image_pull";
		if (!queue_has_image(execution) || execution->next_at > now)
			continue;
		err = queue_ask(execution);
		execution->wait_reason = err ? queue_word(err) : NULL;
		if (!err)
			return execution;
		*out_full = strcmp(execution->wait_reason, "quota") != 0;
		if (*out_full)
			queue_hold_up(execution->all, execution->wait_reason);
		return NULL;
	}
	return NULL;
}

static struct execution *queue_next(struct executions *executions)
{
	bool is_full = false;

	list_each (turn, &executions->owners) {
		struct execution *next = queue_next_of(queue_owner_of(turn), &is_full);

		if (next || is_full)
			return next;
	}
	return NULL;
}

static void queue_grant(struct execution *execution)
{
	struct executions *executions = execution->all;

	execution_set_slot(execution, SLOT_STARTING);
	executions->held_up = NULL;
	executions->slots++;
	executions->starting++;
}

bool queue_take_slot(struct execution *execution)
{
	struct executions *executions = execution->all;
	auto_err err = OK;

	if (!executions->started || executions->draining || !link_empty(&executions->owners) ||
	    !queue_has_image(execution))
		return false;
	err = queue_ask(execution);
	if (err)
		return false;
	queue_grant(execution);
	return true;
}

// The owner has had its turn.
static void queue_pass_turn(struct queue_owner *owner, struct executions *executions)
{
	link_drop(&owner->turn);
	link_add(&executions->owners, &owner->turn);
}

void queue_dispatch(struct executions *executions)
{
	struct execution *next;

	while (executions->started && !executions->draining && (next = queue_next(executions))) {
		queue_pass_turn(next->owner, executions);
		queue_quit(next);
		queue_grant(next);
		condition_signal(&next->wake);
	}
	if (!link_empty(&executions->owners))
		loop_set_timer(executions->loop, &executions->timer,
			       loop_now(executions->loop) + QUEUE_LOOK_MS);
}

void queue_join(struct execution *execution)
{
	struct executions *executions = execution->all;
	struct queue_owner *owner = queue_find_owner(executions, execution->tenant);

	if (execution->slot != SLOT_NONE)
		return;
	if (!owner) {
		owner = mem_new_of(struct queue_owner);
		snprintf(owner->tenant, sizeof(owner->tenant), "%s", execution->tenant);
		link_init(&owner->waiting);
		link_add(&executions->owners, &owner->turn);
	}
	execution_set_slot(execution, SLOT_QUEUED);
	execution->wait_reason = executions->held_up;
	execution->owner = owner;
	link_add(&owner->waiting, &execution->place);
	owner->count++;
	executions->queued++;
	queue_dispatch(executions);
}

void queue_quit(struct execution *execution)
{
	struct queue_owner *owner = take_ptr(execution->owner);

	if (!owner)
		return;
	execution_set_slot(execution, SLOT_NONE);
	link_drop(&execution->place);
	execution->all->queued--;
	if (--owner->count)
		return;
	link_drop(&owner->turn);
	free(owner);
}

void queue_started(struct execution *execution)
{
	if (execution->slot != SLOT_STARTING)
		return;
	execution_set_slot(execution, SLOT_HELD);
	execution->all->starting--;
	queue_dispatch(execution->all);
}

void queue_give_back(struct execution *execution)
{
	if (!execution_has_slot(execution))
		return;
	if (execution->slot == SLOT_STARTING)
		execution->all->starting--;
	execution_set_slot(execution, SLOT_NONE);
	execution->all->slots--;
	queue_dispatch(execution->all);
}

// How many get a slot up to it, if each of them can use the one that it is offered.
uint32_t queue_position(const struct execution *execution)
{
	uint32_t rounds = 0, position = 0;
	bool is_before = true;

	if (!execution->owner)
		return 1;
	list_each (at, &execution->owner->waiting) {
		rounds++;
		if (queue_of(at) == execution)
			break;
	}
	list_each (turn, &execution->all->owners) {
		const struct queue_owner *owner = queue_owner_of(turn);
		uint32_t turns = is_before ? rounds : rounds - 1;

		if (owner == execution->owner) {
			is_before = false;
			position += rounds;
		} else {
			position += owner->count < turns ? owner->count : turns;
		}
	}
	return position;
}
