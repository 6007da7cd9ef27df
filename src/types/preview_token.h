// What opens a preview: the token of an exposed port, random or chosen, or a signed link, which is
// a longer token that holds its own end. Both stand where a token stands, in the host's name or in
// the path, so a page's relative links keep them. A signed link dies with the token that it was
// signed under. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"

#define PREVIEW_TOKEN_TOKEN_MAX 16
#define PREVIEW_TOKEN_LINK_LEN 39 // 7 of the end, 32 of the signature

void preview_token_make(char out[PREVIEW_TOKEN_TOKEN_MAX + 1]); // random, 82 bits
bool preview_token_is_token(struct str text);			// 1 to 16 of [a-z0-9_]
bool preview_token_is_link(struct str text);			// of the form of a signed link

// What a token opens. `token` is the one that is kept.
struct preview_token {
	const char *box; // the whole id
	uint16_t port;
	const char *token;
	int64_t ends_ms; // of the token; 0: never
};

// `key` is the host's own. `ends_ms` counts in whole seconds, rounded up.
void preview_token_sign(const uint8_t key[SECRET_HASH], const struct preview_token *preview_token,
			int64_t ends_ms, char out[PREVIEW_TOKEN_LINK_LEN + 1]);

// When a right token or link ends: 0, never.
int64_t preview_token_end(const struct preview_token *preview_token, struct str given);

enum preview_token_verdict {
	PREVIEW_TOKEN_WRONG,
	PREVIEW_TOKEN_GOOD,
	PREVIEW_TOKEN_OVER, // it was right once: token or link ended
};

// A token or a link, as `given`. It takes the same time for every wrong one. `ticket` may be NULL:
// nothing is exposed there, and finding that out takes as long.
enum preview_token_verdict preview_token_check(const uint8_t key[SECRET_HASH],
					       const struct preview_token *preview_token,
					       struct str given, int64_t now_ms);
