// Routes for the log of an execution: bytes, events, a recording. While the command runs they read
// its tape, with the values of its secrets masked; later the stored copy, which has the same bytes
// at the same offsets.
#include <stdio.h>
#include <string.h>

#include "agent/log_reader.h"
#include "api/handlers.h"
#include "api/results.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/cast.h"
#include "codec/pack.h"
#include "codec/text.h"

#define OUT_MAX (1u << 20)
#define CARRY_MAX 3   // bytes of an incomplete character
#define TIME_BYTES 16 // of a stored pair

static fallible logs_absent(const struct results_of *of)
{
	return err_hint(err_new(NOT_FOUND, "no_log", "this attempt has no log"),
			of->place.ended ? "it ended before its command began"
					: "its command has not begun: ask again, or wait for it "
					  "with …/wait?for=running");
}

fallible results_of_log(struct results_of *of, struct tape **out, struct mask **out_mask)
{
	struct results *results = gateway_of(of->x)->results;

	*out_mask = NULL;
	if (of->stored)
		return results_open_log(results, &of->row, out);
	if (of->place.unknown)
		return err_hint(
			err_new(UNAVAILABLE, "starting", "cove is still finding out what runs"),
			"try again in a moment");
	if (!of->place.proc || of->attempt.number != of->place.attempts)
		return logs_absent(of);
	*out_mask = results_mask(results, &of->attempt);
	*out = proc_tape(of->place.proc);
	tape_ref(*out);
	return OK;
}

void results_of_log_done(struct results_of *of, struct tape *tape, struct mask *mask)
{
	mask_free(mask);
	if (of->stored)
		results_close_log(gateway_of(of->x)->results, &of->row, tape);
	else
		tape_unref(tape);
}

// The log of a request, and where to read it.
struct logs {
	struct results_of of;
	struct tape *tape;
	struct mask *mask;
	struct log_reader reader;
	bool all; // both streams
	enum tape_stream stream;
	uint64_t offset;
	bool follows;
	uint64_t skip; // bytes of the stream before the offset
};

static void logs_done(struct logs *logs)
{
	log_reader_end(&logs->reader);
	if (logs->tape)
		results_of_log_done(&logs->of, logs->tape, logs->mask);
	results_of_done(&logs->of);
}

static fallible logs_bad_offset(void)
{
	return err_hint(err_new(INVALID, "bad_offset", "this is not an offset"),
			"give the id of the last event, or a number of bytes");
}

static fallible logs_read_request(struct http *x, struct logs *logs)
{
	struct str word = http_query(x, "stream"), offset = http_query(x, "offset");

	logs->all = !word.at || str_is(word, "both");
	if (!logs->all && !str_is(word, "stdout") && !str_is(word, "stderr"))
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	logs->stream = !logs->all && str_is(word, "stderr") ? TAPE_STDERR : TAPE_STDOUT;
	if (!offset.at && logs->follows)
		offset = http_field(x, "Last-Event-ID");
	if (offset.at && offset.len && !str_to_u64(offset, 0, INT64_MAX, &logs->offset))
		return logs_bad_offset();
	TRY(results_of_request(x, &logs->of));
	return results_of_log(&logs->of, &logs->tape, &logs->mask);
}

static fallible logs_next(struct logs *logs, enum tape_stream *stream, struct str *out)
{
	struct log_reader *reader = &logs->reader;

	if (log_reader_is_ready(reader))
		return log_reader_next(reader, stream, out, CLOCK_NEVER);
	return http_while_away(logs->of.x, logs->of.x->feed ? HTTP_PROBE_EVENT : STR(""),
			       log_reader_next(reader, stream, out, CLOCK_NEVER));
}

// -------------------------------------------------------------------------------- events

struct logs_events {
	struct logs *logs;
	struct buf out;
	char carry[CARRY_MAX];
	size_t carried;
	enum tape_stream carry_of;
};

static void logs_put_event(struct logs_events *events, enum tape_stream stream, struct str bytes,
			   uint64_t offset)
{
	struct json_out out;

	if (!bytes.len)
		return;
	buf_fmt(&events->out, "id: %llu\n", (unsigned long long)offset);
	out = gateway_event(&events->out, stream == TAPE_STDOUT ? "stdout" : "stderr");
	if (text_is_utf8(bytes)) {
		json_put_str(&out, "data", bytes);
	} else {
		json_put_text(&out, "encoding", "base64");
		buf_text(&events->out, ",\"data\":\"");
		text_base64(&events->out, bytes.at, bytes.len);
		buf_text(&events->out, "\"");
	}
	gateway_put_now(&out);
	gateway_event_end(&out);
}

// A character that is cut waits for its rest, if the next bytes are of the same stream.
static void logs_add(struct logs_events *events, enum tape_stream stream, struct str bytes,
		     uint64_t end)
{
	auto_free char *joined = NULL;
	size_t whole;

	if (events->carried && events->carry_of != stream) {
		logs_put_event(events, events->carry_of,
			       (struct str){events->carry, events->carried}, end - bytes.len);
		events->carried = 0;
	}
	if (events->carried) {
		joined = mem_new(events->carried + bytes.len);
		memcpy(joined, events->carry, events->carried);
		memcpy(joined + events->carried, bytes.at, bytes.len);
		bytes = (struct str){joined, events->carried + bytes.len};
	}
	whole = text_utf8_whole(bytes);
	if (!text_is_utf8((struct str){bytes.at, whole}))
		whole = bytes.len;
	logs_put_event(events, stream, (struct str){bytes.at, whole}, end - (bytes.len - whole));
	events->carry_of = stream;
	events->carried = bytes.len - whole;
	memcpy(events->carry, bytes.at + whole, events->carried);
}

static fallible logs_send(struct logs_events *events)
{
	struct http *x = events->logs->of.x;

	if (!buf_ok(&events->out))
		return err_new(INTERNAL, "internal", "an event did not fit");
	if (events->out.len)
		TRY(http_write(x, events->out.at, events->out.len));
	buf_clear(&events->out);
	return OK;
}

static void logs_put_end(struct logs_events *events)
{
	const struct logs *logs = events->logs;
	struct json_out out;

	buf_fmt(&events->out, "id: %llu\n", (unsigned long long)logs->reader.offset);
	out = gateway_event(&events->out, "end");
	json_put_int(&out, "attempt", logs->of.attempt.number);
	json_put_bool(&out, "stdoutTruncated",
		      logs->of.stored ? logs->of.row.stdout_truncated
				      : tape_truncated(logs->tape, TAPE_STDOUT));
	json_put_bool(&out, "stderrTruncated",
		      logs->of.stored ? logs->of.row.stderr_truncated
				      : tape_truncated(logs->tape, TAPE_STDERR));
	gateway_put_now(&out);
	gateway_event_end(&out);
}

static fallible logs_run_events(struct logs_events *events)
{
	struct logs *logs = events->logs;

	for (;;) {
		enum tape_stream stream = TAPE_STDOUT;
		struct str bytes = {0};

		TRY(logs_next(logs, &stream, &bytes));
		if (!bytes.len)
			break;
		if (logs->all || stream == logs->stream)
			logs_add(events, stream, bytes, logs->reader.offset);
		TRY(logs_send(events));
	}
	logs_put_event(events, events->carry_of, (struct str){events->carry, events->carried},
		       logs->reader.offset);
	logs_put_end(events);
	return logs_send(events);
}

static fallible logs_events(struct http *x)
{
	on_exit_call(logs_done) struct logs logs = {.of.x = x, .follows = true};
	struct logs_events events = {.logs = &logs, .out = BUF_INIT(OUT_MAX)};
	struct err *err;

	TRY(logs_read_request(x, &logs));
	TRY(log_reader_begin(&logs.reader, logs.tape, logs.mask, logs.offset, true));
	x->feed = true;
	TRY(gateway_begin_events(x));
	err = logs_run_events(&events);
	buf_done(&events.out);
	TRY(err);
	return http_end(x);
}

// --------------------------------------------------------------------------------- bytes

// The offset counts bytes of what is asked for: of one stream, or of both in order of arrival.
static fallible logs_seek(struct logs *logs)
{
	uint64_t before = 0;

	if (logs->all)
		return OK;
	if (logs->offset > tape_bytes(logs->tape, logs->stream))
		return err_new(INVALID, "bad_offset", "the offset is past the end of the output");
	logs->skip = logs->offset;
	logs->offset = 0;
	if (!logs->mask) {
		logs->offset = tape_seek(logs->tape, logs->stream, logs->skip, &before);
		logs->skip -= before;
	}
	return OK;
}

static void logs_set_head(struct http *x, const struct logs *logs)
{
	const struct store_result *row = &logs->of.row;
	bool truncated = logs->of.stored ? row->stdout_truncated || row->stderr_truncated
					 : tape_truncated(logs->tape, TAPE_STDOUT) ||
						   tape_truncated(logs->tape, TAPE_STDERR);

	http_set(x, "X-Log-Ended",
		 logs->of.stored || tape_has_ended(logs->tape) ? STR("true") : STR("false"));
	if (truncated)
		http_set(x, "X-Log-Truncated", STR("true"));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
}

static fallible logs_bytes(struct http *x)
{
	on_exit_call(logs_done) struct logs logs = {.of.x = x};

	TRY(logs_read_request(x, &logs));
	TRY(gateway_flag(x, "follow", &logs.follows));
	TRY(logs_seek(&logs));
	TRY(log_reader_begin(&logs.reader, logs.tape, logs.mask, logs.offset, logs.follows));
	logs_set_head(x, &logs);
	http_be_patient(x);
	TRY(http_begin(x, 200, "application/octet-stream"));
	for (;;) {
		enum tape_stream stream = TAPE_STDOUT;
		struct str bytes = {0};
		size_t skip;

		TRY(logs_next(&logs, &stream, &bytes));
		if (!bytes.len)
			return http_end(x);
		if (!logs.all && stream != logs.stream)
			continue;
		skip = logs.skip < bytes.len ? (size_t)logs.skip : bytes.len;
		logs.skip -= skip;
		bytes = str_skip(bytes, skip);
		if (bytes.len)
			TRY(http_write(x, bytes.at, bytes.len));
	}
}

fallible api_results_logs(struct http *x)
{
	struct str accept = http_field(x, "Accept");

	return accept.at && http_has_token(accept, STR("text/event-stream")) ? logs_events(x)
									     : logs_bytes(x);
}

// ------------------------------------------------------------------------- the recording

static void logs_take_times(struct http *x, const struct logs *logs, struct cast_writer *writer)
{
	size_t count = logs->of.row.times.len / TIME_BYTES;
	const struct tape_time *live = NULL;
	struct cast_time *times;
	struct unpack in;

	if (!logs->of.stored)
		live = tape_times(logs->tape, &count);
	times = arena_take(x->arena, (count + 1) * sizeof(*times));
	unpack_init(&in, logs->of.row.times.at, logs->of.stored ? count * TIME_BYTES : 0);
	for (size_t i = 0; i < count; i++) {
		times[i].offset = live ? live[i].offset : unpack_u64(&in);
		times[i].ms = live ? live[i].ms : (int64_t)unpack_u64(&in);
	}
	writer->times = times;
	writer->time_count = count;
}

fallible api_results_cast(struct http *x)
{
	on_exit_call(logs_done) struct logs logs = {.of.x = x, .all = true};
	struct cast_head head = {.width = 80, .height = 24, .title = x->params[0]};
	struct cast_writer writer = {0};
	auto_buf out = BUF_INIT(OUT_MAX);

	TRY(results_of_request(x, &logs.of));
	TRY(results_of_log(&logs.of, &logs.tape, &logs.mask));
	TRY(log_reader_begin(&logs.reader, logs.tape, logs.mask, 0, false));
	logs_take_times(x, &logs, &writer);
	http_be_patient(x);
	TRY(http_begin(x, 200, CAST_TYPE));
	cast_begin(&writer, &head, &out);
	for (;;) {
		enum tape_stream stream = TAPE_STDOUT;
		struct str bytes = {0};

		TRY(logs_next(&logs, &stream, &bytes));
		if (!bytes.len)
			break;
		cast_add(&writer, stream, bytes, logs.reader.offset - bytes.len, &out);
		TRY(http_write(x, out.at, out.len));
		buf_clear(&out);
	}
	cast_end(&writer, &out);
	TRY(http_write(x, out.at, out.len));
	return http_end(x);
}
