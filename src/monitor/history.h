// The history of what the host, tenants, types and sandboxes used: the last hour in memory, a
// sample for each TIMER_SAMPLE; a week on the disk, in points of 30 samples. All times are those of
// the steady clock; what was not observed is a gap.
#pragma once

#include "codec/json.h"
#include "manager/manager.h"
#include "monitor/alerts.h"
#include "store/sqlite_history.h"

struct history;

struct history_options {
	struct loop *loop;
	struct manager *manager;
	struct alerts *alerts;
	int dir; // -1: in memory
	uint64_t bytes_max;
};

// Blocks, before the loop runs. From then on every sample of manager/sampler is taken.
fallible history_new(const struct history_options *options, struct history **out);
void history_start(struct history *history);
void history_stop(struct history *history); // writes what is left; blocks

#define HISTORY_ANSWER_MAX 2000 // points of an answer
struct history_query {
	const char *key;		 // "host", "sandbox:ID" …
	unsigned metrics;		 // bits; 0: all
	int64_t from_ms, to_ms, step_ms; // step 0: 600 points
};
// {from, to, stepMs, scope, series, marks}: members. Waits. INVALID too_many_points.
fallible history_put_answer(struct history *history, const struct history_query *query,
			    struct json_out *out);
// Mean and maximum of what all sandboxes used in the last hour: CPU in cores, or a gauge. Untouched
// if nothing was observed.
void history_hour(const struct history *history, enum history_metric metric, double *average,
		  double *peak);
bool history_metric_named(struct str word, enum history_metric *out);
