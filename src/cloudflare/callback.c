// Parses the event stream of a cell and calls the client's function for each event's type. An event
// of a type without a function is skipped. The functions are released only after every call was
// answered, so that no call names a released number.
#include "cloudflare/callback.h"

#include "base/clock.h"

#define EVENT_MAX (20u << 20)

void callback_init(struct callback *callback, struct rpc_conn_flow *flow, const int64_t *functions)
{
	*callback = (struct callback){
		.reader = SSE_READER(EVENT_MAX), .flow = flow, .functions = functions};
}

void callback_done(struct callback *callback)
{
	sse_done(&callback->reader);
}

static void put_text(struct json_out *out, const struct json *event)
{
	json_key(out, "text");
	rpc_put(out, json_get(event, "text"));
	json_put_int(out, "timestamp", clock_wall_ms());
}

static void callback_put_result(struct json_out *out, const struct json *event)
{
	struct json *member;
	struct str key;

	for (size_t at = 0; json_next(event, &at, &key, &member);) {
		if (str_is(key, "type"))
			continue;
		json_key(out, key.at);
		rpc_put(out, member);
	}
}

static void callback_put_error(struct json_out *out, const struct json *event)
{
	static const char *const names[][2] = {
		{"name", "ename"}, {"message", "evalue"}, {"traceback", "traceback"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		json_key(out, names[i][0]);
		rpc_put(out, json_get(event, names[i][1]));
	}
}

// In the order of rpc_table_request.functions.
static const struct {
	const char *type;
	void (*put)(struct json_out *out, const struct json *event);
} kinds[RPC_TABLE_FUNCTIONS] = {{"stdout", put_text},
				{"stderr", put_text},
				{"result", callback_put_result},
				{"error", callback_put_error}};

static fallible callback_tell(struct callback *callback, struct str data)
{
	auto_buf text = BUF_INIT(2 * EVENT_MAX);
	struct json_out out = json_to(&text);
	struct str type = {0};
	auto_json event = NULL;
	size_t kind = 0;

	TRY(json_read_any(data, &event));
	TRY(json_str(json_get(event, "type"), "type", &type));
	while (kind < RPC_TABLE_FUNCTIONS && !str_is(type, kinds[kind].type))
		kind++;
	if (kind == RPC_TABLE_FUNCTIONS || !callback->functions[kind])
		return OK;
	json_begin(&out, '{');
	kinds[kind].put(&out, event);
	json_end(&out, '}');
	if (!buf_ok(&text))
		return err_new(INTERNAL, "internal", "an event did not fit");
	return rpc_conn_flow_call(callback->flow, callback->functions[kind], buf_view(&text));
}

fallible callback_pass(struct callback *callback, struct str bytes)
{
	struct sse_event event;

	for (;;) {
		switch (sse_read(&callback->reader, &bytes, &event)) {
		case SSE_MORE:
			return OK;
		case SSE_TOO_LARGE:
			return err_new(INTERNAL, "internal", "an event did not fit");
		case SSE_EVENT:
			TRY(callback_tell(callback, event.data));
		}
	}
}

fallible callback_end(struct callback *callback)
{
	auto_buf text = BUF_INIT(64);

	TRY(rpc_conn_flow_drain(callback->flow));
	for (size_t i = 0; i < RPC_TABLE_FUNCTIONS; i++) {
		if (!callback->functions[i])
			continue;
		buf_clear(&text);
		buf_fmt(&text, "[\"release\",%lld,1]", (long long)callback->functions[i]);
		TRY(rpc_conn_send(callback->flow->conn, &text));
	}
	return OK;
}
