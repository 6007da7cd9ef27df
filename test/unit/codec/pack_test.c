#include "codec/pack.h"

#include "tap.h"

TEST(round_trip, "packed values are unpacked, in little-endian bytes")
{
	uint8_t room[64];
	struct pack pack;
	struct unpack in;
	struct str text;

	pack_init(&pack, room, sizeof(room));
	pack_u8(&pack, 0xff);
	pack_u16(&pack, 0x0102);
	pack_u32(&pack, 0x03040506);
	pack_u64(&pack, 0x0708090a0b0c0d0eull);
	pack_text(&pack, STR("hi"));
	pack_text(&pack, STR(""));
	CHECK(!pack.failed && pack.len == 1 + 2 + 4 + 8 + 7 + 5);
	CHECK(room[1] == 2 && room[3] == 6 && room[7] == 0x0e);
	unpack_init(&in, room, pack.len);
	CHECK(unpack_u8(&in) == 0xff && unpack_u16(&in) == 0x0102);
	CHECK(unpack_u32(&in) == 0x03040506 && unpack_u64(&in) == 0x0708090a0b0c0d0eull);
	text = unpack_text(&in, 2);
	CHECK(text.len == 2);
	CHECK_STR(text.at, "hi");
	CHECK(!unpack_end(&in));
	CHECK_STR(unpack_text(&in, 0).at, "");
	CHECK(unpack_end(&in));
}

TEST(writer_bound, "a writer never passes its room and remembers that it would have")
{
	uint8_t room[5] = {0};
	struct pack pack;

	pack_init(&pack, room, 4);
	pack_u16(&pack, 1);
	pack_u32(&pack, 0xffffffff);
	CHECK(pack.failed && pack.len == 2 && room[2] == 0);
	pack_u8(&pack, 7);
	CHECK(pack.len == 2);
	pack_init(&pack, room, 4);
	pack_text(&pack, STR(""));
	CHECK(pack.failed && room[4] == 0);
}

TEST(no_nul, "a text with a NUL inside is refused by writer and reader")
{
	static const uint8_t evil[] = {3, 0, 0, 0, 'a', 0, 'b', 0};
	static const uint8_t open[] = {3, 0, 0, 0, 'a', 'c', 'b', 'x'};
	uint8_t room[32];
	struct pack pack;
	struct unpack in;

	pack_init(&pack, room, sizeof(room));
	pack_text(&pack, STR("a\0b"));
	CHECK(pack.failed);
	unpack_init(&in, evil, sizeof(evil));
	CHECK_STR(unpack_text(&in, 10).at, "");
	CHECK(in.failed);
	unpack_init(&in, open, sizeof(open));
	CHECK_STR(unpack_text(&in, 10).at, "");
	CHECK(in.failed);
}

TEST(reader_bound, "a reader never passes its bytes, and after a failure answers 0 and ''")
{
	static const uint8_t bytes[] = {0xff, 0xff, 0xff, 0xff, 'a'};
	struct unpack in;

	unpack_init(&in, bytes, sizeof(bytes));
	CHECK_STR(unpack_text(&in, SIZE_MAX).at, "");
	CHECK(in.failed && unpack_u8(&in) == 0 && !unpack_end(&in));
	unpack_init(&in, bytes, 3);
	CHECK(unpack_u32(&in) == 0 && in.failed && unpack_u64(&in) == 0);
	unpack_init(&in, NULL, 0);
	CHECK(unpack_end(&in));
	CHECK(unpack_u8(&in) == 0 && !unpack_end(&in));
}

TEST(too_long, "a text longer than allowed is malformed")
{
	static const uint8_t bytes[] = {3, 0, 0, 0, 'a', 'b', 'c', 0};
	struct unpack in;

	unpack_init(&in, bytes, sizeof(bytes));
	CHECK_STR(unpack_text(&in, 2).at, "");
	CHECK(in.failed);
	unpack_init(&in, bytes, sizeof(bytes));
	CHECK_STR(unpack_text(&in, 3).at, "abc");
	CHECK(unpack_end(&in));
}
