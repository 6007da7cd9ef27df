// Reads the messages of an RPC connection and dispatches them. A protocol violation ends the
// connection with an abort message; a call that fails only gets an error as its answer. The
// connection outlives all its calls: connection_end() cancels them and waits.
#include "base/clock.h"
#include "base/mem.h"
#include "cloudflare/forward.h"
#include "cloudflare/handlers.h"
#include "cloudflare/rpc_conn.h"
#include "loop/offload.h"

#define LARGE (256 * 1024)

// A property of the main object, such as "files", that was not called yet: its methods are called
// through its number.
struct path {
	struct rpc_conn_export export;
	char name[64];
};

static fallible rpc_protocol(const char *words)
{
	return err_new(INVALID, "bad_rpc", "%s", words);
}

static struct str rpc_part(const struct json *path, size_t index)
{
	struct str text = {0};
	const struct json *json = json_at(path, index);

	if (json && json_type(json) == JSON_STRING)
		err_free(json_str(json, "path", &text));
	return text;
}

static fallible list_path(struct rpc_conn *conn, const struct json *parts)
{
	struct path *path = mem_new_of(struct path);
	struct err *err = rpc_conn_list(conn, &path->export, RPC_CONN_PATH);
	struct str word = rpc_part(parts, 0);

	if (err) {
		free(path);
		return err;
	}
	if (parts && json_count(parts) == 1 && word.at && word.len < sizeof(path->name))
		memcpy(path->name, word.at, word.len);
	return OK;
}

static fallible rpc_push(struct rpc_conn *conn, const struct json *expression)
{
	struct rpc_conn_export *target;
	struct rpc_value value;
	size_t count;

	TRY(rpc_value(expression, &value));
	if (value.type != RPC_PIPELINE && value.type != RPC_IMPORT)
		return rpc_conn_call_start(conn, STR(""), STR(""), NULL);
	count = value.path ? json_count(value.path) : 0;
	target = value.id ? rpc_conn_find(conn, value.id) : NULL;
	if (value.id && !target)
		return rpc_protocol("a call of an unknown object");
	if (!value.args)
		return list_path(conn, value.id ? NULL : value.path);
	if (!value.id && count == 2)
		return rpc_conn_call_start(conn, rpc_part(value.path, 0), rpc_part(value.path, 1),
					   value.args);
	if (target && target->kind == RPC_CONN_PATH && count == 1)
		return rpc_conn_call_start(conn, str_of(link_of(target, struct path, export)->name),
					   rpc_part(value.path, 0), value.args);
	return rpc_conn_call_start(conn, STR(""), STR(""), NULL);
}

// A stream message uses up a number but creates no export: it is answered at once.
static fallible cloudflare_rpc_stream(struct rpc_conn *conn, const struct json *expression)
{
	int64_t id = ++conn->last_export;
	struct rpc_conn_export *target;
	struct rpc_value value;

	TRY(rpc_value(expression, &value));
	target = value.type == RPC_PIPELINE ? rpc_conn_find(conn, value.id) : NULL;
	if (!target || target->kind != RPC_CONN_PIPE || !value.path || json_count(value.path) != 1)
		return rpc_conn_reject(conn, id, "INTERNAL_ERROR", "this is not a stream");
	return rpc_conn_pipe_take(target, id, rpc_part(value.path, 0), value.args);
}

static fallible rpc_pull(struct rpc_conn *conn, int64_t id)
{
	struct rpc_conn_export *export = rpc_conn_find(conn, id);

	if (!export)
		return rpc_protocol("a pull of an unknown number");
	if (export->kind == RPC_CONN_CALL) {
		rpc_conn_call_pull(export);
		return OK;
	}
	return rpc_conn_reject(conn, id, "INTERNAL_ERROR", "this has no value of its own");
}

// Released by the client, or when the connection ends.
static void export_release(struct rpc_conn_export *export)
{
	rpc_conn_unlist(export);
	switch (export->kind) {
	case RPC_CONN_CALL:
		rpc_conn_call_release(export);
		break;
	case RPC_CONN_PIPE:
		rpc_conn_pipe_release(export);
		break;
	case RPC_CONN_PATH:
		free(export);
		break;
	}
}

static void connection_stop_pipes(struct rpc_conn *conn)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(conn->exports, &at, &key, &value);)
		if (((struct rpc_conn_export *)value)->kind == RPC_CONN_PIPE)
			rpc_conn_pipe_stop(value);
}

static struct rpc_conn_export *export_any(struct rpc_conn *conn)
{
	struct str key;
	void *value = NULL;
	size_t at = 0;

	return map_next(conn->exports, &at, &key, &value) ? value : NULL;
}

// Cancels all calls, waits for their end and frees everything. The calls borrow objects of the
// exchange, so none may outlive it.
static void connection_end(struct rpc_conn *conn)
{
	struct rpc_conn_export *export;

	conn->over = true;
	connection_stop_pipes(conn);
	rpc_conn_call_cancel_all(conn);
	task_shield(true);
	while (conn->call_count)
		err_free(condition_wait(&conn->ended, CLOCK_NEVER));
	task_shield(false);
	while ((export = export_any(conn)))
		export_release(export);
	rpc_conn_free(conn);
}

static fallible rpc_release(struct rpc_conn *conn, int64_t id)
{
	struct rpc_conn_export *export = rpc_conn_find(conn, id);

	if (id == 0)
		return OK;
	if (!export)
		return rpc_protocol("a release of an unknown number");
	export_release(export);
	return OK;
}

struct reading {
	struct str text;
	struct json *json;
	struct err *err;
};

static void reading_run(void *arg)
{
	struct reading *reading = arg;

	reading->err = json_read(reading->text, &reading->json);
}

static fallible rpc_take(struct rpc_conn *conn, struct str text, bool *out_over)
{
	struct reading reading = {.text = text};
	struct rpc_message message = {0};
	auto_json json = NULL;

	// A large message is parsed in a worker thread, so that the loop serves others meanwhile.
	if (text.len > LARGE)
		offload_run(reading_run, &reading);
	else
		reading_run(&reading);
	json = reading.json;
	TRY(reading.err);
	TRY(rpc_read(json, &message));
	switch (message.kind) {
	case RPC_PUSH:
		return rpc_push(conn, message.value);
	case RPC_STREAM:
		return cloudflare_rpc_stream(conn, message.value);
	case RPC_PIPE:
		return rpc_conn_pipe_open(conn);
	case RPC_PULL:
		return rpc_pull(conn, message.id);
	case RPC_RELEASE:
		return rpc_release(conn, message.id);
	case RPC_RESOLVE:
	case RPC_REJECT:
		rpc_conn_call_answered(conn, message.id, message.kind == RPC_RESOLVE);
		return OK;
	case RPC_ABORT:
		*out_over = true;
	}
	return OK;
}

static fallible rpc_listen_to(struct rpc_conn *conn)
{
	bool over = false;

	while (!over) {
		struct wsock_message message;

		TRY(wsock_recv(conn->ws, CLOCK_NEVER, &message));
		if (message.kind == WSOCK_CLOSED)
			return OK;
		if (message.kind != WSOCK_TEXT)
			return rpc_protocol("messages must be text");
		TRY(rpc_take(conn, message.body, &over));
	}
	return OK;
}

static fallible say_farewell(struct rpc_conn *conn, struct err *err)
{
	auto_buf text = BUF_INIT(8192);
	struct json_out out = json_to(&text);

	if (!err || (err_kind(err) != ERR_INVALID && err_kind(err) != ERR_EXHAUSTED &&
		     err_kind(err) != ERR_TIMEOUT))
		return err;
	json_begin(&out, '[');
	json_add_text(&out, "abort");
	json_begin(&out, '[');
	json_add_text(&out, "error");
	json_add_text(&out, "Error");
	json_add_text(&out, err_message(err));
	json_end(&out, ']');
	json_end(&out, ']');
	err_free(rpc_conn_send(conn, &text));
	wsock_close(conn->ws, WS_POLICY, "bad RPC message");
	err_free(err);
	return OK;
}

static fallible rpc_talk(struct http *x, struct wsock *ws, void *arg)
{
	struct rpc_conn *conn = rpc_conn_new(x, ws, arg);
	struct err *err = say_farewell(conn, rpc_listen_to(conn));

	connection_end(conn);
	return err;
}

fallible cloudflare_rpc(struct http *x)
{
	return bridge_upgrade(x, rpc_talk);
}
