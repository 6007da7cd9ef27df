// Turns log lines into events. The fields sandbox, session and tenant become fields of the event;
// without a tenant the event gets the sandbox's. A sandbox name from a request may be no id: then
// the event names no sandbox.
#include "manager/log_event.h"

#include "base/log.h"
#include "codec/json.h"
#include "types/event.h"

#define FIELDS_MAX 16384

// Fields that are numbers in an event, and text in a log line.
static const char *const numbers[] = {"port",	  "offset",  "requests",
				      "bytesOut", "bytesIn", "durationMs"};

static void manager_log_put_field(struct json_out *out, const char *name, const char *text)
{
	uint64_t value;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!strcmp(name, numbers[i]) && str_to_u64(str_of(text), 0, INT64_MAX, &value)) {
			json_put_int(out, name, (int64_t)value);
			return;
		}
	}
	json_put_text(out, name, text);
}

static void manager_log_hear(void *arg, const char *what, va_list args)
{
	struct manager *manager = arg;
	struct store_event event = {.kind = what};
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);
	const struct entry *entry;
	const char *name;

	if (!event_is_kind(what))
		return;
	json_begin(&out, '{');
	while ((name = va_arg(args, const char *))) {
		const char *text = va_arg(args, const char *);

		if (!text)
			continue;
		if (!strcmp(name, "tenant"))
			event.tenant = text;
		else if (!strcmp(name, "sandbox"))
			event.sandbox = text;
		else if (!strcmp(name, "session"))
			event.session = text;
		else
			manager_log_put_field(&out, name, text);
	}
	json_end(&out, '}');
	entry = event.sandbox ? map_get(manager->by_id, str_of(event.sandbox)) : NULL;
	if (!event.tenant && entry)
		event.tenant = entry->record.tenant;
	event.fields = buf_ok(&fields) ? fields.at : "{}";
	publish_event(&manager->tell, &event);
}

void manager_log_open(struct manager *manager)
{
	log_listen(manager_log_hear, manager);
}
