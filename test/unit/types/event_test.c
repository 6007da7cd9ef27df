#include "types/event.h"

#include "tap.h"

TEST(kinds, "every kind has a word of its own")
{
	for (int i = 0; i < EVENT_KIND_COUNT; i++)
		for (int k = 0; k < i; k++)
			CHECK(strcmp(event_word((enum event_kind)i),
				     event_word((enum event_kind)k)) != 0);
}

TEST(groups, "a filter is a kind or a group of kinds, not any beginning")
{
	CHECK(event_matches("sandbox.failed", STR("sandbox.failed")));
	CHECK(event_matches("sandbox.failed", STR("sandbox")));
	CHECK(event_matches("alert", STR("alert")));
	CHECK(!event_matches("sandbox.failed", STR("sand")));
	CHECK(!event_matches("sandbox.failed", STR("sandbox.")));
	CHECK(!event_matches("alert", STR("alert.x")));
}
