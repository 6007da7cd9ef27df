#include "base/metric.h"

#include <stdio.h>

#include "tap.h"

static bool writes(const char *line)
{
	auto_buf text = BUF_INIT(1 << 20);

	metric_write(&text);
	return buf_ok(&text) && strstr(text.at, line);
}

TEST(text, "counters, gauges and histograms are written as Prometheus reads them")
{
	metric_add(METRIC_EXECUTIONS, "IMPLEMENTATION", "completed", 2);
	metric_set(METRIC_DISK_FREE, NULL, NULL, 1.5);
	metric_observe(METRIC_EXECUTION, "VALIDATION", 7);
	CHECK(writes("cove_executions_total{type=\"IMPLEMENTATION\",outcome=\"completed\"} 2\n"));
	CHECK(writes("cove_disk_free_bytes 1.5\n") &&
	      writes("# TYPE cove_disk_free_bytes gauge\n"));
	CHECK(writes("cove_execution_seconds_bucket{type=\"VALIDATION\",le=\"5\"} 0\n"));
	CHECK(writes("cove_execution_seconds_bucket{type=\"VALIDATION\",le=\"15\"} 1\n"));
	CHECK(writes("cove_execution_seconds_bucket{type=\"VALIDATION\",le=\"+Inf\"} 1\n"));
	CHECK(writes("cove_execution_seconds_sum{type=\"VALIDATION\"} 7\n"));
	CHECK(writes("cove_cleanup_failed_total 0\n"));
	CHECK(metric_value(METRIC_EXECUTION, "VALIDATION", NULL) == 1);
}

TEST(labels, "a label is escaped, and one value too many is other")
{
	char word[32];

	metric_add(METRIC_REFUSALS, "a\"b\\c\nd", NULL, 1);
	CHECK(writes("cove_refusals_total{reason=\"a\\\"b\\\\c\\nd\"} 1\n"));
	for (int i = 0; i < 1000; i++) {
		snprintf(word, sizeof(word), "w%d", i);
		metric_add(METRIC_EGRESS_DENIED, word, NULL, 1);
	}
	CHECK(metric_sum(METRIC_EGRESS_DENIED) == 1000);
	CHECK(metric_value(METRIC_EGRESS_DENIED, METRIC_OTHER, NULL) ==
	      1000 - METRIC_SERIES_MAX + 1);
}

TEST(quantile, "creates have quantiles")
{
	uint64_t count = 0;

	for (int i = 1; i <= 100; i++)
		metric_observe(METRIC_BOX_CREATE, "direct", i / 1000.0);
	CHECK(metric_quantile(METRIC_BOX_CREATE, WINDOW_HOUR, 0.5, &count) > 40 && count == 100);
}
