#include "codec/multipart.h"

#include "tap.h"

#define TYPE "multipart/form-data; boundary=xyz"

// "name:data;" of every part, fed `step` bytes at a time; "." at the end, "!" if it is malformed.
static void tell(struct str type, struct str text, size_t step, struct buf *out)
{
	struct multipart multipart = {0};
	enum multipart_step verdict = MULTIPART_MORE;

	buf_clear(out);
	buf_text(out, "");
	if (!multipart_open(&multipart, type)) {
		buf_text(out, "?");
		return;
	}
	while (text.len && verdict != MULTIPART_END && verdict != MULTIPART_BAD) {
		struct str in = {text.at, text.len < step ? text.len : step}, data;

		text = str_skip(text, in.len);
		while ((verdict = multipart_read(&multipart, &in, &data)) != MULTIPART_MORE) {
			if (verdict == MULTIPART_PART || verdict == MULTIPART_DATA)
				buf_str(out, data);
			if (verdict == MULTIPART_END || verdict == MULTIPART_BAD)
				break;
			buf_text(out, verdict == MULTIPART_PART	      ? ":"
				      : verdict == MULTIPART_PART_END ? ";"
								      : "");
		}
	}
	buf_text(out, verdict == MULTIPART_END ? "." : verdict == MULTIPART_BAD ? "!" : "");
	multipart_done(&multipart);
}

static bool reads_as(const char *type, const char *text, const char *want)
{
	auto_buf out = BUF_INIT(1 << 16);
	bool good = true;

	for (size_t step = 1; step < 80; step += 3) {
		tell(str_of(type), str_of(text), step, &out);
		good &= str_is(buf_view(&out), want);
	}
	return good;
}

#define PART(name) "--xyz\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"

TEST(parts, "parts are read however their bytes are cut")
{
	CHECK(reads_as(TYPE, PART("a") "1\r\n" PART("b") "2\r\n--xyz--\r\n", "a:1;b:2;."));
	CHECK(reads_as("Multipart/Form-Data;charset=x; boundary=\"xyz\"",
		       "preamble\r\n" PART("a") "1\r\n--xyz--", "a:1;."));
	CHECK(reads_as(TYPE, PART("a") "\r\n--xyz--", "a:;."));
	CHECK(reads_as(TYPE, PART("a") "--xyz--", "a:;."));
	CHECK(reads_as(TYPE, PART("a") "\r\r\n-\r\n--xy\r\n\r\n--xyz--",
		       "a:\r\r\n-\r\n--xy\r\n;."));
	CHECK(reads_as(TYPE, PART("a") "--xyw\r\n--xyz--", "a:--xyw;."));
	CHECK(reads_as(TYPE,
		       "--xyz\r\ncontent-disposition:form-data;name=f; filename=\"a;b\"\r\n"
		       "Content-Type: text/plain\r\n\r\nx\r\n--xyz--",
		       "f:x;."));
}

TEST(malformed, "what is no multipart is told")
{
	CHECK(reads_as(TYPE, PART("a") "1\r\n--xyzz", "a:1;"));
	CHECK(reads_as(TYPE, PART("a") "1\r\n--xyzz\r\n\r\n", "a:1;!"));
	CHECK(reads_as(TYPE, "--xyz\r\n\r\nno name", "!"));
	CHECK(reads_as(TYPE, "--xyz\r\nX: y\r\n\r\n", "!"));
	CHECK(reads_as(TYPE, PART("a") "cut", "a:cut"));
	CHECK(!multipart_open(&(struct multipart){0}, (struct str){0}));
	CHECK(reads_as("multipart/form-data", "", "?"));
	CHECK(reads_as("multipart/mixed; boundary=x", "", "?"));
	CHECK(reads_as("multipart/form-data; boundary=\"a b\"", "", "?"));
}

TEST(head_bound, "a head past its limit is refused")
{
	auto_buf text = BUF_INIT(1 << 16);

	buf_text(&text, "--xyz\r\nX: ");
	for (int i = 0; i < MULTIPART_HEAD_MAX; i++)
		buf_char(&text, 'x');
	buf_text(&text, "\r\n\r\n");
	CHECK(reads_as(TYPE, text.at, "!"));
}
