// A file of any size as events. Each chunk covers CHUNK bytes of the file. A base64 chunk decodes
// on its own. A text chunk never cuts a UTF-8 sequence: incomplete bytes go into the next chunk.
// Several chunks are read at a time in a worker thread.
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/files.h"
#include "toolbox/files_open.h"
#include "toolbox/handlers.h"
#include "toolbox/mime.h"

#define CHUNK 65535
#define BATCH (4 * CHUNK)
#define EVENT_MAX (8 * CHUNK)

static fallible files_stream_send_event(struct http *x, struct buf *event)
{
	struct err *err;

	buf_text(event, "\n\n");
	if (!buf_ok(event))
		return err_new(INTERNAL, "internal", "an event did not fit");
	err = http_write(x, event->at, event->len);
	buf_clear(event);
	return err;
}

static struct json_out files_stream_begin_event(struct buf *event, const char *type)
{
	struct json_out out;

	buf_text(event, "data: ");
	out = json_to(event);
	json_begin(&out, '{');
	json_put_text(&out, "type", type);
	return out;
}

static fallible send_metadata(struct http *x, const struct open_file *file, bool base64,
			      struct buf *event)
{
	struct json_out out = files_stream_begin_event(event, "metadata");

	json_put_text(&out, "mimeType", file->type);
	json_put_int(&out, "size", (int64_t)file->stat.size);
	json_put_bool(&out, "isBinary", base64);
	json_put_text(&out, "encoding", base64 ? "base64" : "utf-8");
	json_end(&out, '}');
	return files_stream_send_event(x, event);
}

// len == 0 flushes the incomplete sequence that is left.
static fallible send_chunk(struct http *x, const char *bytes, size_t len, bool base64,
			   struct json_carry *carry, struct buf *event)
{
	struct json_out out = files_stream_begin_event(event, "chunk");
	size_t before;

	buf_text(event, ",\"data\":\"");
	before = event->len;
	if (base64)
		text_base64(event, bytes, len);
	else
		json_piece(event, bytes, len, carry);
	if (event->len == before) {
		buf_clear(event);
		return OK;
	}
	buf_text(event, "\"");
	json_end(&out, '}');
	return files_stream_send_event(x, event);
}

// Reads until the buffer is full or the file ends: short reads would make irregular chunks.
static fallible files_stream_fill(struct open_file *file, uint64_t at, char *room, size_t *out)
{
	size_t have = 0, n = 1;

	while (have < BATCH && n > 0) {
		TRY(open_file_read(file, at + have, room + have, BATCH - have, &n));
		have += n;
	}
	*out = have;
	return OK;
}

static fallible send_content(struct http *x, struct open_file *file, bool base64, struct buf *event,
			     uint64_t *out_total)
{
	char *room = arena_take(x->arena, BATCH);
	struct json_carry carry = {0};
	uint64_t total = 0;
	size_t n = 1;

	while (n > 0) {
		TRY(files_stream_fill(file, total, room, &n));
		for (size_t at = 0; at < n; at += CHUNK)
			TRY(send_chunk(x, room + at, n - at < CHUNK ? n - at : CHUNK, base64,
				       &carry, event));
		total += n;
		n = n < BATCH ? 0 : n;
	}
	*out_total = total;
	return base64 ? OK : send_chunk(x, NULL, 0, false, &carry, event);
}

// Cloudflare's SDK expects a missing file as an event in a stream of status 200.
static fallible files_stream_send_error(struct path_arg *path_arg, const struct err *err)
{
	auto_buf event = BUF_INIT(EVENT_MAX);
	bool missing = !strcmp(err_reason(err), "no_file");
	struct json_out out = files_stream_begin_event(&event, "error");

	json_put_text(&out, "error",
		      missing ? arena_fmt(path_arg->x->arena, "File not found: %s", path_arg->path)
			      : err_message(err));
	json_put_text(&out, "reason", err_reason(err));
	json_end(&out, '}');
	return files_stream_send_event(path_arg->x, &event);
}

static fallible files_stream_begin(struct http *x)
{
	http_set(x, "Cache-Control", STR("no-cache"));
	http_be_patient(x);
	return http_begin(x, 200, "text/event-stream");
}

// Whether an error is sent inside the stream: only errors of the file, not of the request or the
// sandbox.
static bool files_stream_is_told(const struct err *err)
{
	static const char *const reasons[] = {"no_file", "is_directory", "not_regular",
					      "permission_denied", "not_directory"};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (!strcmp(err_reason(err), reasons[i]))
			return true;
	return false;
}

static fallible files_stream_send_file(struct path_arg *path_arg, struct open_file *file)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(path_arg->ref.entry,
									path_arg->x);
	auto_buf event = BUF_INIT(EVENT_MAX);
	bool base64 = !mime_is_text(file->type);
	struct json_out out;
	uint64_t total = 0;

	TRY(send_metadata(path_arg->x, file, base64, &event));
	TRY(send_content(path_arg->x, file, base64, &event, &total));
	out = files_stream_begin_event(&event, "complete");
	json_put_int(&out, "bytesRead", (int64_t)total);
	json_end(&out, '}');
	return files_stream_send_event(path_arg->x, &event);
}

static fallible stream_file(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;
	auto_json json = NULL;
	auto_err err = NULL;

	TRY(path_arg_read(path_arg, &json));
	err = open_file_open(path_arg, false, &file);
	path_arg_unlock(path_arg); // a stream holds the session's lock only until it has started
	if (err && !files_stream_is_told(err))
		return take_ptr(err);
	TRY(files_stream_begin(path_arg->x));
	if (err)
		TRY(files_stream_send_error(path_arg, err));
	else
		TRY(files_stream_send_file(path_arg, &file));
	return http_end(path_arg->x);
}

fallible toolbox_files_stream(struct http *x)
{
	return path_arg_serve(x, "file.read", stream_file);
}
