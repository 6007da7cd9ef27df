// ETag and Last-Modified of a raw file. The ETag consists of mtime, size and inode: a file that is
// replaced by rename gets another one, a file that is written twice within a microsecond to the
// same size does not.
#include "toolbox/raw.h"

#include "base/clock.h"

const char *raw_date(struct http *x, int64_t wall_us)
{
	auto_buf text = BUF_INIT(64);

	clock_http(wall_us / 1000, &text);
	return arena_dup(x->arena, text.at, text.len);
}

const char *raw_etag(struct http *x, const struct fileop_stat *stat)
{
	return arena_fmt(x->arena, "\"%llx-%llx-%llx\"", (unsigned long long)stat->mtime_us,
			 (unsigned long long)stat->size, (unsigned long long)stat->inode);
}
