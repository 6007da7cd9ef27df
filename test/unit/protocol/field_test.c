#include "protocol/field.h"

#include "codec/pack.h"
#include "tap.h"

#define KIND_A 1u
#define KIND_B 2u
#define CHECK_EVEN 1

struct sample {
	uint8_t small;
	uint32_t wide; // one byte on the wire
	int64_t time;
	uint32_t three[3];
	char word[4];
	struct str text, bytes;
	uint16_t count;
	const char **strings;
};

static const struct field rows[] = {
	// clang-format off
	FIELD_ROW(struct sample, small, CHECK_EVEN, KIND_A | KIND_B, FIELD_U8(2, 8))
	FIELD_ROW(struct sample, wide, 0, KIND_A, FIELD_U8(0, UINT8_MAX))
	FIELD_ROW(struct sample, time, 0, KIND_A, FIELD_TIME)
	FIELD_ROW(struct sample, three, 0, KIND_A, FIELD_U32(0, 9))
	FIELD_ROW(struct sample, word, 0, KIND_A, FIELD_CHARS)
	FIELD_ROW(struct sample, text, 0, KIND_A, FIELD_TEXT(4))
	FIELD_ROW(struct sample, bytes, 0, KIND_A, FIELD_BYTES(3))
	FIELD_ROW(struct sample, count, 0, KIND_A, FIELD_U16(0, 2))
	FIELD_ROW(struct sample, strings, 0, KIND_A, FIELD_STRINGS)
	// clang-format on
};

static uint8_t room[256];

static bool is_even(uint8_t check, const void *message, const void *member)
{
	return check == CHECK_EVEN && message == member && *(const uint8_t *)member % 2 == 0;
}

static struct sample sample_of(const char **strings)
{
	return (struct sample){.small = 4,
			       .wide = 255,
			       .time = -1,
			       .three = {1, 2, 9},
			       .word = "abc",
			       .text = STR("text"),
			       .bytes = STR("a\0b"),
			       .count = 2,
			       .strings = strings};
}

// The length of the encoded message; 0: it cannot be encoded.
static size_t encode(const struct sample *sample, uint32_t kind)
{
	struct pack pack;

	pack_init(&pack, room, sizeof(room));
	fields_put(FIELDS(rows), kind, sample, &pack);
	return pack.failed ? 0 : pack.len;
}

static bool decode(size_t len, uint32_t kind, struct sample *out)
{
	static const char *strings[3];
	struct unpack in;

	*out = (struct sample){.strings = strings};
	unpack_init(&in, room, len);
	fields_get(FIELDS(rows), is_even, kind, &in, out);
	return unpack_end(&in);
}

TEST(whole, "a message is decoded as encoded, and no prefix of it is")
{
	struct sample out, sample = sample_of((const char *[]){"one", "", NULL});
	size_t len = encode(&sample, KIND_A);

	CHECK(len == 1 + 1 + 8 + 3 * 4 + (4 + 4) + (4 + 5) + (2 + 3) + 2 + (4 + 4) + (4 + 1));
	CHECK(decode(len, KIND_A, &out));
	CHECK(out.small == 4 && out.wide == 255 && out.time == -1 && out.three[2] == 9);
	CHECK_STR(out.word, "abc");
	CHECK(str_is(out.text, "text") && out.bytes.len == 3 && !memcmp(out.bytes.at, "a\0b", 3));
	CHECK(out.count == 2 && !strcmp(out.strings[0], "one") && !out.strings[2]);
	for (size_t cut = 0; cut < len; cut++)
		CHECK(!decode(cut, KIND_A, &out));
	CHECK(encode(&sample, KIND_B) == 1 && decode(1, KIND_B, &out) && out.wide == 0);
}

TEST(bounds, "a value out of its bounds, or that its check refuses, is not decoded")
{
	const char *strings[] = {"one", "", "three", NULL};
	struct sample out, bad[] = {
				   sample_of(strings), sample_of(strings), sample_of(strings),
				   sample_of(strings), sample_of(strings), sample_of(strings),
				   sample_of(strings),
			   };

	bad[0].small = 0;
	bad[1].small = 10;
	bad[2].small = 5;
	bad[3].three[1] = 10;
	bad[4].text = STR("texts");
	bad[5].count = 3;
	bad[6].time = (int64_t)FIELD_TIME_MAX + 1;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		size_t len = encode(&bad[i], KIND_A);

		CHECK(len > 0 && !decode(len, KIND_A, &out));
	}
}

TEST(carried, "a value that its encoding cannot carry is not encoded")
{
	const char *strings[] = {"one", "", NULL};
	struct sample sample = sample_of(strings);

	sample.wide = 256;
	CHECK(encode(&sample, KIND_A) == 0);
	sample = sample_of(strings);
	memset(sample.word, 'x', sizeof(sample.word)); // no NUL
	CHECK(encode(&sample, KIND_A) == 0);
	sample = sample_of(strings);
	sample.text = STR("a\0b");
	CHECK(encode(&sample, KIND_A) == 0);
	sample = sample_of(strings);
	sample.bytes = STR("four");
	CHECK(encode(&sample, KIND_A) == 0);
}
