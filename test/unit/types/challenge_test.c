#include "types/challenge.h"

#include "tap.h"

static struct challenge read_one(const char *text)
{
	struct challenge challenge = {0};

	challenge_read(str_of(text), &challenge);
	return challenge;
}

TEST(bearer, "Bearer has realm, service and scope")
{
	struct challenge one = read_one(
		"Bearer realm=\"https://a/token\",service=\"s\", scope=\"repository:x:pull,push\"");

	CHECK(one.kind == CHALLENGE_BEARER);
	CHECK_STR(one.realm, "https://a/token");
	CHECK_STR(one.service, "s");
	CHECK_STR(one.scope, "repository:x:pull,push");
	CHECK_STR(read_one("bearer realm=http://a/b").realm, "http://a/b");
	CHECK_STR(read_one("Bearer realm=\"a\\\"b\\\\c\"").realm, "a\"b\\c");
}

TEST(several, "of several the best is taken, in any order; unknown schemes are skipped")
{
	CHECK(read_one("Basic realm=\"x\", Bearer realm=\"y\"").kind == CHALLENGE_BEARER);
	CHECK(read_one("Bearer realm=\"y\", Basic realm=\"x\"").kind == CHALLENGE_BEARER);
	CHECK(read_one("Negotiate abc==, Basic realm=\"x\"").kind == CHALLENGE_BASIC);
	CHECK(read_one("Digest realm=\"x\", nonce=\"Basic\"").kind == CHALLENGE_NONE);
}

TEST(bad, "a malformed challenge is none")
{
	static const char *const bad[] = {"",
					  ",",
					  "Bearer",
					  "Bearer realm=\"x",
					  "Bearer realm=",
					  "\"Basic\"",
					  "Bearer service=\"x\"",
					  "Bearer realm=\"a\nb\""};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(read_one(bad[i]).kind == CHALLENGE_NONE);
}
