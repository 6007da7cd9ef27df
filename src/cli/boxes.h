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
// As a table with those heads, as ids alone or as JSON, as was asked for.
struct boxes_table {
	const char *collection, *query;
	const char *const *heads;
	size_t columns;
	boxes_fn *add_row; // arg: a struct grid
};
fallible boxes_list(struct call *call, struct remote *remote, const struct boxes_table *table);
// Each word's item, as one JSON array, to stdout; what is not there is told, and decides the exit.
fallible boxes_show(struct call *call, const char *collection);
// Tells of a failure that does not stop the rest; the first one decides how we end. Takes it.
void boxes_tell(struct call *call, struct err *failure);
// A member as text, or "" when it is absent; borrowed from the tree and NUL-terminated there.
const char *boxes_text(const struct json *object, const char *key);
