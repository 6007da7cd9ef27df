// Sandboxes as things: made, listed, shown, removed.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

#define BOXES_PATH "/v1/sandboxes"

fallible boxes_create(struct call *call);
fallible boxes_ps(struct call *call);
fallible boxes_inspect(struct call *call);
fallible boxes_rm(struct call *call);

// Calls `each` (if given) for every item of a collection, page by page, and adds the items as they
// came to `raw` (if given), with commas between them. `query` is empty or "k=v&…".
typedef fallible boxes_fn(const struct json *item, void *arg);
fallible boxes_each(struct remote *remote, const char *collection, const char *query,
		    boxes_fn *each, void *arg, struct buf *raw);
// The whole collection as one JSON array, to stdout.
fallible boxes_dump(struct remote *remote, const char *collection, const char *query);
// A member as text, or "" when it is absent; borrowed from the tree and NUL-terminated there.
const char *boxes_text(const struct json *object, const char *key);
