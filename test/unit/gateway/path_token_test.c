#include "gateway/path_token.h"

#include "tap.h"

TEST(tokens, "a token depends on key and box only")
{
	uint8_t one[SECRET_HASH] = {1}, two[SECRET_HASH] = {2};
	char a[PATH_TOKEN_LEN + 1], b[PATH_TOKEN_LEN + 1];

	path_token_write(one, "box-1", 0, a);
	path_token_write(one, "box-1", 0, b);
	CHECK_STR(a, b);
	CHECK(strlen(a) == PATH_TOKEN_LEN &&
	      !strncmp(a, PATH_TOKEN_PREFIX, strlen(PATH_TOKEN_PREFIX)));
	path_token_write(one, "box-2", 0, b);
	CHECK(strcmp(a, b) != 0);
	path_token_write(two, "box-1", 0, b);
	CHECK(strcmp(a, b) != 0);
	path_token_write(one, "box-1", 1, b); // the one before was ended
	CHECK(strcmp(a, b) != 0);
}
