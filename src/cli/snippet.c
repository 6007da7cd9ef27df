// Runs one cell and shows its events. Text goes to stdout and stderr as it comes. A result may have
// several representations: text and JSON are printed, pictures shown; others (HTML, chart data) are
// mentioned when nothing else follows.
//
// During a cell Ctrl-C is for the interpreter: the waiting call is cancelled, the interrupt sent on
// another connection, and the stream read on to the end of the cell.
#include "cli/snippet.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/collection.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "cli/stdio.h"
#include "codec/sse.h"
#include "codec/text.h"
#include "lib/fields.h"

#define BODY_MAX ((size_t)48 << 20)
#define EVENT_MAX ((size_t)64 << 20)
#define READ 65536

char *snippet_path(const char *box, const char *rest)
{
	auto_free char *beneath = mem_fmt("/api%s", rest);

	return remote_path(BOXES_PATH, box, beneath);
}

static void snippet_put_body(const struct snippet *snippet, struct str code, struct buf *body)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	if (snippet->context)
		json_put_text(&out, "context_id", snippet->context);
	if (snippet->language)
		json_put_text(&out, "language", snippet->language);
	if (snippet->timeout_ms)
		json_put_int(&out, "timeout_ms", snippet->timeout_ms);
	json_put_str(&out, "code", code);
	json_end(&out, '}');
}

static fallible put_line(int fd, struct str text)
{
	TRY(stdio_write(fd, text.at, text.len));
	return text.len && text.at[text.len - 1] == '\n' ? OK : stdio_write(fd, "\n", 1);
}

static fallible put_picture(struct snippet *snippet, const char *kind, struct str text)
{
	auto_buf bytes = BUF_INIT(EVENT_MAX);

	if (strcmp(kind, "svg") == 0)
		return picture_show(PICTURE_SAVED, kind, text);
	if (!text_unbase64(&bytes, text))
		return put_line(STDERR_FILENO, STR("[a picture that is none]"));
	if (snippet->way == PICTURE_UNKNOWN)
		snippet->way = picture_way();
	return picture_show(snippet->way, kind, buf_view(&bytes));
}

static fallible snippet_put_json(const struct json *value)
{
	auto_buf flat = BUF_INIT(EVENT_MAX), text = BUF_INIT(2 * EVENT_MAX);
	struct json_out out = json_to(&flat);

	json_add_value(&out, value);
	print_indent(buf_view(&flat), &text);
	return put_line(STDOUT_FILENO, buf_view(&text));
}

static fallible mention(struct snippet *snippet)
{
	auto_free char *kind = take_ptr(snippet->left_out);
	auto_free char *text = kind ? mem_fmt("[%s, which --json shows]", kind) : NULL;

	return text ? put_line(STDOUT_FILENO, str_of(text)) : OK;
}

static fallible snippet_take_result(struct snippet *snippet, const struct json *event)
{
	static const char *const texts[] = {"text", "markdown", "latex"};
	static const char *const pictures[] = {"png", "jpeg", "svg"};
	static const char *const others[] = {"html", "javascript", "chart", "data"};
	const struct json *value;

	for (size_t i = 0; i < 3; i++) {
		value = json_get(event, texts[i]);
		if (value) {
			free(take_ptr(snippet->left_out));
			return put_line(STDOUT_FILENO, json_chars(value));
		}
	}
	value = json_get(event, "json");
	if (value)
		return snippet_put_json(value);
	for (size_t i = 0; i < 3; i++) {
		value = json_get(event, pictures[i]);
		if (value) {
			free(take_ptr(snippet->left_out));
			return put_picture(snippet, pictures[i], json_chars(value));
		}
	}
	// A chart comes with its picture, data with its text.
	for (size_t i = 0; i < 2 && !snippet->left_out; i++)
		if (json_get(event, others[i]))
			snippet->left_out = mem_str(others[i]);
	return OK;
}

static fallible take_error(struct snippet *snippet, const struct json *event)
{
	const struct json *trace = json_get(event, "traceback");
	size_t lines = trace && json_type(trace) == JSON_ARRAY ? json_count(trace) : 0;
	auto_free char *last = mem_fmt("%s: %s", fields_text(event, "ename"),
				       fields_text(event, "evalue"));

	snippet->failed = true;
	for (size_t i = 0; i < lines; i++)
		TRY(put_line(STDERR_FILENO, json_chars(json_at(trace, i))));
	return lines ? OK : put_line(STDERR_FILENO, str_of(last));
}

static fallible snippet_take(struct snippet *snippet, const struct sse_event *event)
{
	auto_json json = NULL;
	auto_err err = json_read_any(event->data, &json);
	const char *type;

	if (err || json_type(json) != JSON_OBJECT)
		return err_new(BAD_PEER, "bad_event", "the daemon sent an event that is none");
	type = fields_text(json, "type");
	if (snippet->raw) {
		snippet->failed |= strcmp(type, "error") == 0;
		return put_line(STDOUT_FILENO, event->data);
	}
	if (strcmp(type, "result") == 0)
		return snippet_take_result(snippet, json);
	TRY(mention(snippet));
	if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0) {
		struct str text = json_chars(json_get(json, "text"));

		return stdio_write(type[3] == 'o' ? STDOUT_FILENO : STDERR_FILENO, text.at,
				   text.len);
	}
	return strcmp(type, "error") == 0 ? take_error(snippet, json) : OK;
}

static fallible snippet_interrupt(struct snippet *snippet)
{
	auto_free char *rest = mem_fmt("/contexts/%s/interrupt", snippet->context);
	auto_free char *path = snippet_path(snippet->box, rest);

	return remote_ask(snippet->remote, "POST", path, NULL, NULL, NULL);
}

// False: an error other than a Ctrl-C that was passed on.
static bool is_passed_on(struct snippet *snippet, struct err *err)
{
	auto_err failure = OK;

	if (err_kind(err) != ERR_CANCELLED || !snippet->forgiving || !interrupt_take())
		return false;
	err_free(err);
	failure = snippet_interrupt(snippet);
	// The signal may have come between two calls and cancelled this one.
	if (failure && err_kind(failure) == ERR_CANCELLED && !interrupt_signal()) {
		err_free(failure);
		failure = snippet_interrupt(snippet);
	}
	if (failure)
		print_error(failure, false);
	return true;
}

static fallible snippet_read_events(struct snippet *snippet, struct cove_request *request,
				    struct sse_reader *reader)
{
	auto_free char *room = mem_new(READ);

	for (;;) {
		struct sse_event event;
		struct str in;
		size_t got = 0;
		struct err *err = remote_did(
			snippet->remote,
			cove_request_read(request, room, READ, &got, &snippet->remote->error));

		if (err && is_passed_on(snippet, err))
			continue;
		if (err)
			return err;
		if (!got)
			return mention(snippet);
		in = (struct str){room, got};
		while (sse_read(reader, &in, &event) == SSE_EVENT) {
			err = snippet_take(snippet, &event);
			if (err && !is_passed_on(snippet, err))
				return err;
		}
	}
}

// A stream that has not begun cannot be resumed: a Ctrl-C waits for that.
static fallible snippet_begin(struct snippet *snippet, const struct buf *body,
			      struct cove_request **out)
{
	auto_free char *path = snippet_path(snippet->box, "/execute/code");
	struct remote *remote = snippet->remote;
	struct err *err;

	interrupt_shield(snippet->forgiving);
	err = remote_did(remote, cove_request_open(remote->cove, "POST", path, "application/json",
						   out, &remote->error));
	if (!err)
		err = remote_did(remote,
				 cove_request_write(*out, body->at, body->len, &remote->error));
	if (!err)
		err = remote_did(remote, cove_request_finish(*out, &remote->error));
	interrupt_shield(false);
	return err;
}

fallible snippet_run(struct snippet *snippet, struct str code, bool *out_failed)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct sse_reader reader = SSE_READER(EVENT_MAX);
	struct cove_request *request = NULL;
	struct err *err;

	snippet->failed = false;
	snippet_put_body(snippet, code, &body);
	if (!buf_ok(&body))
		return err_new(TOO_LARGE, "code_too_large", "the code is too large for a cell");
	err = snippet_begin(snippet, &body, &request);
	if (!err)
		err = snippet_read_events(snippet, request, &reader);
	cove_request_free(request);
	sse_done(&reader);
	free(take_ptr(snippet->left_out));
	if (!err)
		*out_failed = snippet->failed;
	return err;
}
