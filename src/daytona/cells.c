// Reads the tape of a cell (protocol/cell.h). Its events are written by code in the sandbox: they
// are parsed as hostile text, and one that cannot be read is left out. Only the last error counts,
// and only if the end of the cell confirms it.
#include "daytona/cells.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"
#include "codec/text.h"
#include "protocol/cell.h"

#define PIECE (32 * 1024)
#define TAIL 3 // longest incomplete UTF-8 sequence
#define TRACE_LINES_MAX 4096

struct cells {
	const struct cells_sink *sink;
	struct err *failed; // of the sink
	struct buf event;   // the last error
	struct cell cell;
	char cut[TAPE_STREAMS][TAIL];
	size_t cut_len[TAPE_STREAMS];
};

static void cells_clear(struct cells *cells)
{
	cell_done(&cells->cell);
	buf_done(&cells->event);
	err_free(cells->failed);
}

static void cells_tell(struct cells *cells, enum tape_stream stream, struct str text)
{
	if (!cells->failed && text.len)
		cells->failed = cells->sink->text(cells->sink->arg, stream, text);
}

static void cells_add(struct cells *cells, enum tape_stream stream, struct str text)
{
	size_t old = cells->cut_len[stream], whole;
	auto_free char *joined = mem_new(old + text.len + 1);

	memcpy(joined, cells->cut[stream], old);
	memcpy(joined + old, text.at, text.len);
	text = (struct str){joined, old + text.len};
	whole = text_utf8_whole(text);
	cells_tell(cells, stream, (struct str){text.at, whole});
	cells->cut_len[stream] = text.len - whole;
	memcpy(cells->cut[stream], text.at + whole, text.len - whole);
}

static void cells_flush(struct cells *cells, enum tape_stream stream)
{
	cells_tell(cells, stream, (struct str){cells->cut[stream], cells->cut_len[stream]});
	cells->cut_len[stream] = 0;
}

static void cells_take_text(void *arg, struct str bytes)
{
	cells_add(arg, TAPE_STDOUT, bytes);
}

static void cells_take_event(void *arg, struct str bytes)
{
	struct cells *cells = arg;

	cells_flush(cells, TAPE_STDOUT);
	if (!memmem(bytes.at, bytes.len, "\"error\"", strlen("\"error\"")))
		return;
	buf_clear(&cells->event);
	buf_str(&cells->event, bytes);
}

static fallible cells_pump(struct cells *cells, struct tape_reader *reader, char *room)
{
	enum tape_stream stream = TAPE_STDOUT;
	size_t len = 1;

	while (len && !cells->failed) {
		TRY(tape_read_on(reader, &stream, room, PIECE, &len, CLOCK_NEVER));
		if (len && stream == TAPE_STDOUT)
			cell_read(&cells->cell, (struct str){room, len});
		else if (len)
			cells_add(cells, stream, (struct str){room, len});
	}
	cell_end(&cells->cell);
	for (int i = 0; i < TAPE_STREAMS; i++)
		cells_flush(cells, (enum tape_stream)i);
	return take_ptr(cells->failed);
}

static struct str cells_keep(struct buf *room, struct str text)
{
	size_t from = room->len;

	buf_str(room, text);
	return buf_ok(room) ? (struct str){room->at + from, room->len - from} : STR("");
}

// The text is allocated once: the slices stay where they are.
static void cells_read_error(const struct cells *cells, struct buf *room, struct cells_error *out)
{
	auto_buf trace = BUF_INIT(CELL_EVENT_MAX);
	auto_json json = NULL;
	auto_err err = cells->event.len ? json_read(buf_view(&cells->event), &json) : OK;
	bool is_good = !err && json && json_type(json) == JSON_OBJECT;
	struct str name = is_good ? json_chars(json_get(json, "ename")) : STR("");
	struct str value = is_good ? json_chars(json_get(json, "evalue")) : STR("");
	const struct json *lines = is_good ? json_get(json, "traceback") : NULL;

	if (!name.len)
		name = STR("Error");
	for (size_t i = 0; lines && json_type(lines) == JSON_ARRAY && i < json_count(lines) &&
			   i < TRACE_LINES_MAX;
	     i++) {
		buf_text(&trace, i ? "\n" : "");
		buf_str(&trace, json_chars(json_at(lines, i)));
	}
	buf_space(room, name.len + value.len + trace.len + 1);
	out->name = cells_keep(room, name);
	out->value = cells_keep(room, value.at ? value : STR(""));
	out->traceback = cells_keep(room, trace.at ? buf_view(&trace) : STR(""));
}

static void cells_read_death(const struct context_result *result, struct buf *room,
			     struct cells_error *out)
{
	char why[160];

	if (result->deleted)
		snprintf(why, sizeof(why), "the context was deleted or restarted meanwhile");
	else if (result->exec.ending == ENDING_OOM)
		snprintf(why, sizeof(why), "the memory of the sandbox ran out");
	else if (result->exec.signal)
		snprintf(why, sizeof(why), "the interpreter was killed by signal %d",
			 result->exec.signal);
	else
		snprintf(why, sizeof(why), "the interpreter exited with status %d",
			 result->exec.exit_code);
	buf_space(room, sizeof(why));
	out->name = result->exec.ending == ENDING_OOM ? STR("MemoryError") : STR("ContextDied");
	out->value = cells_keep(room, str_of(why));
	out->traceback = STR("");
}

fallible cells_follow_run(struct context_run *run, const struct cells_sink *sink, struct buf *room,
			  struct cells_error *out_error, struct context_result *out)
{
	on_exit_call(cells_clear) struct cells cells = {
		.sink = sink,
		.event = BUF_INIT(CELL_EVENT_MAX),
	};
	auto_free char *bytes = mem_new(PIECE);
	struct tape_reader reader = {0};
	auto_buf key = BUF_INIT(CELL_KEY + 2);
	struct err *err;

	cells.cell = (struct cell){
		.text = cells_take_text, .event = cells_take_event, .arg = &cells};
	cell_put_key(&key, context_run_key(run));
	cell_read(&cells.cell, buf_view(&key));
	tape_attach(&reader, context_run_tape(run), 0);
	err = cells_pump(&cells, &reader, bytes);
	tape_detach(&reader);
	TRY(err);
	TRY(context_run_wait(run, CLOCK_NEVER, out));
	if (out->end == CONTEXT_DIED)
		cells_read_death(out, room, out_error);
	else if (out->status)
		cells_read_error(&cells, room, out_error);
	return OK;
}
