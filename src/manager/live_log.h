// Changes of sandboxes in one order, for feeds: each change of a record or of a sample gets the
// next version. A feed remembers the version up to which it has read. Only the last change of each
// sandbox is kept, so the log is as large as the table, however slow a feed is.
#pragma once

#include "base/id.h"
#include "base/map.h"
#include "loop/task.h"
#include "types/counters.h"
#include "types/record.h"

#define LIVE_GONE_MAX 512 // sandboxes that left the table and are remembered

struct live_log;

// The place of a sandbox in the log, zeroed at first. Embedded in its entry.
struct live_mark {
	uint64_t record, sample; // versions of the last changes; 0: none
	struct link link;
};

struct live_log *live_log_new(void);
void live_log_free(struct live_log *log);

// The record has changed, or what is shown of the last sample. `log` may be NULL: nothing is noted.
void live_log_record(struct live_log *log, struct live_mark *mark);
void live_log_sample(struct live_log *log, struct live_mark *mark, const struct sample *before,
		     const struct sample *now);
// It leaves the table.
void live_log_remove(struct live_log *log, struct live_mark *mark, const struct record *record);

uint64_t live_log_version(const struct live_log *log); // of the last change
// Waits for a change after `version`. TIMEOUT.
fallible live_log_await(struct live_log *log, uint64_t version, int64_t deadline);
// Whether all that left the table after `version` is still remembered.
bool live_log_is_whole(const struct live_log *log, uint64_t version);

// The sandbox whose last change is the first one after `version`; NULL: none. live_log_next(): the
// one changed after it. Borrowed until the caller's next wait.
struct live_mark *live_log_first(const struct live_log *log, uint64_t version);
struct live_mark *live_log_next(const struct live_log *log, const struct live_mark *mark);
uint64_t live_mark_version(const struct live_mark *mark); // of its last change

struct live_gone {
	uint64_t version;
	char id[ID_BOX_LEN + 1], tenant[RECORD_TENANT_MAX];
};
// Calls `each` for what left the table after `version`, up to `until`.
void live_log_gone(const struct live_log *log, uint64_t version, uint64_t until,
		   void (*each)(void *arg, const struct live_gone *gone), void *arg);
