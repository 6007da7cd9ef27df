// Copies bytes through the raw-body routes of the sandbox, at the client's pace: nothing is held
// whole. A body that is too large is refused before it has replaced a file.
#include "cloudflare/forward.h"
#include "cloudflare/handlers.h"
#include "codec/text.h"

#define WRITE_MAX (32ull << 20)
#define PATH_BYTES (16 * 1024)

struct transfer {
	struct bridge_forward forward;
	uint64_t in; // bytes of the request's body read so far
	bool too_much;
};

static void transfer_done(struct transfer *transfer)
{
	bridge_forward_done(&transfer->forward);
}

static fallible file_take_in(void *arg, void *room, size_t size, size_t *out)
{
	struct transfer *transfer = arg;

	TRY(bridge_forward_read(&transfer->forward, room, size, out));
	transfer->in += *out;
	transfer->too_much = transfer->in > WRITE_MAX;
	return transfer->too_much ? err_new(TOO_LARGE, "payload_too_large", "too large") : OK;
}

static fallible give_head(void *arg, const struct in_process_head *head)
{
	struct transfer *transfer = arg;
	struct http *x = transfer->forward.x;

	http_back(x);
	if (head->is_sized)
		TRY(http_begin_sized(x, 200, "application/octet-stream", head->length));
	else
		TRY(http_begin(x, 200, "application/octet-stream"));
	return http_away(x, STR(""));
}

static fallible give_out(void *arg, struct str bytes)
{
	return bridge_forward_write(arg, bytes.at, bytes.len);
}

static fallible pass_over(void *arg, struct str bytes)
{
	(void)arg;
	(void)bytes;
	return OK;
}

static const struct in_process_calls giving = {.head = give_head, .bytes = give_out};
static const struct in_process_calls taking = {.read = file_take_in, .bytes = pass_over};

// Builds the target of a file route from the rest of the path.
static fallible file_target(struct http *x, struct str *shown, struct buf *out)
{
	auto_buf given = BUF_INIT(PATH_BYTES);

	buf_char(&given, '/');
	buf_str(&given, x->params[1]);
	TRY(named_box_path(x, "path", buf_view(&given), shown));
	buf_text(out, "/api/files");
	path_escape(*shown, out);
	if (!buf_ok(out))
		return err_new(INVALID, "invalid_request", "the path is too long");
	return OK;
}

// Sends the answer of a route to the client, unless it is a fault.
static fallible file_give(struct transfer *transfer, const char *id, const char *target)
{
	struct http *x = transfer->forward.x;

	http_be_patient(x);
	TRY(bridge_forward_ask(&transfer->forward, "GET", named_box_target(x, id, target), NULL,
			       (struct str){0}, &giving));
	if (transfer->forward.fault.len)
		return OK;
	return x->reply_begun ? http_end(x)
			      : http_reply(x, 200, "application/octet-stream", STR(""));
}

static fallible refuse_large(void)
{
	return err_new(TOO_LARGE, "payload_too_large",
		       "payload too large: more than the %llu-byte limit",
		       (unsigned long long)WRITE_MAX);
}

// Sends the client's body to a route.
static fallible file_take(struct http *x, const char *target, const char *type, const char *what)
{
	on_exit_call(transfer_done) struct transfer transfer = {.forward = {.x = x}};
	char id[ID_BOX_LEN + 1];
	uint64_t len = 0;
	struct err *err;

	if (http_length(x, &len) && len > WRITE_MAX)
		return refuse_large();
	TRY(named_box_enter(x, id));
	err = bridge_forward_ask(&transfer.forward, "PUT", named_box_target(x, id, target), type,
				 (struct str){0}, &taking);
	if (transfer.too_much) {
		err_free(err);
		return refuse_large();
	}
	TRY(err);
	if (transfer.forward.fault.len)
		return bridge_forward_fault(&transfer.forward, "workspace_archive_write_error",
					    what);
	return http_reply(x, 200, NULL, STR("{\"ok\":true}"));
}

fallible bridge_file_read(struct http *x)
{
	on_exit_call(transfer_done) struct transfer transfer = {.forward = {.x = x}};
	auto_buf target = BUF_INIT(4 * PATH_BYTES);
	struct str shown = {0};
	char id[ID_BOX_LEN + 1];

	TRY(named_box_check(x));
	TRY(file_target(x, &shown, &target));
	TRY(named_box_session(x, &(struct str){0}));
	TRY(named_box_enter(x, id));
	TRY(file_give(&transfer, id, target.at));
	if (transfer.forward.status == 404)
		return err_new(NOT_FOUND, "workspace_read_not_found", "File not found: " STR_FMT,
			       STR_ARG(shown));
	if (!transfer.forward.fault.len)
		return OK;
	return bridge_forward_fault(&transfer.forward,
				    transfer.forward.status == 400 ? NULL : "exec_transport_error",
				    "read failed");
}

fallible bridge_file_write(struct http *x)
{
	auto_buf target = BUF_INIT(4 * PATH_BYTES);
	struct str shown = {0};

	TRY(named_box_check(x));
	TRY(file_target(x, &shown, &target));
	TRY(named_box_session(x, &(struct str){0}));
	return file_take(x, target.at, "application/octet-stream", "write failed");
}

// excludes=a,b: paths below the workspace.
static fallible add_excludes(struct http *x, struct buf *target)
{
	struct str rest = http_query(x, "excludes"), part;

	while (rest.len && str_cut(&rest, ',', &part)) {
		if (str_starts(part, "./"))
			part = str_skip(part, 2);
		if (!part.len)
			continue;
		if (memmem(part.at, part.len, "..", 2))
			return err_new(INVALID, "invalid_request",
				       "exclude paths must not contain \"..\"");
		buf_text(target, "&exclude=");
		text_percent(target, part);
	}
	if (!buf_ok(target))
		return err_new(INVALID, "invalid_request", "there are too many excludes");
	return OK;
}

fallible bridge_file_persist(struct http *x)
{
	on_exit_call(transfer_done) struct transfer transfer = {.forward = {.x = x}};
	auto_buf target = BUF_INIT(16 * 1024);
	char id[ID_BOX_LEN + 1];

	TRY(named_box_check(x));
	buf_text(&target, "/api/tar?path=" PATH_WORKSPACE);
	TRY(add_excludes(x, &target));
	TRY(named_box_enter(x, id));
	TRY(file_give(&transfer, id, target.at));
	if (!transfer.forward.fault.len)
		return OK;
	return bridge_forward_fault(&transfer.forward, "workspace_archive_read_error",
				    "persist failed");
}

fallible bridge_file_hydrate(struct http *x)
{
	uint64_t len = 0;

	TRY(named_box_check(x));
	if (http_length(x, &len) && len == 0)
		return err_new(INVALID, "invalid_request", "Empty tar payload");
	return file_take(x, "/api/tar?path=" PATH_WORKSPACE, "application/x-tar", "hydrate failed");
}
