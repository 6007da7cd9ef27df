// A sandbox as the library holds it: its key and its client.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

#define LIB_BOXES "/v1/sandboxes"

struct cove_box {
	struct cove *cove;
	char *key;
	char *base;	   // "/v1/sandboxes/KEY"
	struct json *info; // the last answer; NULL: none yet
	char *text;	   // the same, unparsed
};

// base + rest; the caller frees it.
char *lib_box_path(const struct cove_box *box, const char *rest);
// POST to the box's route `rest` with the body; the caller frees the reply, if wanted.
fallible lib_box_post(const struct cove_box *box, const char *rest, const struct buf *body,
		      struct json **out);
