// Publishes events (types/event.h) to the store and its readers. The publisher does not wait: the
// event is durable soon after (STORE_TOLD_MS), in order with the records that it concerns; then
// `event_written` of the manager is signalled.
#pragma once

#define PUBLISH_KEEP 50000 // events of a tenant that are kept at most

struct manager;

// Takes the events of this thread from now on. Without a store they are dropped.
void publish_open(struct manager *manager);
void publish_close(void);
