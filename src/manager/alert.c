// Rate limit for alerts, process-wide on purpose: any part of the daemon may raise one. A few
// alerts are remembered. A new alert replaces the oldest: an alert can be repeated too early, never
// lost.
#include "manager/alert.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "types/event.h"
#include "types/timers.h"

#define ALERTS 64
#define ALERT_NAME 160

static struct {
	char name[ALERT_NAME]; // "": none
	int64_t told_ms;
	uint64_t quiet; // repetitions since it was logged
} alerts[ALERTS];

static void name_of(char room[ALERT_NAME], const char *alert, const char *what, const char *box)
{
	snprintf(room, ALERT_NAME, "%s/%s/%s", alert, what, box ? box : "");
}

// The slot of the alert, or that of the oldest.
static size_t alert_place_of(const char *name)
{
	size_t oldest = 0;

	for (size_t i = 0; i < ALERTS; i++) {
		if (!strcmp(alerts[i].name, name))
			return i;
		if (!alerts[i].name[0] || alerts[i].told_ms < alerts[oldest].told_ms)
			oldest = alerts[oldest].name[0] ? i : oldest;
	}
	return oldest;
}

void alert_tell(const char *alert, const char *severity, const char *what, const char *box,
		struct err *failed)
{
	auto_err err = failed;
	char name[ALERT_NAME], count[24];
	int64_t now = clock_ms();
	size_t at;

	name_of(name, alert, what, box);
	at = alert_place_of(name);
	if (strcmp(alerts[at].name, name) != 0)
		alerts[at].quiet = 0;
	else if (now - alerts[at].told_ms < timer_ms(TIMER_ALERT_QUIET)) {
		alerts[at].quiet++;
		return;
	}
	snprintf(count, sizeof(count), "%llu", (unsigned long long)alerts[at].quiet);
	log_event(LOG_ERROR, "alert", "alert", alert, "severity", severity, "what", what, "sandbox",
		  box, "quiet", alerts[at].quiet ? count : NULL, "trail",
		  err ? err_trail(err) : NULL, NULL);
	event_publish(EVENT_ALERT, "alert", alert, "severity", severity, "what", what, "sandbox",
		      box, "quiet", alerts[at].quiet ? count : NULL, "trail",
		      err ? err_trail(err) : NULL, NULL);
	memcpy(alerts[at].name, name, sizeof(name));
	alerts[at].told_ms = now;
	alerts[at].quiet = 0;
}

void alert_clear(const char *alert, const char *what, const char *box)
{
	char name[ALERT_NAME];
	size_t at;

	name_of(name, alert, what, box);
	at = alert_place_of(name);
	if (!strcmp(alerts[at].name, name))
		alerts[at].name[0] = '\0';
}
