// The credential of a preview: the token of an exposed port, random or chosen, or a signed link, a
// longer token that contains its expiry. Both are in the host name or in the path, so relative
// links of a page keep them. A signed link is void when its token changes. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"
#include "types/env_map.h"

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

// The token of a whole sandbox, as Daytona's clients use it: it opens every port, and the toolbox.
// It changes with the label of its turn. Signed links that name it as their token are void then.
#define PREVIEW_TOKEN_BOX_LEN 32
#define PREVIEW_TOKEN_FIELD "X-Daytona-Preview-Token"
#define PREVIEW_TOKEN_QUERY "DAYTONA_SANDBOX_AUTH_KEY"
#define PREVIEW_TOKEN_TURN ENV_MAP_RESERVED "preview-turn"     // a random word; absent at first
#define PREVIEW_TOKEN_VOID ENV_MAP_RESERVED "preview-void"     // links that were taken back: "A,B"
#define PREVIEW_TOKEN_PUBLIC ENV_MAP_RESERVED "preview-public" // present: visitors need no token
void preview_token_of_box(const uint8_t key[SECRET_HASH], const char *box,
			  const struct env_map *labels, char out[PREVIEW_TOKEN_BOX_LEN + 1]);
bool preview_token_is_box(struct str given, const char token[PREVIEW_TOKEN_BOX_LEN + 1]);
// Whether a link was taken back.
bool preview_token_is_void(const struct env_map *labels, struct str link);
// The links of that label that have not expired, and one more. False: they are too many.
#define PREVIEW_TOKEN_VOID_MAX 64
bool preview_token_add_void(const struct env_map *labels, struct str link, int64_t now_ms,
			    struct buf *out);

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
