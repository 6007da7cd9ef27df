#include "lib/feed.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lib/fields.h"
#include "lib/trip.h"

#define EVENT_MAX ((size_t)16 << 20) // the daemon's are far smaller

fallible feed_open(struct feed *feed, struct cove *cove, const char *method, const char *path,
		   struct str body, const char *last_id)
{
	*feed = (struct feed){
		.request = {.cove = cove, .method = method, .path = path, .body = body},
		.reader = SSE_READER(EVENT_MAX),
		.room = mem_new(FEED_ROOM),
		.open = true,
	};
	snprintf(feed->id, sizeof(feed->id), "%s", last_id);
	snprintf(feed->request.last_event, sizeof(feed->request.last_event), "%s", last_id);
	TRY(request_begin(&feed->request));
	return OK;
}

void feed_close(struct feed *feed)
{
	if (!feed->open)
		return;
	request_done(&feed->request);
	sse_done(&feed->reader);
	free(feed->room);
	feed->open = false;
}

int feed_fd(const struct feed *feed)
{
	return feed->open ? request_fd(&feed->request) : -1;
}

// The next event of what has been read; false: more must be read.
static fallible lib_feed_take(struct feed *feed, bool *found, struct json **out)
{
	struct sse_event event;

	while (feed->left.len) {
		switch (sse_read(&feed->reader, &feed->left, &event)) {
		case SSE_MORE:
			break;
		case SSE_TOO_LARGE:
			return err_new(BAD_PEER, "bad_event",
				       "the daemon sent an event without an end");
		case SSE_EVENT:
			if (event.id.len)
				snprintf(feed->id, sizeof(feed->id), STR_FMT, STR_ARG(event.id));
			if (!event.data.len || str_is(event.data, "[DONE]"))
				continue;
			*found = true;
			return trip_object(event.data, out);
		}
	}
	return OK;
}

fallible feed_next(struct feed *feed, int64_t timeout_ms, struct json **out)
{
	int64_t deadline = timeout_ms > 0 ? clock_ms() + timeout_ms : 0;
	bool found = false;

	for (;;) {
		size_t n = 0;

		TRY(lib_feed_take(feed, &found, out));
		if (found)
			return OK;
		if (timeout_ms > 0)
			timeout_ms = deadline > clock_ms() ? deadline - clock_ms() : 0;
		TRY(request_read(&feed->request, feed->room, FEED_ROOM, timeout_ms, &n));
		if (n == 0) {
			*out = NULL;
			return OK;
		}
		feed->left = (struct str){feed->room, n};
	}
}

fallible feed_error(const struct json *event)
{
	const char *words = fields_text(event, "error");

	if (!*words)
		words = fields_text(event, "message");
	return err_new(BAD_PEER, "stream_error", "%s",
		       *words ? words : "the stream broke off with an error");
}
