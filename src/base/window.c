// Each span has a ring of slots; a slot counts the samples of its part of the span by bucket, and
// is emptied when its time comes round again. The quantile is interpolated inside its bucket.
#include "base/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BUCKETS 160			// up to 0.001 * 2^40
#define BUCKET_FIRST 0.001		// everything below is in the first
#define BUCKET_FACTOR 1.189207115002721 // the fourth root of 2
#define SLOTS_ALL (30 + 60 + 96)

static const struct {
	const char *word;
	int64_t ms;
	int slots;
} window_spans[] = {
#define X(name, word, ms, slots) {word, ms, slots},
	WINDOWS(X)
#undef X
};

struct window_slot {
	int64_t part; // the number of this part of time; what is counted is of it
	uint16_t counts[BUCKETS];
};

struct window {
	struct window_slot *slots[WINDOW_COUNT];
	struct window_slot all[SLOTS_ALL];
};

const char *window_word(enum window_span span)
{
	return window_spans[span].word;
}

struct window *window_new(void)
{
	struct window *window = mem_new_of(struct window);
	struct window_slot *at = window->all;

	for (int i = 0; i < WINDOW_COUNT; i++) {
		window->slots[i] = at;
		at += window_spans[i].slots;
	}
	return window;
}

void window_free(struct window *window)
{
	free(window);
}

static int64_t window_part_ms(enum window_span span)
{
	return window_spans[span].ms / window_spans[span].slots;
}

static int window_bucket(double value)
{
	double bound = BUCKET_FIRST;
	int at = 0;

	while (value > bound && at < BUCKETS - 1) {
		bound *= BUCKET_FACTOR;
		at++;
	}
	return at;
}

void window_add(struct window *window, int64_t now_ms, int64_t at_ms, double value)
{
	for (int i = 0; i < WINDOW_COUNT; i++) {
		int64_t part = at_ms / window_part_ms((enum window_span)i);
		struct window_slot *slot = &window->slots[i][part % window_spans[i].slots];
		uint16_t *count = &slot->counts[window_bucket(value)];

		if (at_ms < 0 || at_ms > now_ms || now_ms - at_ms >= window_spans[i].ms ||
		    slot->part > part)
			continue;
		if (slot->part != part)
			*slot = (struct window_slot){.part = part};
		if (*count < UINT16_MAX)
			(*count)++;
	}
}

// Adds up the slots that are within the span.
static uint64_t window_sum(const struct window *window, enum window_span span, int64_t now_ms,
			   uint64_t counts[BUCKETS])
{
	int64_t part = now_ms / window_part_ms(span);
	uint64_t total = 0;

	memset(counts, 0, BUCKETS * sizeof(*counts));
	for (int i = 0; i < window_spans[span].slots; i++) {
		const struct window_slot *slot = &window->slots[span][i];

		if (slot->part > part || part - slot->part >= window_spans[span].slots)
			continue;
		for (int bucket = 0; bucket < BUCKETS; bucket++) {
			counts[bucket] += slot->counts[bucket];
			total += slot->counts[bucket];
		}
	}
	return total;
}

uint64_t window_samples(struct window *window, enum window_span span, int64_t now_ms)
{
	uint64_t counts[BUCKETS];

	return window_sum(window, span, now_ms, counts);
}

double window_quantile(struct window *window, enum window_span span, int64_t now_ms,
		       double quantile)
{
	uint64_t counts[BUCKETS];
	double total = (double)window_sum(window, span, now_ms, counts);
	double rank = quantile * total, below = 0, least = 0, bound = BUCKET_FIRST;

	if (total == 0)
		return -1;
	if (rank < 1)
		rank = 1;
	for (int i = 0; i < BUCKETS; i++) {
		if (counts[i] && below + (double)counts[i] >= rank)
			return least + (bound - least) * (rank - below) / (double)counts[i];
		below += (double)counts[i];
		least = bound;
		bound *= BUCKET_FACTOR;
	}
	return -1;
}
