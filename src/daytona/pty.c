// PTYs: terminals of box/term.h with a login shell. The client that starts one reads its output
// from the first byte; a later one reads what comes after it attached. All output is sent before
// the exit code. A client that falls behind is cut off; the shell is not.
//
// The directory and environment that a client gave are known while this daemon lives.
#include "base/mem.h"
#include "codec/base64.h"
#include "daytona/commands.h"
#include "daytona/handlers.h"
#include "gateway/cancel_on_delete.h"
#include "http/upgrade.h"

#define TERM_NAME "xterm-256color"
#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24
#define SIDE_MAX 1000
#define CWD_MAX 4095
#define BODY_MAX (8 << 20)
#define MESSAGE_MAX (1u << 20)
#define PIECE (32 * 1024)
#define TYPE_MS 10000
#define KILL_MS 30000
#define TEXT_MAX 1024
#define KILLED 137
#define EXIT_CONTROL "X-Daytona-Pty-Exit-Control"
#define ENVS_TOKEN "X-Daytona-Pty-Envs~"
#define VERSION_TOKEN "X-Daytona-SDK-Version~"

// What a client asked for, from its start to the end of its terminal.
struct pty {
	struct link link;
	struct term *term; // held
	char *cwd;
	struct env_map env;
	bool is_lazy;
	bool was_attached; // the first client has come: it gets the output from the beginning
};

struct pty_request {
	struct str id, cwd;
	struct env_map env;
	uint64_t cols, rows;
	bool is_lazy;
};

static void pty_request_done(struct pty_request *request)
{
	env_map_done(&request->env);
}

static struct pty *pty_of(const struct http *x, const struct term *term)
{
	list_each (at, &command_table_of(x)->ptys) {
		struct pty *pty = link_of(at, struct pty, link);

		if (pty->term == term)
			return pty;
	}
	return NULL;
}

static void pty_task(void *arg)
{
	struct pty *pty = arg;

	err_free(term_await(pty->term, UINT64_MAX, CLOCK_NEVER)); // its end, or the daemon's
	link_drop(&pty->link);
	term_unref(pty->term);
	env_map_done(&pty->env);
	free(pty->cwd);
	free(pty);
}

static fallible pty_check(struct pty_request *request)
{
	if (!request->id.len)
		return err_new(INVALID, "bad_field", "'id' is missing");
	if (request->cwd.len > CWD_MAX)
		return err_new(INVALID, "bad_field", "'cwd' is too long");
	if (request->cols > SIDE_MAX || request->rows > SIDE_MAX)
		return err_new(INVALID, "bad_size", "a terminal has at most %d columns and rows",
			       SIDE_MAX);
	request->cols = request->cols ? request->cols : COLS_DEFAULT;
	request->rows = request->rows ? request->rows : ROWS_DEFAULT;
	return OK;
}

static fallible pty_taken(void)
{
	return err_new(CONFLICT, "terminal_exists", "there is a terminal of this id");
}

// Starts the shell. CONFLICT terminal_exists. Waits.
static fallible pty_start(struct http *x, const struct box_ref *ref, struct pty_request *request,
			  struct term **out)
{
	static const char *const argv[] = {
		"sh", "-c", "command -v bash >/dev/null && exec bash -i -l; exec sh -i -l", NULL};
	struct manager_exec_spec run = {.argv = argv, .env = &request->env};
	auto_exec_env exec_env = {0};
	struct term_spec spec = {.id = request->id, .shown = STR("login shell")};
	struct term *term = NULL;
	struct pty *pty;
	bool is_new = false;

	TRY(box_ref_admit(ref));
	if (request->cwd.len)
		run.cwd = arena_dup(x->arena, request->cwd.at, request->cwd.len);
	if (!env_map_get(&request->env, STR("TERM")))
		env_map_set(&request->env, STR("TERM"), STR(TERM_NAME));
	exec_env_make(ref, &run, &exec_env);
	exec_env.spec.cols = (uint16_t)request->cols;
	exec_env.spec.rows = (uint16_t)request->rows;
	exec_env.spec.cpu_ms = exec_env.spec.wall_ms = 0; // a terminal has no time limit
	spec.exec = &exec_env.spec;
	TRY(box_ref_explain(term_open(ref->box, &spec, &term, &is_new)));
	if (!is_new) {
		term_unref(term);
		return pty_taken();
	}
	pty = mem_new_of(struct pty);
	pty->term = term;
	term_ref(term);
	pty->cwd = mem_str(run.cwd ? run.cwd : record_workdir(&ref->entry->record));
	pty->env = request->env;
	request->env = (struct env_map){0};
	pty->is_lazy = request->is_lazy;
	link_add(&command_table_of(x)->ptys, &pty->link);
	task_start(gateway_of(x)->loop, "daytona.pty", pty_task, pty);
	*out = term;
	return OK;
}

static void pty_put(struct http *x, const struct box_ref *ref, struct json_out *out,
		    struct term *term)
{
	struct term_view view = term_view(term);
	const struct pty *pty = pty_of(x, term);

	json_begin(out, '{');
	json_put_text(out, "id", view.id);
	json_put_text(out, "cwd", pty ? pty->cwd : record_workdir(&ref->entry->record));
	json_key(out, "envs");
	env_map_write(out, pty ? &pty->env : &(struct env_map){0});
	json_put_int(out, "cols", view.cols);
	json_put_int(out, "rows", view.rows);
	json_put_time(out, "createdAt", view.started_ms);
	json_put_bool(out, "active", !view.has_ended);
	json_put_bool(out, "lazyStart", pty && pty->is_lazy);
	json_end(out, '}');
}

static fallible pty_answer(struct http *x, const struct box_ref *ref, struct term *term)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);

	pty_put(x, ref, &out, term);
	return http_reply_json(x, 200, &body);
}

static fallible pty_find(struct http *x, struct box_ref *ref, struct term **out)
{
	TRY(gateway_box(x, ref));
	*out = term_find(ref->box, x->params[1]);
	return *out ? OK : err_absent("no_terminal", "terminal", x->params[1]);
}

fallible daytona_pty_create(struct http *x)
{
	on_exit_call(pty_request_done) struct pty_request request = {0};
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&body);
	auto_box_ref ref = {0};
	auto_json json = NULL;
	auto_term term = NULL;

	TRY(gateway_object(x, &json));
	TRY(json_str(json_get(json, "id"), "id", &request.id));
	TRY(json_str(json_get(json, "cwd"), "cwd", &request.cwd));
	TRY(json_u64(json_get(json, "cols"), "cols", 0, SIDE_MAX, &request.cols));
	TRY(json_u64(json_get(json, "rows"), "rows", 0, SIDE_MAX, &request.rows));
	TRY(json_bool(json_get(json, "lazyStart"), "lazyStart", &request.is_lazy));
	TRY(env_map_read_env(json_get(json, "envs"), &request.env));
	TRY(pty_check(&request));
	TRY(gateway_box(x, &ref));
	TRY(pty_start(x, &ref, &request, &term));
	json_begin(&out, '{');
	json_put_str(&out, "sessionId", request.id);
	json_end(&out, '}');
	return http_reply_json(x, 201, &body);
}

struct pty_list {
	struct http *x;
	const struct box_ref *ref;
	struct json_out out;
};

static void pty_list_put(struct term *term, void *arg)
{
	struct pty_list *list = arg;

	pty_put(list->x, list->ref, &list->out, term);
}

fallible daytona_pty_list(struct http *x)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_box_ref ref = {0};
	struct pty_list list = {x, &ref, json_to(&body)};

	TRY(gateway_box(x, &ref));
	json_begin(&list.out, '{');
	json_put_begin(&list.out, "sessions", '[');
	term_each(ref.box, pty_list_put, &list);
	json_end(&list.out, ']');
	json_end(&list.out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_pty_get(struct http *x)
{
	auto_box_ref ref = {0};
	auto_term term = NULL;

	TRY(pty_find(x, &ref, &term));
	return pty_answer(x, &ref, term);
}

// Answers when the tree is gone: the id is free then.
fallible daytona_pty_delete(struct http *x)
{
	auto_buf body = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&body);
	auto_box_ref ref = {0};
	auto_term term = NULL;

	TRY(pty_find(x, &ref, &term));
	term_kill(term);
	TRY(term_await(term, UINT64_MAX, loop_now(gateway_of(x)->loop) + KILL_MS));
	term_forget(term);
	json_begin(&out, '{');
	json_put_text(&out, "message", "PTY session deleted");
	json_end(&out, '}');
	return http_reply_json(x, 200, &body);
}

fallible daytona_pty_resize(struct http *x)
{
	uint64_t cols = 0, rows = 0;
	auto_box_ref ref = {0};
	auto_json json = NULL;
	auto_term term = NULL;

	TRY(gateway_object(x, &json));
	TRY(json_u64(json_get(json, "cols"), "cols", 0, UINT32_MAX, &cols));
	TRY(json_u64(json_get(json, "rows"), "rows", 0, UINT32_MAX, &rows));
	if (cols < 1 || rows < 1 || cols > SIDE_MAX || rows > SIDE_MAX)
		return err_new(INVALID, "bad_size", "a terminal has 1 to %d columns and rows",
			       SIDE_MAX);
	TRY(gateway_box(x, &ref));
	term = term_find(ref.box, x->params[1]);
	if (!term)
		return err_new(GONE, "terminal_ended", "there is no such terminal any more");
	TRY(term_resize(term, cols, rows));
	return pty_answer(x, &ref, term);
}

// --------------------------------------------------------------------------------------- dialogue

struct pty_client {
	int refs;
	struct task *sender; // NULL: it has ended
	struct term *term;
	struct wsock *ws;
	uint64_t at; // output offset sent so far
	bool wants_exit;
};

static void pty_client_drop(struct pty_client *client)
{
	if (--client->refs > 0)
		return;
	term_unref(client->term);
	wsock_unref(client->ws);
	free(client);
}

static fallible pty_send_control(struct wsock *ws, const char *status, const char *error)
{
	auto_buf text = BUF_INIT(16 * TEXT_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '{');
	json_put_text(&out, "type", "control");
	json_put_text(&out, "status", status);
	if (error)
		json_put_text(&out, "error", error);
	json_end(&out, '}');
	return wsock_send(ws, WSOCK_TEXT, buf_view(&text));
}

static void pty_put_exit(struct json_out *out, int code)
{
	auto_buf word = BUF_INIT(64);

	json_put_int(out, "exitCode", code);
	if (code == 130)
		buf_text(&word, "Ctrl+C");
	else if (code == KILLED)
		buf_text(&word, "SIGKILL");
	else if (code == 143)
		buf_text(&word, "SIGTERM");
	else if (code > 128)
		buf_fmt(&word, "signal %d", code - 128);
	else if (code)
		buf_text(&word, "non-zero exit");
	if (word.len)
		json_put_str(out, "exitReason", buf_view(&word));
}

static fallible pty_send_exit(struct pty_client *client, int code)
{
	auto_buf text = BUF_INIT(TEXT_MAX), reason = BUF_INIT(TEXT_MAX);
	struct json_out out = json_to(&text);

	if (client->wants_exit) {
		json_begin(&out, '{');
		json_put_text(&out, "type", "control");
		json_put_text(&out, "status", "exited");
		pty_put_exit(&out, code);
		json_end(&out, '}');
		TRY(wsock_send(client->ws, WSOCK_TEXT, buf_view(&text)));
	}
	out = json_to(&reason);
	json_begin(&out, '{');
	pty_put_exit(&out, code);
	json_end(&out, '}');
	buf_char(&reason, '\0');
	wsock_close(client->ws, code ? WS_INTERNAL : WS_NORMAL, reason.at);
	return OK;
}

static fallible pty_follow(struct pty_client *client, char *room)
{
	struct exec_result result;
	bool box_gone = false;

	TRY(pty_send_control(client->ws, "connected", NULL));
	for (;;) {
		uint64_t skipped;
		size_t len = term_read(client->term, &client->at, room, PIECE, &skipped);

		if (skipped) {
			wsock_close(client->ws, WS_POLICY, "the client reads too slowly");
			return OK;
		}
		if (len)
			TRY(wsock_send(client->ws, WSOCK_BINARY, (struct str){room, len}));
		else if (term_ended(client->term, &result, &box_gone))
			break;
		else
			TRY(term_await(client->term, client->at, CLOCK_NEVER));
	}
	return pty_send_exit(client, box_gone ? KILLED : result.exit_code);
}

static void pty_sender_task(void *arg)
{
	struct pty_client *client = arg;
	auto_free char *room = mem_new(PIECE);

	err_free(pty_follow(client, room)); // fails only if the client is gone
	client->sender = NULL;
	pty_client_drop(client);
}

static fallible pty_receive(struct pty_client *client)
{
	for (;;) {
		struct wsock_message message;
		auto_err err = OK;

		TRY(wsock_recv(client->ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		err = term_type(client->term, message.body.at, message.body.len,
				loop_now(task_loop()) + TYPE_MS);
		if (err && err_kind(err) == ERR_CANCELLED)
			return take_ptr(err);
		if (err && err_kind(err) == ERR_TIMEOUT)
			wsock_close(client->ws, WS_POLICY, "the shell does not read its input");
	}
}

static bool pty_offers(const struct http *x, const char *token)
{
	return http_has_token(http_field(x, "Sec-WebSocket-Protocol"), str_of(token));
}

static fallible pty_attach(struct http *x, struct wsock *ws, struct term *term)
{
	struct pty_client *client = mem_new_of(struct pty_client);
	struct pty *pty = pty_of(x, term);
	bool is_first = pty && !pty->was_attached;
	struct err *err;

	if (pty)
		pty->was_attached = true;
	client->refs = 2;
	client->term = term; // takes the reference
	client->ws = ws;
	wsock_ref(ws);
	client->at = is_first ? term_kept(term) : term_view(term).bytes;
	client->wants_exit = pty_offers(x, EXIT_CONTROL);
	term_attach(term, 1);
	client->sender = task_start(task_loop(), "daytona.pty", pty_sender_task, client);
	err = pty_receive(client);
	term_attach(term, -1);
	if (client->sender)
		task_cancel(client->sender);
	pty_client_drop(client);
	return err;
}

// The subprotocol that begins with a word: what follows it. at == NULL: not offered.
static struct str pty_token(const struct http *x, const char *word)
{
	struct str rest = http_field(x, "Sec-WebSocket-Protocol"), one;

	while (rest.len && str_cut(&rest, ',', &one)) {
		one = str_trim(one);
		if (str_starts(one, word))
			return str_skip(one, strlen(word));
	}
	return (struct str){0};
}

// Names one of the subprotocols that the client offers; never the one that has the environment.
static void pty_agree(struct http *x)
{
	struct str version = pty_token(x, VERSION_TOKEN);

	if (pty_offers(x, EXIT_CONTROL))
		http_set(x, "Sec-WebSocket-Protocol", STR(EXIT_CONTROL));
	else if (version.at)
		http_set(x, "Sec-WebSocket-Protocol",
			 str_of(arena_fmt(x->arena, VERSION_TOKEN STR_FMT, STR_ARG(version))));
}

static fallible pty_read_envs(const struct http *x, struct env_map *out)
{
	struct str token = pty_token(x, ENVS_TOKEN);
	auto_buf plain = BUF_INIT(HTTP1_HEAD_MAX), text = BUF_INIT(HTTP1_HEAD_MAX);
	struct base64 base64 = {0};
	auto_json json = NULL;

	if (!token.at)
		return OK;
	for (size_t i = 0; i < token.len; i++)
		buf_char(&plain, token.at[i] == '-' ? '+' : token.at[i] == '_' ? '/' : token.at[i]);
	if (!base64_feed(&base64, buf_view(&plain), &text) || !base64_end(&base64, &text))
		return err_new(INVALID, "bad_field", "the environment is not base64url");
	TRY(json_read(buf_view(&text), &json));
	TRY(json_want(json, "envs", JSON_OBJECT));
	return env_map_read_env(json, out);
}

static fallible pty_read_side(struct http *x, const char *key, uint64_t *out)
{
	struct str text = http_query(x, key);

	if (text.at && !str_to_u64(text, 0, SIDE_MAX, out))
		return err_new(INVALID, "bad_size", "'%s' must be within 0 and %d", key, SIDE_MAX);
	return OK;
}

struct pty_opening {
	struct box_ref ref;
	struct pty_request request;
	struct term *term; // attached to; NULL: a new one
};

static void pty_opening_done(struct pty_opening *opening)
{
	if (opening->term)
		term_unref(opening->term);
	box_ref_end(&opening->ref);
	pty_request_done(&opening->request);
}

static fallible pty_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct pty_opening *opening = arg;
	struct term *term = take_ptr(opening->term);
	auto_err err = term ? OK : pty_start(x, &opening->ref, &opening->request, &term);

	if (!err)
		return pty_attach(x, ws, term);
	if (err_kind(err) == ERR_CANCELLED)
		return take_ptr(err);
	TRY(pty_send_control(ws, "error", err_message(err)));
	wsock_close(ws, WS_INTERNAL, err_reason(err));
	return OK;
}

static fallible pty_open(struct http *x, struct pty_opening *opening)
{
	struct wsock_options options = {.max = MESSAGE_MAX, .speaks_first = true};
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin_reader(opening->ref.entry,
									       x);

	pty_agree(x);
	return upgrade_run(x, &options, pty_talk, opening);
}

fallible daytona_pty_create_connect(struct http *x)
{
	on_exit_call(pty_opening_done) struct pty_opening opening = {0};
	struct pty_request *request = &opening.request;

	TRY(upgrade_check(x));
	request->id = http_query(x, "id");
	request->cwd = http_query(x, "cwd");
	TRY(pty_read_side(x, "cols", &request->cols));
	TRY(pty_read_side(x, "rows", &request->rows));
	TRY(pty_check(request));
	TRY(pty_read_envs(x, &request->env));
	TRY(gateway_box(x, &opening.ref));
	{
		auto_term term = term_find(opening.ref.box, request->id);

		if (term)
			return pty_taken();
		TRY(term_ask_room(opening.ref.box));
	}
	return pty_open(x, &opening);
}

fallible daytona_pty_connect(struct http *x)
{
	on_exit_call(pty_opening_done) struct pty_opening opening = {0};

	TRY(upgrade_check(x));
	TRY(pty_find(x, &opening.ref, &opening.term));
	return pty_open(x, &opening);
}
