// Memory is filled first and moved to the file as a whole when it is full: the file is written in
// large pieces, and a small body never touches the disk.
//
// syscalls: openat
#include "toolbox/spill_buffer.h"

#include <errno.h>
#include <fcntl.h>

#include "loop/offload.h"
#include "loop/pump.h"

void spill_buffer_init(struct spill_buffer *spill_buffer, int dir)
{
	*spill_buffer = (struct spill_buffer){
		.dir = dir, .file = -1, .memory = BUF_INIT(SPILL_BUFFER_MEMORY)};
}

void spill_buffer_done(struct spill_buffer *spill_buffer)
{
	buf_done(&spill_buffer->memory);
	if (spill_buffer->file >= 0)
		close(spill_buffer->file);
	spill_buffer->file = -1;
}

struct birth {
	int dir, file, errnum;
};

static void spill_buffer_make_file(void *arg)
{
	struct birth *birth = arg;

	if (birth->file < 0)
		birth->file = openat(birth->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (birth->file < 0)
		birth->errnum = errno;
	else if (pump_is_short(birth->file))
		birth->errnum = ENOSPC;
}

static fallible spill_buffer_spill(struct spill_buffer *spill_buffer)
{
	struct birth birth = {.dir = spill_buffer->dir, .file = spill_buffer->file};

	offload_run(spill_buffer_make_file, &birth);
	spill_buffer->file = birth.file;
	if (birth.errnum)
		return pump_explain(birth.errnum, "make");
	TRY(pump_put(spill_buffer->file, spill_buffer->memory.at, spill_buffer->memory.len));
	buf_clear(&spill_buffer->memory);
	return OK;
}

fallible spill_buffer_add(struct spill_buffer *spill_buffer, struct str bytes)
{
	while (bytes.len > 0) {
		size_t room = SPILL_BUFFER_MEMORY - spill_buffer->memory.len;
		size_t len = bytes.len < room ? bytes.len : room;

		if (room == 0) {
			TRY(spill_buffer_spill(spill_buffer), "put a body aside");
			continue;
		}
		buf_add(&spill_buffer->memory, bytes.at, len);
		spill_buffer->len += len;
		bytes = str_skip(bytes, len);
	}
	return OK;
}

fallible spill_buffer_read(const struct spill_buffer *spill_buffer, uint64_t offset, void *room,
			   size_t size, size_t *out)
{
	uint64_t in_file = spill_buffer->len - spill_buffer->memory.len;
	struct str rest;

	if (offset < in_file) {
		if (size > in_file - offset)
			size = (size_t)(in_file - offset);
		return pump_get(spill_buffer->file, offset, room, size, out);
	}
	rest = str_skip(buf_view(&spill_buffer->memory), (size_t)(offset - in_file));
	if (rest.len > size)
		rest.len = size;
	if (rest.len)
		memcpy(room, rest.at, rest.len);
	*out = rest.len;
	return OK;
}

fallible spill_buffer_copy(const struct spill_buffer *spill_buffer, int file)
{
	if (spill_buffer->file >= 0)
		TRY(pump_copy(spill_buffer->file, spill_buffer->len - spill_buffer->memory.len,
			      file));
	return spill_buffer->memory.len
		       ? pump_put(file, spill_buffer->memory.at, spill_buffer->memory.len)
		       : OK;
}
