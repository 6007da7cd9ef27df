// Sandboxes: create, list, show, remove.
#pragma once

#include "cli/call.h"
#include "cli/remote.h"

#define BOXES_PATH "/v1/sandboxes"

// Calls `each` (if given) for every item of a collection, page by page, and appends the items as
// they came to `raw` (if given), separated by commas. `query` is empty or "k=v&…".
typedef fallible boxes_fn(const struct json *item, void *arg);
fallible boxes_each(struct remote *remote, const char *collection, const char *query,
		    boxes_fn *each, void *arg, struct buf *raw);
// The whole collection as one JSON array, to stdout.
fallible boxes_dump(struct remote *remote, const char *collection, const char *query);
// Prints a table with those heads, ids alone, or JSON, as the options say.
struct boxes_table {
	const char *collection, *query;
	const char *const *heads;
	size_t columns;
	boxes_fn *add_row; // arg: a struct grid
};
fallible boxes_list(struct call *call, struct remote *remote, const struct boxes_table *table);
// Prints the item of each word as one JSON array. An absent item is reported and decides the exit
// status.
fallible boxes_show(struct call *call, const char *collection);
// Reports a failure that does not stop the rest; the first one decides the exit status. Takes it.
void boxes_tell(struct call *call, struct err *failure);
// A member as text, or "" when it is absent; borrowed from the tree and NUL-terminated there.
const char *boxes_text(const struct json *object, const char *key);
