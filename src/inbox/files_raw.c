// Files as bodies: GET, HEAD and DELETE of a path. A part of a file by Range; nothing at all when
// the client has it already. Bytes of a large file go from the box's file to the client's socket in
// a worker, without passing through this process.
//
// The content is a stranger's: a browser must neither guess its type nor run it as ours.
#include <stdio.h>

#include "door/escort.h"
#include "inbox/files.h"
#include "inbox/files_entry.h"
#include "inbox/files_source.h"
#include "inbox/raw.h"
#include "wire/range.h"

// Is one of the tags in the list ours? Weak ones compare equal.
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

static void files_raw_describe(struct http *x, const struct source *source, const char *etag)
{
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", source->stat.mode & 07777);
	http_set(x, "ETag", str_of(etag));
	http_set(x, "Last-Modified", str_of(raw_date(x, source->stat.mtime_us)));
	http_set(x, "Accept-Ranges", STR("bytes"));
	http_set(x, "X-File-Mode", str_of(mode));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_set(x, "Content-Security-Policy", STR("sandbox; default-src 'none'"));
}

static fallible send_escorted(struct place *place, int fd, uint64_t first, uint64_t len)
{
	auto_escort escort = escort_begin(place->visit.entry, place->x);

	return http_send_file(place->x, fd, first, len);
}

static fallible files_raw_send_part(struct place *place, struct source *source, int status,
				    uint64_t first, uint64_t len)
{
	struct http *x = place->x;

	if (source->fd < 0)
		return http_reply(x, status, source->type,
				  (struct str){len ? source->small.at + first : "", (size_t)len});
	http_be_patient(x);
	TRY(http_begin_sized(x, status, source->type, len));
	TRY(send_escorted(place, source->fd, first, len));
	return http_end(x);
}

static fallible files_raw_outside(struct place *place, uint64_t size)
{
	struct http *x = place->x;

	http_set(x, "Content-Range",
		 str_of(arena_fmt(x->arena, "bytes */%llu", (unsigned long long)size)));
	place->field = "Range";
	place->code = "INVALID_RANGE";
	return err_new(INVALID, "bad_range", "the file has %llu bytes", (unsigned long long)size);
}

static fallible files_raw_answer(struct place *place, struct source *source)
{
	struct http *x = place->x;
	const char *etag = raw_etag(x, &source->stat);
	struct str known = http_field(x, "If-None-Match"), range = http_field(x, "Range"),
		   if_range = http_field(x, "If-Range");
	uint64_t size = source->fd < 0 ? source->small.len : source->stat.size, first = 0,
		 len = size;

	files_raw_describe(x, source, etag);
	if (known.at && has_tag(known, etag))
		return http_reply_empty(x, 304);
	if (if_range.at && !str_is(if_range, etag))
		range = (struct str){0};
	switch (range_read(range, size, &first, &len)) {
	case RANGE_OUTSIDE:
		return files_raw_outside(place, size);
	case RANGE_PART:
		http_set(x, "Content-Range",
			 str_of(arena_fmt(
				 x->arena, "bytes %llu-%llu/%llu", (unsigned long long)first,
				 (unsigned long long)(first + len - 1), (unsigned long long)size)));
		return files_raw_send_part(place, source, 206, first, len);
	default:
		return files_raw_send_part(place, source, 200, 0, size);
	}
}

static fallible files_raw_get(struct place *place)
{
	auto_source source = SOURCE_NONE;

	TRY(place_query(place));
	TRY(place_raw(place, place->x->params[1]));
	TRY(source_open(place, str_is(place->x->head.method, "HEAD"), &source));
	return files_raw_answer(place, &source);
}

static fallible files_raw_drop(struct place *place)
{
	struct str word = http_query(place->x, "recursive");
	bool recursive = str_is(word, "true") || str_is(word, "1");

	TRY(place_query(place));
	TRY(place_raw(place, place->x->params[1]));
	if (recursive)
		place_within(place, PLACE_LONG_MS);
	TRY(files_remove(&place->files, place->path, recursive));
	return http_reply_empty(place->x, 204);
}

fallible inbox_files_get(struct http *x)
{
	return place_serve(x, "file.read", files_raw_get);
}

fallible inbox_files_drop(struct http *x)
{
	return place_serve(x, "file.delete", files_raw_drop);
}
