// Memory is filled first, and moved to the file as a whole when it is full: so the file is written
// in large pieces, and a small body never sees the disk.
//
// syscalls: openat
#include "inbox/spool.h"

#include <errno.h>
#include <fcntl.h>

#include "loop/offload.h"
#include "loop/pump.h"

void spool_init(struct spool *spool, int dir)
{
	*spool = (struct spool){.dir = dir, .file = -1, .memory = BUF_INIT(SPOOL_MEMORY)};
}

void spool_done(struct spool *spool)
{
	buf_done(&spool->memory);
	if (spool->file >= 0)
		close(spool->file);
	spool->file = -1;
}

struct birth {
	int dir, file, errnum;
};

static void spool_make_file(void *arg)
{
	struct birth *birth = arg;

	if (birth->file < 0)
		birth->file = openat(birth->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (birth->file < 0)
		birth->errnum = errno;
	else if (pump_is_short(birth->file))
		birth->errnum = ENOSPC;
}

static fallible spill(struct spool *spool)
{
	struct birth birth = {.dir = spool->dir, .file = spool->file};

	offload_run(spool_make_file, &birth);
	spool->file = birth.file;
	if (birth.errnum)
		return pump_explain(birth.errnum, "make");
	TRY(pump_put(spool->file, spool->memory.at, spool->memory.len));
	buf_clear(&spool->memory);
	return OK;
}

fallible spool_add(struct spool *spool, struct str bytes)
{
	while (bytes.len > 0) {
		size_t room = SPOOL_MEMORY - spool->memory.len;
		size_t len = bytes.len < room ? bytes.len : room;

		if (room == 0) {
			TRY(spill(spool), "put a body aside");
			continue;
		}
		buf_add(&spool->memory, bytes.at, len);
		spool->len += len;
		bytes = str_skip(bytes, len);
	}
	return OK;
}

fallible spool_read(const struct spool *spool, uint64_t offset, void *room, size_t size,
		    size_t *out)
{
	uint64_t in_file = spool->len - spool->memory.len;
	struct str rest;

	if (offset < in_file) {
		if (size > in_file - offset)
			size = (size_t)(in_file - offset);
		return pump_get(spool->file, offset, room, size, out);
	}
	rest = str_skip(buf_view(&spool->memory), (size_t)(offset - in_file));
	if (rest.len > size)
		rest.len = size;
	if (rest.len)
		memcpy(room, rest.at, rest.len);
	*out = rest.len;
	return OK;
}

fallible spool_pour(const struct spool *spool, int file)
{
	if (spool->file >= 0)
		TRY(pump_copy(spool->file, spool->len - spool->memory.len, file));
	return spool->memory.len ? pump_put(file, spool->memory.at, spool->memory.len) : OK;
}
