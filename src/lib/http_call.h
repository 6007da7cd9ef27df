// Connections and complete HTTP exchanges.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

// One connection per running request; reusable ones are kept for the next.
fallible http_call_take(struct cove *cove, struct http_client **out);
void http_call_give(struct cove *cove, struct http_client *http);
// Reads any answer but 2xx and converts it to the error that it describes. In a task.
fallible http_call_accept(struct cove *cove, struct http_client *http, int status);
// The same for an error that was already read; `text` may be anything.
fallible http_call_refusal(struct cove *cove, int status, struct str text);

// A complete exchange. `key` is an Idempotency-Key or NULL; `body` NULL: none; `reply` NULL: not
// wanted.
fallible http_call_text(struct cove *cove, const char *method, const char *path, const char *key,
			const struct buf *body, struct buf *reply);
// The same; the reply is an object, owned by the caller.
fallible http_call_json(struct cove *cove, const char *method, const char *path,
			const struct buf *body, struct json **out);
fallible http_call_object(struct str text,
			  struct json **out); // BAD_PEER bad_reply when it is not an object
