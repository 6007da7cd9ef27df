#include "protocol/fileop.h"

#include "tap.h"

static uint8_t bytes[FILEOP_SIZE_MAX + 1], again[FILEOP_SIZE_MAX];
static const char *globs[FILEOP_GLOBS_MAX + 1];

static struct fileop_request ask_of(enum fileop_verb verb)
{
	return (struct fileop_request){.verb = verb,
				       .mode = FILEOP_KEEP_MODE,
				       .base = STR("/workspace"),
				       .path = STR("a \xff"),
				       .other = STR(""),
				       .text = STR(""),
				       .bytes = STR("")};
}

static bool passes(const struct fileop_request *ask, struct fileop_request *out)
{
	size_t len = fileop_encode_request(ask, bytes, sizeof(bytes));

	out->globs = globs;
	return len && fileop_decode_request(bytes, len, out);
}

TEST(asks, "a request is decoded as encoded, and no prefix of it is")
{
	const char *list[] = {"*.c", "node_modules", NULL};
	struct fileop_request out, ask = ask_of(FILEOP_FIND);
	size_t len;

	ask.globs = list;
	ask.includes = ask.excludes = 1;
	ask.flags = FILEOP_FLAGS;
	ask.limit = 1ull << 40;
	CHECK(passes(&ask, &out));
	CHECK(out.flags == FILEOP_FLAGS && out.limit == 1ull << 40 && out.includes == 1);
	CHECK_STR(out.path.at, "a \xff");
	CHECK_STR(out.globs[1], "node_modules");
	CHECK(out.globs[2] == NULL);
	len = fileop_encode_request(&ask, bytes, sizeof(bytes));
	CHECK(fileop_encode_request(&out, again, sizeof(again)) == len &&
	      !memcmp(bytes, again, len));
	for (size_t cut = 0; cut < len; cut++)
		CHECK(!fileop_decode_request(bytes, cut, &out) &&
		      !fileop_encode_request(&ask, again, cut));
	CHECK(!fileop_decode_request(bytes, len + 1, &out));
}

TEST(payload, "a payload may have any bytes, up to FILEOP_SMALL, and only in a WRITE")
{
	static char much[FILEOP_SMALL + 1];
	struct fileop_request out, ask = ask_of(FILEOP_WRITE);

	ask.bytes = (struct str){much, FILEOP_SMALL};
	CHECK(passes(&ask, &out) && out.bytes.len == FILEOP_SMALL);
	ask.bytes.len++;
	CHECK(!passes(&ask, &out));
	ask.bytes.len = 1;
	ask.verb = FILEOP_STAT;
	CHECK(!passes(&ask, &out));
}

TEST(ranges, "values out of range are refused")
{
	static char longest[FILEOP_PATH_MAX + 2];
	struct fileop_request out, ask = ask_of(FILEOP_VERB_COUNT);

	memset(longest, 'x', sizeof(longest) - 1);
	CHECK(!passes(&ask, &out));
	ask = ask_of(FILEOP_STAT);
	ask.flags = FILEOP_FLAGS + 1;
	CHECK(!passes(&ask, &out));
	ask = ask_of(FILEOP_CHMOD);
	ask.mode = 010000;
	CHECK(!passes(&ask, &out));
	ask = ask_of(FILEOP_DIAL);
	ask.number = 65536;
	CHECK(!passes(&ask, &out));
	ask = ask_of(FILEOP_SWEEP);
	ask.number = 65;
	CHECK(!passes(&ask, &out));
	ask = ask_of(FILEOP_STAT);
	ask.path = str_of(longest);
	CHECK(!passes(&ask, &out));
}

static bool says(struct fileop_reply say, struct fileop_reply *out)
{
	size_t len = fileop_encode_reply(&say, bytes, sizeof(bytes));

	if (!len)
		return false;
	memcpy(bytes + len, say.rest.at ? say.rest.at : "", say.rest.len);
	return fileop_decode_reply(bytes, len + say.rest.len, out);
}

TEST(answers, "an answer is decoded as encoded, with its bytes and the right number of fds")
{
	struct fileop_stat stat = {.type = FILEOP_SYMLINK, .mode = 0777, .size = 5, .mtime_us = -7};
	struct fileop_reply out;

	CHECK(says((struct fileop_reply){.kind = FILEOP_BYTES, .stat = stat, .rest = STR("a\0b")},
		   &out));
	CHECK(out.rest.len == 3 && out.stat.mtime_us == -7 && out.stat.type == FILEOP_SYMLINK);
	CHECK(fileop_fds(&out) == 0);
	CHECK(says((struct fileop_reply){.kind = FILEOP_OPENED}, &out) && fileop_fds(&out) == 1);
	CHECK(says((struct fileop_reply){.kind = FILEOP_DONE, .text = STR("t"), .more = true},
		   &out));
	CHECK(out.more && str_is(out.text, "t"));
	CHECK(says((struct fileop_reply){.kind = FILEOP_FAILED, .errnum = 2, .text = STR("")},
		   &out));
	CHECK(!says((struct fileop_reply){.kind = FILEOP_FAILED, .errnum = 5000}, &out));
	CHECK(!says((struct fileop_reply){.kind = FILEOP_DONE, .text = STR(""), .rest = STR("x")},
		    &out));
	CHECK(!says((struct fileop_reply){.kind = FILEOP_OPENED, .rest = STR("x")}, &out));
	CHECK(!says((struct fileop_reply){.kind = FILEOP_KIND_COUNT}, &out));
}

TEST(items, "items are read one after another, and a malformed one ends them")
{
	struct fileop_entry entry = {.path = STR("p"), .target = STR("t")}, got;
	struct fileop_event event = {FILEOP_DELETE, true, STR("gone")}, heard;
	struct pack pack;
	struct unpack in;

	pack_init(&pack, bytes, sizeof(bytes));
	fileop_put_entry(&pack, &entry);
	fileop_put_entry(&pack, &entry);
	unpack_init(&in, bytes, pack.len);
	CHECK(fileop_get_entry(&in, &got) && fileop_get_entry(&in, &got) &&
	      str_is(got.target, "t"));
	CHECK(!fileop_get_entry(&in, &got) && !in.failed);
	unpack_init(&in, bytes, pack.len - 1);
	CHECK(fileop_get_entry(&in, &got) && !fileop_get_entry(&in, &got) && in.failed);
	pack_init(&pack, bytes, sizeof(bytes));
	fileop_put_event(&pack, &event);
	bytes[0] = FILEOP_EVENT_COUNT;
	unpack_init(&in, bytes, pack.len);
	CHECK(!fileop_get_event(&in, &heard) && in.failed);
}
