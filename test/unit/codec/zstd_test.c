#include "codec/zstd.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tap.h"

static fallible pass(struct zstd *zstd, struct str text, bool ends, struct buf *out)
{
	bool done = false;

	for (int turns = 0; turns < 100000; turns++) {
		struct str piece = {text.at, text.len < 1000 ? text.len : 1000};
		size_t before = piece.len;
		bool last = ends && piece.len == text.len;

		TRY(zstd_feed(zstd, &piece, last, out, &done));
		text = str_skip(text, before - piece.len);
		if (done || (!ends && !text.len && before == piece.len))
			return OK;
	}
	return err_new(INTERNAL, "internal", "it never ended");
}

TEST(whole, "bytes compressed in pieces are decompressed in pieces")
{
	size_t len = 3 << 20;
	auto_free char *text = mem_new(len);
	auto_buf packed = BUF_INIT(8 << 20), back = BUF_INIT(8 << 20);
	auto_zstd pack = zstd_packer(1);
	auto_zstd unpack = zstd_unpacker();

	for (size_t i = 0; i < len; i++)
		text[i] = (char)(i % 3 ? 'a' : random());
	CHECK_OK(pass(pack, (struct str){text, len}, true, &packed));
	CHECK(packed.len > 0 && packed.len < len);
	CHECK_OK(pass(unpack, buf_view(&packed), false, &back));
	CHECK(back.len == len && memcmp(back.at, text, len) == 0);
}

TEST(empty, "an empty input makes a frame too")
{
	auto_buf packed = BUF_INIT(1 << 20), back = BUF_INIT(1 << 20);
	auto_zstd pack = zstd_packer(1);
	auto_zstd unpack = zstd_unpacker();

	CHECK_OK(pass(pack, STR(""), true, &packed));
	CHECK(packed.len > 0);
	CHECK_OK(pass(unpack, buf_view(&packed), false, &back));
	CHECK(back.len == 0);
}

TEST(bad, "bytes that are no archive are refused")
{
	auto_buf back = BUF_INIT(1 << 20);
	auto_zstd unpack = zstd_unpacker();
	struct err *err = pass(unpack, STR("this is no frame of zstd"), false, &back);

	CHECK(err && !strcmp(err_reason(err), "bad_archive"));
	err_free(err);
}
