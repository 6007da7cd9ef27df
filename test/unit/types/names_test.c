#include "types/names.h"

#include <stdio.h>
#include <stdlib.h>

#include "tap.h"

TEST(both_ways, "NET-5 a name has one address, and the address leads back to the name")
{
	struct names *names = names_new(NAMES_MAX);
	struct address one, two, again;
	char text[ADDRESS_TEXT];

	names_give(names, "one.example", &one);
	names_give(names, "two.example", &two);
	names_give(names, "one.example", &again);
	address_write(&one, text);
	CHECK_STR(text, "198.18.0.1");
	CHECK(!memcmp(&one, &again, sizeof(one)));
	CHECK(memcmp(&one, &two, sizeof(one)) != 0);
	CHECK(names_is_synthetic(&one) && !address_is_global(&one));
	CHECK_STR(names_find(names, &one), "one.example");
	CHECK_STR(names_find(names, &two), "two.example");
	CHECK(names_count(names) == 2);
	names_free(names);
}

TEST(unknown, "an address that was given to nobody has no name")
{
	static const char *const others[] = {"198.18.0.0",   "198.18.0.2",	   "198.17.255.255",
					     "198.20.0.0",   "127.0.0.1",	   "::1",
					     "::198.18.0.1", "64:ff9b::198.18.0.1"};
	struct names *names = names_new(NAMES_MAX);
	struct address address;

	names_give(names, "one.example", &address);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		CHECK(address_read(str_of(others[i]), &address));
		CHECK(!names_find(names, &address));
	}
	CHECK(address_read(STR("::ffff:198.18.0.1"), &address) && names_is_synthetic(&address));
	CHECK_STR(names_find(names, &address), "one.example");
	CHECK(address_read(STR("198.19.255.255"), &address) && names_is_synthetic(&address));
	CHECK(address_read(STR("198.20.0.0"), &address) && !names_is_synthetic(&address));
	names_free(names);
}

TEST(forgetting, "the longest unused name is forgotten first, and its address stays empty")
{
	struct names *names = names_new(3);
	struct address a, b, c, d;

	names_give(names, "a", &a);
	names_give(names, "b", &b);
	names_give(names, "c", &c);
	CHECK(names_find(names, &a)); // a connection counts as use
	names_give(names, "d", &d);
	CHECK(names_count(names) == 3);
	CHECK(!names_find(names, &b));
	CHECK_STR(names_find(names, &a), "a");
	CHECK_STR(names_find(names, &c), "c");
	CHECK_STR(names_find(names, &d), "d");
	CHECK(memcmp(&b, &d, sizeof(b)) != 0);
	names_free(names);
}

TEST(around, "numbers go round the whole range and never meet one that is in use")
{
	struct names *names = names_new(64);
	struct address kept, address;
	char name[32];

	names_give(names, "kept", &kept);
	for (int i = 0; i < 300000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		names_give(names, name, &address);
		CHECK(names_is_synthetic(&address) && memcmp(&address, &kept, sizeof(kept)) != 0);
		CHECK_STR(names_find(names, &address), name);
		CHECK(names_find(names, &kept));
	}
	CHECK(names_count(names) == 64);
	CHECK_STR(names_find(names, &kept), "kept");
	names_free(names);
}
