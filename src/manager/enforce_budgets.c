// One task looks at all sandboxes every second, oldest first, and takes one step after the other. A
// sandbox with a running command is left alone until that has ended.
#include "manager/enforce_budgets.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/budgets.h"
#include "manager/pause.h"

#define TICK_MS 1000
#define BATCH 64

static bool enforce_is_due(const struct entry *entry)
{
	enum state state = entry->record.state;
	bool held = state == STATE_PAUSED && !strcmp(entry->record.reason, RECORD_BUDGET);

	if (entry->moving || entry->destroying || entry->adopting)
		return false;
	if (!entry->over_budget)
		return held;
	return (state == STATE_RUNNING && entry->box && !entry->visits) || state == STATE_FROZEN;
}

static size_t enforce_collect(struct manager *manager, struct entry *due[BATCH])
{
	size_t count = 0;

	list_each (at, &manager->entries) {
		struct entry *entry = link_of(at, struct entry, link);

		if (count == BATCH || !enforce_is_due(entry))
			continue;
		entry_ref(entry);
		due[count++] = entry;
	}
	return count;
}

static void enforce_step(struct entry *entry)
{
	auto_err err = OK;

	if (entry->listed && enforce_is_due(entry))
		err = entry->over_budget ? pause_for_budget(entry) : pause_end_for_budget(entry);
	if (err)
		log_event(LOG_WARN, "budget.step_failed", "sandbox", entry->record.id, "trail",
			  err_trail(err), NULL);
	entry_unref(entry);
}

static void enforce_watch(void *arg)
{
	struct manager *manager = arg;
	auto_err err = NULL;

	while (!err) {
		struct entry *due[BATCH];
		size_t count = 0;

		if (manager->settled && !manager->closing) {
			budgets_look(manager);
			count = enforce_collect(manager, due);
		}
		for (size_t i = 0; i < count; i++)
			enforce_step(due[i]);
		err = task_sleep_until(loop_now(manager->loop) + TICK_MS);
	}
}

void enforce_budgets_open(struct manager *manager)
{
	task_start(manager->loop, "budgets", enforce_watch, manager);
}
