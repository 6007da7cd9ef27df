// The export table of one RPC connection, and messages to the client. A number is used once and
// never again. rpc.c frees the exports, because it knows their kinds.
#include "cloudflare/rpc_conn.h"

#include "base/mem.h"

#define MESSAGE_MAX (64 * 1024)

static struct str key_of(const int64_t *id)
{
	return (struct str){(const char *)id, sizeof(*id)};
}

struct rpc_conn *rpc_conn_new(struct http *x, struct wsock *ws, const char *base)
{
	struct rpc_conn *conn = mem_new_of(struct rpc_conn);

	conn->x = x;
	conn->ws = ws;
	conn->base = base;
	conn->exports = map_new();
	link_init(&conn->calls);
	condition_init(&conn->ended);
	return conn;
}

struct rpc_conn_export *rpc_conn_find(const struct rpc_conn *conn, int64_t id)
{
	return map_get(conn->exports, key_of(&id));
}

fallible rpc_conn_list(struct rpc_conn *conn, struct rpc_conn_export *export,
		       enum rpc_conn_kind kind)
{
	if (map_count(conn->exports) >= RPC_CONN_EXPORTS_MAX)
		return err_new(EXHAUSTED, "too_many_exports", "too many results were not released");
	export->conn = conn;
	export->kind = kind;
	export->id = ++conn->last_export;
	export->listed = true;
	map_put(conn->exports, key_of(&export->id), export);
	return OK;
}

void rpc_conn_unlist(struct rpc_conn_export *export)
{
	map_take(export->conn->exports, key_of(&export->id));
	export->listed = false;
}

void rpc_conn_free(struct rpc_conn *conn)
{
	map_free(conn->exports);
	free(conn);
}

fallible rpc_conn_send(struct rpc_conn *conn, const struct buf *message)
{
	if (!buf_ok(message))
		return err_new(INTERNAL, "internal", "a message did not fit");
	return wsock_send(conn->ws, WSOCK_TEXT, buf_view(message));
}

fallible rpc_conn_reject(struct rpc_conn *conn, int64_t id, const char *code, const char *message)
{
	auto_buf text = BUF_INIT(MESSAGE_MAX);
	struct json_out out = json_to(&text);

	json_begin(&out, '[');
	json_add_text(&out, "reject");
	json_add_int(&out, id);
	json_begin(&out, '[');
	json_add_text(&out, "error");
	json_add_text(&out, "Error");
	json_add_text(&out, message);
	json_add_null(&out);
	json_begin(&out, '{');
	json_put_text(&out, "code", code);
	json_key(&out, "details");
	json_add_raw(&out, STR("{}"));
	json_end(&out, '}');
	json_end(&out, ']');
	json_end(&out, ']');
	return rpc_conn_send(conn, &text);
}
