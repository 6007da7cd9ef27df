// The credential of a preview: the token of an exposed port, random or chosen, or a signed link, a
// longer token that contains its expiry. Both are in the host name or in the path, so relative
// links of a page keep them. A signed link is void when its token changes. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"

#define PREVIEW_TOKEN_TOKEN_MAX 16
#define PREVIEW_TOKEN_LINK_LEN 39 // 7 of the expiry, 32 of the signature

void preview_token_make(char out[PREVIEW_TOKEN_TOKEN_MAX + 1]); // random, 82 bits
bool preview_token_is_token(struct str text);			// 1 to 16 of [a-z0-9_]
bool preview_token_is_link(struct str text);			// has the form of a signed link

// The exposed port of a token. `token` is the stored one.
struct preview_token {
	const char *box; // the whole id
	uint16_t port;
	const char *token;
	int64_t ends_ms; // of the token; 0: never
};

// `key` is the host's own. `ends_ms` is rounded up to whole seconds.
void preview_token_sign(const uint8_t key[SECRET_HASH], const struct preview_token *preview_token,
			int64_t ends_ms, char out[PREVIEW_TOKEN_LINK_LEN + 1]);

// Expiry of a valid token or link; 0: never.
int64_t preview_token_end(const struct preview_token *preview_token, struct str given);

enum preview_token_verdict {
	PREVIEW_TOKEN_WRONG,
	PREVIEW_TOKEN_GOOD,
	PREVIEW_TOKEN_OVER, // valid once: token or link has expired
};

// Checks a token or a link. The time is the same for every wrong one. `preview_token` may be NULL:
// nothing is exposed there, which takes as long.
enum preview_token_verdict preview_token_check(const uint8_t key[SECRET_HASH],
					       const struct preview_token *preview_token,
					       struct str given, int64_t now_ms);
