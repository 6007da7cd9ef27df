// Nothing is ended here: a lease does that in its own time, and a sweep only says what came of it.
#include "conv/inner.h"
#include "fleet/alert.h"
#include "model/timers.h"

fallible convs_sweep(void *arg, struct sweep_round *round)
{
	struct convs *convs = arg;
	bool overdue = convs_look(convs).oldest_stop_ms >= timer_ms(TIMER_ORPHAN);

	round->scanned += convs->count;
	round->orphans_found += convs->orphans - convs->told_orphans;
	round->orphans_terminated += convs->orphans_ended - convs->told_ended;
	round->stuck_terminated += convs->stuck_ended - convs->told_stuck;
	convs->told_stuck = convs->stuck_ended;
	convs->told_orphans = convs->orphans;
	convs->told_ended = convs->orphans_ended;
	if (overdue)
		alert_tell("stop_overdue", "warning", "session", NULL, OK);
	if (!overdue)
		alert_clear("stop_overdue", "session", NULL);
	return OK;
}
