// Publishes events (types/event.h) to the store and its readers. The publisher does not wait: the
// event is durable soon after (STORE_TOLD_MS), in order with the records that it concerns; then
// `event_written` of the manager is signalled.
#pragma once

#include "base/err.h"

#define PUBLISH_KEEP 50000 // events of a tenant that are kept at most

struct manager;

// Takes the events of this thread from now on. Without a store they are dropped.
void publish_open(struct manager *manager);
void publish_close(void);

// Alerts for the operator: each is a log line and an event.
//
// `alert` and `severity` ("warning", "critical") are literals; `box` and `failed` may be NULL.
// Consumes the error. The same alert about the same object is logged once, and again only if it
// still holds after TIMER_ALERT_QUIET, with the number of repetitions.
void alert_publish(const char *alert, const char *severity, const char *what, const char *box,
		   struct err *failed);
// The listener hears of every alert that is raised, also within the quiet time, and of its end. It
// must not wait.
typedef void alert_listener(void *arg, const char *alert, const char *what, const char *box,
			    bool raised);
void alert_subscribe(alert_listener *fn, void *arg);
// The alert no longer holds: the next one is logged at once.
void alert_clear(const char *alert, const char *what, const char *box);
