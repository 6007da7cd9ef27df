// Heads of requests and replies, and chunked bodies: the first byte chooses.
#include "codec/http1.h"

#include "fuzz.h"

typedef enum http1_verdict (*reader)(struct str bytes, struct http1_head *out);

static struct http1_head head, other;

// A good head, written anew in its plainest form, reads the same: nothing in it was ambiguous.
static void read_again(reader read, bool is_request)
{
	auto_buf text = BUF_INIT(2 * HTTP1_HEAD_MAX);
	enum http1_verdict verdict;

	if (is_request)
		buf_fmt(&text, STR_FMT " " STR_FMT " HTTP/1.%d\r\n", STR_ARG(head.method),
			STR_ARG(head.target), head.minor);
	else
		buf_fmt(&text, "HTTP/1.%d %d \r\n", head.minor, head.status);
	for (size_t i = 0; i < head.field_count; i++) {
		buf_str(&text, head.fields[i].name);
		buf_char(&text, ':');
		buf_str(&text, head.fields[i].value);
		buf_text(&text, "\r\n");
	}
	buf_text(&text, "\r\n");
	MUST(buf_ok(&text));
	verdict = read(buf_view(&text), &other);
	MUST(verdict == HTTP1_DONE && other.size == text.len);
	MUST(other.field_count == head.field_count && other.chunked == head.chunked);
	MUST(other.has_length == head.has_length && other.length == head.length);
	MUST(other.keep_alive == head.keep_alive && other.upgrade == head.upgrade);
	MUST(other.minor == head.minor && other.status == head.status);
	for (size_t i = 0; i < head.field_count; i++)
		MUST(str_eq(head.fields[i].value, other.fields[i].value));
}

static void try_head(struct str bytes, reader read, bool is_request)
{
	enum http1_verdict verdict = read(bytes, &head);

	if (verdict == HTTP1_BAD) {
		MUST(head.fault != NULL);
		return;
	}
	if (verdict != HTTP1_DONE)
		return;
	MUST(head.size <= bytes.len && head.size <= HTTP1_HEAD_MAX);
	MUST(head.field_count <= HTTP1_FIELDS_MAX && !(head.chunked && head.has_length));
	MUST(is_within(head.method, bytes) && is_within(head.target, bytes));
	for (size_t i = 0; i < head.field_count; i++) {
		MUST(is_within(head.fields[i].name, bytes) && head.fields[i].name.len > 0);
		MUST(is_within(head.fields[i].value, bytes));
		MUST(!memchr(head.fields[i].value.at, '\n', head.fields[i].value.len));
	}
	for (size_t cut = head.size > 40 ? head.size - 40 : 0; cut < head.size; cut++)
		MUST(read((struct str){bytes.at, cut}, &other) == HTTP1_MORE);
	MUST(read((struct str){bytes.at, head.size}, &other) == HTTP1_DONE);
	read_again(read, is_request);
}

static enum http1_verdict unchunk(struct str in, size_t step, struct buf *out, size_t *eaten)
{
	struct http1_chunks chunks = {0};
	enum http1_verdict verdict = HTTP1_MORE;

	*eaten = 0;
	while (in.len > 0 && verdict == HTTP1_MORE) {
		struct str piece = {in.at, in.len < step ? in.len : step}, data;
		size_t used;

		verdict = http1_unchunk(&chunks, piece, &data, &used);
		MUST(used > 0 && used <= piece.len && is_within(data, piece));
		buf_str(out, data);
		in = str_skip(in, used);
		*eaten += used;
	}
	return verdict;
}

// In one piece or byte by byte: the same content, the same verdict, the same end.
static void try_chunks(struct str bytes)
{
	auto_buf whole = BUF_INIT(1 << 20), single = BUF_INIT(1 << 20);
	size_t eaten_whole, eaten_single;
	enum http1_verdict verdict = unchunk(bytes, SIZE_MAX, &whole, &eaten_whole);

	MUST(unchunk(bytes, 1, &single, &eaten_single) == verdict);
	MUST(eaten_whole == eaten_single && str_eq(buf_view(&whole), buf_view(&single)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};

	if (len == 0)
		return 0;
	text = str_skip(text, 1);
	switch (bytes[0] % 3) {
	case 0:
		try_head(text, http1_request, true);
		break;
	case 1:
		try_head(text, http1_reply, false);
		break;
	default:
		try_chunks(text);
	}
	return 0;
}
