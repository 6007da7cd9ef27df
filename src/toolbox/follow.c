// Each event is two lines, `id:` and `data:`, and an empty line. The id is the offset after the
// event's bytes. An incomplete UTF-8 sequence at the end of a run is held back for the next run of
// its stream, so the id stays before it. If bytes of the other stream are sent meanwhile, the id
// counts them, and a client that resumes with the id does not get them twice.
//
// Events are buffered until there is nothing more to read, so that a short command needs few
// packets.
#include "toolbox/follow.h"

#include <stdio.h>

#include "base/clock.h"
#include "codec/text.h"

#define TYPE "text/event-stream"
#define RUN (16 * 1024) // largest output of one event
#define FLUSH (32 * 1024)
#define RAW_PIECE (64 * 1024)
#define FIRST_MS 2 // time that the first event may wait for more

bool follow_from_read(struct str text, struct follow_from *out)
{
	struct follow_from from = {0};
	struct str whole;

	if (!str_cut(&text, '.', &whole) || !str_to_u64(whole, 0, INT64_MAX, &from.offset))
		return false;
	if (text.at && !str_to_u64(text, 0, INT64_MAX, &from.sent))
		return false;
	*out = from;
	return true;
}

void follow_done(struct follow *follow)
{
	tape_detach(&follow->reader);
	buf_done(&follow->out);
}

static void put_ending(struct json_out *out, const struct exec_result *result, bool whole)
{
	json_put_text(out, "ended", ending_word(result->ending));
	if (result->signal)
		json_put_int(out, "signal", result->signal);
	json_put_int(out, "durationMs", result->duration_ms);
	json_put_int(out, "cpuMs", (int64_t)result->cpu_ms);
	json_put_int(out, "maxRssBytes", (int64_t)result->max_rss);
	json_put_bool(out, "stdoutTruncated", result->stdout_truncated && !whole);
	json_put_bool(out, "stderrTruncated", result->stderr_truncated && !whole);
}

void follow_put_ending(struct json_out *out, const struct exec_result *result)
{
	put_ending(out, result, false);
}

static void put_counts(const struct follow *follow, struct json_out *out)
{
	const struct tape *tape = follow->tape;

	json_put_int(out, "keptBytes", (int64_t)tape_kept(tape));
	json_put_int(out, "totalBytes",
		     (int64_t)(tape_bytes(tape, TAPE_STDOUT) + tape_bytes(tape, TAPE_STDERR)));
	json_put_int(out, "missedBytes", (int64_t)follow->reader.missed);
}

void follow_put_result(const struct follow *follow, struct json_out *out,
		       const struct exec_result *result)
{
	put_ending(out, result, !follow->reader.cut);
	if (follow->reader.cut)
		put_counts(follow, out);
}

static uint64_t follow_taken(void *arg)
{
	return http_taken(arg);
}

void follow_prepare(struct follow *follow)
{
	follow->room = (char *)arena_take(follow->x->arena, FOLLOW_CUT_MAX + RUN) + FOLLOW_CUT_MAX;
	follow->offset = follow->from.offset;
	tape_attach(&follow->reader, follow->tape, follow->offset);
	follow->reader.taken = follow_taken;
	follow->reader.arg = follow->x;
	follow->x->feed = str_is(follow->x->head.method,
				 "GET"); // a GET can be repeated by the client
	http_set(follow->x, "Cache-Control", STR("no-cache"));
}

fallible follow_begin(struct follow *follow)
{
	follow_prepare(follow);
	return http_begin(follow->x, 200, TYPE);
}

// The position from which a client resumes that has seen everything so far.
static struct follow_from follow_path_arg_of(const struct follow *follow)
{
	int held = -1;

	if (!follow->joined)
		return follow->from;
	for (int i = 0; i < TAPE_STREAMS; i++)
		if (follow->cut[i].len && (held < 0 || follow->cut[i].at < follow->cut[held].at))
			held = i;
	if (held < 0)
		return (struct follow_from){follow->offset, 0};
	return (struct follow_from){follow->cut[held].at, follow->cut[held].sent};
}

static void follow_put_id(struct follow *follow)
{
	struct follow_from from = follow_path_arg_of(follow);

	buf_fmt(&follow->out, "id: %llu", (unsigned long long)from.offset);
	if (from.sent)
		buf_fmt(&follow->out, ".%llu", (unsigned long long)from.sent);
	buf_char(&follow->out, '\n');
}

struct json_out follow_event(struct follow *follow, const char *type)
{
	struct json_out out;

	follow_put_id(follow);
	out = gateway_event(&follow->out, type);
	if (follow->process)
		json_put_text(&out, "processId", follow->process);
	return out;
}

void follow_event_end(struct json_out *out)
{
	gateway_put_now(out);
	gateway_event_end(out);
}

fallible follow_flush(struct follow *follow)
{
	struct str text = buf_view(&follow->out);

	if (!buf_ok(&follow->out))
		return err_new(INTERNAL, "internal", "an event did not fit");
	if (!text.len)
		return OK;
	if (follow->x->reply_begun)
		TRY(http_write(follow->x, text.at, text.len));
	else
		TRY(http_begin_with(follow->x, 200, TYPE, text));
	buf_clear(&follow->out);
	return OK;
}

fallible follow_end(struct follow *follow)
{
	struct str text = buf_view(&follow->out);

	if (!follow->x->reply_begun || !buf_ok(&follow->out)) {
		TRY(follow_flush(follow));
		return http_end(follow->x);
	}
	return http_end_with(follow->x, text);
}

static size_t drop_nul(char *bytes, size_t len)
{
	size_t kept = 0;

	for (size_t i = 0; i < len; i++)
		if (bytes[i])
			bytes[kept++] = bytes[i];
	return kept;
}

static void add_data(struct follow *follow, enum tape_stream stream, struct str bytes, bool base64)
{
	struct json_out out;

	if (!bytes.len)
		return;
	out = follow_event(follow, stream == TAPE_STDOUT ? "stdout" : "stderr");
	if (base64) {
		json_put_text(&out, "encoding", "base64");
		buf_text(&follow->out, ",\"data\":\"");
		text_base64(&follow->out, bytes.at, bytes.len);
		buf_text(&follow->out, "\"");
	} else {
		json_put_str(&out, "data", bytes);
	}
	follow_event_end(&out);
}

// The length of the valid text at the start. The rest is an incomplete sequence, or invalid if
// longer.
static size_t text_len(struct str bytes)
{
	struct str rest = bytes;
	size_t len;

	while (rest.len && str_utf8(rest, &len) == STR_UTF8_GOOD)
		rest = str_skip(rest, len);
	return bytes.len - rest.len;
}

// How many bytes are sent now, and whether as base64. Base64 is for bytes that are not text, unless
// text is requested: then invalid bytes become U+FFFD. With `last` nothing is held back.
static size_t follow_choose(enum exec_request_encoding encoding, struct str bytes, bool last,
			    bool *base64)
{
	size_t good, ignored;

	*base64 = encoding == EXEC_REQUEST_BASE64;
	if (encoding == EXEC_REQUEST_BASE64)
		return bytes.len;
	if (encoding == EXEC_REQUEST_UTF8)
		return last ? bytes.len : text_utf8_whole(bytes);
	good = text_len(bytes);
	if (good == bytes.len)
		return good;
	if (!last && str_utf8(str_skip(bytes, good), &ignored) == STR_UTF8_CUT)
		return good;
	*base64 = true;
	return bytes.len;
}

// Adds `len` new bytes at `room`, which follow `old` bytes held back from an earlier run. The
// offset has already been advanced.
static void follow_add_run(struct follow *follow, enum tape_stream stream, size_t len, bool last)
{
	size_t old = follow->cut[stream].len, now;
	uint64_t old_at = follow->cut[stream].at;
	struct str bytes = {follow->room - old, old + len};
	bool base64;

	memcpy(follow->room - old, follow->cut[stream].bytes, old);
	now = follow_choose(follow->encoding, bytes, last, &base64);
	follow->cut[stream].len = bytes.len - now;
	memcpy(follow->cut[stream].bytes, bytes.at + now, bytes.len - now);
	if (now) {
		int other = 1 - (int)stream;
		bool behind = old && follow->cut[other].len && old_at > follow->cut[other].at;

		if (follow->cut[other].len)
			follow->cut[other].sent += (now > old ? now - old : 0) +
						   (behind ? (now < old ? now : old) : 0);
		follow->cut[stream].at = follow->offset - (bytes.len - now);
		follow->cut[stream].sent = 0;
	} else if (!old) {
		follow->cut[stream].at = follow->offset - bytes.len;
		follow->cut[stream].sent = 0;
	}
	if (follow->encoding == EXEC_REQUEST_UTF8 && now && memchr(bytes.at, 0, now))
		now = drop_nul(follow->room - old, now);
	add_data(follow, stream, (struct str){bytes.at, now}, base64);
}

static fallible follow_read_next(struct follow *follow, enum tape_stream *stream, size_t *out,
				 int64_t deadline)
{
	struct tape_reader *reader = &follow->reader;
	struct err *err = tape_read_on(reader, stream, follow->room, RUN, out, deadline);

	if (err && !reader->tape && reader->detached) {
		err_free(err);
		follow->was_detached = true;
		follow->detached_at = reader->offset;
		tape_reattach(reader, follow->tape);
		err = tape_read_on(reader, stream, follow->room, RUN, out, deadline);
	}
	follow->offset = reader->offset;
	return err;
}

// Reads the next run of the tape. The client may disconnect meanwhile.
fallible follow_next(struct follow *follow, enum tape_stream *stream, size_t *out)
{
	int64_t soon = loop_now(gateway_of(follow->x)->loop) + FIRST_MS;
	struct err *err;

	// Wait briefly before the head is sent: a command that ends at once then needs one packet.
	if (!follow->x->reply_begun || tape_reader_is_ready(&follow->reader)) {
		err = follow_read_next(follow, stream, out, soon);
		if (!err || err_kind(err) != ERR_TIMEOUT)
			return err;
		err_free(err);
	}
	if (follow->x->reply_begun || follow->out.len)
		TRY(follow_flush(follow));
	else
		TRY(http_begin(follow->x, 200, TYPE));
	return http_while_away(follow->x, HTTP_PROBE_EVENT,
			       follow_read_next(follow, stream, out, CLOCK_NEVER));
}

// Announces the bytes that the client cannot get, before the run of `len` bytes after them.
static void follow_send_missed(struct follow *follow, size_t len, bool last)
{
	const struct tape_reader *reader = &follow->reader;
	uint64_t behind = len + (reader->missed - follow->told);
	struct json_out out;

	if (!follow->was_detached && reader->missed == follow->told &&
	    !(last && reader->cut && !follow->told_any))
		return;
	follow->offset = reader->offset > behind ? reader->offset - behind : 0;
	for (int i = 0; i < TAPE_STREAMS; i++)
		follow_add_run(follow, (enum tape_stream)i, 0, true);
	follow->offset = reader->offset - len;
	if (follow->was_detached) {
		out = follow_event(follow, "detached");
		json_put_int(&out, "offset", (int64_t)follow->detached_at);
		follow_event_end(&out);
	}
	if (reader->missed != follow->told || last) {
		out = follow_event(follow, "truncated");
		put_counts(follow, &out);
		follow_event_end(&out);
		follow->told_any = true;
	}
	follow->was_detached = false;
	follow->told = reader->missed;
	follow->offset = reader->offset;
}

// Skips bytes that the client already has: those of the other stream than the first run's.
static size_t follow_leave_out(struct follow *follow, enum tape_stream stream, size_t len)
{
	size_t skip = follow->from.sent < len ? (size_t)follow->from.sent : len;
	int other = 1 - (int)stream;

	if (!follow->joined) {
		follow->joined = true;
		return 0;
	}
	if (!follow->cut[other].len) {
		follow->from.sent = 0; // nothing was held back: not an id of ours
		return 0;
	}
	follow->from.sent -= skip;
	follow->cut[other].sent += skip;
	memmove(follow->room, follow->room + skip, len - skip);
	return skip;
}

fallible follow_tape(struct follow *follow)
{
	size_t len;

	do {
		enum tape_stream stream = TAPE_STDOUT;

		TRY(follow_next(follow, &stream, &len));
		if (follow->reader.cut)
			follow_send_missed(follow, len, false);
		if (follow->from.sent)
			len -= follow_leave_out(follow, stream, len);
		else
			follow->joined = true;
		if (len)
			follow_add_run(follow, stream, len, false);
		if (follow->out.len >= FLUSH)
			TRY(follow_flush(follow));
	} while (!tape_reader_is_done(&follow->reader));
	for (int i = 0; i < TAPE_STREAMS; i++)
		follow_add_run(follow, (enum tape_stream)i, 0, true);
	if (follow->reader.cut)
		follow_send_missed(follow, 0, true);
	return OK;
}

void follow_tail(struct follow *follow, enum tape_stream stream, struct str text)
{
	add_data(follow, stream, text, follow->encoding == EXEC_REQUEST_BASE64);
}

static fallible follow_next_raw(struct http *x, struct tape *tape, struct follow_raw *raw,
				char *room, enum tape_stream *stream, size_t *out)
{
	size_t size = RAW_PIECE;

	if (!raw->live && size > raw->until - raw->offset)
		size = (size_t)(raw->until - raw->offset);
	*out = 0;
	if (!size)
		return OK;
	if (!raw->live)
		return tape_read(tape, &raw->offset, stream, room, size, out, CLOCK_NEVER);
	if (tape_reader_is_ready(&raw->reader))
		return tape_read_on(&raw->reader, stream, room, size, out, CLOCK_NEVER);
	return http_while_away(x, STR(""),
			       tape_read_on(&raw->reader, stream, room, size, out, CLOCK_NEVER));
}

fallible follow_raw(struct http *x, struct tape *tape, struct follow_raw *raw)
{
	char *room = arena_take(x->arena, RAW_PIECE);
	size_t len;

	do {
		enum tape_stream stream = TAPE_STDOUT;
		size_t skip;

		TRY(follow_next_raw(x, tape, raw, room, &stream, &len));
		if (!raw->all && stream != raw->stream)
			continue;
		skip = raw->skip < len ? (size_t)raw->skip : len;
		raw->skip -= skip;
		TRY(http_write(x, room + skip, len - skip));
	} while (len);
	return http_end(x);
}
