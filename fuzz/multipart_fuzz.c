// A body in pieces of different sizes tells the same. The boundary is "xyz".
#include "codec/multipart.h"

#include "fuzz.h"

static bool tell(struct str text, size_t step, struct buf *out)
{
	struct multipart multipart = {0};
	enum multipart_step verdict = MULTIPART_MORE;

	MUST(multipart_open(&multipart, STR("multipart/form-data; boundary=xyz")));
	while (text.len && verdict == MULTIPART_MORE) {
		struct str in = {text.at, text.len < step ? text.len : step}, data;

		text = str_skip(text, in.len);
		while ((verdict = multipart_read(&multipart, &in, &data)) != MULTIPART_MORE) {
			if (verdict == MULTIPART_END || verdict == MULTIPART_BAD)
				break;
			if (verdict != MULTIPART_PART_END)
				buf_str(out, data);
			if (verdict != MULTIPART_DATA)
				buf_fmt(out, "<%d>", (int)verdict);
		}
		MUST(verdict != MULTIPART_MORE || in.len == 0);
	}
	multipart_done(&multipart);
	return verdict != MULTIPART_BAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	auto_buf whole = BUF_INIT(1 << 24), single = BUF_INIT(1 << 24), some = BUF_INIT(1 << 24);
	struct multipart other = {0};
	bool good = tell(text, SIZE_MAX, &whole);

	MUST(tell(text, 1, &single) == good);
	MUST(tell(text, 7, &some) == good);
	MUST(str_eq(buf_view(&whole), buf_view(&single)));
	MUST(str_eq(buf_view(&whole), buf_view(&some)));
	multipart_open(&other, text);
	multipart_done(&other);
	return 0;
}
