// Steps of a box's connections against its budgets: whatever their order, no limit is passed, and
// what is counted is what happened.
#include "types/budget.h"

#include "fuzz.h"

struct tally {
	uint64_t connections, requests, bytes[2];
	uint32_t open;
};

static void check(const struct budget *budget, const struct tally *tally)
{
	MUST(budget->used.connections == tally->connections);
	MUST(budget->used.requests == tally->requests);
	MUST(budget->used.bytes_out == tally->bytes[BUDGET_OUT]);
	MUST(budget->used.bytes_in == tally->bytes[BUDGET_IN]);
	MUST(budget->open == tally->open && budget->level >= 0);
}

static void open_one(struct budget *budget, struct tally *tally, bool is_request, int64_t now)
{
	enum budget_verdict spent = budget_spent(budget);
	enum budget_verdict verdict = budget_open(budget, is_request, now);

	MUST(spent == BUDGET_OK || verdict == spent);
	if (verdict != BUDGET_OK)
		return;
	tally->connections++;
	tally->requests += is_request;
	tally->open++;
	MUST(tally->connections <= budget->limits.connections);
	MUST(tally->requests <= budget->limits.requests && tally->open <= budget->limits.open);
}

static void move(struct budget *budget, struct tally *tally, enum budget_way way, uint8_t want)
{
	uint64_t limit = way == BUDGET_OUT ? budget->limits.bytes_out : budget->limits.bytes_in;
	uint64_t got = budget_take(budget, way, want), back = got / 3;

	MUST(got <= want && tally->bytes[way] + got <= (got ? limit : UINT64_MAX));
	if (got < want)
		MUST(tally->bytes[way] + got >= limit);
	budget_give_back(budget, way, back);
	tally->bytes[way] += got - back;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct budget_limits limits = {20, 30, 1000, 700, 5, 4};
	struct tally tally = {0};
	struct budget budget;
	int64_t now = 0;
	uint64_t opened = 0;

	budget_init(&budget, &limits, NULL, now);
	for (size_t i = 0; i + 1 < len; i += 2) {
		uint64_t before = tally.connections;

		switch (bytes[i] % 7) {
		case 0:
			open_one(&budget, &tally, bytes[i + 1] & 1, now);
			opened += tally.connections - before;
			break;
		case 1:
			if (tally.open) {
				budget_close(&budget);
				tally.open--;
			}
			break;
		case 2:
			if (budget_request(&budget) == BUDGET_OK)
				MUST(++tally.requests <= limits.requests);
			break;
		case 3:
			move(&budget, &tally, BUDGET_OUT, bytes[i + 1]);
			break;
		case 4:
			move(&budget, &tally, BUDGET_IN, bytes[i + 1]);
			break;
		case 5:
			now += bytes[i + 1];
			break;
		default:
			budget_change(&budget, &limits, now);
		}
		check(&budget, &tally);
		MUST(opened <= 5 + (uint64_t)now * 5 / 1000);
	}
	return 0;
}
