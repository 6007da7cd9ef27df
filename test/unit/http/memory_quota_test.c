#include "http/memory_quota.h"

#include "tap.h"

TEST(small, "small ones cost nothing")
{
	struct memory_quota memory_quota = {0};

	CHECK_OK(memory_quota_hold(&memory_quota, MEMORY_QUOTA_SMALL));
	CHECK(memory_quota_sum() == 0);
	memory_quota_drop(&memory_quota);
}

TEST(bound, "large ones share a limit, and released bytes serve others")
{
	struct memory_quota one = {0}, two = {0};

	CHECK_OK(memory_quota_hold(&one, MEMORY_QUOTA_MAX - 1000000));
	CHECK_OK(memory_quota_hold(&two, 1000000));
	CHECK_ERR(memory_quota_hold(&two, 1000001), EXHAUSTED);
	CHECK(memory_quota_sum() == MEMORY_QUOTA_MAX);
	CHECK_OK(memory_quota_hold(&one, MEMORY_QUOTA_MAX - 2000000));
	CHECK_OK(memory_quota_hold(&two, 2000000));
	memory_quota_drop(&one);
	CHECK(memory_quota_sum() == 2000000);
	memory_quota_drop(&two);
	CHECK(memory_quota_sum() == 0);
}

TEST(moves, "counted bytes may move past the limit, and then new ones are refused")
{
	struct memory_quota one = {0}, two = {0};

	CHECK_OK(memory_quota_hold(&one, MEMORY_QUOTA_MAX));
	memory_quota_move(&two, MEMORY_QUOTA_MAX);
	CHECK_ERR(memory_quota_hold(&one, (size_t)MEMORY_QUOTA_MAX + 1), EXHAUSTED);
	CHECK_OK(memory_quota_hold(&one, 100000)); // to give back is always permitted
	memory_quota_drop(&two);
	memory_quota_drop(&one);
	CHECK(memory_quota_sum() == 0);
}
