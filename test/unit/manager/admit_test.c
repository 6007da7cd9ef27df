#include "manager/admit.h"

#include <sys/resource.h>

#include "tap.h"

// Lower the limit first: lowering a hard limit needs no capability.
TEST(share,
     "a box has its share of what is left, the next one finds some, and a few are always free")
{
	struct rlimit files = {1000, 1000};
	struct admit *admit = NULL;
	int64_t now = 1000;

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	CHECK_OK(admit_open(&admit));
	CHECK_OK(admit_exec(admit, now, 0));
	CHECK_OK(admit_exec(admit, now, 20));
	CHECK_ERR(admit_exec(admit, now, 100), EXHAUSTED);
	CHECK_OK(admit_exec(admit, now, 7));
	// Within one reading, admitted boxes are counted without a new reading.
	for (int i = 0; i < 60; i++)
		CHECK_OK(admit_exec(admit, now, 1));
	CHECK_ERR(admit_exec(admit, now, 20), EXHAUSTED);
	CHECK_OK(admit_exec(admit, now, 1));
	admit_close(admit);
}

TEST(owed, "an adoption leaves the descriptors that adopted boxes have yet to open")
{
	struct rlimit files = {1000, 1000};
	struct admit *admit = NULL;

	CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
	CHECK_OK(admit_open(&admit));
	CHECK_OK(admit_adopt(admit, 1000, 0));
	CHECK_ERR(admit_adopt(admit, 1000, 950), EXHAUSTED);
	CHECK_OK(admit_adopt(admit, 1000, 100));
	admit_close(admit);
}
