// Challenges of registries: every text ends in one of three kinds, and its parameters can be put
// into a request.
#include "types/challenge.h"

#include <string.h>

#include "fuzz.h"

static void check_text(const char *text, size_t size)
{
	MUST(memchr(text, 0, size));
	for (; *text; text++)
		MUST((unsigned char)*text >= ' ' && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct challenge challenge = {0}, again;

	challenge_read((struct str){(const char *)bytes, len}, &challenge);
	MUST(challenge.kind <= CHALLENGE_BEARER);
	MUST(challenge.kind != CHALLENGE_BEARER || challenge.realm[0]);
	check_text(challenge.realm, sizeof(challenge.realm));
	check_text(challenge.service, sizeof(challenge.service));
	check_text(challenge.scope, sizeof(challenge.scope));
	again = challenge; // another header never makes it worse
	challenge_read((struct str){(const char *)bytes, len}, &again);
	MUST(again.kind == challenge.kind && !strcmp(again.realm, challenge.realm));
	return 0;
}
