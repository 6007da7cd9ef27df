// The daemon for all verbs: libcove, with its errors converted to ours.
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "cli/call.h"
#include "codec/json.h"
#include "lib/cove.h"

#define REMOTE_DATA_DEFAULT "/var/lib/cove"
#define REMOTE_REPLY_MAX ((size_t)512 << 20)

struct remote {
	struct cove *cove;
	const struct call *call; // its options replace field names in errors; NULL: none
	struct cove_error error; // of the last failure
};

// --data or COVE_DATA or the default.
const char *remote_data(const struct call *call);

// Finds the daemon. UNAVAILABLE no_daemon when none runs here, FORBIDDEN no_key when its key may
// not be read. remote_close() in every case.
fallible remote_open(struct remote *remote, const struct call *call);
// The same with known address and key. `token` NULL: none.
fallible remote_open_at(struct remote *remote, const char *url, const char *token);
void remote_close(struct remote *remote);
#define auto_remote on_exit_call(remote_close) struct remote

// The result of a library call that was given &remote->error.
fallible remote_did(struct remote *remote, enum cove_kind kind);

// Sends a request and parses the whole reply as JSON (NULL without a body). `body` NULL: none.
// *text, if given, keeps the raw text.
fallible remote_ask(struct remote *remote, const char *method, const char *path,
		    const struct buf *body, struct buf *text, struct json **out);
// The reply with --json, if there is one; else the line, unless --quiet is given.
void remote_print(const struct call *call, const struct buf *reply, const char *line);
// A verb of one request: opens the client, asks, and prints the reply, or its member `key`, or the
// first word if `key` is NULL.
fallible remote_act(const struct call *call, const char *method, const char *path,
		    const struct buf *body, const char *key);
// "/v1/sandboxes", a slash, the word percent-escaped, and the rest. The caller frees it.
char *remote_path(const char *collection, const char *word, const char *rest);

static inline void auto_cove_box_(struct cove_box **box)
{
	cove_box_free(*box);
}
#define auto_cove_box on_exit_call(auto_cove_box_) struct cove_box *
static inline void auto_cove_process_(struct cove_process **process)
{
	cove_process_free(*process);
}
#define auto_cove_process on_exit_call(auto_cove_process_) struct cove_process *
