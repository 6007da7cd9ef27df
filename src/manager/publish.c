// Queues events for the store. An event is copied into an arena of its own and written with the
// next batch, in order with the records; `told` is signalled after the commit. publish_move() maps
// changes of a box's state to event kinds.
#include "manager/publish.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"

#define FIELDS_MAX 4096

struct telling {
	struct arena *arena; // owns all of it
	struct publish *publish;
	struct store_event event;
};

void publish_init(struct publish *publish, struct store *store)
{
	publish->store = store;
	condition_init(&publish->told);
}

static struct err *put(struct db *db, void *arg)
{
	return store_events_add_in(db, &((struct telling *)arg)->event, NULL);
}

static void written(void *arg)
{
	struct telling *telling = arg;

	condition_signal(&telling->publish->told);
	arena_free(telling->arena);
}

static const char *copy(struct arena *arena, const char *text)
{
	return text ? arena_dup(arena, text, strlen(text)) : "";
}

void publish_event(struct publish *publish, const struct store_event *event)
{
	struct arena *arena;
	struct telling *telling;

	if (!publish->store)
		return;
	arena = arena_new();
	telling = arena_take(arena, sizeof(*telling));
	*telling = (struct telling){.arena = arena, .publish = publish, .event = *event};
	if (!event->time_ms)
		telling->event.time_ms = clock_steady_ms();
	telling->event.tenant = copy(arena, event->tenant);
	telling->event.kind = copy(arena, event->kind);
	telling->event.sandbox = copy(arena, event->sandbox);
	telling->event.session = copy(arena, event->session);
	telling->event.fields = copy(arena, event->fields ? event->fields : "{}");
	store_tell(publish->store, put, telling, written);
}

static void put_word(struct json_out *out, const char *key, const char *text)
{
	if (text && *text)
		json_put_text(out, key, text);
}

void publish_box(struct publish *publish, enum event_kind kind, const struct record *record,
		 const char *reason, const char *from)
{
	auto_buf fields = BUF_INIT(FIELDS_MAX);
	struct json_out out = json_to(&fields);

	if (!publish->store)
		return;
	json_begin(&out, '{');
	put_word(&out, "name", record->name);
	put_word(&out, "reason", reason);
	put_word(&out, "from", from);
	json_end(&out, '}');
	publish_event(publish, &(struct store_event){
				       .tenant = record->tenant,
				       .kind = event_word(kind),
				       .sandbox = record->id,
				       .fields = buf_ok(&fields) ? fields.at : "{}",
			       });
}

static bool rested(enum state state)
{
	return state == STATE_PAUSED || state == STATE_FROZEN || state == STATE_STOPPED;
}

void publish_move(struct publish *publish, const struct record *record, enum state before)
{
	const char *from = state_word(before);

	if (record->state == before)
		return;
	switch (record->state) {
	case STATE_RUNNING:
		publish_box(publish, rested(before) ? EVENT_BOX_WOKEN : EVENT_BOX_RUNNING, record,
			    NULL, rested(before) ? from : NULL);
		break;
	case STATE_PAUSED:
		publish_box(publish, EVENT_BOX_PAUSED, record, NULL, NULL);
		break;
	case STATE_FROZEN:
		publish_box(publish, EVENT_BOX_FROZEN, record, NULL, NULL);
		break;
	case STATE_STOPPED:
		publish_box(publish, EVENT_BOX_STOPPED, record, record->reason, from);
		break;
	case STATE_DELETING:
		publish_box(publish, EVENT_BOX_DELETING, record, NULL, from);
		break;
	case STATE_FAILED:
		publish_box(publish, EVENT_BOX_FAILED, record, record->reason, from);
		break;
	default:
		break;
	}
}
