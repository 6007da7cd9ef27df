// Any bytes as an archive: refused or unpacked, a step at a time and never more than one; and any
// bytes, packed, come back.
#include "codec/zstd.h"

#include "fuzz.h"

#define STEPS_MAX 64 // a few bytes may become gigabytes

static struct err *turn(struct zstd *zstd, struct str *in, bool last, struct buf *out, bool *done)
{
	size_t before = in->len, had = out->len;
	struct err *err = zstd_feed(zstd, in, last, out, done);

	MUST(in->len <= before && out->len - had <= 2 * ZSTD_STEP && buf_ok(out));
	return err;
}

static void unpack(struct str in)
{
	auto_zstd zstd = zstd_unpacker();
	auto_buf out = BUF_INIT(4 * ZSTD_STEP);
	auto_err err = NULL;
	bool done = false;

	for (int i = 0; i < STEPS_MAX && !err && !done; i++) {
		bool moved = in.len > 0;

		buf_clear(&out);
		err = turn(zstd, &in, false, &out, &done);
		if (!moved && !out.len)
			return; // it waits for more than there is
	}
}

static void there_and_back(struct str bytes)
{
	auto_zstd packer = zstd_packer(1);
	auto_zstd unpacker = zstd_unpacker();
	auto_buf packed = BUF_INIT(1 << 24), plain = BUF_INIT(1 << 24);
	struct str in = bytes;
	bool done = false;

	while (!done)
		MUST(!turn(packer, &in, true, &packed, &done));
	in = buf_view(&packed);
	done = false;
	while (!done)
		MUST(!turn(unpacker, &in, false, &plain, &done));
	MUST(str_eq(bytes, buf_view(&plain)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	unpack((struct str){(const char *)bytes, len});
	there_and_back((struct str){(const char *)bytes, len});
	return 0;
}
