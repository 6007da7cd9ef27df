#include "http/share.h"

#include "http/hoard.h"
#include "tap.h"

static uint32_t take_all(struct shares *shares, struct share *share, uint32_t max)
{
	uint32_t count = 0;

	for (;; count++) {
		struct err *err = share_enter(shares, share, max);

		if (err) {
			err_free(err);
			return count;
		}
	}
}

TEST(alone, "one alone gets half, and whoever comes next finds room")
{
	struct shares *shares = shares_new();
	struct share *one = shares_of(shares, STR("one"), 1),
		     *two = shares_of(shares, STR("two"), 1);

	CHECK(take_all(shares, one, 90) == 45);
	CHECK(take_all(shares, two, 90) == 22);
	CHECK_ERR(share_enter(shares, one, 90), EXHAUSTED);
	CHECK_OK(share_enter(shares, shares_of(shares, STR("three"), 1), 90));
	share_leave(shares, one);
	CHECK(shares_of(shares, STR("one"), 1) == one && one->busy == 44);
	shares_free(shares);
}

TEST(weight, "a weight gives as much more of what is left")
{
	struct shares *shares = shares_new();
	struct share *heavy = shares_of(shares, STR(""), 7),
		     *light = shares_of(shares, STR("l"), 1);

	CHECK(take_all(shares, heavy, 80) == 70);
	CHECK(take_all(shares, light, 80) == 5);
	shares_free(shares);
}

TEST(memory, "what is held in memory is shared in the same way")
{
	struct shares *shares = shares_new();
	struct share *one = shares_of(shares, STR("one"), 1),
		     *two = shares_of(shares, STR("two"), 1);
	struct hoard a = {.share = one}, b = {.share = one}, other = {.share = two}, nobody = {0};

	CHECK_OK(hoard_hold(&a, HOARD_MAX / 4));
	CHECK_OK(hoard_hold(&b, HOARD_MAX / 4));
	CHECK_ERR(hoard_hold(&b, HOARD_MAX / 4 + 1), EXHAUSTED);
	CHECK(one->held == HOARD_MAX / 2);
	CHECK_OK(hoard_hold(&other, HOARD_MAX / 4));
	CHECK_OK(hoard_hold(&b, HOARD_MAX / 8)); // to give back is always permitted
	hoard_move(&nobody, HOARD_MAX / 8);
	hoard_join(&nobody, two);
	CHECK(two->held == HOARD_MAX / 4 + HOARD_MAX / 8);
	hoard_drop(&a);
	hoard_drop(&b);
	hoard_drop(&other);
	hoard_drop(&nobody);
	CHECK(one->held == 0 && two->held == 0 && hoard_sum() == 0);
	shares_free(shares);
}
