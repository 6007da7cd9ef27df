// Counters, gauges and histograms of this process, as Prometheus reads them: one table.
// Process-wide on purpose: every folder counts where something happens. Any thread may call.
//
// A label never holds an id, a name, a path or a host. A metric keeps at most METRIC_SERIES_MAX
// label values; further ones are counted as "other".
#pragma once

#include "base/buf.h"
#include "base/window.h"

#define METRIC_SERIES_MAX 256
#define METRIC_LABEL_MAX 40
#define METRIC_OTHER "other"

enum metric_kind {
	METRIC_GAUGE,
	METRIC_COUNTER,
	METRIC_SHORT,
	METRIC_LONG
}; // the last: histograms

// clang-format off
//	  METRIC_             kind     name                          labels               help
#define METRICS(X) \
	X(BUILD_INFO,         GAUGE,   "build_info",                 "version", "",       "The version of cove; always 1") \
	X(START_TIME,         GAUGE,   "start_time_seconds",         "", "",              "When the daemon started, since 1970") \
	X(BOXES,              GAUGE,   "sandboxes",                  "state", "",         "Sandboxes by state") \
	X(BOXES_STUCK,        GAUGE,   "sandboxes_stuck",            "", "",              "Sandboxes and runs that are past their limit and not gone") \
	X(BOXES_ORPHANED,     GAUGE,   "sandboxes_orphaned",         "", "",              "Sandboxes that never became ready") \
	X(EXECUTIONS_NOW,     GAUGE,   "executions",                 "state", "",         "Executions that have not ended: queued, running") \
	X(LEASES,             GAUGE,   "leases",                     "state", "",         "Leases of agent sessions by state") \
	X(BOX_MEMORY,         GAUGE,   "sandbox_memory_bytes",       "kind", "",          "Memory of all sandboxes: working_set, charged, limit") \
	X(DISK,               GAUGE,   "disk_bytes",                 "area", "",          "Disk space in use: sandboxes, templates, output, database") \
	X(DISK_FREE,          GAUGE,   "disk_free_bytes",            "", "",              "Free space of the file system of the data directory") \
	X(QUEUE_WAITING,      GAUGE,   "queue_waiting",              "", "",              "Creates that wait for room") \
	X(LIVE_CLIENTS,       GAUGE,   "live_clients",               "", "",              "Open connections of clients") \
	X(ALERTS,             GAUGE,   "alerts",                     "severity", "state", "Alerts by severity and state") \
	X(FAILURE_RATIO,      GAUGE,   "failure_ratio",              "kind", "",          "Failed executions of the last hour: total, infrastructure; absent below ten samples") \
	X(BOXES_CREATED,      COUNTER, "sandboxes_created_total",    "outcome", "",       "Creates of sandboxes: created, failed, refused") \
	X(BOXES_ENDED,        COUNTER, "sandboxes_ended_total",      "reason", "",        "Sandboxes that ended: deleted, failed, stopped") \
	X(EXECS,              COUNTER, "execs_total",                "ended", "",         "Commands that ended, by how") \
	X(EXECUTIONS,         COUNTER, "executions_total",           "type", "outcome",   "Executions that ended since the first start of cove") \
	X(CLEANUP_FOUND,      COUNTER, "cleanup_found_total",        "kind", "",          "What the janitor found: orphaned, terminated, stuck, old") \
	X(CLEANUP_FAILED,     COUNTER, "cleanup_failed_total",       "", "",              "Removals of the janitor that failed") \
	X(EGRESS_CONNECTIONS, COUNTER, "egress_connections_total",   "verdict", "",       "Connections of sandboxes: allowed, denied") \
	X(EGRESS_DENIED,      COUNTER, "egress_denied_total",        "reason", "",        "Denied connections and requests of sandboxes") \
	X(EGRESS_BYTES,       COUNTER, "egress_bytes_total",         "direction", "",     "Bytes of connections of sandboxes: in, out") \
	X(EGRESS_REQUESTS,    COUNTER, "egress_requests_total",      "", "",              "HTTP requests of sandboxes") \
	X(BOX_CPU,            COUNTER, "sandbox_cpu_seconds_total",  "", "",              "CPU time of sandboxes, as sampled") \
	X(COST,               COUNTER, "cost_total",                 "kind", "",          "Cost of what sandboxes used, as sampled, in the currency of the prices: cpu, memory, disk, requests") \
	X(BOX_OOM,            COUNTER, "sandbox_oom_total",          "", "",              "Commands that were ended by the memory limit") \
	X(REFUSALS,           COUNTER, "refusals_total",             "reason", "",        "Requests that were refused for lack of room: 429, 503, 507") \
	X(HTTP_REQUESTS,      COUNTER, "http_requests_total",        "group", "code",     "Requests of the API") \
	X(STORE_FAILURES,     COUNTER, "store_failures_total",       "", "",              "Commits that the disk refused") \
	X(LIVE_DROPPED,       COUNTER, "live_dropped_total",         "topic", "",         "Readings that were not sent to a feed because its reader was slow") \
	X(NOTIFICATIONS,      COUNTER, "notifications_total",        "sink", "outcome",   "Notices of alerts by kind of sink: sent, failed, dropped") \
	X(CPU_SECONDS,        COUNTER, "cpu_seconds_total",          "", "",              "CPU time of the daemon") \
	X(RESIDENT,           GAUGE,   "resident_memory_bytes",      "", "",              "Memory of the daemon") \
	X(OPEN_FDS,           GAUGE,   "open_fds",                   "", "",              "Open descriptors of the daemon") \
	X(BOX_CREATE,         SHORT,   "sandbox_create_seconds",     "path", "",          "Time of a create that succeeded: direct, queued") \
	X(BOX_STOP,           SHORT,   "sandbox_stop_seconds",       "", "",              "Time to stop a sandbox") \
	X(BOX_WAKE,           SHORT,   "sandbox_wake_seconds",       "from", "",          "Time until a sandbox runs again: paused, frozen, stopped, failed") \
	X(EXEC_START,         SHORT,   "exec_start_seconds",         "", "",              "Time until a command runs") \
	X(CLEANUP,            SHORT,   "cleanup_seconds",            "", "",              "Time of a round of the janitor") \
	X(HTTP,               SHORT,   "http_request_seconds",       "group", "",         "Time of requests of the API") \
	X(STORE_COMMIT,       SHORT,   "store_commit_seconds",       "", "",              "Time of a commit of the database") \
	X(LOOP_STALL,         SHORT,   "loop_stall_seconds",         "", "",              "Turns of the event loop that took more than 10 ms") \
	X(SAMPLER,            SHORT,   "sampler_seconds",            "", "",              "Time to read the counters of up to 32 sandboxes") \
	X(EXECUTION,          LONG,    "execution_seconds",          "type", "",          "Time that executions ran") \
	X(EXECUTION_QUEUE,    LONG,    "execution_queue_seconds",    "type", "",          "Time that executions waited")
// clang-format on

enum metric {
#define X(id, kind, name, first, second, help) METRIC_##id,
	METRICS(X)
#undef X
		METRIC_COUNT
};

// Labels in the order of the table, NULL for one that the metric does not have.
void metric_add(enum metric metric, const char *first, const char *second, double amount);
void metric_set(enum metric metric, const char *first, const char *second, double value);
// Adds one observation to a histogram.
void metric_observe(enum metric metric, const char *label, double seconds);
// Forgets every series of a gauge that is about to be set again.
void metric_clear(enum metric metric);
// The value of a series; of a histogram: its number of observations. 0: it does not exist.
double metric_value(enum metric metric, const char *first, const char *second);
// The sum over all series.
double metric_sum(enum metric metric);
// Of creates (METRIC_BOX_CREATE) and of starts of commands (METRIC_EXEC_START), in milliseconds:
// the quantile of the last minutes or hours, and the number of samples. -1: there are none.
double metric_quantile(enum metric metric, enum window_span span, double quantile,
		       uint64_t *out_count);
// The text format 0.0.4. Every metric is described, also one without a series.
void metric_write(struct buf *out);
