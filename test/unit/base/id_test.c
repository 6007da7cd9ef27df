#include "base/id.h"

#include "tap.h"

TEST(made, "an id that was made is an id, its cut form a short one, and neither is a name")
{
	char a[ID_BOX_LEN + 1], b[ID_BOX_LEN + 1];

	id_box(a);
	id_box(b);
	CHECK(strcmp(a, b) != 0);
	CHECK(id_is_box(str_of(a)) && !id_is_name(str_of(a)));
	CHECK(id_is_short((struct str){a + 4, ID_SHORT_LEN}));
	CHECK(!id_is_name((struct str){a + 4, ID_SHORT_LEN}));
	CHECK(id_is_short((struct str){a + 4, 48}) && !id_is_short((struct str){a + 4, 11}));
	CHECK(!id_is_box((struct str){a, ID_BOX_LEN - 1}));
	a[20] = 'A';
	CHECK(!id_is_box(str_of(a)));
	a[20] = 'g';
	CHECK(!id_is_box(str_of(a)));
}

TEST(names, "names keep to their grammar and do not look like ids")
{
	static const char *const good[] = {"a", "0", "my-box", "deadbeef", "abcdefabcdeg", "a--b-"};
	static const char *const bad[] = {"",	     "-a",  "A",     "a_b",	     "a.b",
					  "a b",     "a/b", "box-1", "abcdefabcdef", "012345678901",
					  "\xc3\xa4"};
	char longest[64];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(id_is_name(str_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!id_is_name(str_of(bad[i])));
	memset(longest, 'z', sizeof(longest));
	CHECK(id_is_name((struct str){longest, 62}) && !id_is_name((struct str){longest, 63}));
	memset(longest, 'a', sizeof(longest));
	CHECK(!id_is_name((struct str){longest, 62}));
	CHECK(!id_is_name(STR("a\0b")));
}

TEST(templates, "a template's name may have dots, but is never a way out")
{
	static const char *const good[] = {"host", "python-3.11", "a_b", "x.y.z", "a."};
	static const char *const bad[] = {"",	 ".",	 "..",	 ".a", "a..b",
					  "a/b", "../x", "Host", "a\n"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK(id_is_template(str_of(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!id_is_template(str_of(bad[i])));
	CHECK(!id_is_template(STR("a\0b")));
}
