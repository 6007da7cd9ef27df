// The list `recent` of all sandboxes that changed since the start, the last one at its front, and a
// ring of those that left the table. A change moves its sandbox to the front: to find what is newer
// than a version costs as much as there is to find.
#include "manager/live_log.h"

#include <math.h>

#include "base/mem.h"

struct live_log {
	uint64_t version;
	struct link recent; // of struct live_mark
	struct live_gone gone[LIVE_GONE_MAX];
	uint64_t gone_count; // since the start
	struct condition changed;
};

struct live_log *live_log_new(void)
{
	struct live_log *log = mem_new_of(struct live_log);

	link_init(&log->recent);
	condition_init(&log->changed);
	return log;
}

void live_log_free(struct live_log *log)
{
	free(log);
}

static void live_log_touch(struct live_log *log, struct live_mark *mark, uint64_t *which)
{
	if (!log)
		return;
	*which = ++log->version;
	link_drop(&mark->link);
	link_push(&log->recent, &mark->link);
	condition_signal(&log->changed);
}

void live_log_record(struct live_log *log, struct live_mark *mark)
{
	live_log_touch(log, mark, &mark->record);
}

// A ten-thousandth of a CPU is not shown.
static bool live_log_is_same_rate(double a, double b)
{
	return (a < 0 && b < 0) || fabs(a - b) < 0.0001;
}

void live_log_sample(struct live_log *log, struct live_mark *mark, const struct sample *before,
		     const struct sample *now)
{
	if (!before->time_ms || !live_log_is_same_rate(before->cores, now->cores) ||
	    before->counters.memory_working != now->counters.memory_working ||
	    before->counters.pids != now->counters.pids || before->disk != now->disk ||
	    before->network.requests != now->network.requests)
		live_log_touch(log, mark, &mark->sample);
}

void live_log_remove(struct live_log *log, struct live_mark *mark, const struct record *record)
{
	struct live_gone *gone;

	if (!log)
		return;
	link_drop(&mark->link);
	gone = &log->gone[log->gone_count++ % LIVE_GONE_MAX];
	gone->version = ++log->version;
	memcpy(gone->id, record->id, sizeof(gone->id));
	memcpy(gone->tenant, record->tenant, sizeof(gone->tenant));
	condition_signal(&log->changed);
}

uint64_t live_log_version(const struct live_log *log)
{
	return log->version;
}

fallible live_log_await(struct live_log *log, uint64_t version, int64_t deadline)
{
	while (log->version == version)
		TRY(condition_wait(&log->changed, deadline));
	return OK;
}

bool live_log_is_whole(const struct live_log *log, uint64_t version)
{
	return log->gone_count <= LIVE_GONE_MAX ||
	       log->gone[log->gone_count % LIVE_GONE_MAX].version <= version + 1;
}

uint64_t live_mark_version(const struct live_mark *mark)
{
	return mark->record > mark->sample ? mark->record : mark->sample;
}

struct live_mark *live_log_first(const struct live_log *log, uint64_t version)
{
	struct link *at = log->recent.next, *found = NULL;

	for (; at != &log->recent; at = at->next) {
		if (live_mark_version(link_of(at, struct live_mark, link)) <= version)
			break;
		found = at;
	}
	return found ? link_of(found, struct live_mark, link) : NULL;
}

struct live_mark *live_log_next(const struct live_log *log, const struct live_mark *mark)
{
	struct link *newer = mark->link.prev;

	return newer == &log->recent ? NULL : link_of(newer, struct live_mark, link);
}

void live_log_gone(const struct live_log *log, uint64_t version, uint64_t until,
		   void (*each)(void *arg, const struct live_gone *gone), void *arg)
{
	uint64_t count = log->gone_count < LIVE_GONE_MAX ? log->gone_count : LIVE_GONE_MAX;

	for (uint64_t i = log->gone_count - count; i < log->gone_count; i++) {
		const struct live_gone *gone = &log->gone[i % LIVE_GONE_MAX];

		if (gone->version > version && gone->version <= until)
			each(arg, gone);
	}
}
