// A box is its key and the client; the prefix of its paths is made once.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

#define LIB_BOXES "/v1/sandboxes"

struct cove_box {
	struct cove *cove;
	char *key;
	char *base;	   // "/v1/sandboxes/KEY"
	struct json *info; // the last answer; NULL: none yet
	char *text;	   // the same as it came
};

// base + rest, the caller's.
char *lib_box_path(const struct cove_box *box, const char *rest);
// POST to the box's route `rest` with the body; the reply, if wanted, is the caller's.
fallible lib_box_post(const struct cove_box *box, const char *rest, const struct buf *body,
		      struct json **out);
