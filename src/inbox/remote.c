// The numbers of one RPC connection, what each refers to, and messages to the client. A number is
// given once and never again. Everything is freed by rpc.c, which knows the kinds.
#include "inbox/remote.h"

#include "base/mem.h"

#define MESSAGE_MAX (64 * 1024)

static struct str key_of(const int64_t *id)
{
	return (struct str){(const char *)id, sizeof(*id)};
}

struct remote *remote_new(struct http *x, struct wsock *ws, const char *base)
{
	struct remote *remote = mem_new_of(struct remote);

	remote->x = x;
	remote->ws = ws;
	remote->base = base;
	remote->exports = map_new();
	link_init(&remote->calls);
	bell_init(&remote->ended);
	return remote;
}

struct remote_export *remote_find(const struct remote *remote, int64_t id)
{
	return map_get(remote->exports, key_of(&id));
}

fallible remote_list(struct remote *remote, struct remote_export *export, enum remote_kind kind)
{
	if (map_count(remote->exports) >= REMOTE_EXPORTS_MAX)
		return err_new(EXHAUSTED, "too_many_exports",
			       "there are too many results that were not released");
	export->remote = remote;
	export->kind = kind;
	export->id = ++remote->last_export;
	export->listed = true;
	map_put(remote->exports, key_of(&export->id), export);
	return OK;
}

void remote_unlist(struct remote_export *export)
{
	map_take(export->remote->exports, key_of(&export->id));
	export->listed = false;
}

void remote_free(struct remote *remote)
{
	map_free(remote->exports);
	free(remote);
}

fallible remote_send(struct remote *remote, const struct buf *message)
{
	if (!buf_ok(message))
		return err_new(INTERNAL, "internal", "a message did not fit");
	return wsock_send(remote->ws, WSOCK_TEXT, buf_view(message));
}

fallible remote_reject(struct remote *remote, int64_t id, const char *code, const char *message)
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
	return remote_send(remote, &text);
}
