// Collections of the API, such as /v1/sandboxes and /v1/keys: listed as a table, as names or as
// JSON; items shown and removed.
#pragma once

#include "base/map.h"
#include "cli/print.h"
#include "cli/remote.h"

#define BOXES_PATH "/v1/sandboxes"
#define TEMPLATES_PATH "/v1/templates"
#define SESSIONS_PATH "/v1/agent-sessions"
#define EXECUTIONS_PATH "/v1/executions"

// A column of the table. `put` appends the cell; NULL: the member `key` as text. An empty cell is
// shown as "-".
struct column {
	const char *head, *key;
	void (*put)(const struct json *item, const char *key, struct buf *out);
};

struct collection {
	const char *path, *query;     // query: "" or "k=v&…"
	const char *name;	      // the member that --quiet prints
	const struct column *columns; // ended by a row without a head
};

// Calls `each` for every item, page by page. `query` as above.
typedef fallible collection_fn(const struct json *item, void *arg);
fallible collection_each(struct remote *remote, const char *path, const char *query,
			 collection_fn *each, void *arg);
// A table, names alone, or JSON, as the options say.
fallible collection_list(const struct call *call, struct remote *remote,
			 const struct collection *collection);
// The same of items whose "id" is in `only`.
fallible collection_list_only(const struct call *call, struct remote *remote,
			      const struct collection *collection, const struct map *only);
fallible collection_ls(struct call *call, const struct collection *collection); // with a client
// A row of the table into `grid`, and the heads.
void collection_heads(const struct column *columns, struct grid *grid);
void collection_row(const struct column *columns, const struct json *item, struct grid *grid);
// Prints the item of each word as one JSON array. An absent item is reported and decides the exit
// status. `part`, unless NULL: the answer of PATH/ITEM/part becomes a member of that name.
fallible collection_show(struct call *call, const char *path, const char *part);
// Removes an item and prints its name. With --force an absent item is no failure. `goes_on`: an
// absent item or a bad name is reported and not returned. *reply, if given, gets the answer.
fallible collection_remove(struct call *call, struct remote *remote, const char *path,
			   const char *name, bool goes_on, struct buf *reply);
// Removes the item of each word, until the first failure.
fallible collection_rm(struct call *call, const char *path);
// Reports a failure that does not stop the rest; the first one decides the exit status. Takes it.
void collection_report(struct call *call, struct err *failure);

// Cells of columns: the age of a timestamp, the elements of an array.
void column_age(const struct json *item, const char *key, struct buf *out);
void column_list(const struct json *item, const char *key, struct buf *out);
