// Quantiles by nearest rank, and limits above them within their bounds.
#include "types/suggest.h"

#include "tap.h"

TEST(quantiles, "quantiles are samples")
{
	uint64_t samples[100], one = 7;
	struct suggest_use use;

	for (size_t i = 0; i < 100; i++)
		samples[i] = 100 - i;
	use = suggest_look(samples, 100);
	CHECK(use.p50 == 50 && use.p95 == 95 && use.p99 == 99 && use.peak == 100);
	use = suggest_look(&one, 1);
	CHECK(use.p50 == 7 && use.p99 == 7 && use.peak == 7);
}

TEST(limits, "a limit is above what was used, in steps, within its bounds")
{
	struct suggest_use use = {.p99 = 100, .peak = 110};

	CHECK(suggest_limit(&use, 1, 0, 0) == 125);
	CHECK(suggest_limit(&use, 16, 0, 0) == 128);
	CHECK(suggest_limit(&use, 1, 200, 0) == 200);
	CHECK(suggest_limit(&use, 1, 0, 120) == 120);
	use.peak = 1000;
	CHECK(suggest_limit(&use, 1, 0, 0) == 1000);
	use = (struct suggest_use){.p99 = UINT64_MAX, .peak = UINT64_MAX};
	CHECK(suggest_limit(&use, 16, 0, 0) == UINT64_MAX);
}
