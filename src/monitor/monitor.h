// The state of the host in numbers: health, metrics, history, alerts and where notices go. Reads
// what the other folders know and have in memory; asks no sandbox, so that an answer takes no
// longer when sandboxes hang.
#pragma once

#include "agent/session.h"
#include "base/metric.h"
#include "codec/json.h"
#include "manager/manager.h"
#include "manager/sweep.h"
#include "monitor/alerts.h"
#include "monitor/history.h"
#include "monitor/sinks.h"

struct monitor;
struct trust; // egress/tls_stream.h

struct monitor_options {
	struct loop *loop;
	struct manager *manager;
	struct agent_sessions *agents; // NULL: their state cannot be read
	struct sweep *sweep;
	struct store *store;
	const char *version;
	struct sinks *sinks;  // borrowed
	struct trust *trust;  // certificates of sinks
	struct str hosts;     // names that the operator lists: gateway/outbound.h
	const char *link;     // "http://127.0.0.1:8484", for links in notices
	int dir;	      // of the history; -1: in memory
	uint64_t history_max; // bytes of its file
};

// Loads what was stored; blocks, before the loop runs.
fallible monitor_new(const struct monitor_options *options, struct monitor **out);
void monitor_start(struct monitor *monitor);
void monitor_stop(struct monitor *monitor); // at a clean end, after the loop: writes the history
struct history *monitor_history(struct monitor *monitor);
struct alerts *monitor_alerts(struct monitor *monitor);

#define MONITOR_REASONS_MAX 16
struct monitor_health {
	bool is_ready, is_unhealthy; // unhealthy: no sandbox can be made or kept
	struct {
		char code[ALERT_ID_MAX + 1];
		const char *hint; // a literal
		enum alert_severity severity;
		int64_t since_ms; // wall clock; 0: not known
	} reasons[MONITOR_REASONS_MAX];
	size_t count;
	uint64_t active, stuck, orphaned, criticals, warnings;
	double failure_rate; // NAN: less than ten samples
};
// Does not wait.
void monitor_health(struct monitor *monitor, struct monitor_health *out);
const char *monitor_health_word(const struct monitor_health *health); // "ok", "degraded" …
void monitor_put_reasons(struct json_out *out, const struct monitor_health *health); // a member
void monitor_put_health(struct json_out *out, const struct monitor_health *health);  // members

// Of executions within the last hour. Rates are NAN below ten samples.
struct monitor_failures {
	double total, infrastructure;
	uint64_t samples;
};
struct monitor_failures monitor_failures(struct monitor *monitor);
// {p50Ms, p95Ms, p99Ms, count} of metric_quantile(): members.
void monitor_put_latency(struct json_out *out, enum metric metric, enum window_span span);

void monitor_write_metrics(struct monitor *monitor, struct buf *out);	  // for Prometheus
void monitor_put_overview(struct json_out *out, struct monitor *monitor); // members
