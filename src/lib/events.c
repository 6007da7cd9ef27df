// Lists and streams of events of any route. A list is read page by page. A stream that was cut is
// opened again after the last event, by its id; without one it ends with the error of the cut.
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

struct cove_events {
	struct cove *cove;
	char *path;
	struct event_reader reader;
	char reached[64]; // id of the last event
	struct buf text;  // of the last event
};

static fallible items_of(const struct json *page, cove_item_fn *each, void *arg)
{
	struct json *items = json_get(page, "items");

	for (size_t i = 0; items && i < json_count(items); i++) {
		auto_buf text = BUF_INIT(PRIVATE_REPLY_MAX);
		struct json_out out = json_to(&text);

		json_add_value(&out, json_at(items, i));
		if (each(arg, text.at))
			return err_new(CANCELLED, "cancelled", "the listing was ended");
	}
	return OK;
}

static fallible items_read(struct cove *cove, const char *path, cove_item_fn *each, void *arg)
{
	auto_free char *cursor = NULL;

	do {
		auto_buf ask = BUF_INIT(1 << 20);
		auto_json page = NULL;

		buf_text(&ask, path);
		if (cursor) {
			buf_text(&ask, strchr(path, '?') ? "&cursor=" : "?cursor=");
			text_percent(&ask, str_of(cursor));
		}
		TRY(http_call_json(cove, "GET", ask.at, NULL, &page));
		TRY(items_of(page, each, arg));
		free(cursor);
		cursor = *fields_text(page, "cursor") ? mem_str(fields_text(page, "cursor")) : NULL;
	} while (cursor);
	return OK;
}

enum cove_kind cove_items(struct cove *cove, const char *path, cove_item_fn *each, void *arg,
			  struct cove_error *error)
{
	return private_call(cove, items_read(cove, path, each, arg), error);
}

enum cove_kind cove_events_open(struct cove *cove, const char *path, const char *after,
				struct cove_events **out, struct cove_error *error)
{
	struct cove_events *events = mem_new_of(struct cove_events);
	struct err *err;

	private_begin(cove);
	events->cove = cove;
	events->path = mem_str(path);
	events->text = BUF_INIT(PRIVATE_REPLY_MAX);
	snprintf(events->reached, sizeof(events->reached), "%s", after ? after : "");
	err = event_reader_open(&events->reader, cove, "GET", path, (struct str){0},
				events->reached);
	if (err) {
		cove_events_close(events);
		return private_end(cove, err, error);
	}
	*out = events;
	return COVE_OK;
}

void cove_events_close(struct cove_events *events)
{
	if (!events)
		return;
	event_reader_close(&events->reader);
	buf_done(&events->text);
	free(events->path);
	free(events);
}

int cove_events_fd(const struct cove_events *events)
{
	return event_reader_fd(&events->reader);
}

static fallible events_read(struct cove_events *events, int64_t timeout_ms, struct json **out)
{
	int64_t deadline = timeout_ms < 0 ? CLOCK_NEVER : clock_ms() + timeout_ms;

	for (;;) {
		int64_t left = deadline == CLOCK_NEVER ? -1 : deadline - clock_ms();
		auto_err err = OK;

		if (!events->reader.open)
			TRY(event_reader_resume(&events->reader, events->cove, events->path,
						events->reached, deadline));
		err = event_reader_next(&events->reader, left < -1 ? 0 : left, out);
		if (!err || !*events->reached || !private_is_lost(events->cove, err))
			return take_ptr(err);
		event_reader_close(&events->reader);
		private_begin(events->cove);
	}
}

static fallible events_next(struct cove_events *events, int64_t timeout_ms, struct cove_event *out)
{
	struct json_out text = json_to(&events->text);
	auto_json event = NULL;

	TRY(events_read(events, timeout_ms, &event));
	if (!event)
		return err_new(GONE, "stream_ended", "the stream has ended");
	snprintf(events->reached, sizeof(events->reached), "%s", events->reader.id);
	buf_clear(&events->text);
	json_add_value(&text, event);
	*out = (struct cove_event){
		.id = events->reached,
		.type = events->reader.type,
		.json = events->text.at,
	};
	return OK;
}

enum cove_kind cove_events_next(struct cove_events *events, int64_t timeout_ms,
				struct cove_event *out, struct cove_error *error)
{
	return private_call(events->cove, events_next(events, timeout_ms, out), error);
}
