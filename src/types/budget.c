// Counts connections, requests and bytes against their limits, and new connections with a token
// bucket in thousandths of a token, so that nothing is rounded. A change of limits keeps what was
// used.
#include "types/budget.h"

#include <assert.h>

static const struct {
	const char *reason, *words;
} verdicts[BUDGET_VERDICTS] = {
	[BUDGET_OK] = {"", ""},
	[BUDGET_CONNECTIONS] = {"budget_connections",
				"the sandbox has opened all connections of its budget"},
	[BUDGET_REQUESTS] = {"budget_requests", "the sandbox has made all requests of its budget"},
	[BUDGET_BYTES_OUT] = {"budget_bytes_out", "the sandbox has sent all bytes of its budget"},
	[BUDGET_BYTES_IN] = {"budget_bytes_in", "the sandbox has received all bytes of its budget"},
	[BUDGET_RATE] = {"rate", "the sandbox opens connections faster than it may"},
	[BUDGET_OPEN] = {"open_connections", "the sandbox has as many connections open as it may"},
};

const char *budget_reason(enum budget_verdict verdict)
{
	return verdicts[verdict].reason;
}

const char *budget_words(enum budget_verdict verdict)
{
	return verdicts[verdict].words;
}

static uint32_t open_max(const struct budget *budget)
{
	return budget->limits.open ? budget->limits.open : BUDGET_OPEN_DEFAULT;
}

#define RATE_MAX 1000000000ull

struct budget_limits budget_within(const struct budget_limits *asked, uint64_t per_second_max)
{
	struct budget_limits limits = *asked;
	uint64_t rate = asked->per_second == BUDGET_NONE ? BUDGET_RATE_DEFAULT : asked->per_second;

	if (rate > per_second_max)
		limits.per_second = per_second_max;
	return limits;
}

// Tokens per second, and the burst. A rate below the default has a burst of one second.
static int64_t rate(const struct budget *budget, int64_t *burst)
{
	uint64_t asked = budget->limits.per_second;

	if (asked == BUDGET_NONE) {
		*burst = BUDGET_BURST_DEFAULT;
		return BUDGET_RATE_DEFAULT;
	}
	if (asked > RATE_MAX)
		asked = RATE_MAX;
	*burst = (int64_t)asked;
	if (asked >= BUDGET_RATE_DEFAULT && asked < BUDGET_BURST_DEFAULT)
		*burst = BUDGET_BURST_DEFAULT;
	return (int64_t)asked;
}

// A token has a thousand parts: one part per millisecond is one token per second, without rounding.
static void refill(struct budget *budget, int64_t now_ms)
{
	int64_t burst, per_ms = rate(budget, &burst), full = burst * 1000;
	int64_t passed = now_ms - budget->level_ms;

	if (passed > 0) {
		int64_t missing = full - budget->level;

		if (missing > 0 && per_ms > 0)
			budget->level = passed > missing / per_ms ? full
								  : budget->level + passed * per_ms;
		budget->level_ms = now_ms;
	}
	if (budget->level > full)
		budget->level = full;
}

void budget_init(struct budget *budget, const struct budget_limits *limits,
		 const struct budget_used *used, int64_t now_ms)
{
	int64_t burst;

	*budget = (struct budget){.limits = *limits, .level_ms = now_ms};
	if (used)
		budget->used = *used;
	rate(budget, &burst);
	budget->level = burst * 1000;
}

void budget_change(struct budget *budget, const struct budget_limits *limits, int64_t now_ms)
{
	int64_t before, after;

	refill(budget, now_ms);
	rate(budget, &before);
	budget->limits = *limits;
	rate(budget, &after);
	// Used tokens stay used, so that changing limits back and forth refills nothing.
	budget->level += (after - before) * 1000;
	if (budget->level < 0)
		budget->level = 0;
}

enum budget_verdict budget_spent(const struct budget *budget)
{
	const struct budget_limits *limits = &budget->limits;
	const struct budget_used *used = &budget->used;

	if (used->connections >= limits->connections)
		return BUDGET_CONNECTIONS;
	if (used->requests >= limits->requests)
		return BUDGET_REQUESTS;
	if (used->bytes_out >= limits->bytes_out)
		return BUDGET_BYTES_OUT;
	if (used->bytes_in >= limits->bytes_in)
		return BUDGET_BYTES_IN;
	return BUDGET_OK;
}

enum budget_verdict budget_open(struct budget *budget, bool is_request, int64_t now_ms)
{
	enum budget_verdict spent = budget_spent(budget);

	if (spent != BUDGET_OK)
		return spent;
	if (budget->open >= open_max(budget))
		return BUDGET_OPEN;
	refill(budget, now_ms);
	if (budget->level < 1000)
		return BUDGET_RATE;
	budget->level -= 1000;
	budget->open++;
	budget->used.connections++;
	budget->used.requests += is_request;
	return BUDGET_OK;
}

int64_t budget_rate_ms(struct budget *budget, int64_t now_ms)
{
	int64_t burst, per_ms = rate(budget, &burst);

	refill(budget, now_ms);
	if (budget->level >= 1000)
		return 0;
	return per_ms > 0 ? (1000 - budget->level + per_ms - 1) / per_ms : INT64_MAX;
}

void budget_close(struct budget *budget)
{
	assert(budget->open > 0);
	budget->open--;
}

void budget_spare(struct budget *budget)
{
	assert(budget->used.connections > 0);
	budget->used.connections--;
}

void budget_unopen(struct budget *budget, bool is_request)
{
	assert(budget->used.requests >= is_request);
	budget_close(budget);
	budget_spare(budget);
	budget->used.requests -= is_request;
}

enum budget_verdict budget_request(struct budget *budget)
{
	if (budget->used.requests >= budget->limits.requests)
		return BUDGET_REQUESTS;
	budget->used.requests++;
	return BUDGET_OK;
}

void budget_unrequest(struct budget *budget)
{
	assert(budget->used.requests > 0);
	budget->used.requests--;
}

static uint64_t *bytes_of(struct budget *budget, enum budget_way way)
{
	return way == BUDGET_OUT ? &budget->used.bytes_out : &budget->used.bytes_in;
}

uint64_t budget_take(struct budget *budget, enum budget_way way, uint64_t want)
{
	uint64_t limit = way == BUDGET_OUT ? budget->limits.bytes_out : budget->limits.bytes_in;
	uint64_t *used = bytes_of(budget, way);
	uint64_t left = *used < limit ? limit - *used : 0;

	if (want > left)
		want = left;
	*used += want;
	return want;
}

void budget_give_back(struct budget *budget, enum budget_way way, uint64_t bytes)
{
	uint64_t *used = bytes_of(budget, way);

	assert(bytes <= *used);
	*used -= bytes;
}
