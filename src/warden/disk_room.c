// Free space of the host's file system, less a watermark that stays unused: the smaller of 2 GiB
// and 5 % of its size. Blocks reserved for root do not count as free.
//
// syscalls: fstatfs
#include "warden/disk_room.h"

#include <errno.h>
#include <sys/statfs.h>

#define WATERMARK (2ull << 30)

fallible disk_measure(int data, uint64_t *out_total, uint64_t *out_room)
{
	uint64_t room, total, mark;
	struct statfs fs;

	if (fstatfs(data, &fs))
		return err_sys(errno, "ask the state file system for its free space");
	total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	mark = total / 20 < WATERMARK ? total / 20 : WATERMARK;
	*out_total = total;
	*out_room = room > mark ? room - mark : 0;
	return OK;
}

fallible disk_room(int data, uint64_t *out)
{
	uint64_t total;

	return disk_measure(data, &total, out);
}
