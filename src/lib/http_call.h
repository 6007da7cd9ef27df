// Connections and whole exchanges.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

// One connection per request under way; whole ones are kept for the next.
fallible http_call_take(struct cove *cove, struct http_client **out);
void http_call_give(struct cove *cove, struct http_client *http);
// Anything but 2xx is read and becomes the error that it describes. In a task.
fallible http_call_accept(struct cove *cove, struct http_client *http, int status);
// The same for a refusal that is read already; `text` may be anything.
fallible http_call_refusal(struct cove *cove, int status, struct str text);

// A whole exchange. `key` is an Idempotency-Key or NULL; `body` NULL: none; `reply` NULL: not
// wanted.
fallible http_call_text(struct cove *cove, const char *method, const char *path, const char *key,
			const struct buf *body, struct buf *reply);
// The same, and the reply is an object, the caller's.
fallible http_call_json(struct cove *cove, const char *method, const char *path,
			const struct buf *body, struct json **out);
fallible http_call_object(struct str text, struct json **out); // BAD_PEER bad_reply when it is none
