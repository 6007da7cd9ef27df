// The token of one sandbox, for clients that cannot send headers. It is in the path,
// /v1/t/TOKEN/sandboxes/{id}/…, and gives access to the API inside that sandbox only.
#pragma once

#include "base/secret.h"
#include "http/http.h"
#include "manager/manager.h"

#define PATH_TOKEN_PREFIX "covebox_"
#define PATH_TOKEN_LEN (sizeof(PATH_TOKEN_PREFIX) - 1 + 2 * SECRET_HASH)

// The token is an HMAC of the box's id under a key of the daemon, so it survives a restart and is
// not stored.
void path_token_write(const uint8_t key[SECRET_HASH], const char *box, uint64_t turn,
		      char out[PATH_TOKEN_LEN + 1]);

enum path_token { PATH_TOKEN_NONE, PATH_TOKEN_WRONG, PATH_TOKEN_GOOD };

// Removes the token from the request's path, valid or not, before anything is logged. For a valid
// token x->principal is the box's own `who`, and the path names the box by its full id, so that
// reusing its name for another box has no effect. Constant time for every token, whether the box
// exists or not.
// The principal of a request to Daytona's toolbox that has the token of its sandbox
// (types/preview_token.h), in a field or, as browsers send it with a WebSocket, in the query. NULL:
// it has none, or a wrong one. `key` is that of previews.
const struct who *path_token_toolbox(const uint8_t key[SECRET_HASH], const struct manager *manager,
				     struct http *x);

// The principal of a request for one file of the toolbox whose URL is signed (types/file_url.h),
// and for that request alone. NULL: it is not, or not well. `key` is that of previews.
const struct who *path_token_file(const uint8_t key[SECRET_HASH], const struct manager *manager,
				  struct http *x);

enum path_token path_token_take(const uint8_t key[SECRET_HASH], const struct manager *manager,
				struct http *x);
