// Opens a file in the box through a file worker and finds its MIME type. The fd comes from the box:
// it is read and closed only in worker threads, because its file system can block.
#include "toolbox/files_open.h"

#include "loop/closer.h"
#include "loop/pump.h"
#include "toolbox/files.h"
#include "toolbox/handlers.h"
#include "toolbox/mime.h"

void open_file_done(struct open_file *file)
{
	buf_done(&file->small);
	closer_drop(&file->fd);
}

fallible open_file_read(struct open_file *file, uint64_t offset, void *room, size_t size,
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

fallible open_file_open(struct path_arg *path_arg, bool as_fd, struct open_file *out)
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

fallible open_file_too_large(struct path_arg *path_arg, uint64_t size)
{
	path_arg->actual_size = size;
	path_arg->max_size = FILES_CONTENT_MAX;
	return err_hint(err_new(TOO_LARGE, "file_too_large",
				"%llu bytes are more than the %d that fit into JSON",
				(unsigned long long)size, FILES_CONTENT_MAX),
			"use /api/read/stream, or GET and PUT /api/files/PATH");
}
