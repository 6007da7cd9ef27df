// Contexts of the user: named servers with a key each, in ~/.config/cove/contexts.json, mode 0600.
// The current one is used if neither the caller nor the environment names a server.
#pragma once

#include "base/buf.h"
#include "codec/json.h"

#define CONTEXT_LOCAL "local" // the daemon of this host: never in the file
#define CONTEXT_NAME_MAX 64
#define CONTEXT_COUNT_MAX 64

struct context {
	char *name, *url, *key; // key NULL: none
};

struct contexts {
	struct context items[CONTEXT_COUNT_MAX];
	size_t count;
	char *current; // NULL: the local daemon
};

void contexts_done(struct contexts *contexts);
#define auto_contexts on_exit_call(contexts_done) struct contexts

// Without a file there are no contexts. INVALID bad_contexts.
fallible contexts_load(struct contexts *out);
// Written to a temporary file, synced and renamed; the directory is made 0700. UNAVAILABLE no_home.
fallible contexts_save(const struct contexts *contexts);
struct context *contexts_find(const struct contexts *contexts, const char *name); // NULL: not found
// Adds a context, or replaces the one of that name. EXHAUSTED too_many_contexts.
fallible contexts_put(struct contexts *contexts, const char *name, const char *url,
		      const char *key);
void contexts_take(struct contexts *contexts, struct context *context);
