// Reads a reply as server-sent events and parses each event's data as a JSON object. A read that
// times out loses nothing: the next call goes on. The id of the last event is kept for resuming.
#include "lib/event_reader.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define EVENT_MAX ((size_t)16 << 20) // the daemon's events are far smaller

fallible event_reader_open(struct event_reader *sse, struct cove *cove, const char *method,
			   const char *path, struct str body, const char *last_id)
{
	*sse = (struct event_reader){
		.request = {.cove = cove, .method = method, .path = path, .body = body},
		.reader = SSE_READER(EVENT_MAX),
		.room = mem_new(EVENT_READER_ROOM),
		.open = true,
	};
	snprintf(sse->id, sizeof(sse->id), "%s", last_id);
	snprintf(sse->request.last_event, sizeof(sse->request.last_event), "%s", last_id);
	TRY(request_begin(&sse->request));
	return OK;
}

void event_reader_close(struct event_reader *sse)
{
	if (!sse->open)
		return;
	request_done(&sse->request);
	sse_done(&sse->reader);
	free(sse->room);
	sse->open = false;
}

int event_reader_fd(const struct event_reader *sse)
{
	return sse->open ? request_fd(&sse->request) : -1;
}

// Parses the next event of the buffered bytes; false: more must be read.
static fallible lib_event_reader_take(struct event_reader *sse, bool *found, struct json **out)
{
	struct sse_event event;

	while (sse->left.len) {
		switch (sse_read(&sse->reader, &sse->left, &event)) {
		case SSE_MORE:
			break;
		case SSE_TOO_LARGE:
			return err_new(BAD_PEER, "bad_event",
				       "the daemon sent an event that is too large");
		case SSE_EVENT:
			if (event.id.len)
				snprintf(sse->id, sizeof(sse->id), STR_FMT, STR_ARG(event.id));
			if (!event.data.len || str_is(event.data, "[DONE]"))
				continue;
			*found = true;
			return http_call_object(event.data, out);
		}
	}
	return OK;
}

fallible event_reader_next(struct event_reader *sse, int64_t timeout_ms, struct json **out)
{
	int64_t deadline = timeout_ms > 0 ? clock_ms() + timeout_ms : 0;
	bool found = false;

	for (;;) {
		size_t n = 0;

		TRY(lib_event_reader_take(sse, &found, out));
		if (found)
			return OK;
		if (timeout_ms > 0)
			timeout_ms = deadline > clock_ms() ? deadline - clock_ms() : 0;
		TRY(request_read(&sse->request, sse->room, EVENT_READER_ROOM, timeout_ms, &n));
		if (n == 0) {
			*out = NULL;
			return OK;
		}
		sse->left = (struct str){sse->room, n};
	}
}

fallible event_reader_error(const struct json *event)
{
	const char *words = fields_text(event, "error");

	if (!*words)
		words = fields_text(event, "message");
	return err_new(BAD_PEER, "stream_error", "%s",
		       *words ? words : "the stream ended with an error");
}
