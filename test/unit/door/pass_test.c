#include "door/pass.h"

#include "tap.h"

TEST(tokens, "a credential follows from key and box, and from nothing else")
{
	uint8_t one[SECRET_HASH] = {1}, two[SECRET_HASH] = {2};
	char a[PASS_LEN + 1], b[PASS_LEN + 1];

	pass_write(one, "box-1", 0, a);
	pass_write(one, "box-1", 0, b);
	CHECK_STR(a, b);
	CHECK(strlen(a) == PASS_LEN && !strncmp(a, PASS_PREFIX, strlen(PASS_PREFIX)));
	pass_write(one, "box-2", 0, b);
	CHECK(strcmp(a, b) != 0);
	pass_write(two, "box-1", 0, b);
	CHECK(strcmp(a, b) != 0);
	pass_write(one, "box-1", 1, b); // the one before was ended
	CHECK(strcmp(a, b) != 0);
}
