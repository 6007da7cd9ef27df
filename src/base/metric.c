// The registry behind metric.h: an array of series for each row of the table, under one lock, since
// the store's writer counts as well. A metric without labels has its one series from the start, so
// that it is 0 and not absent. Names get the prefix "cove_", those of the process "process_".
#include "base/metric.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define BUCKETS_MAX 16

static const double short_buckets[] = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
				       0.1,    0.2,   0.5,   1,	    2,	  5,	10};
static const double long_buckets[] = {1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600};

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

static const struct metric_row {
	enum metric_kind kind;
	const char *name, *labels[2], *help;
} metric_rows[] = {
#define X(id, kind, name, first, second, help) {METRIC_##kind, name, {first, second}, help},
	METRICS(X)
#undef X
};

struct series {
	char labels[2][METRIC_LABEL_MAX];
	double value;	  // of a histogram: the sum
	uint64_t *counts; // of a histogram: one for each bucket and one beyond
};

static struct {
	pthread_mutex_t lock;
	struct window
		*windows[METRIC_COUNT]; // of those that have quantiles, from the first sample on
	struct {
		struct series *at;
		size_t count;
	} all[METRIC_COUNT];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool metric_is_histogram(const struct metric_row *row)
{
	return row->kind == METRIC_SHORT || row->kind == METRIC_LONG;
}

static const double *metric_buckets(const struct metric_row *row, size_t *count)
{
	*count = row->kind == METRIC_SHORT ? COUNT_OF(short_buckets) : COUNT_OF(long_buckets);
	return row->kind == METRIC_SHORT ? short_buckets : long_buckets;
}

static bool series_matches(const struct series *series, const char *first, const char *second)
{
	return !strncmp(series->labels[0], first, METRIC_LABEL_MAX - 1) &&
	       !strncmp(series->labels[1], second, METRIC_LABEL_MAX - 1);
}

static struct series *series_find(enum metric metric, const char *first, const char *second)
{
	for (size_t i = 0; i < registry.all[metric].count; i++)
		if (series_matches(&registry.all[metric].at[i], first, second))
			return &registry.all[metric].at[i];
	return NULL;
}

static struct series *series_new(enum metric metric, const char *first, const char *second)
{
	size_t count = registry.all[metric].count;
	struct series *all = mem_grow(registry.all[metric].at, count + 1, sizeof(*all));
	struct series *series = &all[count];

	*series = (struct series){0};
	snprintf(series->labels[0], METRIC_LABEL_MAX, "%s", first);
	snprintf(series->labels[1], METRIC_LABEL_MAX, "%s", second);
	if (metric_is_histogram(&metric_rows[metric]))
		series->counts = mem_new((BUCKETS_MAX + 1) * sizeof(*series->counts));
	registry.all[metric].at = all;
	registry.all[metric].count = count + 1;
	return series;
}

// The series of these labels, made if there is room, else that of "other".
static struct series *series_of(enum metric metric, const char *first, const char *second)
{
	const struct metric_row *row = &metric_rows[metric];
	struct series *series;

	first = first && *row->labels[0] ? first : "";
	second = second && *row->labels[1] ? second : "";
	series = series_find(metric, first, second);
	if (series)
		return series;
	if (registry.all[metric].count + 1 >= METRIC_SERIES_MAX) {
		first = *row->labels[0] ? METRIC_OTHER : "";
		second = *row->labels[1] ? METRIC_OTHER : "";
		series = series_find(metric, first, second);
	}
	return series ? series : series_new(metric, first, second);
}

void metric_add(enum metric metric, const char *first, const char *second, double amount)
{
	pthread_mutex_lock(&registry.lock);
	series_of(metric, first, second)->value += amount;
	pthread_mutex_unlock(&registry.lock);
}

void metric_set(enum metric metric, const char *first, const char *second, double value)
{
	pthread_mutex_lock(&registry.lock);
	series_of(metric, first, second)->value = value;
	pthread_mutex_unlock(&registry.lock);
}

void metric_observe(enum metric metric, const char *label, double seconds)
{
	struct series *series;
	const double *bounds;
	size_t count, at = 0;

	bounds = metric_buckets(&metric_rows[metric], &count);
	while (at < count && seconds > bounds[at])
		at++;
	pthread_mutex_lock(&registry.lock);
	series = series_of(metric, label, NULL);
	series->counts[at]++;
	series->value += seconds;
	if (metric == METRIC_BOX_CREATE || metric == METRIC_EXEC_START) {
		if (!registry.windows[metric])
			registry.windows[metric] = window_new();
		window_add(registry.windows[metric], clock_ms(), clock_ms(), seconds * 1000);
	}
	pthread_mutex_unlock(&registry.lock);
}

double metric_quantile(enum metric metric, enum window_span span, double quantile,
		       uint64_t *out_count)
{
	double value = -1;

	*out_count = 0;
	pthread_mutex_lock(&registry.lock);
	if (registry.windows[metric]) {
		value = window_quantile(registry.windows[metric], span, clock_ms(), quantile);
		*out_count = window_samples(registry.windows[metric], span, clock_ms());
	}
	pthread_mutex_unlock(&registry.lock);
	return value;
}

void metric_clear(enum metric metric)
{
	pthread_mutex_lock(&registry.lock);
	registry.all[metric].count = 0;
	pthread_mutex_unlock(&registry.lock);
}

static double series_value(const struct series *series)
{
	double count = 0;

	if (!series->counts)
		return series->value;
	for (size_t i = 0; i <= BUCKETS_MAX; i++)
		count += (double)series->counts[i];
	return count;
}

double metric_value(enum metric metric, const char *first, const char *second)
{
	const struct series *series;
	double value;

	pthread_mutex_lock(&registry.lock);
	series = series_find(metric, first ? first : "", second ? second : "");
	value = series ? series_value(series) : 0;
	pthread_mutex_unlock(&registry.lock);
	return value;
}

double metric_sum(enum metric metric)
{
	double sum = 0;

	pthread_mutex_lock(&registry.lock);
	for (size_t i = 0; i < registry.all[metric].count; i++)
		sum += series_value(&registry.all[metric].at[i]);
	pthread_mutex_unlock(&registry.lock);
	return sum;
}

// -------------------------------------------------------------------------------------------- text

static void metric_put_escaped(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n') {
			buf_text(out, "\\n");
			continue;
		}
		if (*text == '\\' || *text == '"')
			buf_char(out, '\\');
		buf_char(out, *text);
	}
}

static void metric_put_labels(struct buf *out, const struct metric_row *row,
			      const struct series *series, const char *bound)
{
	const char *mark = "{";

	for (int i = 0; i < 2; i++) {
		if (!*row->labels[i])
			continue;
		buf_fmt(out, "%s%s=\"", mark, row->labels[i]);
		metric_put_escaped(out, series->labels[i]);
		buf_char(out, '"');
		mark = ",";
	}
	if (bound)
		buf_fmt(out, "%sle=\"%s\"", mark, bound);
	if (bound || *mark == ',')
		buf_char(out, '}');
}

static void metric_put_number(struct buf *out, double value)
{
	if (value > -9e15 && value < 9e15 && value == (double)(int64_t)value)
		buf_fmt(out, " %lld\n", (long long)value);
	else
		buf_fmt(out, " %.9g\n", value);
}

static const char *metric_prefix(const struct metric_row *row)
{
	size_t at = (size_t)(row - metric_rows);

	return at == METRIC_CPU_SECONDS || at == METRIC_RESIDENT || at == METRIC_OPEN_FDS
		       ? "process_"
		       : "cove_";
}

static void metric_put_histogram(struct buf *out, const struct metric_row *row,
				 const struct series *series)
{
	size_t count;
	const double *bounds = metric_buckets(row, &count);
	const char *prefix = metric_prefix(row);
	uint64_t sum = 0;
	char bound[24];

	for (size_t i = 0; i <= count; i++) {
		sum += series->counts[i];
		if (i < count)
			snprintf(bound, sizeof(bound), "%g", bounds[i]);
		else
			snprintf(bound, sizeof(bound), "+Inf");
		buf_fmt(out, "%s%s_bucket", prefix, row->name);
		metric_put_labels(out, row, series, bound);
		metric_put_number(out, (double)sum);
	}
	buf_fmt(out, "%s%s_sum", prefix, row->name);
	metric_put_labels(out, row, series, NULL);
	metric_put_number(out, series->value);
	buf_fmt(out, "%s%s_count", prefix, row->name);
	metric_put_labels(out, row, series, NULL);
	metric_put_number(out, (double)sum);
}

static void metric_put_row(struct buf *out, enum metric metric)
{
	static const char *const words[] = {[METRIC_GAUGE] = "gauge",
					    [METRIC_COUNTER] = "counter",
					    [METRIC_SHORT] = "histogram",
					    [METRIC_LONG] = "histogram"};
	const struct metric_row *row = &metric_rows[metric];
	const char *prefix = metric_prefix(row);

	buf_fmt(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, row->name, row->help, prefix,
		row->name, words[row->kind]);
	for (size_t i = 0; i < registry.all[metric].count; i++) {
		const struct series *series = &registry.all[metric].at[i];

		if (series->counts) {
			metric_put_histogram(out, row, series);
			continue;
		}
		buf_fmt(out, "%s%s", prefix, row->name);
		metric_put_labels(out, row, series, NULL);
		metric_put_number(out, series->value);
	}
}

void metric_write(struct buf *out)
{
	pthread_mutex_lock(&registry.lock);
	for (int i = 0; i < METRIC_COUNT; i++) {
		if (!*metric_rows[i].labels[0])
			series_of((enum metric)i, NULL, NULL);
		metric_put_row(out, (enum metric)i);
	}
	pthread_mutex_unlock(&registry.lock);
}
