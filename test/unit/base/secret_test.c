#include "base/secret.h"

#include "base/id.h"
#include "tap.h"

TEST(hash, "SHA-256 of 'abc' is the one of FIPS 180")
{
	static const uint8_t want[SECRET_HASH] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
						  0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
						  0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
						  0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
	uint8_t got[SECRET_HASH];

	secret_sha256("abc", 3, got);
	CHECK(secret_equal(got, want, SECRET_HASH));
	got[31] ^= 1;
	CHECK(!secret_equal(got, want, SECRET_HASH));
}

TEST(random_bits, "random bits differ, and every one of them is used")
{
	uint8_t ones[64] = {0}, zeros[64] = {0}, bits[64];

	for (int i = 0; i < 64; i++) {
		secret_random(bits, sizeof(bits));
		for (int j = 0; j < 64; j++) {
			ones[j] |= bits[j];
			zeros[j] |= (uint8_t)~bits[j];
		}
	}
	for (int j = 0; j < 64; j++)
		CHECK(ones[j] == 0xff && zeros[j] == 0xff);
}

TEST(hex, "hex digits fill their room and no more")
{
	char room[50], seen[256] = {0};

	for (int round = 0; round < 64; round++) {
		memset(room, '#', sizeof(room));
		secret_hex(room, 24);
		CHECK(strlen(room) == 48 && room[49] == '#');
		CHECK(strspn(room, "0123456789abcdef") == 48);
		for (int i = 0; i < 48; i++)
			seen[(unsigned char)room[i]] = 1;
	}
	for (const char *c = "0123456789abcdef"; *c; c++)
		CHECK(seen[(unsigned char)*c]);
}

TEST(wiped, "wiping leaves zeros")
{
	char key[8] = "secret!";

	secret_wipe(key, sizeof(key));
	CHECK(memcmp(key, "\0\0\0\0\0\0\0\0", 8) == 0);
}

TEST(hmac, "keyed hashes are those of RFC 4231")
{
	static const uint8_t want[SECRET_HASH] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
						  0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
						  0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
						  0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
	uint8_t key[SECRET_HASH] = {0}, got[SECRET_HASH];

	memset(key, 0x0b, 20); // shorter keys are padded with zeros
	secret_hmac(key, "Hi There", 8, got);
	CHECK(memcmp(got, want, SECRET_HASH) == 0);
}
