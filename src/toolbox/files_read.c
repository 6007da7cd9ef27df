// A file that is sent to the client: inside JSON, as events, or as a body with Range and
// conditional requests. A small file is read into memory. A larger one is an fd from the box:
// worker threads read and close it, because its file system can block, and send it at the client's
// pace, so that no file is held whole in memory.
//
// The content is untrusted: headers forbid browsers to sniff its type or to run it in our origin.
#include <stdio.h>

#include "base/clock.h"
#include "codec/range.h"
#include "codec/text.h"
#include "gateway/cancel_on_delete.h"
#include "loop/closer.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"
#include "toolbox/mime.h"

static const char *raw_date(struct http *x, int64_t wall_us)
{
	auto_buf text = BUF_INIT(64);

	clock_http(wall_us / 1000, &text);
	return arena_dup(x->arena, text.at, text.len);
}

struct open_file {
	struct fileop_stat stat;
	struct buf small;
	int fd;		  // -1: the content is in `small`
	const char *type; // MIME
};
#define OPEN_FILE_NONE ((struct open_file){.fd = -1})
#define auto_open_file on_exit_call(open_file_done) struct open_file

static void open_file_done(struct open_file *file)
{
	buf_done(&file->small);
	closer_drop(&file->fd);
}

// Reads bytes from `offset` on; *out = 0 at the end. May wait for the disk.
static fallible open_file_read(struct open_file *file, uint64_t offset, void *room, size_t size,
			       size_t *out)
{
	struct str rest;

	if (file->fd >= 0)
		return pump_get(file->fd, offset, room, size, out);
	rest = str_skip(buf_view(&file->small), offset < SIZE_MAX ? (size_t)offset : SIZE_MAX);
	if (rest.len > size)
		rest.len = size;
	if (rest.len)
		memcpy(room, rest.at, rest.len);
	*out = rest.len;
	return OK;
}

// Fills the buffer unless bytes up to `end` of the file are fewer: short reads would split base64
// groups and make irregular chunks.
static fallible open_file_fill(struct open_file *file, uint64_t at, uint64_t end, char *room,
			       size_t size, size_t *out)
{
	size_t have = 0, n = 1;

	if (end - at < size)
		size = (size_t)(end - at);
	while (have < size && n > 0) {
		TRY(open_file_read(file, at + have, room + have, size - have, &n));
		have += n;
	}
	*out = have;
	return OK;
}

// The MIME type follows from the name; the content is read only if the name says nothing.
static fallible find_type(struct path_arg *path_arg, struct open_file *file)
{
	struct str head = buf_view(&file->small);
	size_t len = 0;

	file->type = mime_by_name(path_arg->shown);
	if (file->type)
		return OK;
	if (file->fd >= 0) {
		char *room = arena_take(path_arg->x->arena, MIME_SNIFF);

		TRY(open_file_read(file, 0, room, MIME_SNIFF, &len));
		head = (struct str){room, len};
	}
	file->type = mime_by_bytes(head, head.len == file->stat.size);
	return OK;
}

// `as_fd`: opens an fd for a small file too.
static fallible open_file_open(struct path_arg *path_arg, bool as_fd, struct open_file *out)
{
	out->fd = -1;
	out->small = BUF_INIT(FILEOP_SMALL);
	if (as_fd)
		TRY(files_open(&path_arg->files, path_arg->path, &out->fd, &out->stat));
	else
		TRY(files_read(&path_arg->files, path_arg->path, &out->small, &out->fd,
			       &out->stat));
	return find_type(path_arg, out);
}

// ----------------------------------------------------------------------------- as JSON

#define PIECE                                                                                      \
	(48 * 1024) // a multiple of three, so that the base64 of pieces is the base64 of the whole
#define PIECE_MAX (8 * PIECE)
#define BATCH (8 * PIECE) // bytes read at a time

// Appends one piece of the content to `body`.
static void files_read_add_piece(struct buf *body, const char *room, size_t len, bool base64,
				 struct json_carry *carry)
{
	if (base64)
		text_base64(body, room, len);
	else if (len)
		json_piece(body, room, len, carry);
}

static fallible copy_content(struct path_arg *path_arg, struct open_file *file, bool base64,
			     struct buf *body, uint64_t *out_size)
{
	char *room = arena_take(path_arg->x->arena, BATCH);
	struct json_carry carry = {0};
	uint64_t total = 0;
	size_t n = 1;

	while (n > 0) {
		// Bytes past the size at open time are not sent.
		TRY(open_file_fill(file, total, file->stat.size, room, BATCH, &n));
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

fallible toolbox_files_read(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;
	bool base64 = false, named = false;

	TRY(path_arg_read(path_arg));
	TRY(path_arg_encoding(path_arg, &base64, &named));
	TRY(open_file_open(path_arg, false, &file));
	if (file.stat.size > FILES_CONTENT_MAX)
		return files_too_large(path_arg, file.stat.size);
	if (!named)
		base64 = !mime_is_text(file.type);
	return file.fd >= 0 ? answer_large(path_arg, &file, base64)
			    : answer_small(path_arg, &file, base64);
}

// --------------------------------------------------------------------------- as events

// Each chunk covers CHUNK bytes of the file. A base64 chunk decodes on its own. A text chunk never
// cuts a UTF-8 sequence: incomplete bytes go into the next chunk.
#define CHUNK 65535
#define CHUNKS (4 * CHUNK) // bytes read at a time
#define EVENT_MAX (8 * CHUNK)

static fallible send_metadata(struct http *x, const struct open_file *file, bool base64,
			      struct buf *event)
{
	struct json_out out = gateway_event(event, "metadata");

	json_put_text(&out, "mimeType", file->type);
	json_put_int(&out, "size", (int64_t)file->stat.size);
	json_put_bool(&out, "isBinary", base64);
	json_put_text(&out, "encoding", base64 ? "base64" : "utf-8");
	return gateway_send_event(x, &out);
}

// len == 0 flushes the incomplete sequence that is left.
static fallible send_chunk(struct http *x, const char *bytes, size_t len, bool base64,
			   struct json_carry *carry, struct buf *event)
{
	struct json_out out = gateway_event(event, "chunk");
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
	return gateway_send_event(x, &out);
}

static fallible send_content(struct http *x, struct open_file *file, bool base64, struct buf *event,
			     uint64_t *out_total)
{
	char *room = arena_take(x->arena, CHUNKS);
	struct json_carry carry = {0};
	uint64_t total = 0;
	size_t n = 1;

	while (n > 0) {
		TRY(open_file_fill(file, total, UINT64_MAX, room, CHUNKS, &n));
		for (size_t at = 0; at < n; at += CHUNK)
			TRY(send_chunk(x, room + at, n - at < CHUNK ? n - at : CHUNK, base64,
				       &carry, event));
		total += n;
		n = n < CHUNKS ? 0 : n;
	}
	*out_total = total;
	return base64 ? OK : send_chunk(x, NULL, 0, false, &carry, event);
}

// Cloudflare's SDK expects a missing file as an event in a stream of status 200.
static fallible files_stream_send_error(struct path_arg *path_arg, const struct err *err)
{
	auto_buf event = BUF_INIT(EVENT_MAX);
	bool missing = !strcmp(err_reason(err), "no_file");
	struct json_out out = gateway_event(&event, "error");

	json_put_text(&out, "error",
		      missing ? arena_fmt(path_arg->x->arena, "File not found: %s", path_arg->path)
			      : err_message(err));
	json_put_text(&out, "reason", err_reason(err));
	return gateway_send_event(path_arg->x, &out);
}

// Whether an error is sent inside the stream: only errors of the file, not of the request or the
// sandbox.
static bool files_stream_is_reported(const struct err *err)
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
	out = gateway_event(&event, "complete");
	json_put_int(&out, "bytesRead", (int64_t)total);
	return gateway_send_event(path_arg->x, &out);
}

fallible toolbox_files_stream(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;
	auto_err err = NULL;

	TRY(path_arg_read(path_arg));
	err = open_file_open(path_arg, false, &file);
	path_arg_unlock(path_arg); // a stream holds the session's lock only until it has started
	if (err && !files_stream_is_reported(err))
		return take_ptr(err);
	TRY(gateway_begin_events(path_arg->x));
	if (err)
		TRY(files_stream_send_error(path_arg, err));
	else
		TRY(files_stream_send_file(path_arg, &file));
	return http_end(path_arg->x);
}

// ------------------------------------------------------------------------- as the body

// Whether one of the tags in the list matches ours. Weak tags compare equal.
static bool has_tag(struct str list, const char *etag)
{
	struct str word;

	if (str_is(str_trim(list), "*"))
		return true;
	while (str_cut(&list, ',', &word)) {
		word = str_trim(word);
		if (str_starts(word, "W/"))
			word = str_skip(word, 2);
		if (str_is(word, etag))
			return true;
	}
	return false;
}

static void files_raw_describe(struct http *x, const struct open_file *file, const char *etag)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", file->stat.mode & 07777);
	http_set(x, "ETag", str_of(etag));
	http_set(x, "Last-Modified", str_of(raw_date(x, file->stat.mtime_us)));
	http_set(x, "Accept-Ranges", STR("bytes"));
	http_set(x, "X-File-Mode", str_of(mode));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_set(x, "Content-Security-Policy", STR("sandbox; default-src 'none'"));
}

static fallible files_raw_send_fd(struct path_arg *path_arg, int fd, uint64_t first, uint64_t len)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(path_arg->ref.entry,
									path_arg->x);

	return http_send_file(path_arg->x, fd, first, len);
}

static fallible files_raw_send_part(struct path_arg *path_arg, struct open_file *file, int status,
				    uint64_t first, uint64_t len)
{
	struct http *x = path_arg->x;

	if (file->fd < 0)
		return http_reply(x, status, file->type,
				  (struct str){len ? file->small.at + first : "", (size_t)len});
	http_be_patient(x);
	TRY(http_begin_sized(x, status, file->type, len));
	TRY(files_raw_send_fd(path_arg, file->fd, first, len));
	return http_end(x);
}

static fallible files_raw_outside(struct path_arg *path_arg, uint64_t size)
{
	struct http *x = path_arg->x;

	http_set(x, "Content-Range",
		 str_of(arena_fmt(x->arena, "bytes */%llu", (unsigned long long)size)));
	path_arg_at(path_arg, "Range", "INVALID_RANGE");
	return err_new(INVALID, "bad_range", "the file has %llu bytes", (unsigned long long)size);
}

static fallible files_raw_answer(struct path_arg *path_arg, struct open_file *file)
{
	struct http *x = path_arg->x;
	const char *etag = entry_etag(x, &file->stat);
	struct str known = http_field(x, "If-None-Match"), range = http_field(x, "Range"),
		   if_range = http_field(x, "If-Range");
	uint64_t size = file->fd < 0 ? file->small.len : file->stat.size, first = 0, len = size;

	files_raw_describe(x, file, etag);
	if (known.at && has_tag(known, etag))
		return http_reply_empty(x, 304);
	if (if_range.at && !str_is(if_range, etag))
		range = (struct str){0};
	switch (range_read(range, size, &first, &len)) {
	case RANGE_OUTSIDE:
		return files_raw_outside(path_arg, size);
	case RANGE_PART:
		http_set(x, "Content-Range",
			 str_of(arena_fmt(
				 x->arena, "bytes %llu-%llu/%llu", (unsigned long long)first,
				 (unsigned long long)(first + len - 1), (unsigned long long)size)));
		return files_raw_send_part(path_arg, file, 206, first, len);
	default:
		return files_raw_send_part(path_arg, file, 200, 0, size);
	}
}

fallible toolbox_files_get(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;

	TRY(path_arg_query(path_arg));
	TRY(path_arg_raw(path_arg, path_arg->x->params[1]));
	TRY(open_file_open(path_arg, str_is(path_arg->x->head.method, "HEAD"), &file));
	return files_raw_answer(path_arg, &file);
}

fallible toolbox_files_drop(struct path_arg *path_arg)
{
	struct str word = http_query(path_arg->x, "recursive");
	bool recursive = str_is(word, "true") || str_is(word, "1");

	TRY(path_arg_query(path_arg));
	TRY(path_arg_raw(path_arg, path_arg->x->params[1]));
	if (recursive)
		path_arg_within(path_arg, PATH_ARG_LONG_MS);
	TRY(files_remove(&path_arg->files, path_arg->path, recursive));
	return http_reply_empty(path_arg->x, 204);
}
