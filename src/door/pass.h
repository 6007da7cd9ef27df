// The credential of one sandbox, for clients that can send no headers: it stands in the path,
// /v1/t/TOKEN/sandboxes/{id}/…, and opens what is inside of that sandbox, nothing else.
#pragma once

#include "base/secret.h"
#include "fleet/fleet.h"
#include "http/http.h"

#define PASS_PREFIX "covebox_"
#define PASS_LEN (sizeof(PASS_PREFIX) - 1 + 2 * SECRET_HASH)

// The credential of a box is derived from a key that the daemon keeps, so it survives a restart and
// is stored nowhere.
void pass_write(const uint8_t key[SECRET_HASH], const char *box, uint64_t turn,
		char out[PASS_LEN + 1]);

enum pass { PASS_NONE, PASS_WRONG, PASS_GOOD };

// Takes the credential out of the request's path, whatever it is worth, before anything is logged.
// With a good one x->guest is the box's own `who`, and the path names the box by its full id, so
// that a name given to another box meanwhile does not matter. Takes the same time for every token
// and whether there is such a box or not.
enum pass pass_take(const uint8_t key[SECRET_HASH], const struct fleet *fleet, struct http *x);
