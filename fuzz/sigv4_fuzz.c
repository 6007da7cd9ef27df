// The Authorization field of an S3 client, and its body in chunks: behind a NUL each, the path, the
// query and the body. A canonical request has one line for each part; chunks give back what was
// sent, however the input is cut.
#include "types/sigv4.h"

#include "codec/aws_chunks.h"
#include "fuzz.h"
#include "types/file_url.h"

static struct str field(void *arg, const char *name)
{
	(void)arg;
	return *name == 'x' ? STR("  20260131T080000Z  a") : STR("host");
}

static void read_chunks(struct str in, size_t step, struct buf *out)
{
	struct aws_chunks chunks = {0};

	while (in.len) {
		struct str piece = {in.at, in.len < step ? in.len : step};

		in = str_skip(in, piece.len);
		while (piece.len && !aws_chunks_is_bad(&chunks)) {
			size_t before = piece.len;
			struct str got = aws_chunks_read(&chunks, &piece);

			MUST(got.len <= before &&
			     (got.len || !piece.len || aws_chunks_is_bad(&chunks)));
			buf_str(out, got);
		}
		if (aws_chunks_is_bad(&chunks))
			break;
	}
	MUST(!(aws_chunks_is_bad(&chunks) && aws_chunks_is_over(&chunks)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str rest = {(const char *)bytes, len}, head = {0}, path = {0}, query = {0};
	auto_buf whole = BUF_INIT(1 << 22), cut = BUF_INIT(1 << 22), text = BUF_INIT(1 << 22);
	struct sigv4_request request = {.method = STR("PUT"), .field = field};
	struct sigv4 sigv4;

	str_cut(&rest, 0, &head);
	str_cut(&rest, 0, &path);
	str_cut(&rest, 0, &query);
	if (sigv4_read(head, &sigv4)) {
		request.path = path.at ? path : STR("/");
		request.query = query.at ? query : STR("");
		MUST(sigv4.signature.len == 64 && sigv4.day.len == 8);
		sigv4_canonical(&sigv4, &request, &text);
		MUST(!sigv4_is_good(&sigv4, &request, "0123456789012345678901234567", 1));
	}
	MUST(!file_url_is_good("01234567890123456789012345678901",
			       &(struct file_url){STR("GET"), path.at ? path : STR(""),
						  query.at ? query : STR(""), head},
			       1));
	if (rest.at) {
		read_chunks(rest, rest.len + 1, &whole);
		read_chunks(rest, 1, &cut);
		MUST(whole.len == cut.len && (!cut.len || !memcmp(whole.at, cut.at, cut.len)));
	}
	return 0;
}
