// What opens a preview: the token of an exposed port, random or chosen, or a signed link, which is
// a longer token that holds its own end. Both stand where a token stands, in the host's name or in
// the path, so a page's relative links keep them. A signed link dies with the token that it was
// signed under. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"

#define TICKET_TOKEN_MAX 16
#define TICKET_LINK_LEN 39 // 7 of the end, 32 of the signature

void ticket_make(char out[TICKET_TOKEN_MAX + 1]); // random, 82 bits
bool ticket_is_token(struct str text);		  // 1 to 16 of [a-z0-9_]
bool ticket_is_link(struct str text);		  // of the form of a signed link

// What a token opens. `token` is the one that is kept.
struct ticket {
	const char *box; // the whole id
	uint16_t port;
	const char *token;
	int64_t ends_ms; // of the token; 0: never
};

// `key` is the host's own. `ends_ms` counts in whole seconds, rounded up.
void ticket_sign(const uint8_t key[SECRET_HASH], const struct ticket *ticket, int64_t ends_ms,
		 char out[TICKET_LINK_LEN + 1]);

// When a right token or link ends: 0, never.
int64_t ticket_end(const struct ticket *ticket, struct str given);

enum ticket_verdict {
	TICKET_WRONG,
	TICKET_GOOD,
	TICKET_OVER, // it was right once: token or link ended
};

// A token or a link, as `given`. It takes the same time for every wrong one. `ticket` may be NULL:
// nothing is exposed there, and finding that out takes as long.
enum ticket_verdict ticket_check(const uint8_t key[SECRET_HASH], const struct ticket *ticket,
				 struct str given, int64_t now_ms);
