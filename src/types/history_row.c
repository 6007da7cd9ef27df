// Version, then for each point its coverage and, if that is not 0, the metrics that are not 0 as a
// bit set, and for each of these the difference to the last point that had it, and the maximum less
// the value; numbers are of variable length, seven bits a byte. Objects change little from point to
// point, so a busy hour of a sandbox takes about 200 bytes.
#include "types/history_row.h"

#define ROW_VERSION 1

static const bool history_is_counter[] = {
#define X(name, word, unit, counts) counts,
	HISTORY_METRICS(X)
#undef X
};

bool history_counts(enum history_metric metric)
{
	return history_is_counter[metric];
}

void history_point_add(struct history_point *point, const struct history_point *other)
{
	uint32_t covered = point->covered + other->covered;

	for (int i = 0; i < HISTORY_METRIC_COUNT && other->covered; i++) {
		if (history_is_counter[i])
			point->value[i] += other->value[i];
		else
			point->value[i] = (uint64_t)(((double)point->value[i] * point->covered +
						      (double)other->value[i] * other->covered) /
						     covered);
		if (other->max[i] > point->max[i])
			point->max[i] = other->max[i];
	}
	point->covered = covered;
}

static void row_put(struct buf *out, uint64_t value)
{
	while (value >= 0x80) {
		buf_char(out, (char)(value | 0x80));
		value >>= 7;
	}
	buf_char(out, (char)value);
}

// Small numbers of either sign become small numbers.
static uint64_t row_fold(uint64_t difference)
{
	return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t row_unfold(uint64_t folded)
{
	return folded >> 1 ^ (folded & 1 ? UINT64_MAX : 0);
}

void history_row_write(const struct history_point points[HISTORY_POINTS], struct buf *out)
{
	uint64_t last[HISTORY_METRIC_COUNT] = {0};

	buf_char(out, ROW_VERSION);
	for (int i = 0; i < HISTORY_POINTS; i++) {
		const struct history_point *point = &points[i];
		uint64_t set = 0;

		row_put(out, point->covered);
		if (!point->covered)
			continue;
		for (int metric = 0; metric < HISTORY_METRIC_COUNT; metric++)
			if (point->value[metric] || point->max[metric])
				set |= 1u << metric;
		row_put(out, set);
		for (int metric = 0; metric < HISTORY_METRIC_COUNT; metric++) {
			if (!(set >> metric & 1))
				continue;
			row_put(out, row_fold(point->value[metric] - last[metric]));
			row_put(out, row_fold(point->max[metric] - point->value[metric]));
			last[metric] = point->value[metric];
		}
	}
}

static bool row_take(struct str *rest, uint64_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; rest->len && shift < 64; shift += 7) {
		uint8_t byte = (uint8_t)rest->at[0];

		*rest = str_skip(*rest, 1);
		if (shift == 63 && byte > 1)
			return false;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*out = value;
			return true;
		}
	}
	return false;
}

static bool row_take_point(struct str *rest, uint64_t last[HISTORY_METRIC_COUNT],
			   struct history_point *point)
{
	uint64_t covered, set, value, above;

	if (!row_take(rest, &covered) || covered > 2 * HISTORY_POINT_SLOTS * HISTORY_COVERED)
		return false;
	point->covered = (uint32_t)covered;
	if (!covered)
		return true;
	if (!row_take(rest, &set) || set >> HISTORY_METRIC_COUNT)
		return false;
	for (int metric = 0; metric < HISTORY_METRIC_COUNT; metric++) {
		if (!(set >> metric & 1))
			continue;
		if (!row_take(rest, &value) || !row_take(rest, &above))
			return false;
		last[metric] += row_unfold(value);
		point->value[metric] = last[metric];
		point->max[metric] = last[metric] + row_unfold(above);
	}
	return true;
}

bool history_row_read(struct str bytes, struct history_point points[HISTORY_POINTS])
{
	uint64_t last[HISTORY_METRIC_COUNT] = {0};

	if (!bytes.len || bytes.at[0] != ROW_VERSION)
		return false;
	bytes = str_skip(bytes, 1);
	for (int i = 0; i < HISTORY_POINTS; i++) {
		points[i] = (struct history_point){0};
		if (!row_take_point(&bytes, last, &points[i]))
			return false;
	}
	return !bytes.len;
}
