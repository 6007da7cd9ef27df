#include "fleet/access.h"

#include "tap.h"

static const struct who owner = {.role = WHO_OPERATOR, .name = "operator"};
static const struct who box = {.role = WHO_BOX, .name = "box", .box = "box-1"};
static const struct who nobody = {.role = WHO_NOBODY, .name = "nobody"};

TEST(roles, "the operator may do all, a box's bearer work in it, nobody nothing")
{
	for (int what = ACCESS_READ; what <= ACCESS_TEMPLATES; what++) {
		CHECK_OK(access_ask(&owner, what));
		CHECK_ERR(access_ask(&nobody, what), FORBIDDEN);
		CHECK_ERR(access_ask(NULL, what), FORBIDDEN);
		if (what != ACCESS_USE)
			CHECK_ERR(access_ask(&box, what), FORBIDDEN);
	}
	CHECK_OK(access_ask(&box, ACCESS_USE));
}

TEST(sight, "a box's bearer sees that one alone")
{
	CHECK(access_sees(&owner, "box-1") && access_sees(&owner, "box-2"));
	CHECK(access_sees(&box, "box-1") && !access_sees(&box, "box-2"));
	CHECK(!access_sees(&box, "box-11") && !access_sees(&nobody, "box-1"));
	CHECK(!access_sees(NULL, "box-1"));
}
