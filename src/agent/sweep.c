// Reports agent sessions to the janitor. Nothing is ended here: leases end runners by their own
// deadlines. Adds the counts since the last round, and raises or clears the alert for overdue
// stops.
#include "agent/private.h"
#include "manager/alert.h"
#include "types/timers.h"

fallible agents_sweep(void *arg, struct sweep_round *round)
{
	struct agent_sessions *agents = arg;
	bool overdue = agents_look(agents).oldest_stop_ms >= timer_ms(TIMER_ORPHAN);

	round->scanned += agents->count;
	round->orphans_found += agents->orphans - agents->told_orphans;
	round->orphans_terminated += agents->orphans_ended - agents->told_ended;
	round->stuck_terminated += agents->stuck_ended - agents->told_stuck;
	agents->told_stuck = agents->stuck_ended;
	agents->told_orphans = agents->orphans;
	agents->told_ended = agents->orphans_ended;
	if (overdue)
		alert_tell("stop_overdue", "warning", "session", NULL, OK);
	if (!overdue)
		alert_clear("stop_overdue", "session", NULL);
	return OK;
}
