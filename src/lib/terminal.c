// A terminal is a WebSocket: binary messages are input and output, text messages are JSON. The
// terminal belongs to the sandbox and outlives the socket; a client that reattaches gets the last
// output first.
#include <stdio.h>

#define CODE_BOX_GONE 4410

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/file.h"
#include "lib/http_call.h"

struct cove_terminal {
	struct cove *cove;
	char *id, *path; // of the request, without the size
	uint16_t cols, rows;
	struct http_client *http;
	struct wsock *ws; // NULL: not connected
	struct str left;  // unread part of the last message, in the socket's buffer
	bool ended;
	int exit_code;
	char trouble[256]; // the last error message of the server
};

// An operation on the socket, for a task.
struct work_item {
	struct cove_terminal *terminal;
	const char *path;
	enum wsock_kind kind;
	struct str body;
	int64_t timeout_ms; // for a message; -1: no timeout
	struct wsock_message message;
	int status;
};

static fallible hang_up(void *arg)
{
	struct cove_terminal *t = ((struct work_item *)arg)->terminal;

	task_shield(true);
	wsock_end(t->ws);
	return OK;
}

static void terminal_disconnect(struct cove_terminal *t)
{
	struct work_item work_item = {.terminal = t};

	t->left = (struct str){0};
	if (t->ws) {
		bool was = atomic_exchange(&t->cove->cancelled, false);

		err_free(private_wait(t->cove, -1, hang_up, &work_item));
		if (was)
			cove_cancel(t->cove);
		wsock_unref(t->ws);
	}
	t->ws = NULL;
	http_client_free(t->http);
	t->http = NULL;
}

static fallible terminal_dial(void *arg)
{
	struct work_item *e = arg;
	struct cove_terminal *t = e->terminal;

	TRY(http_client_upgrade(t->http, e->path, NULL, &e->status, &t->ws));
	if (t->ws)
		return OK;
	TRY(http_call_accept(t->cove, t->http, e->status));
	return err_new(BAD_PEER, "bad_reply", "the daemon opened no terminal");
}

static fallible terminal_connect_now(struct cove_terminal *t)
{
	auto_free char *path = mem_fmt("%s&cols=%u&rows=%u", t->path, t->cols, t->rows);
	struct work_item work_item = {.terminal = t, .path = path};

	TRY(http_client_open(t->cove->loop, str_of(t->cove->url), str_of(t->cove->token),
			     &t->http));
	return private_wait(t->cove, PRIVATE_DEFAULT, terminal_dial, &work_item);
}

static void terminal_put_query(struct buf *path, const char *key, const char *value)
{
	if (!value)
		return;
	buf_fmt(path, "&%s=", key);
	text_percent(path, str_of(value));
}

static void terminal_put_place(struct buf *path, const struct cove_terminal_options *options)
{
	terminal_put_query(path, "cwd", options->cwd);
	terminal_put_query(path, "user", options->user);
	for (const char *const *at = options->env; at && *at; at++)
		terminal_put_query(path, "env", *at);
}

// The path of the first connection, which may start a program.
static char *first_path(const struct cove_box *box, const char *id,
			const struct cove_terminal_options *options)
{
	static const char *const shell[] = {"bash", NULL};
	auto_buf path = BUF_INIT(1 << 20);
	const char *const *argv = options->argv ? options->argv : shell;

	if (options->agent_session) {
		buf_text(&path, "/v1/agent-sessions/");
		text_percent(&path, str_of(options->agent_session));
		buf_text(&path, "/terminal?shell=");
		text_percent(&path, str_of(*argv ? *argv : shell[0]));
		return buf_take(&path);
	}
	buf_fmt(&path, "%s/ws/pty?%s=", box->base, options->session ? "sessionId" : "terminal");
	text_percent(&path, str_of(id));
	if (!options->session && !options->existing)
		for (; *argv; argv++)
			terminal_put_query(&path, "command", *argv);
	if (!options->existing)
		terminal_put_place(&path, options);
	return buf_take(&path);
}

// The path of later connections, which only attach.
static char *next_path(const struct cove_box *box, const char *id)
{
	auto_buf path = BUF_INIT(1 << 20);

	buf_fmt(&path, "%s/ws/pty?terminal=", box->base);
	text_percent(&path, str_of(id));
	return buf_take(&path);
}

static char *terminal_make_id(void)
{
	char random[13];

	secret_hex(random, 6);
	return mem_fmt("term-%s", random);
}

static fallible terminal_begin(struct cove_terminal *t, struct cove_box *box,
			       const struct cove_terminal_options *options)
{
	struct err *err;

	if (options->existing && !options->id)
		return err_new(INVALID, "no_terminal", "the terminal's id is missing");
	t->cove = box->cove;
	t->id = options->session ? mem_str(options->session)
		: options->id	 ? mem_str(options->id)
				 : terminal_make_id();
	t->path = first_path(box, t->id, options);
	t->cols = options->cols ? options->cols : 80;
	t->rows = options->rows ? options->rows : 24;
	err = terminal_connect_now(t);
	free(t->path);
	t->path = next_path(box, t->id);
	return err;
}

enum cove_kind cove_terminal_open(struct cove_box *box, const struct cove_terminal_options *options,
				  struct cove_terminal **out, struct cove_error *error)
{
	static const struct cove_terminal_options none;
	struct cove_terminal *t = mem_new_of(struct cove_terminal);
	struct err *err;

	private_begin(box->cove);
	err = terminal_begin(t, box, options ? options : &none);
	if (err) {
		cove_terminal_close(t);
		return private_end(box->cove, err, error);
	}
	*out = t;
	return COVE_OK;
}

const char *cove_terminal_id(const struct cove_terminal *terminal)
{
	return terminal->id;
}

static fallible terminal_reattach(struct cove_terminal *t)
{
	terminal_disconnect(t);
	return terminal_connect_now(t);
}

enum cove_kind cove_terminal_reattach(struct cove_terminal *terminal, struct cove_error *error)
{
	return private_call(terminal->cove, terminal_reattach(terminal), error);
}

static fallible lib_terminal_lost(void)
{
	return err_new(BAD_PEER, "terminal_lost", "the connection to the terminal is lost");
}

static fallible terminal_deliver(void *arg)
{
	struct work_item *e = arg;

	return wsock_send(e->terminal->ws, e->kind, e->body);
}

static fallible terminal_send(struct cove_terminal *t, enum wsock_kind kind, struct str body)
{
	struct work_item work_item = {.terminal = t, .kind = kind, .body = body};
	struct err *err;

	if (t->ended)
		return err_new(GONE, "terminal_ended", "the terminal's program has ended");
	if (!t->ws || !wsock_is_open(t->ws))
		return lib_terminal_lost();
	err = private_wait(t->cove, PRIVATE_DEFAULT, terminal_deliver, &work_item);
	if (err && err_kind(err) == ERR_CANCELLED && strcmp(err_reason(err), "client_gone") == 0) {
		err_free(err);
		return lib_terminal_lost();
	}
	return err;
}

enum cove_kind cove_terminal_write(struct cove_terminal *terminal, const void *bytes, size_t len,
				   struct cove_error *error)
{
	return private_call(terminal->cove,
			    terminal_send(terminal, WSOCK_BINARY, (struct str){bytes, len}), error);
}

enum cove_kind cove_terminal_resize(struct cove_terminal *terminal, uint16_t cols, uint16_t rows,
				    struct cove_error *error)
{
	char text[80];

	private_begin(terminal->cove);
	if (cols == 0 || rows == 0)
		return private_end(
			terminal->cove,
			err_new(INVALID, "bad_size", "a terminal needs rows and columns"), error);
	terminal->cols = cols;
	terminal->rows = rows;
	snprintf(text, sizeof(text), "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols, rows);
	return private_end(terminal->cove, terminal_send(terminal, WSOCK_TEXT, str_of(text)),
			   error);
}

static fallible terminal_receive(void *arg)
{
	struct work_item *e = arg;
	// Has its own deadline: a cancelled task might leave an incomplete pong behind.
	int64_t deadline = e->timeout_ms < 0 ? CLOCK_NEVER : loop_now(task_loop()) + e->timeout_ms;

	return wsock_recv(e->terminal->ws, deadline, &e->message);
}

static fallible on_text(struct cove_terminal *t, struct str text)
{
	auto_json json = NULL;
	const char *type;

	TRY(http_call_object(text, &json));
	type = fields_text(json, "type");
	if (strcmp(type, "exit") == 0) {
		t->ended = true;
		t->exit_code = (int)fields_number(json, "code", 0);
	}
	if (strcmp(type, "error") == 0)
		snprintf(t->trouble, sizeof(t->trouble), "%s", fields_text(json, "message"));
	return OK; // "ready", and types that later versions may add
}

// The server closed the socket: it gave a reason, or the connection was lost.
static fallible on_close(struct cove_terminal *t, const struct wsock_message *message)
{
	auto_free char *reason = mem_dup(message->body.at, message->body.len);

	if (message->code == CODE_BOX_GONE)
		return err_new(GONE, "box_lost", "the sandbox is gone");
	if (message->code == WS_INTERNAL && *t->trouble)
		return err_new(INVALID, *reason ? reason : "terminal_error", "%s", t->trouble);
	return lib_terminal_lost();
}

static fallible terminal_take(struct cove_terminal *t, int64_t timeout_ms, void *room, size_t size,
			      size_t *out)
{
	while (!t->left.len) {
		struct work_item work_item = {.terminal = t, .timeout_ms = timeout_ms};

		if (t->ended) {
			*out = 0;
			return OK;
		}
		if (!t->ws)
			return lib_terminal_lost();
		TRY(private_wait(t->cove, -1, terminal_receive, &work_item));
		if (work_item.message.kind == WSOCK_CLOSED)
			return on_close(t, &work_item.message);
		if (work_item.message.kind == WSOCK_TEXT)
			TRY(on_text(t, work_item.message.body));
		else
			t->left = work_item.message.body;
	}
	*out = t->left.len < size ? t->left.len : size;
	memcpy(room, t->left.at, *out);
	t->left = str_skip(t->left, *out);
	return OK;
}

enum cove_kind cove_terminal_read(struct cove_terminal *terminal, void *room, size_t size,
				  int64_t timeout_ms, size_t *out_len, struct cove_error *error)
{
	return private_call(terminal->cove,
			    terminal_take(terminal, timeout_ms, room, size, out_len), error);
}

bool cove_terminal_ended(const struct cove_terminal *terminal, int *out_exit_code)
{
	if (terminal->ended && out_exit_code)
		*out_exit_code = terminal->exit_code;
	return terminal->ended;
}

enum cove_kind cove_terminal_cast(struct cove_box *box, const char *id, struct cove_file **out,
				  struct cove_error *error)
{
	auto_free char *base = lib_box_path(box, "/api/terminals/");
	auto_buf path = BUF_INIT(1 << 16);

	buf_text(&path, base);
	text_percent(&path, str_of(id));
	buf_text(&path, "/cast");
	return file_begin(box->cove, "GET", buf_take(&path), NULL, 0, out, error);
}

int cove_terminal_fd(const struct cove_terminal *terminal)
{
	return terminal->ws ? http_client_fd(terminal->http) : -1;
}

void cove_terminal_close(struct cove_terminal *terminal)
{
	if (!terminal)
		return;
	terminal_disconnect(terminal);
	free(terminal->id);
	free(terminal->path);
	free(terminal);
}

static fallible terminal_list(struct cove_box *box, cove_terminal_fn *each, void *arg)
{
	auto_free char *path = lib_box_path(box, "/api/terminals");
	auto_json answer = NULL;
	struct json *all;

	TRY(http_call_json(box->cove, "GET", path, NULL, &answer));
	all = json_get(answer, "terminals");
	for (size_t i = 0; all && i < json_count(all); i++) {
		const struct json *at = json_at(all, i);
		struct cove_terminal_info info = {
			.id = fields_text(at, "id"),
			.command = fields_text(at, "command"),
			.started_at = fields_text(at, "startedAt"),
			.ended = strcmp(fields_text(at, "status"), "running") != 0,
			.pid = fields_number(at, "pid", 0),
			.attached = (unsigned)fields_number(at, "attached", 0),
		};

		if (each(arg, &info))
			return err_new(CANCELLED, "cancelled", "the callback ended the listing");
	}
	return OK;
}

enum cove_kind cove_terminal_list(struct cove_box *box, cove_terminal_fn *each, void *arg,
				  struct cove_error *error)
{
	return private_call(box->cove, terminal_list(box, each, arg), error);
}
