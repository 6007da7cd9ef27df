// Tokens and signed links. Nothing opens but the token and what was signed under it.
#include "types/preview_token.h"

#include "fuzz.h"

static const uint8_t key[SECRET_HASH] = {7};
static const struct preview_token kept = {
	.box = "box-0123456789abcdef0123456789abcdef0123456789abcdef",
	.port = 8080,
	.token = "my_token",
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str given = {(const char *)bytes, len};
	enum preview_token_verdict verdict = preview_token_check(key, &kept, given, 0);
	char link[PREVIEW_TOKEN_LINK_LEN + 1];

	MUST(preview_token_check(key, NULL, given, 0) == PREVIEW_TOKEN_WRONG);
	MUST(!(preview_token_is_token(given) && preview_token_is_link(given)));
	if (verdict == PREVIEW_TOKEN_WRONG)
		MUST(!str_is(given, kept.token));
	else if (!str_is(given, kept.token)) {
		// It is a link: then it is one of ours, for some end.
		bool found = false;

		MUST(preview_token_is_link(given));
		for (int64_t ends_ms = 0; ends_ms <= 3000 && !found; ends_ms += 1000) {
			preview_token_sign(key, &kept, ends_ms, link);
			found = str_is(given, link);
		}
		MUST(found);
	}
	if (len >= sizeof(int64_t)) {
		int64_t ends_ms, now_ms;

		memcpy(&ends_ms, bytes, sizeof(ends_ms));
		ends_ms &= (1ll << 45) - 1;
		now_ms = ends_ms - 1;
		preview_token_sign(key, &kept, ends_ms, link);
		MUST(preview_token_is_link(str_of(link)));
		MUST(preview_token_check(key, &kept, str_of(link), now_ms) == PREVIEW_TOKEN_GOOD);
		MUST(preview_token_check(key, &kept, str_of(link), ends_ms + 1000) ==
		     PREVIEW_TOKEN_OVER);
		link[bytes[0] % PREVIEW_TOKEN_LINK_LEN] ^= 1;
		MUST(preview_token_check(key, &kept, str_of(link), now_ms) == PREVIEW_TOKEN_WRONG);
	}
	return 0;
}
