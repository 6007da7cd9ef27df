// The inner exchange runs in the task of the outer one. While its handler waits for something else,
// the outer client may leave: that cancels the task, and thereby what the handler waits for. Around
// each read and write the task is present again.
#include "bridge/carry.h"

#define FAULT_MAX (64 * 1024)

void carry_done(struct carry *carry)
{
	buf_done(&carry->fault);
	err_free(carry->upset);
}

static enum err_kind carry_kind_of(int status)
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

fallible carry_fault(const struct carry *carry, const char *code, const char *what)
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
	return err_from(code ? ERR_BAD_PEER : carry_kind_of(carry->status),
			code ? code : "invalid_request", words, hint.at);
}

static fallible upset(struct carry *carry, struct err *err)
{
	if (!err)
		return OK;
	if (!carry->upset)
		carry->upset = err;
	else
		err_free(err);
	return err_new(CANCELLED, "client_gone", "the outer exchange has ended");
}

fallible carry_read(struct carry *carry, void *room, size_t size, size_t *out)
{
	return upset(carry, http_read(carry->x, room, size, out));
}

fallible carry_write(struct carry *carry, const void *bytes, size_t len)
{
	http_back(carry->x);
	TRY(upset(carry, http_write(carry->x, bytes, len)));
	return upset(carry, http_away(carry->x, carry->probe));
}

struct errand {
	struct carry *carry;
	const struct inner_calls *calls;
	bool good;
};

static fallible on_read(void *arg, void *room, size_t size, size_t *out)
{
	struct errand *errand = arg;

	return errand->calls->read(errand->carry, room, size, out);
}

static fallible carry_on_head(void *arg, const struct inner_head *head)
{
	struct errand *errand = arg;
	struct carry *carry = errand->carry;

	carry->status = head->status;
	errand->good = head->status >= 200 && head->status < 300;
	if (!errand->good || !errand->calls->head)
		return OK;
	return upset(carry, errand->calls->head(carry, head));
}

static fallible carry_on_bytes(void *arg, struct str bytes)
{
	struct errand *errand = arg;

	if (errand->good)
		return errand->calls->bytes(errand->carry, bytes);
	buf_str(&errand->carry->fault, bytes);
	return OK;
}

static void carry_on_end(void *arg, bool is_whole)
{
	struct errand *errand = arg;

	if (!is_whole && errand->good)
		errand->carry->status = 0;
	if (errand->calls->end)
		errand->calls->end(errand->carry, is_whole);
}

fallible carry_ask(struct carry *carry, const char *method, const char *target, const char *type,
		   struct str body, const struct inner_calls *calls)
{
	struct http *x = carry->x;
	struct errand errand = {.carry = carry, .calls = calls};
	struct inner_calls ours = {
		.read = calls->read ? on_read : NULL,
		.head = carry_on_head,
		.bytes = carry_on_bytes,
		.end = carry_on_end,
	};
	struct inner_ask ask = door_ask(x, str_of(method), str_of(target));

	ask.type = type;
	ask.body = body;
	carry->fault = BUF_INIT(FAULT_MAX);
	if (!calls->read)
		TRY(http_away(x, x->reply_begun ? carry->probe : HTTP_PROBE_HEAD));
	inner_run(inner_new(&ask, &ours, &errand));
	http_back(x);
	if (carry->upset)
		return take_ptr(carry->upset);
	if (!carry->status)
		return err_new(BAD_PEER, "exec_transport_error", "the answer was cut short");
	return OK;
}
