// Counts the bytes that tapes keep on disk, in memory, as they are written: in the budget of their
// box (or agent session), and beyond the budget's floor also in the quota of the tenant. A write
// without room first drops the oldest ended tape.
//
// Bytes of windows (tape_live.c) are not kept, so they are not in the budget; they are on disk,
// so they count in the quota.
#include "base/mem.h"
#include "base/weak.h"
#include "box/tape_private.h"

#define BLOCK 4096 // of the file system: the smallest file
#define WINDOWS_MAX (256ull << 20)

static uint64_t all_windows; // bytes of the windows of all tapes

struct tape_budget {
	int refs;
	uint64_t max, used;
	uint64_t windows;	  // bytes of windows
	uint64_t floor;		  // bytes that count in no quota
	struct tape_quota *quota; // NULL: none
	bool (*more)(void *arg);
	void *arg;
};

struct tape_budget *tape_budget_new(uint64_t max)
{
	struct tape_budget *budget = mem_new_of(struct tape_budget);

	*budget = (struct tape_budget){.refs = 1, .max = max};
	return budget;
}

static uint64_t budget_counted(const struct tape_budget *budget)
{
	uint64_t all = budget->used + budget->windows;

	return all > budget->floor ? all - budget->floor : 0;
}

static void budget_set(struct tape_budget *budget, uint64_t used, uint64_t windows)
{
	uint64_t before = budget_counted(budget), kept = budget->used + budget->windows;

	budget->used = used;
	budget->windows = windows;
	if (!budget->quota)
		return;
	budget->quota->used += budget_counted(budget) - before;
	budget->quota->kept += used + windows - kept;
}

void tape_budget_charge(struct tape_budget *budget, uint64_t bytes)
{
	budget_set(budget, budget->used + bytes, budget->windows);
}

void tape_budget_refund(struct tape_budget *budget, uint64_t bytes)
{
	budget_set(budget, budget->used - (bytes < budget->used ? bytes : budget->used),
		   budget->windows);
}

void tape_budget_count(struct tape *tape, uint64_t now)
{
	all_windows += now - tape->window->counted;
	if (tape->budget)
		budget_set(tape->budget, tape->budget->used,
			   tape->budget->windows + now - tape->window->counted);
	tape->window->counted = now;
}

bool tape_windows_are_many(void)
{
	return all_windows >= WINDOWS_MAX;
}

bool tape_budget_lacks_quota(const struct tape_budget *budget)
{
	const struct tape_quota *quota = budget->quota;

	return quota && quota->left && quota->left(quota) == 0;
}

void tape_budget_drop(struct tape_budget *budget)
{
	if (!budget || --budget->refs > 0)
		return;
	tape_budget_leave(budget);
	free(budget);
}

void tape_budget_on_lack(struct tape_budget *budget, bool (*more)(void *arg), void *arg)
{
	budget->more = more;
	budget->arg = arg;
}

void tape_budget_leave(struct tape_budget *budget)
{
	if (budget->quota) {
		budget->quota->used -= budget_counted(budget);
		budget->quota->kept -= budget->used + budget->windows;
	}
	budget->quota = NULL;
}

void tape_budget_set(struct tape_budget *budget, uint64_t max, uint64_t floor,
		     struct tape_quota *quota)
{
	tape_budget_leave(budget);
	budget->max = max;
	budget->floor = floor;
	budget->quota = quota;
	if (quota) {
		quota->used += budget_counted(budget);
		quota->kept += budget->used + budget->windows;
	}
	while (budget->used > max && budget->more && budget->more(budget->arg))
		continue;
}

uint64_t tape_budget_used(const struct tape_budget *budget)
{
	return budget->used;
}

static uint64_t budget_room(const struct tape_budget *budget)
{
	uint64_t room = budget->used < budget->max ? budget->max - budget->used : 0, shared;

	if (weak(OUTPUT))
		room = UINT64_MAX;
	if (!budget->quota || !budget->quota->left)
		return room;
	shared = budget->quota->left(budget->quota);
	if (budget->used < budget->floor && shared < UINT64_MAX - budget->floor)
		shared += budget->floor - budget->used;
	return shared < room ? shared : room;
}

void tape_bound(struct tape *tape, struct tape_budget *budget)
{
	budget->refs++;
	tape->budget = budget;
	if (tape->window)
		budget_set(budget, budget->used, budget->windows + tape->window->counted);
	if (!tape->name || tape->left)
		return;
	tape->spilled = (tape->window ? tape->window->gap.place : tape->end.place) +
			(tape->label_len + BLOCK - 1) / BLOCK * BLOCK;
	tape_budget_charge(budget, tape->spilled);
}

void tape_unbind(struct tape *tape)
{
	struct tape_budget *budget = take_ptr(tape->budget);

	if (budget && tape->window)
		budget_set(budget, budget->used, budget->windows - tape->window->counted);
	if (budget && !tape->left)
		tape_budget_refund(budget, tape->spilled);
	tape_budget_drop(budget);
}

size_t tape_afford(struct tape *tape, size_t len)
{
	struct tape_budget *budget = tape->budget;
	uint64_t room;

	if (!budget)
		return len;
	while (tape_framed(len) > (room = budget_room(budget)) && budget->more &&
	       budget->more(budget->arg))
		continue;
	if (tape_framed(len) > room)
		len = room > 2 * TAPE_FRAME_HEAD ? (size_t)room - 2 * TAPE_FRAME_HEAD : 0;
	return len;
}

void tape_unpay(struct tape *tape, size_t len)
{
	if (!tape->budget)
		return;
	len = len < tape->spilled ? len : (size_t)tape->spilled;
	tape_budget_refund(tape->budget, len);
	tape->spilled -= len;
}

void tape_pay(struct tape *tape, size_t len)
{
	if (!tape->budget)
		return;
	tape_budget_charge(tape->budget, tape_framed(len));
	tape->spilled += tape_framed(len);
}
