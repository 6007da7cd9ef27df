// Reads counters and tables of the manager, of agent sessions, of the janitor and of the store. All
// of it is in memory but the room of the host, which the manager reads from /proc.
#include "monitor/view.h"

#include <math.h>
#include <string.h>

#include "manager/sampler.h"
#include "monitor/rates.h"
#include "store/store.h"

static uint64_t view_known(uint64_t counter)
{
	return counter == COUNTER_UNKNOWN ? 0 : counter;
}

static void view_count_boxes(const struct manager *manager, struct view *view)
{
	list_each (at, &manager->entries) {
		const struct entry *entry = link_of(at, struct entry, link);
		const struct sample *sample = sampler_last(entry);

		view->states[entry->record.state]++;
		view->boxes++;
		view->unreadable += entry->unreadable;
		if (entry_is_alive(entry))
			view->memory_limit += entry->record.limits.memory;
		if (!sample)
			continue;
		view->memory_working += view_known(sample->counters.memory_working);
		view->memory_charged += view_known(sample->counters.memory_charged);
		view->disk_used += view_known(sample->disk);
	}
	view->active = (double)(view->states[STATE_CREATING] + view->states[STATE_RUNNING]);
}

static void view_sum_accounts(const struct manager *manager, struct view *view)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(manager->accounts.by_name, &at, &key, &value);) {
		const struct account *account = value;

		view->templates += account->used.templates + account->used.images +
				   account->used.steps;
		view->output += account->output.kept;
	}
}

static void view_look_at_agents(const struct agent_sessions *agents, struct view *view)
{
	view->quarantined = NAN;
	view->overdue_stops = NAN;
	if (!agents)
		return;
	view->agents = agents_look(agents);
	view->quarantined = (double)view->agents.leases[LEASE_QUARANTINED];
	view->overdue_stops = (double)view->agents.overdue;
	view->unreadable += (double)view->agents.unreadable;
	view->stuck += (double)view->agents.stuck;
	view->orphaned += (double)view->agents.late;
}

void view_read(const struct view_source *source, int64_t warden_since, struct view *out)
{
	struct manager *manager = source->manager;
	struct view view = {.sweep = sweep_look(source->sweep)};

	view.is_ready = manager_is_ready(manager);
	view.room = admit_look(manager->admit, loop_now(manager->loop));
	view.stuck = (double)view.sweep.stuck;
	view.orphaned = (double)view.sweep.orphaned;
	view.sweep_seconds = view.sweep.duration_ms < 0 ? NAN
							: (double)view.sweep.duration_ms / 1000;
	view_count_boxes(manager, &view);
	view_sum_accounts(manager, &view);
	view_look_at_agents(source->agents, &view);
	view.store = source->store ? store_health(source->store) : STORE_FINE;
	view.unwritable = view.store == STORE_FINE ? 0 : 1;
	view.disk_free = view.room.disk_free;
	view.disk_mark = view.room.disk_mark;
	view.disk_ratio = view.room.disk_unknown || !view.disk_mark
				  ? NAN
				  : (double)view.disk_free / (double)view.disk_mark;
	view.warden_gone = warden_since ? (double)(loop_now(manager->loop) - warden_since) / 1000
					: 0;
	view.failure_total = rates_failure_rate(source->rates, RATES_TOTAL);
	view.failure_infrastructure = rates_failure_rate(source->rates, RATES_OF_HOST);
	*out = view;
}
