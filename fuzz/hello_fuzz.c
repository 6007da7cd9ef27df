// A client's first bytes. In one piece, byte by byte, or in other records: the same verdict, the
// same name, the same end.
#include "protocol/hello.h"

#include "fuzz.h"

static enum hello_verdict feed(struct hello *hello, struct str bytes, size_t step)
{
	enum hello_verdict verdict = HELLO_MORE;

	*hello = HELLO_INIT;
	while (bytes.len > 0 && verdict == HELLO_MORE) {
		struct str piece = {bytes.at, bytes.len < step ? bytes.len : step};

		verdict = hello_feed(hello, piece);
		bytes = str_skip(bytes, piece.len);
	}
	return verdict;
}

static void same(const struct hello *one, const struct hello *two)
{
	MUST(one->has_name == two->has_name && one->kind == two->kind);
	MUST(!strcmp(one->name, two->name) && one->has_ech == two->has_ech);
}

// The message without its records, in records of 100 bytes.
static void in_records(struct str bytes, struct buf *out)
{
	auto_buf message = BUF_INIT(HELLO_BYTES_MAX);

	while (bytes.len >= 5) {
		size_t len = (size_t)(uint8_t)bytes.at[3] << 8 | (uint8_t)bytes.at[4];

		MUST(len <= bytes.len - 5);
		buf_add(&message, bytes.at + 5, len);
		bytes = str_skip(bytes, len + 5);
	}
	for (size_t at = 0; at < message.len;) {
		size_t len = message.len - at < 100 ? message.len - at : 100;

		buf_add(out, "\x16\3\1\0", 4);
		buf_char(out, (char)len);
		buf_add(out, message.at + at, len);
		at += len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};
	struct hello one, two;
	enum hello_verdict verdict = feed(&one, text, SIZE_MAX);
	auto_buf again = BUF_INIT(1 << 20);
	char name[HOSTNAME_MAX + 1];

	MUST(feed(&two, text, 1) == verdict && one.seen == two.seen);
	MUST(one.seen <= len && one.seen <= HELLO_BYTES_MAX + 1);
	MUST(one.list_len <= sizeof(one.list));
	if (verdict == HELLO_MORE && len)
		MUST(one.seen == len && len <= HELLO_BYTES_MAX);
	if (verdict == HELLO_BAD)
		MUST(one.fault != NULL);
	MUST(hello_feed(&two, STR("\x16\3\1")) == verdict || verdict == HELLO_MORE);
	if (verdict != HELLO_DONE)
		return 0;
	same(&one, &two);
	MUST(one.has_name == (one.name[0] != 0));
	if (one.has_name)
		MUST(hostname_read(str_of(one.name), name) == one.kind && !strcmp(name, one.name));
	MUST(feed(&two, (struct str){text.at, one.seen - 1}, SIZE_MAX) == HELLO_MORE);
	in_records((struct str){text.at, one.seen}, &again);
	MUST(feed(&two, buf_view(&again), SIZE_MAX) == HELLO_DONE);
	same(&one, &two);
	return 0;
}
