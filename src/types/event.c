// Words of event kinds, from the table in event.h, the subscriber of a thread's events, and the
// position of a page of events in a request. A filter matches a whole kind or its group before the
// dot, never any other prefix.
#include "types/event.h"

#include <string.h>

#include "base/log.h"

static const char *const words[] = {
#define X(name, word, what) word,
	EVENT_KINDS(X)
#undef X
};

const char *event_word(enum event_kind kind)
{
	return words[kind];
}

static _Thread_local struct {
	event_subscriber *publish;
	void *arg;
} subscriber;

void event_subscribe(event_subscriber *publish, void *arg)
{
	subscriber.publish = publish;
	subscriber.arg = arg;
}

void event_publish(enum event_kind kind, ...)
{
	va_list fields;

	if (!subscriber.publish)
		return;
	va_start(fields, kind);
	subscriber.publish(subscriber.arg, kind, fields);
	va_end(fields);
}

void event_publish_security(const char *box, const char *event, const char *severity,
			    const char *name, const char *text, const char *second,
			    const char *second_text)
{
	if (log_event_of(box, LOG_INFO, "security", "event", event, "severity", severity, "sandbox",
			 box, name, text, second, second_text, NULL))
		event_publish(EVENT_SECURITY, "event", event, "severity", severity, "sandbox", box,
			      name, text, second, second_text, NULL);
}

bool event_matches(const char *kind, struct str wanted)
{
	size_t len = strlen(kind);

	return len >= wanted.len && !memcmp(kind, wanted.at, wanted.len) &&
	       (len == wanted.len || kind[wanted.len] == '.');
}

static fallible event_read_number(const char *key, struct str text, uint64_t min, uint64_t max,
				  uint64_t *out)
{
	if (text.at && text.len && !str_to_u64(text, min, max, out))
		return err_new(INVALID, "bad_field", "'%s' must be a number from %llu to %llu", key,
			       (unsigned long long)min, (unsigned long long)max);
	return OK;
}

fallible event_read_place(struct str after, struct str last_event_id, struct str limit,
			  struct event_place *out)
{
	struct event_place place = {.limit = EVENT_PAGE};
	const char *key = after.at ? "after" : "Last-Event-ID";
	struct str from = after.at ? after : last_event_id;

	place.from_now = !from.at || !from.len;
	TRY(event_read_number(key, from, 0, INT64_MAX, &place.after));
	TRY(event_read_number("limit", limit, 1, EVENT_PAGE_MAX, &place.limit));
	*out = place;
	return OK;
}
