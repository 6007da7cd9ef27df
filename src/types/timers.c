// Process-wide on purpose: timers belong to the whole daemon, not to one object, and are set before
// the first object is made.
#include "types/timers.h"

#include <assert.h>

#include "base/secret.h"

static const struct timer_row rows[TIMER_COUNT] = {
#define X(name, word, ms, text) [TIMER_##name] = {word, text, ms},
	TIMERS(X)
#undef X
};

static uint32_t divisor = 1;
static int64_t chosen[TIMER_COUNT];

int64_t timer_ms(enum timer_name timer)
{
	int64_t ms = rows[timer].otherwise_ms / divisor;

	if (chosen[timer])
		return chosen[timer];
	return ms > 0 ? ms : 1;
}

const struct timer_row *timer_row(enum timer_name timer)
{
	return &rows[timer];
}

void timers_scale(uint32_t scale)
{
	assert(scale >= 1 && scale <= TIMER_SCALE_MAX);
	divisor = scale;
}

uint32_t timers_scale_now(void)
{
	return divisor;
}

void timer_set(enum timer_name timer, int64_t ms)
{
	chosen[timer] = ms;
}

int64_t timer_retry_ms(uint64_t tries)
{
	static const enum timer_name pauses[] = {TIMER_RETRY_1, TIMER_RETRY_2, TIMER_RETRY_3};
	int64_t pause = timer_ms(pauses[tries < 2 ? tries : 2]);
	uint16_t noise = 0;

	secret_random(&noise, sizeof(noise));
	return pause * 8 / 10 + pause * 4 / 10 * noise / UINT16_MAX;
}
