#include "cli/picture.h"

#include "tap.h"

TEST(answers, "the reply of a terminal tells whether it shows pictures")
{
	CHECK(picture_by_answer(STR("\033_Gi=31;OK\033\\\033[?62;c")) == PICTURE_KITTY);
	CHECK(picture_by_answer(STR("\033_Gi=31;ENOTSUP\033\\\033[?62;4c")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("\033[?62;22c")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("\033[?4")) == PICTURE_SAVED);
	CHECK(picture_by_answer(STR("typed")) == PICTURE_SAVED);
}
