// A stream of events, each one JSON object, taken as it comes.
#pragma once

#include "lib/request.h"
#include "wire/json.h"
#include "wire/sse.h"

#define FEED_ROOM (64 * 1024)

struct feed {
	struct cove_request request;
	struct sse_reader reader;
	char *room;	 // FEED_ROOM bytes
	struct str left; // of what was read
	char id[64];	 // of the last event that was given out; may be empty
	bool open;
};

// Asks for the stream and waits for its head. `body` at == NULL: none; path and body are borrowed
// for this call only. `last_id` "" or the id of the last event that was had before. feed_close() in
// every case.
fallible feed_open(struct feed *feed, struct cove *cove, const char *method, const char *path,
		   struct str body, const char *last_id);
// The next event, the caller's; NULL in *out: the stream has ended. TIMEOUT: call again.
fallible feed_next(struct feed *feed, int64_t timeout_ms, struct json **out);
int feed_fd(const struct feed *feed);
void feed_close(struct feed *feed); // harmless twice

// The error that an event of type "error" tells.
fallible feed_error(const struct json *event);
