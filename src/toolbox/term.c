// One WebSocket client of a terminal. The connection's task receives keys and sizes. A second task
// sends: first all output that is kept, then {"type":"ready"}, then new output. It reads the
// terminal's ring at its client's pace. A client that falls behind by more than the ring loses the
// overwritten bytes and gets a notice on its screen.
//
// When the terminal ends, the sender reports it and closes the socket. When the client disconnects,
// the receiver cancels the sender; the program is not affected.
#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "http/upgrade.h"
#include "toolbox/handlers.h"
#include "toolbox/terminal_command.h"

#define MESSAGE_MAX (1u << 20) // longest input message
#define PIECE (32 * 1024)
#define TYPE_MS 10000
#define TEXT_MAX 4096
#define CODE_BOX_GONE 4410
#define PIECE_OF_LOG (64 * 1024)

struct watcher {
	int refs;
	struct task *sender; // NULL: the sender has ended
	struct term *term;
	struct wsock *ws;
	uint64_t at; // output offset sent so far
	char *room;  // PIECE
};

static void watcher_drop(struct watcher *watcher)
{
	if (--watcher->refs > 0)
		return;
	term_unref(watcher->term);
	wsock_unref(watcher->ws);
	free(watcher->room);
	free(watcher);
}

static fallible send_text(struct wsock *ws, const struct buf *text)
{
	return wsock_send(ws, WSOCK_TEXT, buf_view(text));
}

static fallible send_word(struct wsock *ws, const char *type, const char *key, const char *value)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	if (key)
		json_put_text(&out, key, value);
	json_end(&out, '}');
	return send_text(ws, &text);
}

static fallible send_exit(struct wsock *ws, const struct exec_result *result)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);
	const char *name = result->signal ? sigabbrev_np(result->signal) : NULL;
	auto_buf signal_name = BUF_INIT(64);

	json_begin(&out, '{');
	json_put_text(&out, "type", "exit");
	json_put_int(&out, "code", result->exit_code);
	if (name)
		buf_fmt(&signal_name, "SIG%s", name);
	else if (result->signal)
		buf_fmt(&signal_name, "SIG%d", result->signal);
	if (signal_name.len)
		json_put_str(&out, "signal", buf_view(&signal_name));
	json_end(&out, '}');
	return send_text(ws, &text);
}

static fallible tell_skipped(struct wsock *ws, uint64_t bytes)
{
	auto_buf text = BUF_INIT(TEXT_MAX);

	buf_fmt(&text, "\r\n\033[0m[cove: %llu bytes were skipped]\r\n", (unsigned long long)bytes);
	return wsock_send(ws, WSOCK_BINARY, buf_view(&text));
}

// Sends all kept output in one frame, starting at a complete UTF-8 sequence.
static fallible toolbox_term_replay(struct watcher *watcher)
{
	struct term_view view = term_view(watcher->term);
	uint64_t skipped;
	size_t len, cut = 0;
	auto_free char *kept = NULL;

	watcher->at = term_kept(watcher->term);
	len = (size_t)(view.bytes - watcher->at);
	if (len > 0) {
		kept = mem_grow(NULL, len, 1);
		len = term_read(watcher->term, &watcher->at, kept, len, &skipped);
		while (watcher->at > len && cut < 3 && cut < len &&
		       ((unsigned char)kept[cut] & 0xc0) == 0x80)
			cut++;
		TRY(wsock_send(watcher->ws, WSOCK_BINARY, (struct str){kept + cut, len - cut}));
	}
	return send_word(watcher->ws, "ready", view.is_command ? "terminal" : NULL, view.id);
}

static fallible toolbox_term_follow(struct watcher *watcher)
{
	struct exec_result result;
	bool box_gone = false;

	for (;;) {
		uint64_t skipped;
		size_t len = term_read(watcher->term, &watcher->at, watcher->room, PIECE, &skipped);

		if (skipped)
			TRY(tell_skipped(watcher->ws, skipped));
		if (len) {
			TRY(wsock_send(watcher->ws, WSOCK_BINARY,
				       (struct str){watcher->room, len}));
			continue;
		}
		if (term_ended(watcher->term, &result, &box_gone))
			break;
		TRY(term_await(watcher->term, watcher->at, CLOCK_NEVER));
	}
	if (box_gone) {
		TRY(send_word(watcher->ws, "error", "message", "the sandbox is gone"));
		wsock_close(watcher->ws, CODE_BOX_GONE, "the sandbox is gone");
		return OK;
	}
	TRY(send_exit(watcher->ws, &result));
	term_told(watcher->term);
	wsock_close(watcher->ws, WS_NORMAL, "the terminal has ended");
	return OK;
}

static void sender_task(void *arg)
{
	struct watcher *watcher = arg;
	struct err *err = toolbox_term_replay(watcher);

	err_free(err ? err : toolbox_term_follow(watcher));
	watcher->sender = NULL;
	watcher_drop(watcher);
}

// A text frame is a control message to the terminal.
static fallible toolbox_term_take_text(struct watcher *watcher, struct str text)
{
	uint64_t cols = 0, rows = 0;
	struct str type = {NULL, 0};
	auto_json json = NULL;
	struct err *err = json_read(text, &json);

	if (!err)
		err = json_want(json, "message", JSON_OBJECT);
	if (!err)
		err = json_str(json_get(json, "type"), "type", &type);
	if (!err && !str_is(type, "resize"))
		err = err_new(INVALID, "bad_field", "'type' must be resize");
	if (!err)
		err = json_u64(json_get(json, "cols"), "cols", 1, TERM_SIDE_MAX, &cols);
	if (!err)
		err = json_u64(json_get(json, "rows"), "rows", 1, TERM_SIDE_MAX, &rows);
	if (!err)
		err = term_resize(watcher->term, cols, rows);
	return err;
}

static fallible toolbox_term_receive(struct watcher *watcher)
{
	struct loop *loop = task_loop();

	for (;;) {
		struct wsock_message message;
		auto_err err = OK;

		TRY(wsock_recv(watcher->ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		if (message.kind == WSOCK_TEXT)
			err = toolbox_term_take_text(watcher, message.body);
		else
			err = term_type(watcher->term, message.body.at, message.body.len,
					loop_now(loop) + TYPE_MS);
		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err && err_kind(err) == ERR_TIMEOUT)
			TRY(send_word(watcher->ws, "error", "message",
				      "the program does not read what is typed"));
		else if (err && strcmp(err_reason(err), "terminal_ended") != 0)
			TRY(send_word(watcher->ws, "error", "message", err_message(err)));
	}
}

static fallible toolbox_term_watch(struct wsock *ws, struct term *term)
{
	struct watcher *watcher = mem_new_of(struct watcher);
	struct err *err;

	watcher->refs = 2;
	watcher->term = term; // takes the reference
	watcher->ws = ws;
	wsock_ref(ws);
	watcher->room = mem_grow(NULL, PIECE, 1);
	term_attach(term, 1);
	watcher->sender = task_start(task_loop(), "term.send", sender_task, watcher);
	err = toolbox_term_receive(watcher);
	term_attach(term, -1);
	if (watcher->sender)
		task_cancel(watcher->sender);
	watcher_drop(watcher);
	return err;
}

struct opening {
	struct box_ref ref;
	struct terminal_command command;
};

static fallible toolbox_term_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct opening *opening = arg;
	struct term *term = NULL;
	auto_err err = terminal_command_take(x, &opening->ref, &opening->command, &term);

	if (!err)
		return toolbox_term_watch(ws, term);
	if (err_kind(err) == ERR_CANCELLED)
		return take_ptr(err);
	TRY(send_word(ws, "error", "message", err_message(err)));
	wsock_close(ws, WS_INTERNAL, err_reason(err));
	return OK;
}

static void opening_done(struct opening *opening)
{
	box_ref_end(&opening->ref);
	terminal_command_done(&opening->command);
}

fallible toolbox_term_pty(struct http *x)
{
	struct wsock_options options = {.max = MESSAGE_MAX, .speaks_first = true};
	on_exit_call(opening_done) struct opening opening = {0};

	TRY(upgrade_check(x));
	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &opening.ref));
	TRY(terminal_command_read(x, &opening.command));
	{
		auto_term term = opening.command.id.len
					 ? term_find(opening.ref.box, opening.command.id)
					 : NULL;

		if (!term && opening.command.must_exist)
			return err_hint(err_absent("no_terminal", "terminal", opening.command.id),
					"GET /api/terminals lists them");
		// A WebSocket that opens promises a terminal: check the limit before the upgrade.
		if (!term)
			TRY(term_ask_room(opening.ref.box));
	}
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(opening.ref.entry,
									       x);

	return upgrade_run(x, &options, toolbox_term_talk, &opening);
}

static void put_term(struct term *term, void *arg)
{
	struct term_view view = term_view(term);
	struct json_out *out = arg;

	json_begin(out, '{');
	json_put_text(out, "id", view.id);
	json_put_text(out, "command", view.shown);
	json_put_bool(out, "isCommand", view.is_command);
	json_put_text(out, "status", view.has_ended ? "ended" : "running");
	json_put_int(out, "pid", view.pid);
	json_put_int(out, "cols", view.cols);
	json_put_int(out, "rows", view.rows);
	json_put_int(out, "attached", view.attached);
	json_put_int(out, "outputBytes", (int64_t)view.bytes);
	json_put_time(out, "startedAt", view.started_ms);
	json_end(out, '}');
}

fallible toolbox_term_list(struct http *x)
{
	auto_buf body = BUF_INIT(1 << 20);
	struct json_out out = gateway_success(&body);
	auto_box_ref ref = {0};

	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], &ref));
	json_key(&out, "terminals");
	json_begin(&out, '[');
	term_each(ref.box, put_term, &out);
	json_end(&out, ']');
	return gateway_answer(x, &out);
}

static fallible toolbox_term_find(struct http *x, struct box_ref *ref, struct term **out)
{
	TRY(box_ref_begin(gateway_of(x)->manager, gateway_who(x), x->params[0], ref));
	*out = term_find(ref->box, x->params[1]);
	return *out ? OK : err_absent("no_terminal", "terminal", x->params[1]);
}

// Sends what the tape has now; does not wait for more.
fallible toolbox_term_log(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;
	uint64_t at = 0, end;
	char *room;

	TRY(toolbox_term_find(x, &ref, &term));
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(ref.entry, x);

	end = tape_kept(term_tape(term));
	room = arena_take(x->arena, PIECE_OF_LOG);
	TRY(http_begin(x, 200, "application/octet-stream"));
	while (at < end) {
		enum tape_stream stream;
		size_t len = 0;

		TRY(tape_read(term_tape(term), &at, &stream, room, PIECE_OF_LOG, &len, 0));
		if (len == 0)
			break;
		TRY(http_write(x, room, len));
	}
	return http_end(x);
}

fallible toolbox_term_kill(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = gateway_success(&body);

	TRY(toolbox_term_find(x, &ref, &term));
	term_kill(term);
	term_told(term);
	json_put_text(&out, "id", term_view(term).id);
	return gateway_answer(x, &out);
}
