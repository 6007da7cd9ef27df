#include "http/hoard.h"

#include "tap.h"

TEST(small, "small ones cost nothing")
{
	struct hoard hoard = {0};

	CHECK_OK(hoard_hold(&hoard, HOARD_SMALL));
	CHECK(hoard_sum() == 0);
	hoard_drop(&hoard);
}

TEST(bound, "large ones share a bound, and what is given back serves others")
{
	struct hoard one = {0}, two = {0};

	CHECK_OK(hoard_hold(&one, HOARD_MAX - 1000000));
	CHECK_OK(hoard_hold(&two, 1000000));
	CHECK_ERR(hoard_hold(&two, 1000001), EXHAUSTED);
	CHECK(hoard_sum() == HOARD_MAX);
	CHECK_OK(hoard_hold(&one, HOARD_MAX - 2000000));
	CHECK_OK(hoard_hold(&two, 2000000));
	hoard_drop(&one);
	CHECK(hoard_sum() == 2000000);
	hoard_drop(&two);
	CHECK(hoard_sum() == 0);
}

TEST(moves, "what was let in may move on past the bound, and then nobody else comes in")
{
	struct hoard one = {0}, two = {0};

	CHECK_OK(hoard_hold(&one, HOARD_MAX));
	hoard_move(&two, HOARD_MAX);
	CHECK_ERR(hoard_hold(&one, (size_t)HOARD_MAX + 1), EXHAUSTED);
	CHECK_OK(hoard_hold(&one, 100000)); // to give back is always permitted
	hoard_drop(&two);
	hoard_drop(&one);
	CHECK(hoard_sum() == 0);
}
