#include "http/fair_share.h"

#include "http/memory_quota.h"
#include "tap.h"

static uint32_t take_all(struct shares *shares, struct fair_share *fair_share, uint32_t max)
{
	uint32_t count = 0;

	for (;; count++) {
		struct err *err = fair_share_enter(shares, fair_share, max);

		if (err) {
			err_free(err);
			return count;
		}
	}
}

TEST(alone, "one alone gets half, and the next one finds room")
{
	struct shares *shares = shares_new();
	struct fair_share *one = shares_of(shares, STR("one"), 1),
			  *two = shares_of(shares, STR("two"), 1);

	CHECK(take_all(shares, one, 90) == 45);
	CHECK(take_all(shares, two, 90) == 22);
	CHECK_ERR(fair_share_enter(shares, one, 90), EXHAUSTED);
	CHECK_OK(fair_share_enter(shares, shares_of(shares, STR("three"), 1), 90));
	fair_share_leave(shares, one);
	CHECK(shares_of(shares, STR("one"), 1) == one && one->busy == 44);
	shares_free(shares);
}

TEST(weight, "a weight gives as much more of what is left")
{
	struct shares *shares = shares_new();
	struct fair_share *heavy = shares_of(shares, STR(""), 7),
			  *light = shares_of(shares, STR("l"), 1);

	CHECK(take_all(shares, heavy, 80) == 70);
	CHECK(take_all(shares, light, 80) == 5);
	shares_free(shares);
}

TEST(memory, "memory is shared in the same way")
{
	struct shares *shares = shares_new();
	struct fair_share *one = shares_of(shares, STR("one"), 1),
			  *two = shares_of(shares, STR("two"), 1);
	struct memory_quota a = {.share = one}, b = {.share = one}, other = {.share = two},
			    nobody = {0};

	CHECK_OK(memory_quota_hold(&a, MEMORY_QUOTA_MAX / 4));
	CHECK_OK(memory_quota_hold(&b, MEMORY_QUOTA_MAX / 4));
	CHECK_ERR(memory_quota_hold(&b, MEMORY_QUOTA_MAX / 4 + 1), EXHAUSTED);
	CHECK(one->held == MEMORY_QUOTA_MAX / 2);
	CHECK_OK(memory_quota_hold(&other, MEMORY_QUOTA_MAX / 4));
	CHECK_OK(memory_quota_hold(&b, MEMORY_QUOTA_MAX / 8)); // to give back is always permitted
	memory_quota_move(&nobody, MEMORY_QUOTA_MAX / 8);
	memory_quota_join(&nobody, two);
	CHECK(two->held == MEMORY_QUOTA_MAX / 4 + MEMORY_QUOTA_MAX / 8);
	memory_quota_drop(&a);
	memory_quota_drop(&b);
	memory_quota_drop(&other);
	memory_quota_drop(&nobody);
	CHECK(one->held == 0 && two->held == 0 && memory_quota_sum() == 0);
	shares_free(shares);
}
