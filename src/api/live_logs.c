// The topic `log` of a feed. A log has a route of its own that sends it as events; the subscription
// asks that route in process, with the rights of its client, and passes on what it says: output as
// {offset, stream, data|base64}, all else as {kind, value}, and {end}. A client that acknowledges
// nothing gets LIVE_WINDOW bytes: the route then waits as for any slow reader.
#include <stdio.h>

#include "api/live.h"
#include "base/mem.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "http/in_process.h"

#define TEXT_MAX (4u << 20)
#define EVENT_MAX (1u << 20)
#define REFUSAL_MAX 16384
#define PARTS_MAX 4

struct live_log_reader {
	struct live_sub *sub;
	struct sse_reader events;
	struct buf text, refusal;
	int status;
	bool is_whole, is_events;
	struct err *lost; // of the feed
};

static bool live_is_part(struct str part)
{
	for (size_t i = 0; i < part.len; i++)
		if (!memchr("-_.", part.at[i], 3) && !(part.at[i] >= '0' && part.at[i] <= '9') &&
		    !((part.at[i] | 0x20) >= 'a' && (part.at[i] | 0x20) <= 'z'))
			return false;
	return part.len && part.at[0] != '.';
}

// The route of "executions/ID" and so on, with what the client has already.
static fallible live_log_target(const struct live_terms *terms, struct buf *out)
{
	static const struct {
		size_t count;
		const char *words[PARTS_MAX]; // NULL: an id
		const char *path[3];	      // before, between and behind the ids
	} kinds[] = {
		{2, {"executions"}, {"/v1/executions/", "/logs", ""}},
		{2, {"operations"}, {"/v1/operations/", "/events", ""}},
		{2, {"agent-runs"}, {"/v1/agent-runs/", "/stream", ""}},
		{4,
		 {"sandboxes", NULL, "processes"},
		 {"/v1/sandboxes/", "/api/process/", "/stream"}},
		{4, {"agent-sessions", NULL, "runs"}, {"/v1/agent-sessions/", "/runs/", "/events"}},
	};
	struct str rest = str_of(terms->object), parts[PARTS_MAX] = {{0}};
	size_t count = 0;

	while (rest.len && count < PARTS_MAX && str_cut(&rest, '/', &parts[count]))
		if (!live_is_part(parts[count++]))
			break;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		bool fits = count == kinds[i].count && !rest.len;

		for (size_t k = 0; k < count && fits; k++)
			fits = live_is_part(parts[k]) &&
			       (!kinds[i].words[k] || str_is(parts[k], kinds[i].words[k]));
		if (!fits)
			continue;
		buf_fmt(out, "%s" STR_FMT "%s" STR_FMT "%s?offset=%llu", kinds[i].path[0],
			STR_ARG(parts[1]), kinds[i].path[1], STR_ARG(parts[3]), kinds[i].path[2],
			(unsigned long long)terms->offset);
		if (terms->stream[0])
			buf_fmt(out, "&stream=%s", terms->stream);
		return OK;
	}
	return err_hint(err_new(INVALID, "bad_field", "'of' names no log"),
			"as executions/ID, operations/ID, agent-runs/ID, "
			"sandboxes/ID/processes/ID or agent-sessions/ID/runs/ID");
}

// Until the client has acknowledged enough of what it got.
static fallible live_log_await_room(struct live_sub *sub)
{
	while (sub->sent > sub->acked + LIVE_WINDOW)
		TRY(condition_wait(&sub->changed, CLOCK_NEVER));
	return OK;
}

static void live_log_put_output(struct json_out *out, struct str stream, const struct json *value)
{
	json_put_str(out, "stream", stream);
	json_put_str(out,
		     str_is(json_chars(json_get(value, "encoding")), "base64") ? "base64" : "data",
		     json_chars(json_get(value, "data")));
}

// An event of a build's log tells where it ends; the others have that as their id.
static fallible live_log_pass(struct live_log_reader *reader, const struct sse_event *event)
{
	struct live_sub *sub = reader->sub;
	struct json_out out = live_begin(&reader->text, sub);
	struct str type = event->event;
	uint64_t offset = 0;
	auto_json value = NULL;
	bool has_offset;

	TRY(json_read(event->data, &value));
	if (!type.len)
		type = json_chars(json_get(value, "type"));
	has_offset = str_to_u64(event->id, 0, INT64_MAX, &offset);
	if (json_get(value, "end")) {
		TRY(json_u64(json_get(value, "end"), "end", 0, INT64_MAX, &offset));
		if (offset <= sub->terms.offset)
			return OK; // the client has it
		has_offset = true;
	}
	if (has_offset)
		json_put_int(&out, "offset", (int64_t)offset);
	if (str_is(type, "stdout") || str_is(type, "stderr")) {
		live_log_put_output(&out, type, value);
	} else if (str_is(type, "log")) {
		json_put_text(&out, "stream", "stdout");
		json_put_str(&out, "data", json_chars(json_get(value, "text")));
	} else {
		json_put_str(&out, "kind", type);
		json_key(&out, "value");
		json_add_value(&out, value);
	}
	if (has_offset && offset > sub->sent)
		sub->sent = offset;
	TRY(live_send(sub, &out));
	return live_log_await_room(sub);
}

static fallible live_log_head(void *arg, const struct in_process_head *head)
{
	struct live_log_reader *reader = arg;

	reader->status = head->status;
	reader->is_events = head->status == 200;
	return OK;
}

static fallible live_log_bytes(void *arg, struct str bytes)
{
	struct live_log_reader *reader = arg;
	struct sse_event event;
	enum sse_verdict verdict = SSE_EVENT;

	if (!reader->is_events) {
		buf_str(&reader->refusal, bytes);
		return OK;
	}
	while (!reader->lost && (verdict = sse_read(&reader->events, &bytes, &event)) == SSE_EVENT)
		if (event.data.len)
			reader->lost = live_log_pass(reader, &event);
	if (!reader->lost && verdict == SSE_TOO_LARGE)
		reader->lost = err_new(INTERNAL, "internal", "an event did not fit");
	return reader->lost ? err_new(CANCELLED, "client_gone", "the feed has ended") : OK;
}

static void live_log_end(void *arg, bool is_whole)
{
	((struct live_log_reader *)arg)->is_whole = is_whole;
}

// The route's refusal as the feed's own.
static fallible live_log_refusal(const struct live_log_reader *reader)
{
	auto_json body = NULL;
	auto_err bad = json_read(buf_view(&reader->refusal), &body);
	struct str reason = json_chars(json_get(body, "reason"));
	struct str text = json_chars(json_get(body, "message"));
	enum err_kind kind = ERR_INVALID;

	if (bad || !reason.len || !reader->status)
		return err_new(UNAVAILABLE, "log_lost", "the log cannot be read now");
	if (reader->status == 403)
		kind = ERR_FORBIDDEN;
	else if (reader->status == 404)
		kind = ERR_NOT_FOUND;
	else if (reader->status >= 500)
		kind = ERR_UNAVAILABLE;
	auto_free char *word = mem_fmt(STR_FMT, STR_ARG(reason));
	auto_free char *message = mem_fmt(STR_FMT, STR_ARG(text));
	return err_from(kind, word, message, NULL);
}

static fallible live_log_finish(struct live_log_reader *reader)
{
	struct json_out out;

	if (reader->lost)
		return take_ptr(reader->lost);
	if (!reader->is_events)
		return live_log_refusal(reader);
	if (!reader->is_whole)
		return err_new(UNAVAILABLE, "log_lost", "the log was cut off; go on at its offset");
	out = live_begin(&reader->text, reader->sub);
	json_put_bool(&out, "end", true);
	return live_send(reader->sub, &out);
}

fallible live_run_log(struct live_sub *sub)
{
	const struct http1_field accept = {.name = STR("Accept"),
					   .value = STR("text/event-stream")};
	static const struct in_process_calls calls = {
		.head = live_log_head, .bytes = live_log_bytes, .end = live_log_end};
	struct live_log_reader reader = {
		.sub = sub,
		.events = SSE_READER(EVENT_MAX),
		.text = BUF_INIT(TEXT_MAX),
		.refusal = BUF_INIT(REFUSAL_MAX),
	};
	auto_buf target = BUF_INIT(HTTP1_HEAD_MAX);
	struct in_process_ask ask;
	struct err *err;

	TRY(live_log_target(&sub->terms, &target));
	sub->sent = sub->acked = sub->terms.offset;
	ask = gateway_ask(sub->feed->x, STR("GET"), buf_view(&target));
	ask.fields = &accept;
	ask.field_count = 1;
	in_process_run(in_process_new(&ask, &calls, &reader));
	err = live_log_finish(&reader);
	sse_done(&reader.events);
	buf_done(&reader.text);
	buf_done(&reader.refusal);
	return err;
}
