// Writes the events of this process to the store: the manager subscribes to event_publish(). An
// event is copied into an arena of its own and written with the next batch, in order with the
// records; `event_written` is signalled after the commit.
#include "manager/publish.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"
#include "manager/table.h"
#include "store/events.h"

#define FIELDS_MAX 16384

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
	store_tell(manager->store, publication_put, publication, publication_written);
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
