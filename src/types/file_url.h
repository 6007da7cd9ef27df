// Signed URLs of files, as Daytona's clients make them: with the signing key of a sandbox a client
// signs the method, the path and the expiry. Its holder may read, or write, that one file
// until then. No I/O.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/str.h"
#include "types/env_map.h"

#define FILE_URL_KEY_LEN SECRET_HASH // characters: clients use them as the bytes of an HMAC key
#define FILE_URL_TURN ENV_MAP_RESERVED "file-turn" // changed to void all URLs; absent at first

// `secret` is the host's own.
void file_url_key(const uint8_t secret[SECRET_HASH], const char *box, const struct env_map *labels,
		  char out[FILE_URL_KEY_LEN + 1]);

struct file_url {
	struct str method, path, expires, signature; // of the request; expires: seconds, 0: never
};
// False: not signed with this key, or its time is over. The time of a wrong one is always the same.
bool file_url_is_good(const char key[FILE_URL_KEY_LEN + 1], const struct file_url *url,
		      int64_t now_s);
