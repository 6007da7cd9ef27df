// Reads messages of the clients of /v1/live. Each topic has its own members; any other one is
// refused, so that a misspelled one is not taken for its default.
#include "types/live.h"

#include <stdio.h>
#include <string.h>

#include "codec/json.h"

#define STATS_EVERY_MS 2000

static const char *const live_topic_words[] = {
#define X(name, word) word,
	LIVE_TOPICS(X)
#undef X
};

static const char *const live_field_words[] = {
#define X(name, word) word,
	LIVE_FIELDS(X)
#undef X
};

static const char *const live_op_words[] = {"sub", "set", "unsub", "ack"};

const char *live_topic_word(enum live_topic topic)
{
	return live_topic_words[topic];
}

// The place of a word; `count` if it is none of them.
static size_t live_find(struct str word, const char *const *words, size_t count)
{
	size_t at = 0;

	while (at < count && !str_is(word, words[at]))
		at++;
	return at;
}

static bool live_is_id(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      (c && strchr("-_.:", c))))
			return false;
	}
	return text.len && text.len <= LIVE_ID_MAX;
}

static fallible live_copy(const struct json *value, const char *where, char *room, size_t size)
{
	struct str text = {0};

	TRY(json_str(value, where, &text));
	if (text.len >= size)
		return err_new(INVALID, "bad_field", "'%s' is too long", where);
	if (text.at)
		snprintf(room, size, STR_FMT, STR_ARG(text));
	return OK;
}

static fallible live_copy_all(const struct json *list, const char *where,
			      char (*room)[LIVE_WORD_MAX + 1], size_t max, size_t *out_count)
{
	size_t count = json_count(list);

	if (!list)
		return OK;
	TRY(json_want(list, where, JSON_ARRAY));
	if (count > max)
		return err_new(INVALID, "bad_field", "'%s' has more than %zu elements", where, max);
	for (size_t i = 0; i < count; i++) {
		TRY(json_want(json_at(list, i), where, JSON_STRING));
		TRY(live_copy(json_at(list, i), where, room[i], LIVE_WORD_MAX + 1));
	}
	*out_count = count;
	return OK;
}

static fallible live_read_fields(const struct json *list, unsigned *out)
{
	unsigned fields = 0;

	*out = LIVE_FIELDS_ALL;
	if (!list)
		return OK;
	TRY(json_want(list, "fields", JSON_ARRAY));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str word = {0};
		size_t at;

		TRY(json_str(json_at(list, i), "fields", &word));
		at = live_find(word, live_field_words, LIVE_FIELD_COUNT);
		if (at == LIVE_FIELD_COUNT)
			return err_new(INVALID, "bad_field", "'fields' has an unknown field");
		fields |= 1u << at;
	}
	*out = fields;
	return OK;
}

static fallible live_read_terms(const struct json *body, enum live_topic topic,
				struct live_terms *out)
{
#define COMMON "op", "id", "topic"
	static const char *const known[][8] = {
		[LIVE_EVENTS] = {COMMON, "after", "kinds", "sandbox", NULL},
		[LIVE_BOXES] = {COMMON, "fields", "watch", NULL},
		[LIVE_STATS] = {COMMON, "sandboxes", "everyMs", NULL},
		[LIVE_HOST] = {COMMON, "everyMs", NULL},
		[LIVE_OPERATIONS] = {COMMON, NULL},
		[LIVE_LOG] = {COMMON, "of", "stream", "offset", NULL},
	};
#undef COMMON
	static const char *const streams[] = {"both", "stdout", "stderr"};
	uint64_t every = STATS_EVERY_MS;
	const char *boxes = topic == LIVE_BOXES ? "watch" : "sandboxes";

	TRY(json_only(body, known[topic]));
	out->has_after = json_get(body, "after") != NULL;
	TRY(json_u64(json_get(body, "after"), "after", 0, INT64_MAX, &out->after));
	TRY(json_u64(json_get(body, "offset"), "offset", 0, INT64_MAX, &out->offset));
	TRY(json_u64(json_get(body, "everyMs"), "everyMs", LIVE_EVERY_MIN_MS, LIVE_EVERY_MAX_MS,
		     &every));
	out->every_ms = (uint32_t)every;
	TRY(live_copy_all(json_get(body, "kinds"), "kinds", out->kinds, LIVE_KINDS_MAX,
			  &out->kind_count));
	TRY(live_copy_all(json_get(body, boxes), boxes, out->boxes, LIVE_BOXES_MAX,
			  &out->box_count));
	TRY(live_copy(json_get(body, "sandbox"), "sandbox", out->box, sizeof(out->box)));
	TRY(live_read_fields(json_get(body, "fields"), &out->fields));
	TRY(live_copy(json_get(body, "of"), "of", out->object, sizeof(out->object)));
	TRY(live_copy(json_get(body, "stream"), "stream", out->stream, sizeof(out->stream)));
	if (out->stream[0] && live_find(str_of(out->stream), streams, 3) == 3)
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	if (topic == LIVE_LOG && !out->object[0])
		return err_new(INVALID, "bad_field", "'of' is missing");
	return OK;
}

static fallible live_read_topic(const struct json *body, enum live_topic *out)
{
	struct str word = {0};
	size_t at;

	TRY(json_str(json_get(body, "topic"), "topic", &word));
	at = live_find(word, live_topic_words, LIVE_TOPIC_COUNT);
	if (at == LIVE_TOPIC_COUNT)
		return err_hint(err_new(INVALID, "bad_field", "'topic' is missing or unknown"),
				"topics are events, sandboxes, stats, host, operations and log");
	*out = (enum live_topic)at;
	return OK;
}

fallible live_message_read(struct str text, enum live_topic (*topic_of)(void *arg, const char *id),
			   void *arg, struct live_message *out)
{
	static const char *const unsub[] = {"op", "id", NULL}, *const ack[] = {"op", "id", "bytes",
									       NULL};
	struct str op = {0}, id = {0};
	auto_json body = NULL;
	size_t at;

	memset(out, 0, sizeof(*out));
	TRY(json_read(text, &body));
	TRY(json_want(body, "message", JSON_OBJECT));
	TRY(json_str(json_get(body, "id"), "id", &id));
	if (!live_is_id(id))
		return err_new(INVALID, "bad_field",
			       "'id' must be 1 to %d letters, digits, '-', '_', '.' or ':'",
			       LIVE_ID_MAX);
	memcpy(out->id, id.at, id.len);
	TRY(json_str(json_get(body, "op"), "op", &op));
	at = live_find(op, live_op_words, sizeof(live_op_words) / sizeof(*live_op_words));
	out->op = (enum live_op)at;
	switch (at) {
	case LIVE_SUB:
		TRY(live_read_topic(body, &out->topic));
		return live_read_terms(body, out->topic, &out->terms);
	case LIVE_SET:
		out->topic = topic_of(arg, out->id);
		if (out->topic == LIVE_TOPIC_COUNT)
			return err_absent("no_subscription", "subscription", id);
		return live_read_terms(body, out->topic, &out->terms);
	case LIVE_UNSUB:
		return json_only(body, unsub);
	case LIVE_ACK:
		TRY(json_only(body, ack));
		return json_u64(json_get(body, "bytes"), "bytes", 0, INT64_MAX, &out->bytes);
	default:
		return err_new(INVALID, "bad_field", "'op' must be sub, set, unsub or ack");
	}
}
