// A file inside one JSON answer. A small file is sent in one piece; a large one is read in a worker
// thread and copied as the client reads, so that no file is held whole in memory. `size` follows
// the content: it counts the bytes that were sent, even if the file changed meanwhile.
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/files.h"
#include "toolbox/files_open.h"
#include "toolbox/handlers.h"
#include "toolbox/mime.h"

#define PIECE                                                                                      \
	(48 * 1024) // a multiple of three, so that the base64 of pieces is the base64 of the whole
#define PIECE_MAX (8 * PIECE)
#define BATCH (8 * PIECE) // bytes read at a time

struct read_ask {
	bool base64;
	bool is_forced;
};

static fallible read_encoding(struct path_arg *path_arg, const struct json *json,
			      struct read_ask *out)
{
	struct str text = {0};

	path_arg->field = "encoding";
	path_arg->code = "INVALID_ENCODING";
	TRY(json_str(json_get(json, "encoding"), "encoding", &text));
	if (text.at && !str_is(text, "base64") && !str_is(text, "utf-8") && !str_is(text, "utf8"))
		return err_new(INVALID, "bad_field", "'encoding' must be utf-8 or base64");
	out->is_forced = text.at != NULL;
	out->base64 = str_is(text, "base64");
	path_arg->field = NULL;
	return OK;
}

// Appends one piece of the content to `body`.
static void files_read_add_piece(struct buf *body, const char *room, size_t len, bool base64,
				 struct json_carry *carry)
{
	if (base64)
		text_base64(body, room, len);
	else if (len)
		json_piece(body, room, len, carry);
}

static fallible files_read_fill(struct open_file *file, uint64_t at, char *room, size_t *out)
{
	size_t have = 0, n = 1;

	// Short reads would split base64 groups. Bytes past the size at open time are not sent.
	while (have < BATCH && n > 0 && at + have < file->stat.size) {
		uint64_t left = file->stat.size - at - have;
		size_t want = BATCH - have;

		TRY(open_file_read(file, at + have, room + have, left < want ? (size_t)left : want,
				   &n));
		have += n;
	}
	*out = have;
	return OK;
}

static fallible copy_content(struct path_arg *path_arg, struct open_file *file, bool base64,
			     struct buf *body, uint64_t *out_size)
{
	char *room = arena_take(path_arg->x->arena, BATCH);
	struct json_carry carry = {0};
	uint64_t total = 0;
	size_t n = 1;

	while (n > 0) {
		TRY(files_read_fill(file, total, room, &n));
		for (size_t at = 0; at < n; at += PIECE) {
			files_read_add_piece(body, room + at, n - at < PIECE ? n - at : PIECE,
					     base64, &carry);
			TRY(http_write(path_arg->x, body->at, body->len));
			buf_clear(body);
		}
		total += n;
	}
	json_piece(body, NULL, 0, &carry);
	*out_size = total;
	return OK;
}

static void begin_answer(struct json_out *out, const struct path_arg *path_arg)
{
	path_arg_put_name(out, "path", path_arg->shown);
	buf_text(out->buf, ",\"content\":\"");
}

static void end_answer(struct json_out *out, const struct open_file *file, bool base64,
		       uint64_t size)
{
	buf_text(out->buf, "\"");
	json_put_text(out, "encoding", base64 ? "base64" : "utf-8");
	json_put_bool(out, "isBinary", base64);
	json_put_text(out, "mimeType", file->type);
	json_put_int(out, "size", (int64_t)size);
}

static fallible answer_small(struct path_arg *path_arg, struct open_file *file, bool base64)
{
	auto_buf body = BUF_INIT(6 * FILEOP_SMALL + 64 * 1024);
	struct json_out out = gateway_success(&body);
	struct json_carry carry = {0};

	begin_answer(&out, path_arg);
	files_read_add_piece(&body, file->small.at, file->small.len, base64, &carry);
	json_piece(&body, NULL, 0, &carry);
	end_answer(&out, file, base64, file->small.len);
	return gateway_answer(path_arg->x, &out);
}

static fallible answer_large(struct path_arg *path_arg, struct open_file *file, bool base64)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(path_arg->ref.entry,
									path_arg->x);
	auto_buf body = BUF_INIT(PIECE_MAX + 64 * 1024);
	struct json_out out = gateway_success(&body);
	uint64_t size = 0;

	TRY(http_begin(path_arg->x, 200, NULL));
	begin_answer(&out, path_arg);
	TRY(copy_content(path_arg, file, base64, &body, &size));
	end_answer(&out, file, base64, size);
	gateway_put_now(&out);
	json_end(&out, '}');
	TRY(http_write(path_arg->x, body.at, body.len));
	return http_end(path_arg->x);
}

static fallible files_read_file(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;
	struct read_ask ask = {0};
	auto_json json = NULL;

	TRY(path_arg_read(path_arg, &json));
	TRY(read_encoding(path_arg, json, &ask));
	TRY(open_file_open(path_arg, false, &file));
	if (file.stat.size > FILES_CONTENT_MAX)
		return open_file_too_large(path_arg, file.stat.size);
	if (!ask.is_forced)
		ask.base64 = !mime_is_text(file.type);
	return file.fd >= 0 ? answer_large(path_arg, &file, ask.base64)
			    : answer_small(path_arg, &file, ask.base64);
}

fallible toolbox_files_read(struct http *x)
{
	return path_arg_serve(x, "file.read", files_read_file);
}
