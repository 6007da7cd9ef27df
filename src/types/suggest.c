// Quantiles of past use, and the limit that leaves room above them. The peak counts in full: a
// limit below it would have ended that run.
#include "types/suggest.h"

#include <stdlib.h>

static int suggest_order(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, two = *(const uint64_t *)b;

	return (one > two) - (one < two);
}

static uint64_t suggest_rank(const uint64_t *samples, size_t count, size_t percent)
{
	return samples[(count * percent + 99) / 100 - 1];
}

struct suggest_use suggest_look(uint64_t *samples, size_t count)
{
	qsort(samples, count, sizeof(*samples), suggest_order);
	return (struct suggest_use){
		.p50 = suggest_rank(samples, count, 50),
		.p95 = suggest_rank(samples, count, 95),
		.p99 = suggest_rank(samples, count, 99),
		.peak = samples[count - 1],
	};
}

uint64_t suggest_limit(const struct suggest_use *use, uint64_t step, uint64_t least, uint64_t most)
{
	uint64_t limit = use->p99 < UINT64_MAX / 2 ? use->p99 + use->p99 / 4 : use->p99;

	if (limit < use->peak)
		limit = use->peak;
	if (limit < UINT64_MAX - step)
		limit = (limit + step - 1) / step * step;
	if (limit < least)
		limit = least;
	return most && limit > most ? most : limit;
}
