// Files in and out of the toolbox: many in one multipart body, or one as the body. Nothing is held
// whole in memory: an upload goes piece by piece to a file without a name, which gets its name at
// the end of its part, and a download is sent from the file. A download that breaks within a file
// ends without the last boundary, so that the client sees that it was cut.
#include "base/secret.h"
#include "codec/multipart.h"
#include "codec/text.h"
#include "daytona/files_target.h"
#include "daytona/handlers.h"
#include "gateway/cancel_on_delete.h"
#include "loop/closer.h"
#include "loop/pump.h"

#define PIECE (256 * 1024)
#define BODY_MAX (1 << 20)
#define DOWNLOADS_MAX 10000
#define BOUNDARY_BYTES 24
#define HEAD_MAX (64 * 1024)

// -------------------------------------------------------------------------------- upload in parts

struct bulk_upload {
	struct files_target *target;
	const char *only; // the path of the one part "file"; NULL: files with paths of their own
	struct multipart multipart;
	struct buf path;  // of the last part "files[N].path"
	struct buf index; // its "files[N]"
	bool is_due;	  // no file has followed it yet
	enum { PART_OTHER, PART_PATH, PART_FILE } part;
	struct files_upload *upload; // NULL: none, or it has failed
	struct str name;	     // of the file that is written
	uint64_t size;
	struct buf files, errors; // members of the answer's arrays
	struct json_out files_out, errors_out;
};

static void bulk_upload_done(struct bulk_upload *bulk)
{
	files_abort(bulk->upload);
	multipart_done(&bulk->multipart);
	buf_done(&bulk->path);
	buf_done(&bulk->index);
	buf_done(&bulk->files);
	buf_done(&bulk->errors);
}

// A file that fails does not end the others. Takes the error.
static fallible bulk_upload_note(struct bulk_upload *bulk, struct err *failure)
{
	auto_err err = failure;
	auto_buf text = BUF_INIT(HEAD_MAX);

	files_abort(take_ptr(bulk->upload));
	if (err_kind(err) == ERR_CANCELLED || err_kind(err) == ERR_GONE ||
	    err_kind(err) == ERR_UNAVAILABLE)
		return take_ptr(err);
	buf_fmt(&text, STR_FMT ": %s", STR_ARG(bulk->name), err_message(err));
	json_add_str(&bulk->errors_out, buf_view(&text));
	return OK;
}

static fallible bulk_upload_open(struct bulk_upload *bulk, struct str index)
{
	struct files_target *target = bulk->target;
	const char *path = NULL;

	bulk->name = (struct str){arena_dup(target->x->arena, bulk->path.at, bulk->path.len),
				  bulk->path.len};
	bulk->size = 0;
	if (!str_eq(index, buf_view(&bulk->index)))
		return err_new(INVALID, "bad_field", "the file has no path before it");
	TRY(files_target_path(target, bulk->name, "path", &path));
	files_target_within(target, FILES_TARGET_SHORT_MS);
	return files_begin(&target->files, path, FILEOP_PARENTS, FILEOP_KEEP_MODE, &bulk->upload);
}

// The first part "file" of a form for one path.
static fallible bulk_upload_begin_only(struct bulk_upload *bulk, struct str name)
{
	struct err *err;

	bulk->part = str_is(name, "file") && !bulk->name.at ? PART_FILE : PART_OTHER;
	if (bulk->part == PART_OTHER)
		return OK;
	bulk->name = str_of(bulk->only);
	files_target_within(bulk->target, FILES_TARGET_SHORT_MS);
	err = files_begin(&bulk->target->files, bulk->only, FILEOP_PARENTS, FILEOP_KEEP_MODE,
			  &bulk->upload);
	return err ? bulk_upload_note(bulk, err) : OK;
}

static fallible bulk_upload_ask_file(const struct bulk_upload *bulk)
{
	return bulk->is_due ? err_new(INVALID, "bad_field", "a path has no file after it") : OK;
}

static fallible bulk_upload_begin_part(struct bulk_upload *bulk, struct str name)
{
	struct str index = name;
	struct err *err;

	if (bulk->only)
		return bulk_upload_begin_only(bulk, name);
	if (str_ends(name, ".path")) {
		TRY(bulk_upload_ask_file(bulk));
		bulk->part = PART_PATH;
		bulk->is_due = true;
		index.len -= strlen(".path");
		buf_clear(&bulk->path);
		buf_clear(&bulk->index);
		buf_text(&bulk->path, "");
		buf_str(&bulk->index, index);
		return OK;
	}
	bulk->part = str_ends(name, ".file") ? PART_FILE : PART_OTHER;
	if (bulk->part == PART_OTHER)
		return OK;
	index.len -= strlen(".file");
	bulk->is_due = false;
	err = bulk_upload_open(bulk, index);
	return err ? bulk_upload_note(bulk, err) : OK;
}

static fallible bulk_upload_add(struct bulk_upload *bulk, struct str bytes)
{
	struct err *err;

	if (bulk->part == PART_PATH) {
		buf_str(&bulk->path, bytes);
		return buf_ok(&bulk->path)
			       ? OK
			       : err_new(INVALID, "bad_path", "a path has more than %d bytes",
					 FILEOP_PATH_MAX);
	}
	if (!bulk->upload)
		return OK;
	bulk->size += bytes.len;
	err = pump_put(files_upload_fd(bulk->upload), bytes.at, bytes.len);
	return err ? bulk_upload_note(bulk, err) : OK;
}

static fallible bulk_upload_end_part(struct bulk_upload *bulk)
{
	int64_t until = loop_now(gateway_of(bulk->target->x)->loop) + FILES_TARGET_SHORT_MS;
	struct fileop_stat stat;
	struct err *err;

	if (!bulk->upload)
		return OK;
	err = files_commit(take_ptr(bulk->upload), until, &stat);
	if (err)
		return bulk_upload_note(bulk, err);
	json_begin(&bulk->files_out, '{');
	json_put_str(&bulk->files_out, "path", bulk->name);
	json_put_int(&bulk->files_out, "bytes", (int64_t)bulk->size);
	json_end(&bulk->files_out, '}');
	return OK;
}

static fallible bulk_upload_bad(void)
{
	return err_new(INVALID, "bad_multipart", "the body is no complete multipart/form-data");
}

static fallible bulk_upload_feed(struct bulk_upload *bulk, struct str in, bool *out_over)
{
	struct str out;

	for (;;) {
		switch (multipart_read(&bulk->multipart, &in, &out)) {
		case MULTIPART_MORE:
			return OK;
		case MULTIPART_PART:
			TRY(bulk_upload_begin_part(bulk, out));
			break;
		case MULTIPART_DATA:
			TRY(bulk_upload_add(bulk, out));
			break;
		case MULTIPART_PART_END:
			TRY(bulk_upload_end_part(bulk));
			break;
		case MULTIPART_END:
			*out_over = true;
			return OK;
		case MULTIPART_BAD:
			return bulk_upload_bad();
		}
	}
}

static fallible bulk_upload_receive(struct bulk_upload *bulk)
{
	struct http *x = bulk->target->x;
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(bulk->target->ref.entry, x);
	char *room = arena_take(x->arena, PIECE);
	bool over = false;
	size_t len = 1;

	while (len) {
		TRY(http_read(x, room, PIECE, &len));
		if (len && !over)
			TRY(bulk_upload_feed(bulk, (struct str){room, len}, &over));
	}
	return over ? OK : bulk_upload_bad();
}

static fallible bulk_upload_answer(struct bulk_upload *bulk)
{
	auto_buf body = BUF_INIT(4 * BODY_MAX);
	struct json_out out = json_to(&body);
	int status = bulk->errors.len ? 400 : 200;

	if (!buf_ok(&bulk->files) || !buf_ok(&bulk->errors))
		return err_new(TOO_LARGE, "body_too_large", "there are too many files");
	json_begin(&out, '{');
	if (status == 400) {
		json_put_int(&out, "statusCode", status);
		json_put_text(&out, "code", "BAD_REQUEST");
		json_put_text(&out, "source", "DAYTONA_DAEMON");
		json_put_text(&out, "message",
			      arena_fmt(bulk->target->x->arena, "files were not written: %.*s",
					(int)(bulk->errors.len < 2000 ? bulk->errors.len : 2000),
					bulk->errors.at));
		buf_text(&body, ",\"errors\":[");
		buf_str(&body, buf_view(&bulk->errors));
		buf_text(&body, "]");
	}
	json_put_begin(&out, "files", '[');
	buf_str(&body, buf_view(&bulk->files));
	json_end(&out, ']');
	json_end(&out, '}');
	return http_reply_json(bulk->target->x, status, &body);
}

// `only`: as in struct bulk_upload.
static fallible transfer_upload_form(struct files_target *target, const char *only)
{
	on_exit_call(bulk_upload_done) struct bulk_upload bulk = {
		.target = target,
		.only = only,
		.path = BUF_INIT(FILEOP_PATH_MAX),
		.index = BUF_INIT(MULTIPART_HEAD_MAX),
		.files = BUF_INIT(BODY_MAX),
		.errors = BUF_INIT(BODY_MAX),
	};

	bulk.files_out = json_to(&bulk.files);
	bulk.errors_out = json_to(&bulk.errors);
	if (!multipart_open(&bulk.multipart, http_field(target->x, "Content-Type")))
		return err_new(INVALID, "bad_content_type",
			       "the body must be multipart/form-data with a boundary");
	TRY(bulk_upload_receive(&bulk));
	if (only && !bulk.name.at)
		return err_new(INVALID, "bad_field", "the form has no part 'file'");
	TRY(bulk_upload_ask_file(&bulk));
	return bulk_upload_answer(&bulk);
}

static fallible transfer_upload_bulk(struct files_target *target)
{
	return transfer_upload_form(target, NULL);
}

// ------------------------------------------------------------------------------ one file as a body

static fallible upload_receive(struct files_target *target, int fd, uint64_t *out)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(target->ref.entry,
									target->x);

	return http_recv_file(target->x, fd, UINT64_MAX / 4, out);
}

// The body is the file, or a form with it.
static fallible transfer_upload_one(struct files_target *target)
{
	struct str type = http_field(target->x, "Content-Type");
	auto_buf body = BUF_INIT(HEAD_MAX);
	struct json_out out = json_to(&body);
	struct files_upload *upload = NULL;
	struct fileop_stat stat;
	const char *path = NULL;
	struct err *err;
	uint64_t size = 0;

	TRY(files_target_query(target, "path", &path));
	if (str_starts(type, "multipart/"))
		return transfer_upload_form(target, path);
	TRY(files_begin(&target->files, path, FILEOP_PARENTS, FILEOP_KEEP_MODE, &upload));
	err = upload_receive(target, files_upload_fd(upload), &size);
	if (err) {
		files_abort(upload);
		return err;
	}
	TRY(files_commit(upload, loop_now(gateway_of(target->x)->loop) + FILES_TARGET_SHORT_MS,
			 &stat));
	json_begin(&out, '{');
	json_put_text(&out, "path", path);
	json_put_int(&out, "bytes", (int64_t)size);
	json_end(&out, '}');
	return http_reply_json(target->x, 200, &body);
}

// -------------------------------------------------------------------------------------- downloads

struct download {
	struct fileop_stat stat;
	struct buf small;
	int fd; // -1: the content is in `small`
};

static void download_done(struct download *file)
{
	buf_done(&file->small);
	closer_drop(&file->fd);
}

#define auto_download on_exit_call(download_done) struct download

static fallible download_open(struct files_target *target, struct str name, struct download *out)
{
	const char *path = NULL;

	TRY(files_target_path(target, name, "path", &path));
	files_target_within(target, FILES_TARGET_SHORT_MS);
	return files_read(&target->files, path, &out->small, &out->fd, &out->stat);
}

static uint64_t download_size(const struct download *file)
{
	return file->fd < 0 ? file->small.len : file->stat.size;
}

static fallible download_send(struct files_target *target, const struct download *file)
{
	if (file->fd < 0)
		return http_write(target->x, file->small.at, file->small.len);
	return http_send_file(target->x, file->fd, 0, file->stat.size);
}

// filename: what it cannot carry is replaced; filename* has every byte, and wins.
static void put_names(struct buf *out, struct str path)
{
	buf_text(out, "filename=\"");
	for (size_t i = 0; i < path.len; i++)
		buf_char(out, (unsigned char)path.at[i] < 32 || path.at[i] == 127 ||
					      path.at[i] == '"' || path.at[i] == '\\'
				      ? '_'
				      : path.at[i]);
	buf_text(out, "\"; filename*=utf-8''");
	text_percent(out, path);
}

static fallible send_part_head(struct http *x, const char *boundary, const char *name,
			       const char *type, struct str path, uint64_t size)
{
	auto_buf head = BUF_INIT(HEAD_MAX);

	buf_fmt(&head, "--%s\r\nContent-Disposition: form-data; name=\"%s\"; ", boundary, name);
	put_names(&head, path);
	buf_fmt(&head, "\r\nContent-Type: %s\r\nContent-Length: %llu\r\n\r\n", type,
		(unsigned long long)size);
	if (!buf_ok(&head))
		return err_new(INTERNAL, "internal", "the head of a part did not fit");
	return http_write(x, head.at, head.len);
}

static fallible send_error_part(struct http *x, const char *boundary, struct str path,
				struct err *failure)
{
	auto_err err = failure;
	auto_buf body = BUF_INIT(HEAD_MAX);

	error_response_daytona(x, err, &body);
	TRY(send_part_head(x, boundary, "error", "application/json", path, body.len));
	TRY(http_write(x, body.at, body.len));
	return http_write(x, "\r\n", 2);
}

static fallible send_one(struct files_target *target, const char *boundary, struct str path)
{
	auto_download file = {.fd = -1, .small = BUF_INIT(FILEOP_SMALL)};
	struct err *err = download_open(target, path, &file);

	if (err && (err_kind(err) == ERR_CANCELLED || !strcmp(err_reason(err), "box_lost")))
		return err;
	if (err)
		return send_error_part(target->x, boundary, path, err);
	TRY(send_part_head(target->x, boundary, "file", "application/octet-stream", path,
			   download_size(&file)));
	TRY(download_send(target, &file));
	return http_write(target->x, "\r\n", 2);
}

static fallible transfer_download_bulk(struct files_target *target)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(target->ref.entry,
									target->x);
	char boundary[2 * BOUNDARY_BYTES + 1];
	struct http *x = target->x;
	auto_json body = NULL;
	struct json *paths;

	TRY(gateway_object(x, &body));
	paths = json_get(body, "paths");
	if (!paths)
		return err_new(INVALID, "bad_field", "'paths' is missing");
	TRY(json_want(paths, "paths", JSON_ARRAY));
	if (!json_count(paths) || json_count(paths) > DOWNLOADS_MAX)
		return err_new(INVALID, "bad_field", "'paths' must have 1 to %d entries",
			       DOWNLOADS_MAX);
	for (size_t i = 0; i < json_count(paths); i++)
		TRY(json_want(json_at(paths, i), "paths", JSON_STRING));
	secret_hex(boundary, BOUNDARY_BYTES);
	http_be_patient(x);
	TRY(http_begin(x, 200, arena_fmt(x->arena, "multipart/form-data; boundary=%s", boundary)));
	for (size_t i = 0; i < json_count(paths); i++)
		TRY(send_one(target, boundary, json_chars(json_at(paths, i))));
	return http_end_with(x, str_of(arena_fmt(x->arena, "--%s--\r\n", boundary)));
}

static fallible transfer_download_one(struct files_target *target)
{
	auto_cancel_on_delete cancel_on_delete = cancel_on_delete_begin(target->ref.entry,
									target->x);
	auto_download file = {.fd = -1, .small = BUF_INIT(FILEOP_SMALL)};
	auto_buf names = BUF_INIT(HEAD_MAX);
	struct http *x = target->x;
	struct str path = http_query(x, "path");

	TRY(download_open(target, path, &file));
	buf_text(&names, "attachment; ");
	put_names(&names, path);
	http_set(x, "Content-Disposition", buf_view(&names));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_be_patient(x);
	TRY(http_begin_sized(x, 200, "application/octet-stream", download_size(&file)));
	TRY(download_send(target, &file));
	return http_end(x);
}

// ------------------------------------------------------------------------------------------ routes

#define SERVE(name)                                                                                \
	fallible daytona_transfer_##name(struct http *x)                                           \
	{                                                                                          \
		return files_target_serve(x, transfer_##name);                                     \
	}
SERVE(upload_bulk)
SERVE(upload_one)
SERVE(download_bulk)
SERVE(download_one)
