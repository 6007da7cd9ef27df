// What each sandbox has used, by hour: the differences between its samples, written together with
// the last reading, so that nothing is lost or counted twice however the daemon ends.
#pragma once

#include "manager/table.h"
#include "store/usage.h"
#include "types/counters.h"

// Labels of the work that a sandbox does: set by the part of cove that makes it.
#define CHARGE_TYPE "cove/type"
#define CHARGE_OWNER "cove/owner"
#define CHARGE_EXECUTION "cove/execution"
#define CHARGE_SESSION "cove/agent-session"

// The last durable reading of a sandbox of an earlier daemon, as a sample; time_ms 0: there is
// none. Waits for the store.
fallible metering_recover(const struct entry *entry, const char *boot, struct sample *out);
// Adds the difference of two samples; a new sandbox has a `before` of zeros. What is added is
// written within METERING_WRITE_MS, or by metering_write().
#define METERING_WRITE_MS 60000
void metering_add(struct entry *entry, const char *boot, const struct sample *before,
		  const struct sample *now);
void metering_write(struct entry *entry, const char *boot, const struct sample *now);
// The same unless nothing was used since.
void metering_settle(struct entry *entry, const char *boot, const struct sample *now);

// Called with each difference, on the loop's thread; must not wait.
typedef void metering_fn(void *arg, const struct entry *entry, const struct usage *used);
void metering_subscribe(struct manager *manager, metering_fn *fn, void *arg);
