// Two ways to read a tape: as events from any offset, live; and as raw bytes of one stream or both.
// A reader never blocks the process beyond what the tape's limit does.
#include <stdio.h>

#include "base/clock.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/handlers.h"
#include "toolbox/process.h"

#define PIECE (64 * 1024)
#define TAIL_MAX 96

static fallible process_stream_fail(struct http *x, const struct proc_view *view, struct err *err)
{
	struct process_failure failure = {.operation = "process.logs", .view = view};

	if (err)
		process_fail(x, &failure, err);
	return OK;
}

static fallible bad_offset(const struct tape *tape)
{
	return err_hint(err_new(INVALID, "bad_offset", "the offset is past the end of the output"),
			"there are %llu bytes up to now", (unsigned long long)tape_reached(tape));
}

// ?offset=, or the Last-Event-ID that event stream clients send when they reconnect.
static fallible process_stream_read_from(struct http *x, const struct tape *tape,
					 struct follow_from *out)
{
	struct str text = http_query(x, "offset");

	if (!text.at)
		text = http_field(x, "Last-Event-ID");
	if (text.at && text.len && !follow_from_read(text, out))
		return err_hint(err_new(INVALID, "bad_offset", "this is not an offset"),
				"give the id of the last event, or a number of bytes");
	return out->offset > tape_reached(tape) ? bad_offset(tape) : OK;
}

static void add_info(struct follow *follow, const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "process_info");

	json_put_text(&out, "command", view->command);
	json_put_text(&out, "status", proc_status_word(view->status));
	json_put_int(&out, "pid", view->pid);
	follow_event_end(follow, &out);
}

static void add_exit(struct follow *follow, const struct proc_view *view)
{
	struct json_out out = follow_event(follow, "exit");
	char text[TAIL_MAX];

	snprintf(text, sizeof(text), "Process %s with exit code %d", proc_status_word(view->status),
		 view->exit_code);
	json_put_text(&out, "data", text);
	process_put_end(&out, view, follow);
	follow_event_end(follow, &out);
}

static fallible process_stream_run(struct follow *follow, struct proc *proc)
{
	struct proc_view view = proc_look(proc);

	follow_prepare(follow);
	add_info(follow, &view);
	TRY(follow_tape(follow));
	if (!proc_is_over(proc)) {
		TRY(follow_flush(follow));
		TRY(proc_wait(proc, CLOCK_NEVER));
	}
	view = proc_look(proc);
	add_exit(follow, &view);
	return follow_end(follow);
}

fallible toolbox_process_stream(struct http *x)
{
	auto_process process = {0};
	auto_follow follow = {.x = x, .out = BUF_INIT(2 * FOLLOW_OUT_MAX)};
	struct err *err = process_encoding(x, &follow.encoding);

	if (!err)
		err = process_find(x, &process);
	if (!err)
		err = process_stream_read_from(x, process.tape, &follow.from);
	if (err)
		return process_stream_fail(x, NULL, err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process.ref.entry,
									       x);

	http_be_patient(x);
	follow.tape = process.tape;
	follow.process = proc_look(process.proc).id;
	return process_stream_run(&follow, process.proc);
}

struct raw {
	bool all; // both streams
	bool live;
	enum tape_stream stream;
	uint64_t offset; // offset in the tape
	uint64_t skip;	 // bytes of the stream to skip
	uint64_t until;	 // end offset, unless live
	struct tape_reader reader;
};

static fallible process_stream_read_flag(struct http *x, const char *name, bool *out)
{
	struct str text = http_query(x, name);

	if (text.at && !str_is(text, "true") && !str_is(text, "false"))
		return err_new(INVALID, "bad_field", "'%s' must be true or false", name);
	if (text.at)
		*out = str_is(text, "true");
	return OK;
}

// The offset counts bytes of what is requested: of one stream, or of both in order of arrival.
static fallible read_raw(struct http *x, const struct tape *tape, struct raw *raw)
{
	struct str word = http_query(x, "stream"), offset = http_query(x, "offset");
	uint64_t bytes = 0, before = 0;

	raw->all = !word.at || str_is(word, "both");
	if (!raw->all && !str_is(word, "stdout") && !str_is(word, "stderr"))
		return err_new(INVALID, "bad_field", "'stream' must be stdout, stderr or both");
	raw->stream = !raw->all && str_is(word, "stderr") ? TAPE_STDERR : TAPE_STDOUT;
	if (offset.at && !str_to_u64(offset, 0, INT64_MAX, &bytes))
		return err_new(INVALID, "bad_offset", "'offset' must be a number of bytes");
	TRY(process_stream_read_flag(x, "follow", &raw->live));
	raw->until = tape_kept(tape);
	raw->offset = bytes;
	if (!raw->all) {
		if (bytes > tape_bytes(tape, raw->stream))
			return bad_offset(tape);
		raw->offset = tape_seek(tape, raw->stream, bytes, &before);
		raw->skip = bytes - before;
	}
	return raw->offset > (raw->live ? tape_reached(tape) : raw->until) ? bad_offset(tape) : OK;
}

static fallible next_raw(struct http *x, struct tape *tape, struct raw *raw, char *room,
			 enum tape_stream *stream, size_t *out)
{
	size_t size = PIECE;
	struct err *err;

	if (!raw->live && size > raw->until - raw->offset)
		size = (size_t)(raw->until - raw->offset);
	*out = 0;
	if (!size)
		return OK;
	if (!raw->live)
		return tape_read(tape, &raw->offset, stream, room, size, out, CLOCK_NEVER);
	if (tape_reader_is_ready(&raw->reader))
		return tape_read_on(&raw->reader, stream, room, size, out, CLOCK_NEVER);
	TRY(http_away(x, (struct str){0}));
	err = tape_read_on(&raw->reader, stream, room, size, out, CLOCK_NEVER);
	http_back(x);
	return err;
}

static fallible send_raw(struct http *x, struct tape *tape, struct raw *raw)
{
	char *room = arena_take(x->arena, PIECE);
	size_t len;

	do {
		enum tape_stream stream = TAPE_STDOUT;
		size_t skip;

		TRY(next_raw(x, tape, raw, room, &stream, &len));
		if (!raw->all && stream != raw->stream)
			continue;
		skip = raw->skip < len ? (size_t)raw->skip : len;
		raw->skip -= skip;
		TRY(http_write(x, room + skip, len - skip));
	} while (len);
	return http_end(x);
}

static bool is_cut(const struct tape *tape)
{
	return tape_truncated(tape, TAPE_STDOUT) || tape_truncated(tape, TAPE_STDERR);
}

fallible toolbox_process_tape(struct http *x)
{
	auto_process process = {0};
	struct raw raw = {0};
	struct err *err = process_find(x, &process);
	char text[32];

	if (!err)
		err = read_raw(x, process.tape, &raw);
	if (err)
		return process_stream_fail(x, NULL, err);
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(process.ref.entry,
									       x);

	http_be_patient(x);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)raw.until);
	http_set(x, "X-Tape-Bytes", str_of(text));
	http_set(x, "X-Tape-Ended", tape_has_ended(process.tape) ? STR("true") : STR("false"));
	if (is_cut(process.tape))
		http_set(x, "X-Tape-Truncated", STR("true"));
	TRY(http_begin(x, 200, "application/octet-stream"));
	if (raw.live)
		tape_attach(&raw.reader, process.tape, raw.offset);
	err = send_raw(x, process.tape, &raw);
	tape_detach(&raw.reader);
	return err;
}
