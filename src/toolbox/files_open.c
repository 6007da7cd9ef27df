#include "toolbox/files_open.h"

#include "loop/closer.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/mime.h"

void source_done(struct source *source)
{
	buf_done(&source->small);
	closer_drop(&source->fd);
}

fallible source_read(struct source *source, uint64_t offset, void *room, size_t size, size_t *out)
{
	struct str rest;

	if (source->fd >= 0)
		return pump_get(source->fd, offset, room, size, out);
	rest = str_skip(buf_view(&source->small), offset < SIZE_MAX ? (size_t)offset : SIZE_MAX);
	if (rest.len > size)
		rest.len = size;
	if (rest.len)
		memcpy(room, rest.at, rest.len);
	*out = rest.len;
	return OK;
}

// Only the content of files whose name says nothing is looked at.
static fallible find_type(struct path_arg *path_arg, struct source *source)
{
	struct str head = buf_view(&source->small);
	size_t len = 0;

	source->type = mime_by_name(path_arg->shown);
	if (source->type)
		return OK;
	if (source->fd >= 0) {
		char *room = arena_take(path_arg->x->arena, MIME_SNIFF);

		TRY(source_read(source, 0, room, MIME_SNIFF, &len));
		head = (struct str){room, len};
	}
	source->type = mime_by_bytes(head, head.len == source->stat.size);
	return OK;
}

fallible source_open(struct path_arg *path_arg, bool as_fd, struct source *out)
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

fallible source_too_large(struct path_arg *path_arg, uint64_t size)
{
	path_arg->actual_size = size;
	path_arg->max_size = FILES_CONTENT_MAX;
	return err_hint(err_new(TOO_LARGE, "file_too_large",
				"%llu bytes are more than the %d that fit into JSON",
				(unsigned long long)size, FILES_CONTENT_MAX),
			"use /api/read/stream, or GET and PUT /api/files/PATH");
}
