// A wrapper of libzstd's streaming interface. The decompressor refuses windows above
// WINDOW_LOG_MAX, so that an archive cannot make it allocate more. Each call does a bounded amount
// of work, so it can run in a worker thread.
#include "codec/zstd.h"

#include <zstd.h>

#include "base/mem.h"

#define WINDOW_LOG_MAX 23 // 8 MiB: larger than that of any level we use

struct zstd {
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
};

struct zstd *zstd_packer(int level)
{
	struct zstd *zstd = mem_new_of(struct zstd);

	zstd->pack = ZSTD_createCCtx();
	if (zstd->pack) {
		ZSTD_CCtx_setParameter(zstd->pack, ZSTD_c_compressionLevel, level);
		ZSTD_CCtx_setParameter(zstd->pack, ZSTD_c_checksumFlag, 1);
	}
	return zstd;
}

struct zstd *zstd_unpacker(void)
{
	struct zstd *zstd = mem_new_of(struct zstd);

	zstd->unpack = ZSTD_createDCtx();
	if (zstd->unpack)
		ZSTD_DCtx_setParameter(zstd->unpack, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	return zstd;
}

void zstd_free(struct zstd *zstd)
{
	if (!zstd)
		return;
	ZSTD_freeCCtx(zstd->pack);
	ZSTD_freeDCtx(zstd->unpack);
	free(zstd);
}

static size_t zstd_step(struct zstd *zstd, ZSTD_outBuffer *to, ZSTD_inBuffer *from, bool last)
{
	if (zstd->pack)
		return ZSTD_compressStream2(zstd->pack, to, from,
					    last ? ZSTD_e_end : ZSTD_e_continue);
	return ZSTD_decompressStream(zstd->unpack, to, from);
}

fallible zstd_feed(struct zstd *zstd, struct str *in, bool last, struct buf *out, bool *out_done)
{
	ZSTD_inBuffer from = {in->at, in->len, 0};
	char *space = buf_space(out, ZSTD_STEP);
	ZSTD_outBuffer to = {space, ZSTD_STEP, 0};
	size_t left;

	if (!space || (!zstd->pack && !zstd->unpack))
		return err_new(UNAVAILABLE, "no_memory", "there is no memory for this");
	left = zstd_step(zstd, &to, &from, last);
	if (ZSTD_isError(left))
		return err_new(INVALID, "bad_archive", "the archive is damaged: %s",
			       ZSTD_getErrorName(left));
	buf_grew(out, to.pos);
	*in = str_skip(*in, from.pos);
	// A compressor is done when the last piece is written, a decompressor at the end of its
	// frame.
	*out_done = zstd->pack ? last && left == 0 : left == 0;
	return OK;
}
