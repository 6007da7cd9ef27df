#include "codec/ws.h"

#include <stdio.h>

#include "tap.h"

static const uint8_t MASK[4] = {0x37, 0xfa, 0x21, 0x3d};

// A frame as a client sends it, or a server.
static void put(struct buf *out, int opcode, bool is_final, struct str body, bool masked)
{
	uint8_t head[WS_HEAD_MAX];
	size_t n = ws_head(head, opcode, is_final, body.len, masked ? MASK : NULL), at;

	buf_add(out, head, n);
	at = out->len;
	buf_str(out, body);
	if (masked)
		ws_mask(out->at + at, body.len, MASK, 0);
}

static void tell_item(enum ws_event event, const struct ws_item *item, struct buf *out)
{
	if (out->len)
		buf_char(out, ' ');
	if (event == WS_MESSAGE)
		buf_fmt(out, "%c:" STR_FMT, item->is_text ? 't' : 'b', STR_ARG(item->body));
	else if (event == WS_GOT_PING || event == WS_GOT_PONG)
		buf_fmt(out, "%s:" STR_FMT, event == WS_GOT_PING ? "ping" : "pong",
			STR_ARG(item->body));
	else if (event == WS_GOT_CLOSE)
		buf_fmt(out, "close:%d:" STR_FMT, item->code, STR_ARG(item->body));
	else
		buf_fmt(out, "!%d", item->code);
}

// What a reader makes of the bytes when they come `step` at a time: "t:hello p:x c:1000 !1002".
static void tell(struct str bytes, size_t step, bool is_server, size_t max, struct buf *out)
{
	struct ws_reader *reader = ws_reader_new(is_server, max);

	buf_clear(out);
	for (bool over = false; bytes.len && !over;) {
		struct str in = {bytes.at, bytes.len < step ? bytes.len : step};
		struct ws_item item;
		enum ws_event event;

		bytes = str_skip(bytes, in.len);
		while (!over && (event = ws_read(reader, &in, &item)) != WS_MORE) {
			over = event == WS_FAULT || event == WS_GOT_CLOSE;
			tell_item(event, &item, out);
		}
		CHECK(over || in.len == 0);
	}
	ws_reader_free(reader);
	buf_char(out, 0);
	out->len--;
}

// The same in one piece and byte by byte.
static bool reads(const struct buf *bytes, const char *want)
{
	auto_buf whole = BUF_INIT(1 << 20), single = BUF_INIT(1 << 20);

	tell(buf_view(bytes), SIZE_MAX, true, 1 << 16, &whole);
	tell(buf_view(bytes), 1, true, 1 << 16, &single);
	if (strcmp(whole.at, want) != 0 || strcmp(single.at, want) != 0)
		printf("# got '%s' and '%s', want '%s'\n", whole.at, single.at, want);
	return strcmp(whole.at, want) == 0 && strcmp(single.at, want) == 0;
}

TEST(accept, "the accept key is the one of RFC 6455")
{
	char out[WS_ACCEPT_LEN + 1];

	CHECK(ws_is_key(STR("dGhlIHNhbXBsZSBub25jZQ==")));
	ws_accept(STR("dGhlIHNhbXBsZSBub25jZQ=="), out);
	CHECK_STR(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	CHECK(!ws_is_key(STR("")) && !ws_is_key(STR("dGhlIHNhbXBsZSBub25jZQ")));
	CHECK(!ws_is_key(STR("dGhlIHNhbXBsZSBub25jZ!==")));
	CHECK(!ws_is_key(STR("dGhlIHNhbXBsZSBub25jZWFh")));
}

TEST(heads, "lengths are written in their shortest form")
{
	static const struct {
		uint64_t len;
		size_t head;
	} rows[] = {{0, 2}, {125, 2}, {126, 4}, {65535, 4}, {65536, 10}, {1ull << 40, 10}};
	uint8_t out[WS_HEAD_MAX];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK(ws_head(out, WS_TEXT, true, rows[i].len, NULL) == rows[i].head);
		CHECK(ws_head(out, WS_TEXT, true, rows[i].len, MASK) == rows[i].head + 4);
	}
	CHECK(ws_head(out, WS_BINARY, false, 300, NULL) == 4);
	CHECK(out[0] == 2 && out[1] == 126 && out[2] == 1 && out[3] == 44);
}

TEST(messages, "messages come whole, in fragments, with pings between them")
{
	auto_buf bytes = BUF_INIT(1 << 20);

	put(&bytes, WS_TEXT, true, STR("hello"), true);
	put(&bytes, WS_BINARY, true, STR(""), true);
	put(&bytes, WS_TEXT, false, STR("one "), true);
	put(&bytes, WS_PING, true, STR("p"), true);
	put(&bytes, WS_CONTINUATION, false, STR(""), true);
	put(&bytes, WS_PONG, true, STR(""), true);
	put(&bytes, WS_CONTINUATION, true, STR("two"), true);
	put(&bytes, WS_CLOSE, true,
	    STR("\x03\xe8"
		"bye"),
	    true);
	CHECK(reads(&bytes, "t:hello b: ping:p pong: t:one two close:1000:bye"));
}

TEST(rfc_sample, "the masked sample of RFC 6455 says Hello")
{
	auto_buf bytes = BUF_INIT(64);

	buf_add(&bytes, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", 11);
	CHECK(reads(&bytes, "t:Hello"));
}

TEST(masks, "a client must mask, a server must not")
{
	auto_buf bytes = BUF_INIT(64), out = BUF_INIT(256);

	put(&bytes, WS_TEXT, true, STR("x"), false);
	CHECK(reads(&bytes, "!1002"));
	tell(buf_view(&bytes), 1, false, 64, &out);
	CHECK_STR(out.at, "t:x");
	buf_clear(&bytes);
	put(&bytes, WS_TEXT, true, STR("x"), true);
	tell(buf_view(&bytes), 1, false, 64, &out);
	CHECK_STR(out.at, "!1002");
}

TEST(malformed, "malformed frames are faults with the right code")
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *want;
	} rows[] = {
#define ROW(text, want) {text, sizeof(text) - 1, want}
		ROW("\xc1\x80\0\0\0\0", "!1002"),		    // a reserved bit
		ROW("\x83\x80\0\0\0\0", "!1002"),		    // an unknown opcode
		ROW("\x8b\x80\0\0\0\0", "!1002"),		    // an unknown control opcode
		ROW("\x80\x80\0\0\0\0", "!1002"),		    // continues nothing
		ROW("\x09\x80\0\0\0\0", "!1002"),		    // a ping in fragments
		ROW("\x89\xfe\0\x7e\0\0\0\0", "!1002"),		    // a ping of 126 bytes
		ROW("\x81\xfe\0\x05\0\0\0\0hello", "!1002"),	    // a length that is too long
		ROW("\x01\x81\0\0\0\0a\x81\x81\0\0\0\0b", "!1002"), // a message in a message
		ROW("\x88\x81\0\0\0\0\x03", "!1002"),		    // half a code
		ROW("\x88\x82\0\0\0\0\x03\xed", "!1002"),	    // 1005
		ROW("\x88\x82\0\0\0\0\x03\xee", "!1002"),	    // 1006
		ROW("\x88\x82\0\0\0\0\x07\xd0", "!1002"),	    // 2000
		ROW("\x88\x83\0\0\0\0\x03\xe8\xff", "!1007"),	    // a reason that is no text
		ROW("\x81\x82\0\0\0\0\xc3\x28", "!1007"),	    // a text that is none
		ROW("\x81\x81\0\0\0\0\xc3", "!1007"),		    // a text that is cut
		ROW("\x01\x81\0\0\0\0\xc0", "!1007"),		    // bad before its end
		ROW("\x88\x80\0\0\0\0", "close:1005:"),
		ROW("\x88\x82\0\0\0\0\x0f\xa0", "close:4000:"),
#undef ROW
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_buf bytes = BUF_INIT(64);

		buf_add(&bytes, rows[i].bytes, rows[i].len);
		CHECK(reads(&bytes, rows[i].want));
	}
}

TEST(cut_text, "a character may be cut by a fragment")
{
	auto_buf bytes = BUF_INIT(64);

	put(&bytes, WS_TEXT, false, STR("\xf0\x9f"), true);
	put(&bytes, WS_CONTINUATION, true, STR("\x98\x80"), true);
	CHECK(reads(&bytes, "t:\xf0\x9f\x98\x80"));
	buf_clear(&bytes);
	put(&bytes, WS_BINARY, true, STR("\xff\xfe"), true);
	CHECK(reads(&bytes, "b:\xff\xfe"));
}

TEST(too_big, "a message past the limit is refused at its head, in fragments too")
{
	auto_buf bytes = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);

	buf_add(&bytes, "\x82\xff\0\0\0\0\0\1\0\1\0\0\0\0x", 15); // 65,537 announced, 1 sent
	CHECK(reads(&bytes, "!1009"));
	buf_clear(&bytes);
	put(&bytes, WS_BINARY, false, STR("12345"), true);
	put(&bytes, WS_CONTINUATION, true, STR("678"), true);
	tell(buf_view(&bytes), 3, true, 8, &out);
	CHECK_STR(out.at, "b:12345678");
	tell(buf_view(&bytes), 3, true, 7, &out);
	CHECK_STR(out.at, "!1009");
}

TEST(close_body, "a reason is cut between characters")
{
	uint8_t out[WS_CONTROL_MAX];
	char reason[200];

	CHECK(ws_close_body(out, WS_GOING_AWAY, STR("")) == 2 && out[0] == 3 && out[1] == 0xe9);
	memset(reason, 'a', sizeof(reason));
	CHECK(ws_close_body(out, 1000, (struct str){reason, 200}) == WS_CONTROL_MAX);
	memcpy(reason + 122, "\xc3\xa9", 2);
	CHECK(ws_close_body(out, 1000, (struct str){reason, 200}) == WS_CONTROL_MAX - 1);
}
