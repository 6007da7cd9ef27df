// What executions took and how they ended, by type: rates and quantiles of the last day, and totals
// since the first start of cove. Types that the configuration does not have are counted as "other"
// when there are too many.
#pragma once

#include "codec/json.h"
#include "store/execution_ends.h"

#define RATES_TYPES_MAX 64
#define RATES_SAMPLES 10 // a rate of fewer is unknown

struct rates;

// Loads totals and the ends of the last day, and counts every end of this thread from now on.
struct rates *rates_new(struct store *store);

// Failed of all counted executions of the last hour. NAN: too few.
enum rates_of { RATES_TOTAL, RATES_OF_HOST };
double rates_failure_rate(struct rates *rates, enum rates_of rate);
// Ends within the last hour that are counted, and those of them that failed.
void rates_hour(struct rates *rates, uint64_t *out_count, uint64_t *out_failed);

// {total, completed, failed, averageLifetimeMs, failureRate, timeoutRate}: members.
void rates_put_overview(struct json_out *out, struct rates *rates);
// {TYPE: {executions, successRate, …, windows: {"5m": {count, p50Ms, p95Ms, p99Ms}, …}}}
void rates_put_types(struct json_out *out, struct rates *rates);
