// The credential of one sandbox, for clients that can send no headers: it stands in the path,
// /v1/t/TOKEN/sandboxes/{id}/…, and opens what is inside of that sandbox, nothing else.
#pragma once

#include "base/secret.h"
#include "http/http.h"
#include "manager/manager.h"

#define PATH_TOKEN_PREFIX "covebox_"
#define PATH_TOKEN_LEN (sizeof(PATH_TOKEN_PREFIX) - 1 + 2 * SECRET_HASH)

// The credential of a box is derived from a key that the daemon keeps, so it survives a restart and
// is stored nowhere.
void path_token_write(const uint8_t key[SECRET_HASH], const char *box, uint64_t turn,
		      char out[PATH_TOKEN_LEN + 1]);

enum path_token { PATH_TOKEN_NONE, PATH_TOKEN_WRONG, PATH_TOKEN_GOOD };

// Takes the credential out of the request's path, whatever it is worth, before anything is logged.
// With a good one x->guest is the box's own `who`, and the path names the box by its full id, so
// that a name given to another box meanwhile does not matter. Takes the same time for every token
// and whether there is such a box or not.
enum path_token path_token_take(const uint8_t key[SECRET_HASH], const struct manager *manager,
				struct http *x);
