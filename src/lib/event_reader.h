// A stream of events, each one JSON object, taken as it comes.
#pragma once

#include "codec/json.h"
#include "codec/sse.h"
#include "lib/request.h"

#define EVENT_READER_ROOM (64 * 1024)

struct event_reader {
	struct cove_request request;
	struct sse_reader reader;
	char *room;	 // EVENT_READER_ROOM bytes
	struct str left; // of what was read
	char id[64];	 // of the last event that was given out; may be empty
	bool open;
};

// Asks for the stream and waits for its head. `body` at == NULL: none; path and body are borrowed
// for this call only. `last_id` "" or the id of the last event that was had before.
// event_reader_close() in every case.
fallible event_reader_open(struct event_reader *sse, struct cove *cove, const char *method,
			   const char *path, struct str body, const char *last_id);
// The next event, the caller's; NULL in *out: the stream has ended. TIMEOUT: call again.
fallible event_reader_next(struct event_reader *sse, int64_t timeout_ms, struct json **out);
int event_reader_fd(const struct event_reader *sse);
void event_reader_close(struct event_reader *sse); // harmless twice

// The error that an event of type "error" tells.
fallible event_reader_error(const struct json *event);
