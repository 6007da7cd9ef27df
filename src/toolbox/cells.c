// A cell's tape has text on both streams; stdout also has events of its driver (protocol/cell.h).
// Text becomes events of ours. Driver events are validated, then forwarded as they are: any code in
// the context can write there.
// The end of a cell is reported last and exactly once. The driver's end event is held back until
// the real end is known: a process that died, timed out or exceeded the tape may not have sent it,
// or may have lied.
// An event's id counts all that was sent before it: bytes of text of each stream and driver events,
// "12.0.1". A client that resumes with an id gets everything after these counts.
#include "toolbox/cells.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "codec/json_part.h"
#include "codec/json_scan.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "protocol/cell.h"
#include "toolbox/follow.h"

#define FLUSH (32 * 1024)
#define RECORD_SOON_MS 2
#define WHY_MAX 256
#define TAIL 3 // longest incomplete UTF-8 sequence

struct feed {
	struct follow follow;
	struct cell cell;
	struct buf last; // the driver's end event
	bool failed;	 // the driver's end event says that the cell failed
	struct cells_from sent, skip;
	struct {
		char bytes[TAIL];
		size_t len;
	} cut[TAPE_STREAMS];
};

static void feed_done(struct feed *feed)
{
	follow_done(&feed->follow);
	cell_done(&feed->cell);
	buf_done(&feed->last);
}

bool cells_from_read(struct str text, struct cells_from *out)
{
	struct cells_from from = {0};
	uint64_t *const parts[] = {&from.text[TAPE_STDOUT], &from.text[TAPE_STDERR], &from.events};
	struct str part;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (!str_cut(&text, '.', &part) || !str_to_u64(part, 0, INT64_MAX, parts[i]))
			return false;
	if (text.len)
		return false;
	*out = from;
	return true;
}

static void cells_put_id(struct feed *feed)
{
	const struct cells_from *sent = &feed->sent;

	buf_fmt(&feed->follow.out, "id: %llu.%llu.%llu\n",
		(unsigned long long)sent->text[TAPE_STDOUT],
		(unsigned long long)sent->text[TAPE_STDERR], (unsigned long long)sent->events);
}

static struct json_out event_begin(struct feed *feed, const char *type)
{
	struct json_out out;

	cells_put_id(feed);
	buf_text(&feed->follow.out, "data: ");
	out = json_to(&feed->follow.out);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	return out;
}

static void event_end(struct feed *feed, struct json_out *out)
{
	json_end(out, '}');
	buf_text(&feed->follow.out, "\n\n");
}

static void cells_put_text(struct feed *feed, enum tape_stream stream, struct str text)
{
	struct json_out out;

	if (!text.len)
		return;
	out = event_begin(feed, stream == TAPE_STDOUT ? "stdout" : "stderr");
	json_put_str(&out, "text", text);
	event_end(feed, &out);
}

// An incomplete UTF-8 sequence is held back until its last byte arrives.
static void cells_add_text(struct feed *feed, enum tape_stream stream, struct str text)
{
	uint64_t skip = feed->skip.text[stream] < text.len ? feed->skip.text[stream] : text.len;
	size_t old = feed->cut[stream].len, now;
	char *joined = NULL;

	feed->skip.text[stream] -= skip;
	feed->sent.text[stream] += skip;
	text = str_skip(text, (size_t)skip);
	if (old) {
		joined = mem_new(old + text.len);
		memcpy(joined, feed->cut[stream].bytes, old);
		memcpy(joined + old, text.at, text.len);
		text = (struct str){joined, old + text.len};
	}
	now = text_utf8_whole(text);
	feed->sent.text[stream] += now;
	cells_put_text(feed, stream, (struct str){text.at, now});
	feed->cut[stream].len = text.len - now;
	memcpy(feed->cut[stream].bytes, text.at + now, text.len - now);
	free(joined);
}

static void flush_cut(struct feed *feed, enum tape_stream stream)
{
	feed->sent.text[stream] += feed->cut[stream].len;
	cells_put_text(feed, stream, (struct str){feed->cut[stream].bytes, feed->cut[stream].len});
	feed->cut[stream].len = 0;
}

static void on_text(void *arg, struct str bytes)
{
	cells_add_text(arg, TAPE_STDOUT, bytes);
}

static void put_event(struct feed *feed, struct str json)
{
	cells_put_id(feed);
	sse_put(&feed->follow.out, (struct str){0}, (struct str){0}, json);
}

static bool is_end(struct str type)
{
	return str_is(type, "\"error\"") || str_is(type, "\"execution_complete\"");
}

static void cells_on_event(void *arg, struct str bytes)
{
	struct feed *feed = arg;
	auto_buf rest = BUF_INIT(CELL_EVENT_MAX);
	struct json_scan scan;
	struct str type = {0};

	flush_cut(feed, TAPE_STDOUT);
	feed->sent.events++;
	if (!json_scan(bytes, &scan) || !json_part(scan.value, "type", &rest, &type) ||
	    !(is_end(type) || str_is(type, "\"result\""))) {
		if (feed->sent.events > feed->skip.events)
			cells_put_text(feed, TAPE_STDERR,
				       STR("[cove: an event was malformed and left out]\n"));
		return;
	}
	if (is_end(type)) {
		feed->failed = str_is(type, "\"error\"");
		buf_clear(&feed->last);
		buf_str(&feed->last, scan.value);
		return;
	}
	if (feed->sent.events > feed->skip.events)
		put_event(feed, scan.value);
}

static fallible cells_pass_on(struct feed *feed)
{
	struct follow *follow = &feed->follow;
	enum tape_stream stream = TAPE_STDOUT;
	size_t len;

	do {
		TRY(follow_next(follow, &stream, &len));
		if (len && stream == TAPE_STDOUT)
			cell_read(&feed->cell, (struct str){follow->room, len});
		else if (len)
			cells_add_text(feed, stream, (struct str){follow->room, len});
		if (follow->out.len >= FLUSH)
			TRY(follow_flush(follow));
	} while (!tape_reader_is_done(&follow->reader));
	cell_end(&feed->cell);
	for (int i = 0; i < TAPE_STREAMS; i++)
		flush_cut(feed, (enum tape_stream)i);
	if (follow->reader.cut)
		cells_put_text(feed, TAPE_STDERR, STR("[cove: more was written than is kept]\n"));
	return OK;
}

static void cells_put_error(struct feed *feed, const char *name, const char *why)
{
	struct json_out out = event_begin(feed, "error");

	json_put_text(&out, "ename", name);
	json_put_text(&out, "evalue", why);
	json_key(&out, "traceback");
	json_begin(&out, '[');
	json_end(&out, ']');
	event_end(feed, &out);
}

// Reports that the process ended while the cell ran.
static void put_death(struct feed *feed, const struct context_result *result)
{
	const char *name = "ContextDied", *signal = sigabbrev_np(result->exec.signal);
	char why[WHY_MAX];

	if (result->timed_out) {
		name = "TimeoutError";
		snprintf(why, sizeof(why),
			 "the cell ran longer than %llu ms and ignored its interrupt: the "
			 "context has ended",
			 (unsigned long long)result->timeout_ms);
	} else if (result->deleted) {
		name = "ContextDeleted";
		snprintf(why, sizeof(why), "the context was deleted or restarted under the cell");
	} else if (result->exec.ending == ENDING_OOM) {
		name = "MemoryError";
		snprintf(why, sizeof(why),
			 "the memory of the sandbox ran out: the context has ended");
	} else if (result->exec.ending == ENDING_KILLED_BY_API) {
		snprintf(why, sizeof(why),
			 "the context was ended under the cell, by the server "
			 "or with the sandbox");
	} else if (result->exec.ending == ENDING_BOX_LOST) {
		name = "SandboxLost";
		snprintf(why, sizeof(why), "the sandbox has ended");
	} else if (result->exec.signal) {
		snprintf(why, sizeof(why),
			 "the interpreter was killed by SIG%s: the context has ended",
			 signal ? signal : "?");
	} else {
		snprintf(why, sizeof(why),
			 "the interpreter exited with status %d: the context has ended",
			 result->exec.exit_code);
	}
	cells_put_error(feed, name, why);
}

static void cells_put_end(struct feed *feed, const struct context_result *result)
{
	char why[WHY_MAX];
	struct json_out out;

	if (result->end == CONTEXT_DIED) {
		put_death(feed, result);
	} else if (result->timed_out && (result->unseen ? feed->failed : result->status)) {
		snprintf(why, sizeof(why), "the cell ran longer than %llu ms and was interrupted",
			 (unsigned long long)result->timeout_ms);
		cells_put_error(feed, "TimeoutError", why);
	} else if (feed->last.len && buf_ok(&feed->last)) {
		put_event(feed, buf_view(&feed->last));
	} else if (result->status || result->unseen) {
		cells_put_error(feed, "Error",
				"the cell failed; its error was in output that was not kept");
	} else {
		out = event_begin(feed, "execution_complete");
		json_put_int(&out, "execution_count", (int64_t)result->count);
		event_end(feed, &out);
	}
}

// Waits until the cell's record is durable before its number is sent: a later daemon must know it.
// Most cells have output by then.
static fallible await_record(struct http *x, struct context_run *run)
{
	int64_t soon = loop_now(gateway_of(x)->loop) + RECORD_SOON_MS;
	struct err *err = context_run_await_record(run, soon);

	if (!err || err_kind(err) != ERR_TIMEOUT)
		return err;
	err_free(err);
	TRY(http_away(x, HTTP_PROBE_HEAD));
	err = context_run_await_record(run, CLOCK_NEVER);
	http_back(x);
	return err;
}

fallible cells_follow(struct http *x, struct context_run *run, const struct cells_from *from,
		      struct context_result *out)
{
	on_exit_call(feed_done) struct feed feed = {
		.follow = {.x = x, .tape = context_run_tape(run), .encoding = EXEC_REQUEST_UTF8},
		.last = BUF_INIT(CELL_EVENT_MAX),
		.skip = *from,
	};
	auto_buf key = BUF_INIT(CELL_KEY + 2);
	struct err *err;

	feed.cell = (struct cell){.text = on_text, .event = cells_on_event, .arg = &feed};
	feed.follow.out = BUF_INIT(2 * CELL_EVENT_MAX + FOLLOW_OUT_MAX);
	follow_prepare(&feed.follow);
	cell_put_key(&key, context_run_key(run));
	cell_read(&feed.cell, buf_view(&key));
	TRY(await_record(x, run));
	if (context_run_is_recorded(run))
		http_set(x, "X-Cell",
			 str_of(arena_fmt(x->arena, "%llu",
					  (unsigned long long)context_run_number(run))));
	TRY(cells_pass_on(&feed));
	err = context_run_wait(run, CLOCK_NEVER, out);
	if (err && !x->reply_begun)
		return err;
	if (err) {
		cells_put_error(&feed,
				err_kind(err) == ERR_NOT_FOUND ? "ContextDeleted" : "ContextDied",
				err_message(err));
		err_free(err);
	} else {
		cells_put_end(&feed, out);
	}
	return follow_end(&feed.follow);
}
