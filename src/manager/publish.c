// Writes the events of this process to the store: the manager subscribes to event_publish(). An
// event is copied into an arena of its own and written with the next batch, in order with the
// records; `event_written` is signalled after the commit.
#include "manager/publish.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "manager/table.h"
#include "store/events.h"
#include "types/event.h"
#include "types/timers.h"

#define FIELDS_MAX 16384
#define ALERTS 64
#define ALERT_NAME 160

struct publication {
	struct arena *arena; // owns all of it
	struct manager *manager;
	struct store_event event;
};

static const char *publication_copy(struct arena *arena, const char *text)
{
	return arena_dup(arena, text, strlen(text));
}

static struct err *publication_put(struct db *db, void *arg)
{
	return store_events_add_in(db, &((struct publication *)arg)->event, NULL);
}

static void publication_written(void *arg)
{
	struct publication *publication = arg;

	publication->manager->events_written++;
	condition_signal(&publication->manager->event_written);
	arena_free(publication->arena);
}

// Fields that are numbers in an event.
static const char *const publish_numbers[] = {"port",	  "offset",  "requests",
					      "bytesOut", "bytesIn", "durationMs"};

static void publish_put_field(struct json_out *out, const char *name, const char *text)
{
	uint64_t value;

	for (size_t i = 0; i < sizeof(publish_numbers) / sizeof(*publish_numbers); i++) {
		if (!strcmp(name, publish_numbers[i]) &&
		    str_to_u64(str_of(text), 0, INT64_MAX, &value)) {
			json_put_int(out, name, (int64_t)value);
			return;
		}
	}
	json_put_text(out, name, text);
}

// An event of a sandbox without a tenant gets the sandbox's.
static void publish_event(void *arg, enum event_kind kind, va_list args)
{
	struct manager *manager = arg;
	struct arena *arena = arena_new();
	struct publication *publication = arena_take(arena, sizeof(*publication));
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);
	const char *name, *tenant = NULL, *sandbox = "", *session = "";
	const struct entry *entry;

	json_begin(&out, '{');
	while ((name = va_arg(args, const char *))) {
		const char *text = va_arg(args, const char *);

		if (!text)
			continue;
		if (!strcmp(name, "tenant"))
			tenant = text;
		else if (!strcmp(name, "sandbox"))
			sandbox = text;
		else if (!strcmp(name, "session"))
			session = text;
		else
			publish_put_field(&out, name, text);
	}
	json_end(&out, '}');
	entry = map_get(manager->by_id, str_of(sandbox));
	if (!tenant)
		tenant = entry ? entry->record.tenant : "";
	*publication = (struct publication){
		.arena = arena,
		.manager = manager,
		.event = {.time_ms = clock_steady_ms(),
			  .kind = event_word(kind),
			  .tenant = publication_copy(arena, tenant),
			  .sandbox = publication_copy(arena, sandbox),
			  .session = publication_copy(arena, session),
			  .fields = buf_ok(&fields) ? publication_copy(arena, fields.at) : "{}"},
	};
	store_queue(manager->store, publication_put, publication, publication_written);
}

void publish_open(struct manager *manager)
{
	condition_init(&manager->event_written);
	event_subscribe(manager->store ? publish_event : NULL, manager);
}

void publish_close(void)
{
	event_subscribe(NULL, NULL);
}

// ------------------------------------------------------------------------------------------ alerts
//
// The rate limit is process-wide on purpose: any part of the daemon may raise an alert. A few
// alerts are remembered. A new alert replaces the oldest: an alert can be repeated too early, never
// lost.

static struct {
	char name[ALERT_NAME]; // "": none
	int64_t told_ms;
	uint64_t quiet; // repetitions since it was logged
} alerts[ALERTS];

static struct {
	alert_listener *fn;
	void *arg;
} alerts_heard;

void alert_subscribe(alert_listener *fn, void *arg)
{
	alerts_heard.fn = fn;
	alerts_heard.arg = arg;
}

static void alert_name(char room[ALERT_NAME], const char *alert, const char *what, const char *box)
{
	snprintf(room, ALERT_NAME, "%s/%s/%s", alert, what, box ? box : "");
}

// The slot of the alert, or that of the oldest.
static size_t alert_place_of(const char *name)
{
	size_t oldest = 0;

	for (size_t i = 0; i < ALERTS; i++) {
		if (!strcmp(alerts[i].name, name))
			return i;
		if (!alerts[i].name[0] || alerts[i].told_ms < alerts[oldest].told_ms)
			oldest = alerts[oldest].name[0] ? i : oldest;
	}
	return oldest;
}

void alert_publish(const char *alert, const char *severity, const char *what, const char *box,
		   struct err *failed)
{
	auto_err err = failed;
	char name[ALERT_NAME], count[24];
	int64_t now = clock_ms();
	size_t at;

	if (alerts_heard.fn)
		alerts_heard.fn(alerts_heard.arg, alert, what, box, true);
	alert_name(name, alert, what, box);
	at = alert_place_of(name);
	if (strcmp(alerts[at].name, name) != 0)
		alerts[at].quiet = 0;
	else if (now - alerts[at].told_ms < timer_ms(TIMER_ALERT_QUIET)) {
		alerts[at].quiet++;
		return;
	}
	snprintf(count, sizeof(count), "%llu", (unsigned long long)alerts[at].quiet);
	log_event(LOG_ERROR, "alert", "alert", alert, "severity", severity, "what", what, "sandbox",
		  box, "quiet", alerts[at].quiet ? count : NULL, "trail",
		  err ? err_trail(err) : NULL, NULL);
	event_publish(EVENT_ALERT, "alert", alert, "severity", severity, "what", what, "sandbox",
		      box, "quiet", alerts[at].quiet ? count : NULL, "trail",
		      err ? err_trail(err) : NULL, NULL);
	memcpy(alerts[at].name, name, sizeof(name));
	alerts[at].told_ms = now;
	alerts[at].quiet = 0;
}

void alert_clear(const char *alert, const char *what, const char *box)
{
	char name[ALERT_NAME];
	size_t at;

	if (alerts_heard.fn)
		alerts_heard.fn(alerts_heard.arg, alert, what, box, false);
	alert_name(name, alert, what, box);
	at = alert_place_of(name);
	if (!strcmp(alerts[at].name, name))
		alerts[at].name[0] = '\0';
}
