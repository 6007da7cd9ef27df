// Files as bodies: GET, HEAD and DELETE of a path, with Range and conditional requests. A worker
// thread sends a large file from the box's fd to the client's socket; its bytes are not copied
// through the daemon's memory.
//
// The content is untrusted: headers forbid browsers to sniff its type or to run it in our origin.
#include <stdio.h>

#include "codec/range.h"
#include "gateway/cancel_on_delete.h"
#include "toolbox/files.h"
#include "toolbox/files_entry.h"
#include "toolbox/files_open.h"
#include "toolbox/handlers.h"
#include "toolbox/raw.h"

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
	path_arg->field = "Range";
	path_arg->code = "INVALID_RANGE";
	return err_new(INVALID, "bad_range", "the file has %llu bytes", (unsigned long long)size);
}

static fallible files_raw_answer(struct path_arg *path_arg, struct open_file *file)
{
	struct http *x = path_arg->x;
	const char *etag = raw_etag(x, &file->stat);
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

static fallible files_raw_get(struct path_arg *path_arg)
{
	auto_open_file file = OPEN_FILE_NONE;

	TRY(path_arg_query(path_arg));
	TRY(path_arg_raw(path_arg, path_arg->x->params[1]));
	TRY(open_file_open(path_arg, str_is(path_arg->x->head.method, "HEAD"), &file));
	return files_raw_answer(path_arg, &file);
}

static fallible files_raw_drop(struct path_arg *path_arg)
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

fallible toolbox_files_get(struct http *x)
{
	return path_arg_serve(x, "file.read", files_raw_get);
}

fallible toolbox_files_drop(struct http *x)
{
	return path_arg_serve(x, "file.delete", files_raw_drop);
}
