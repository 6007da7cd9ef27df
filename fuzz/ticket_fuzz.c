// Tokens and signed links. Nothing opens but the token and what was signed under it.
#include "model/ticket.h"

#include "fuzz.h"

static const uint8_t key[SECRET_HASH] = {7};
static const struct ticket kept = {
	.box = "box-0123456789abcdef0123456789abcdef0123456789abcdef",
	.port = 8080,
	.token = "my_token",
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str given = {(const char *)bytes, len};
	enum ticket_verdict verdict = ticket_check(key, &kept, given, 0);
	char link[TICKET_LINK_LEN + 1];

	MUST(ticket_check(key, NULL, given, 0) == TICKET_WRONG);
	MUST(!(ticket_is_token(given) && ticket_is_link(given)));
	if (verdict == TICKET_WRONG)
		MUST(!str_is(given, kept.token));
	else if (!str_is(given, kept.token)) {
		// It is a link: then it is one of ours, for some end.
		bool found = false;

		MUST(ticket_is_link(given));
		for (int64_t ends_ms = 0; ends_ms <= 3000 && !found; ends_ms += 1000) {
			ticket_sign(key, &kept, ends_ms, link);
			found = str_is(given, link);
		}
		MUST(found);
	}
	if (len >= sizeof(int64_t)) {
		int64_t ends_ms, now_ms;

		memcpy(&ends_ms, bytes, sizeof(ends_ms));
		ends_ms &= (1ll << 45) - 1;
		now_ms = ends_ms - 1;
		ticket_sign(key, &kept, ends_ms, link);
		MUST(ticket_is_link(str_of(link)));
		MUST(ticket_check(key, &kept, str_of(link), now_ms) == TICKET_GOOD);
		MUST(ticket_check(key, &kept, str_of(link), ends_ms + 1000) == TICKET_OVER);
		link[bytes[0] % TICKET_LINK_LEN] ^= 1;
		MUST(ticket_check(key, &kept, str_of(link), now_ms) == TICKET_WRONG);
	}
	return 0;
}
