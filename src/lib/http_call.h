// Connections, and HTTP exchanges: complete ones, streamed ones, and event streams.
#pragma once

#include "codec/json.h"
#include "codec/sse.h"
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

// A streamed request, as parts of the library use it: embedded, its strings borrowed.
struct cove_request {
	struct cove *cove;
	const char *method, *path;
	const char *type; // of the body to be written; NULL: `body`, which may be empty
	struct str body;
	char range[48], last_event[64]; // headers, when not empty
	bool wants_events;		// Accept: text/event-stream
	struct http_client *http;
	int status;
	bool finished, ended, broken;
	char *own_method, *own_path, *own_type; // of one that the user opened
};

fallible request_begin(struct cove_request *r);
fallible request_write(struct cove_request *r, const void *bytes, size_t len);
fallible request_finish(struct cove_request *r);
// Reads bytes of the reply; *out = 0 at its end. A read that timed out can be repeated.
fallible request_read(struct cove_request *r, void *room, size_t size, int64_t timeout_ms,
		      size_t *out);
fallible request_body(struct cove_request *r, struct buf *out); // all that is left
int request_fd(const struct cove_request *r);			// to be polled; -1: none
void request_done(struct cove_request *r);			// a second call has no effect

// A request that is harmless twice is sent again this often while the server is away, as in a
// restart.
#define HTTP_CALL_RETRIES 20
#define HTTP_CALL_RETRY_MS 250

// An event stream of JSON objects.
#define EVENT_READER_ROOM (64 * 1024)

struct event_reader {
	struct cove_request request;
	struct sse_reader reader;
	char *room;	 // EVENT_READER_ROOM bytes
	struct str left; // unparsed bytes
	char id[64];	 // of the last returned event; may be empty
	char type[64];	 // its name; may be empty
	bool open;
};

// Requests the stream and waits for its head. `body` at == NULL: none; path and body are borrowed
// for this call only. `last_id`: "" or the id of the last event received before. The caller calls
// event_reader_close() in any case.
fallible event_reader_open(struct event_reader *sse, struct cove *cove, const char *method,
			   const char *path, struct str body, const char *last_id);
// The same by GET; a server that is unreachable for a while, as in a restart, is asked again if
// `last_id` is not "". TIMEOUT at the deadline (clock_ms()).
fallible event_reader_resume(struct event_reader *sse, struct cove *cove, const char *path,
			     const char *last_id, int64_t deadline);
// Returns the next event, owned by the caller; NULL in *out: the stream has ended. TIMEOUT: call
// again.
fallible event_reader_next(struct event_reader *sse, int64_t timeout_ms, struct json **out);
int event_reader_fd(const struct event_reader *sse);
void event_reader_close(struct event_reader *sse); // a second call has no effect

// Converts an event of type "error" to an error.
fallible event_reader_error(const struct json *event);
