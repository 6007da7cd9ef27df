// POST /api/write: a file inside JSON. The body is parsed as a stream. Its content, unescaped, goes
// to a spill buffer, because clients send the encoding behind the content and may send the path
// there too. Then it goes to the box: a small file in one message, a large one as an upload that is
// linked at its end. Nothing is written before the whole body is valid.
#include "codec/base64.h"
#include "codec/json_flow.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/files_open.h"
#include "toolbox/handlers.h"
#include "toolbox/spill_buffer.h"

#define ROOM (64 * 1024)
#define BATCH (256 * 1024)    // sent to the box at a time
#define REST_MAX (128 * 1024) // all members but the content

struct write_ask {
	struct spill_buffer content;
	struct buf rest, piece;
	bool has_content, base64;
};

static void write_ask_done(struct write_ask *ask)
{
	spill_buffer_done(&ask->content);
	buf_done(&ask->rest);
	buf_done(&ask->piece);
}

static fallible bad_content(struct path_arg *path_arg, const char *code, const char *why)
{
	path_arg->field = "content";
	path_arg->code = code;
	return err_new(INVALID, "bad_field", "'content' %s", why);
}

static fallible too_long(struct path_arg *path_arg, uint64_t len)
{
	path_arg->actual_size = len;
	path_arg->max_size = FILES_CONTENT_MAX;
	return err_hint(
		err_new(TOO_LARGE, "file_too_large", "a body may have %d bytes", FILES_BODY_MAX),
		"use PUT /api/files/PATH, which takes any size");
}

static fallible take_part(struct path_arg *path_arg, struct json_flow *flow, struct str part,
			  struct write_ask *ask)
{
	enum json_flow_verdict verdict;

	do {
		verdict = json_flow(flow, &part, &ask->piece);
		TRY(spill_buffer_add(&ask->content, buf_view(&ask->piece)));
		buf_clear(&ask->piece);
	} while (verdict == JSON_FLOW_FULL);
	if (verdict == JSON_FLOW_MORE)
		return OK;
	path_arg->field = flow->state && flow->seen ? "content" : "body";
	path_arg->code = "INVALID_JSON";
	return err_new(INVALID, "bad_json", "the body is not JSON: %s", flow->fault);
}

// Parses the body: content to the spill buffer, other members to ask->rest.
static fallible take_body(struct path_arg *path_arg, struct write_ask *ask)
{
	struct http *x = path_arg->x;
	uint64_t announced = 0, total = 0;
	bool known = http_length(x, &announced);
	size_t size = known && announced < ROOM ? (size_t)announced + 1 : ROOM, n = 1;
	char *room = arena_take(x->arena, size);
	struct json_flow flow;

	if (known && announced > FILES_BODY_MAX)
		return too_long(path_arg, announced);
	json_flow_init(&flow, "content", &ask->rest);
	for (;;) {
		TRY(http_read(x, room, size, &n));
		if (n == 0)
			break;
		total += n;
		if (total > FILES_BODY_MAX)
			return too_long(path_arg, total);
		TRY(take_part(path_arg, &flow, (struct str){room, n}, ask));
	}
	ask->has_content = flow.seen;
	if (ask->rest.len)
		return OK;
	path_arg->field = "body";
	return err_new(INVALID, "bad_field", "the body is empty");
}

static fallible files_write_read_rest(struct path_arg *path_arg, const struct json *json,
				      struct write_ask *ask)
{
	struct str encoding = {0};

	TRY(path_arg_user(path_arg, json));
	TRY(path_arg_path(path_arg, json, "path", NULL));
	path_arg->field = "encoding";
	path_arg->code = "INVALID_ENCODING";
	TRY(json_str(json_get(json, "encoding"), "encoding", &encoding));
	ask->base64 = str_is(encoding, "base64");
	if (encoding.at && !ask->base64 && !str_is(encoding, "utf-8") && !str_is(encoding, "utf8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf-8 or base64");
	path_arg->field = "content";
	path_arg->code = "INVALID_TYPE";
	TRY(json_want(json_get(json, "content"), "content", JSON_STRING));
	if (!json_get(json, "content"))
		return bad_content(path_arg, "REQUIRED", "is missing");
	// A key "content" that is written with JSON escapes arrives among the other members.
	if (!ask->has_content)
		TRY(spill_buffer_add(&ask->content, json_chars(json_get(json, "content"))));
	path_arg->field = NULL;
	return OK;
}

// Decodes the next bytes of the file into ask->piece; none at the end.
static fallible next_piece(struct path_arg *path_arg, struct write_ask *ask, struct base64 *base64,
			   uint64_t *at, char *room)
{
	size_t n = 1;

	buf_clear(&ask->piece);
	while (ask->piece.len == 0 && n > 0) {
		TRY(spill_buffer_read(&ask->content, *at, room, BATCH, &n));
		*at += n;
		if (n ? !base64_feed(base64, (struct str){room, n}, &ask->piece)
		      : !base64_end(base64, &ask->piece))
			return bad_content(path_arg, "INVALID_BASE64", "is not base64");
	}
	return OK;
}

static fallible decode_to(struct path_arg *path_arg, struct write_ask *ask, int file)
{
	char *room = arena_take(path_arg->x->arena, BATCH);
	struct base64 base64 = {0};
	uint64_t at = 0, total = 0;

	for (;;) {
		TRY(next_piece(path_arg, ask, &base64, &at, room));
		if (ask->piece.len == 0)
			return OK;
		total += ask->piece.len;
		if (total > FILES_CONTENT_MAX)
			return open_file_too_large(path_arg, total);
		TRY(pump_put(file, ask->piece.at, ask->piece.len));
	}
}

static fallible put_large(struct path_arg *path_arg, struct write_ask *ask)
{
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	struct err *err;

	path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_begin(&path_arg->files, path_arg->path, FILEOP_PARENTS, FILEOP_KEEP_MODE,
			&upload));
	err = ask->base64 ? decode_to(path_arg, ask, files_upload_fd(upload))
			  : spill_buffer_copy(&ask->content, files_upload_fd(upload));
	if (!err)
		return files_commit(upload, path_arg->files.deadline, &stat);
	files_abort(upload);
	return err;
}

static fallible put_small(struct path_arg *path_arg, struct write_ask *ask)
{
	struct str text = buf_view(&ask->content.memory);
	struct base64 base64 = {0};

	buf_clear(&ask->piece);
	if (ask->base64) {
		if (!base64_feed(&base64, text, &ask->piece) || !base64_end(&base64, &ask->piece))
			return bad_content(path_arg, "INVALID_BASE64", "is not base64");
		text = buf_view(&ask->piece);
	}
	return files_write(&path_arg->files, path_arg->path, FILEOP_PARENTS, FILEOP_KEEP_MODE,
			   text);
}

static fallible files_write_store(struct path_arg *path_arg, struct write_ask *ask)
{
	uint64_t len = ask->content.len;

	// The amount of base64 padding is known only at the end: decode_to() counts exactly.
	if (ask->base64)
		len = len < 4 ? 0 : len / 4 * 3 - 2;
	if (len > FILES_CONTENT_MAX)
		return open_file_too_large(path_arg, len);
	if (ask->content.len <= FILEOP_SMALL)
		return put_small(path_arg, ask);
	return put_large(path_arg, ask);
}

static fallible files_write_file(struct path_arg *path_arg)
{
	on_exit_call(write_ask_done) struct write_ask ask = {
		.rest = BUF_INIT(REST_MAX),
		.piece = BUF_INIT(BATCH),
	};
	auto_buf body = BUF_INIT(64 * 1024);
	struct json_out out = gateway_success(&body);
	auto_json json = NULL;

	spill_buffer_init(&ask.content, path_arg->ref.entry->manager->tapes_dir);
	path_arg->field = "body";
	TRY(gateway_want_json(path_arg->x));
	TRY(take_body(path_arg, &ask));
	path_arg->code = "INVALID_JSON";
	TRY(json_read(buf_view(&ask.rest), &json));
	TRY(json_want(json, "body", JSON_OBJECT));
	TRY(files_write_read_rest(path_arg, json, &ask));
	path_arg_within(path_arg, PATH_ARG_SHORT_MS);
	TRY(path_arg_lock(path_arg));
	TRY(path_arg_refused(path_arg, files_write_store(path_arg, &ask)));
	path_arg_put_name(&out, "path", path_arg->shown);
	return gateway_answer(path_arg->x, &out);
}

fallible toolbox_files_write(struct http *x)
{
	return path_arg_serve(x, "file.write", files_write_file);
}
