#include "model/reach.h"

#include "tap.h"

static uint8_t bytes[REACH_SIZE_MAX + 1], again[REACH_SIZE_MAX];
static const char *globs[REACH_GLOBS_MAX + 1];

static struct reach_ask ask_of(enum reach_verb verb)
{
	return (struct reach_ask){.verb = verb,
				  .mode = REACH_KEEP_MODE,
				  .base = STR("/workspace"),
				  .path = STR("a \xff"),
				  .other = STR(""),
				  .text = STR(""),
				  .bytes = STR("")};
}

static bool passes(const struct reach_ask *ask, struct reach_ask *out)
{
	size_t len = reach_encode_ask(ask, bytes, sizeof(bytes));

	out->globs = globs;
	return len && reach_decode_ask(bytes, len, out);
}

TEST(asks, "a request survives the way, and no part of it passes for the whole")
{
	const char *list[] = {"*.c", "node_modules", NULL};
	struct reach_ask out, ask = ask_of(REACH_FIND);
	size_t len;

	ask.globs = list;
	ask.includes = ask.excludes = 1;
	ask.flags = REACH_FLAGS;
	ask.limit = 1ull << 40;
	CHECK(passes(&ask, &out));
	CHECK(out.flags == REACH_FLAGS && out.limit == 1ull << 40 && out.includes == 1);
	CHECK_STR(out.path.at, "a \xff");
	CHECK_STR(out.globs[1], "node_modules");
	CHECK(out.globs[2] == NULL);
	len = reach_encode_ask(&ask, bytes, sizeof(bytes));
	CHECK(reach_encode_ask(&out, again, sizeof(again)) == len && !memcmp(bytes, again, len));
	for (size_t cut = 0; cut < len; cut++)
		CHECK(!reach_decode_ask(bytes, cut, &out) && !reach_encode_ask(&ask, again, cut));
	CHECK(!reach_decode_ask(bytes, len + 1, &out));
}

TEST(payload, "bytes may be any, up to what is small, and only where they belong")
{
	static char much[REACH_SMALL + 1];
	struct reach_ask out, ask = ask_of(REACH_WRITE);

	ask.bytes = (struct str){much, REACH_SMALL};
	CHECK(passes(&ask, &out) && out.bytes.len == REACH_SMALL);
	ask.bytes.len++;
	CHECK(!passes(&ask, &out));
	ask.bytes.len = 1;
	ask.verb = REACH_STAT;
	CHECK(!passes(&ask, &out));
}

TEST(ranges, "values out of range are refused")
{
	static char longest[REACH_PATH_MAX + 2];
	struct reach_ask out, ask = ask_of(REACH_VERB_COUNT);

	memset(longest, 'x', sizeof(longest) - 1);
	CHECK(!passes(&ask, &out));
	ask = ask_of(REACH_STAT);
	ask.flags = REACH_FLAGS + 1;
	CHECK(!passes(&ask, &out));
	ask = ask_of(REACH_CHMOD);
	ask.mode = 010000;
	CHECK(!passes(&ask, &out));
	ask = ask_of(REACH_DIAL);
	ask.number = 65536;
	CHECK(!passes(&ask, &out));
	ask = ask_of(REACH_SWEEP);
	ask.number = 65;
	CHECK(!passes(&ask, &out));
	ask = ask_of(REACH_STAT);
	ask.path = str_of(longest);
	CHECK(!passes(&ask, &out));
}

static bool says(struct reach_say say, struct reach_say *out)
{
	size_t len = reach_encode_say(&say, bytes, sizeof(bytes));

	if (!len)
		return false;
	memcpy(bytes + len, say.rest.at ? say.rest.at : "", say.rest.len);
	return reach_decode_say(bytes, len + say.rest.len, out);
}

TEST(answers, "an answer survives the way, with its bytes and the right number of fds")
{
	struct reach_stat stat = {.type = REACH_SYMLINK, .mode = 0777, .size = 5, .mtime_us = -7};
	struct reach_say out;

	CHECK(says((struct reach_say){.kind = REACH_BYTES, .stat = stat, .rest = STR("a\0b")},
		   &out));
	CHECK(out.rest.len == 3 && out.stat.mtime_us == -7 && out.stat.type == REACH_SYMLINK);
	CHECK(reach_fds(&out) == 0);
	CHECK(says((struct reach_say){.kind = REACH_OPENED}, &out) && reach_fds(&out) == 1);
	CHECK(says((struct reach_say){.kind = REACH_DONE, .text = STR("t"), .more = true}, &out));
	CHECK(out.more && str_is(out.text, "t"));
	CHECK(says((struct reach_say){.kind = REACH_FAILED, .errnum = 2, .text = STR("")}, &out));
	CHECK(!says((struct reach_say){.kind = REACH_FAILED, .errnum = 5000}, &out));
	CHECK(!says((struct reach_say){.kind = REACH_DONE, .text = STR(""), .rest = STR("x")},
		    &out));
	CHECK(!says((struct reach_say){.kind = REACH_OPENED, .rest = STR("x")}, &out));
	CHECK(!says((struct reach_say){.kind = REACH_KIND_COUNT}, &out));
}

TEST(items, "items come one behind another, and a bad one ends them")
{
	struct reach_entry entry = {.path = STR("p"), .target = STR("t")}, got;
	struct reach_event event = {REACH_DELETE, true, STR("gone")}, heard;
	struct pack pack;
	struct unpack in;

	pack_init(&pack, bytes, sizeof(bytes));
	reach_put_entry(&pack, &entry);
	reach_put_entry(&pack, &entry);
	unpack_init(&in, bytes, pack.len);
	CHECK(reach_get_entry(&in, &got) && reach_get_entry(&in, &got) && str_is(got.target, "t"));
	CHECK(!reach_get_entry(&in, &got) && !in.failed);
	unpack_init(&in, bytes, pack.len - 1);
	CHECK(reach_get_entry(&in, &got) && !reach_get_entry(&in, &got) && in.failed);
	pack_init(&pack, bytes, sizeof(bytes));
	reach_put_event(&pack, &event);
	bytes[0] = REACH_EVENT_COUNT;
	unpack_init(&in, bytes, pack.len);
	CHECK(!reach_get_event(&in, &heard) && in.failed);
}
