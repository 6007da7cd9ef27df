// The inner exchange runs in the task of the outer one. While its handler waits for something else,
// the outer client may leave: that cancels the task, and thereby what the handler waits for. Around
// each read and write the task is present again.
#include "cloudflare/forward.h"

#define FAULT_MAX (64 * 1024)

void bridge_forward_done(struct bridge_forward *carry)
{
	buf_done(&carry->fault);
	err_free(carry->upset);
}

static enum err_kind bridge_forward_kind_of(int status)
{
	static const struct {
		int status;
		enum err_kind kind;
	} kinds[] = {
		{400, ERR_INVALID},   {403, ERR_FORBIDDEN},   {404, ERR_NOT_FOUND},
		{409, ERR_CONFLICT},  {410, ERR_GONE},	      {413, ERR_TOO_LARGE},
		{429, ERR_EXHAUSTED}, {501, ERR_NOT_OFFERED}, {503, ERR_UNAVAILABLE},
		{507, ERR_NO_SPACE},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].status == status)
			return kinds[i].kind;
	return ERR_BAD_PEER;
}

fallible bridge_forward_fault(const struct bridge_forward *carry, const char *code,
			      const char *what)
{
	struct str message = STR("no answer"), hint = {0};
	auto_free char *words = NULL;
	auto_json json = NULL;

	err_free(json_read(buf_view(&carry->fault), &json));
	if (json && json_type(json) == JSON_OBJECT) {
		err_free(json_str(json_get(json, "message"), "message", &message));
		err_free(json_str(json_get(json, "hint"), "hint", &hint));
	}
	words = mem_fmt("%s: " STR_FMT, what, STR_ARG(message));
	return err_from(code ? ERR_BAD_PEER : bridge_forward_kind_of(carry->status),
			code ? code : "invalid_request", words, hint.at);
}

static fallible upset(struct bridge_forward *carry, struct err *err)
{
	if (!err)
		return OK;
	if (!carry->upset)
		carry->upset = err;
	else
		err_free(err);
	return err_new(CANCELLED, "client_gone", "the outer exchange has ended");
}

fallible bridge_forward_read(struct bridge_forward *carry, void *room, size_t size, size_t *out)
{
	return upset(carry, http_read(carry->x, room, size, out));
}

fallible bridge_forward_write(struct bridge_forward *carry, const void *bytes, size_t len)
{
	http_back(carry->x);
	TRY(upset(carry, http_write(carry->x, bytes, len)));
	return upset(carry, http_away(carry->x, carry->probe));
}

struct work_item {
	struct bridge_forward *carry;
	const struct in_process_calls *calls;
	bool good;
};

static fallible on_read(void *arg, void *room, size_t size, size_t *out)
{
	struct work_item *work_item = arg;

	return work_item->calls->read(work_item->carry, room, size, out);
}

static fallible bridge_forward_on_head(void *arg, const struct in_process_head *head)
{
	struct work_item *work_item = arg;
	struct bridge_forward *carry = work_item->carry;

	carry->status = head->status;
	work_item->good = head->status >= 200 && head->status < 300;
	if (!work_item->good || !work_item->calls->head)
		return OK;
	return upset(carry, work_item->calls->head(carry, head));
}

static fallible bridge_forward_on_bytes(void *arg, struct str bytes)
{
	struct work_item *work_item = arg;

	if (work_item->good)
		return work_item->calls->bytes(work_item->carry, bytes);
	buf_str(&work_item->carry->fault, bytes);
	return OK;
}

static void bridge_forward_on_end(void *arg, bool is_whole)
{
	struct work_item *work_item = arg;

	if (!is_whole && work_item->good)
		work_item->carry->status = 0;
	if (work_item->calls->end)
		work_item->calls->end(work_item->carry, is_whole);
}

fallible bridge_forward_ask(struct bridge_forward *carry, const char *method, const char *target,
			    const char *type, struct str body, const struct in_process_calls *calls)
{
	struct http *x = carry->x;
	struct work_item work_item = {.carry = carry, .calls = calls};
	struct in_process_calls ours = {
		.read = calls->read ? on_read : NULL,
		.head = bridge_forward_on_head,
		.bytes = bridge_forward_on_bytes,
		.end = bridge_forward_on_end,
	};
	struct in_process_ask ask = gateway_ask(x, str_of(method), str_of(target));

	ask.type = type;
	ask.body = body;
	carry->fault = BUF_INIT(FAULT_MAX);
	if (!calls->read)
		TRY(http_away(x, x->reply_begun ? carry->probe : HTTP_PROBE_HEAD));
	in_process_run(in_process_new(&ask, &ours, &work_item));
	http_back(x);
	if (carry->upset)
		return take_ptr(carry->upset);
	if (!carry->status)
		return err_new(BAD_PEER, "exec_transport_error", "the answer was cut short");
	return OK;
}
