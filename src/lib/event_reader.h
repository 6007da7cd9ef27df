// Reads an event stream of JSON objects.
#pragma once

#include "codec/json.h"
#include "codec/sse.h"
#include "lib/request.h"

#define EVENT_READER_ROOM (64 * 1024)

struct event_reader {
	struct cove_request request;
	struct sse_reader reader;
	char *room;	 // EVENT_READER_ROOM bytes
	struct str left; // unparsed bytes
	char id[64];	 // of the last returned event; may be empty
	bool open;
};

// Requests the stream and waits for its head. `body` at == NULL: none; path and body are borrowed
// for this call only. `last_id`: "" or the id of the last event received before. The caller calls
// event_reader_close() in any case.
fallible event_reader_open(struct event_reader *sse, struct cove *cove, const char *method,
			   const char *path, struct str body, const char *last_id);
// Returns the next event, owned by the caller; NULL in *out: the stream has ended. TIMEOUT: call
// again.
fallible event_reader_next(struct event_reader *sse, int64_t timeout_ms, struct json **out);
int event_reader_fd(const struct event_reader *sse);
void event_reader_close(struct event_reader *sse); // a second call has no effect

// Converts an event of type "error" to an error.
fallible event_reader_error(const struct json *event);
