// The hellos are those of a real client, OpenSSL's, cut and modified.
#include "protocol/hello.h"

#include <openssl/ssl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tap.h"

// What a client says first; `name` NULL: without one.
static void client(struct buf *out, const char *name, int version)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	char *bytes;
	long len;

	SSL_CTX_set_max_proto_version(ctx, version);
	ssl = SSL_new(ctx);
	if (name)
		SSL_set_tlsext_host_name(ssl, name);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_connect(ssl);
	len = BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);
	buf_add(out, bytes, (size_t)len);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

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

// The message of one record again, in records of `size` bytes.
static void in_records(struct buf *out, struct str hello, size_t size)
{
	struct str message = str_skip(hello, 5);

	while (message.len > 0) {
		size_t len = message.len < size ? message.len : size;
		char head[] = {22, 3, 1, (char)(len >> 8), (char)len};

		buf_add(out, head, sizeof(head));
		buf_add(out, message.at, len);
		message = str_skip(message, len);
	}
}

static void put_two(struct buf *out, size_t value)
{
	buf_char(out, (char)(value >> 8));
	buf_char(out, (char)value);
}

// A hello of our own making with these extensions.
static void made(struct buf *out, struct str extensions)
{
	static const char front[] = "\3\3"
				    "0123456789abcdef0123456789abcdef"
				    "\0"
				    "\0\2\x13\1"
				    "\1\0";
	size_t len = sizeof(front) - 1 + 2 + extensions.len;

	buf_clear(out);
	buf_add(out, "\x16\3\1", 3);
	put_two(out, len + 4);
	buf_add(out, "\1\0", 2);
	put_two(out, len);
	buf_add(out, front, sizeof(front) - 1);
	put_two(out, extensions.len);
	buf_str(out, extensions);
}

#define BYTES(literal) ((struct str){literal, sizeof(literal) - 1})
#define SNI(all, list, len, name) "\0\0\0" all "\0" list "\0\0" len name

TEST(real, "the name of a real client's hello is found, of TLS 1.2 and 1.3")
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	struct hello hello;

	for (int i = 0; i < 2; i++) {
		auto_buf bytes = BUF_INIT(1 << 16);

		client(&bytes, "WWW.Example.com", versions[i]);
		CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_DONE);
		CHECK(hello.has_name && hello.kind == HOSTNAME_NAME && !hello.has_ech);
		CHECK_STR(hello.name, "www.example.com");
		CHECK(hello.seen == bytes.len);
	}
}

TEST(pieces, "NET-6 in segments and records of any size it is the same hello")
{
	auto_buf whole = BUF_INIT(1 << 16);
	struct hello hello;

	client(&whole, "example.com", TLS1_3_VERSION);
	for (size_t size = 4; size < 600; size += size < 20 ? 1 : 37) {
		auto_buf bytes = BUF_INIT(1 << 16);

		in_records(&bytes, buf_view(&whole), size);
		for (size_t step = 1; step < 8; step++) {
			CHECK(feed(&hello, buf_view(&bytes), step) == HELLO_DONE);
			CHECK_STR(hello.name, "example.com");
			CHECK(hello.seen == bytes.len);
		}
		bytes.len--;
		CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_MORE);
	}
}

TEST(nameless, "NET-6 a a hello without a name is whole, and has none")
{
	auto_buf bytes = BUF_INIT(1 << 16);
	struct hello hello;

	client(&bytes, NULL, TLS1_3_VERSION);
	CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_DONE && !hello.has_name);
	made(&bytes, BYTES(""));
	CHECK(feed(&hello, buf_view(&bytes), 1) == HELLO_DONE && !hello.has_name);
}

TEST(old, "an old hello ends without extensions")
{
	static const char bytes[] = "\x16\3\1\0\x2d\1\0\0\x29\3\1"
				    "0123456789abcdef0123456789abcdef"
				    "\0\0\2\0\x2f\1\0";
	struct hello hello;

	CHECK(feed(&hello, BYTES(bytes), 1) == HELLO_DONE && !hello.has_name);
}

TEST(grease, "GREASE and unknown extensions are passed over")
{
	auto_buf bytes = BUF_INIT(1 << 16);
	struct hello hello;

	made(&bytes, BYTES("\x0a\x0a\0\0" SNI("\x06", "\4", "\1", "a") "\x1a\x1a\0\1\0"
								       "\xff\1\0\1\0"));
	CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_DONE);
	CHECK_STR(hello.name, "a");
	CHECK(!hello.has_ech);
}

TEST(ech, "N-04 an encrypted hello inside is reported")
{
	auto_buf bytes = BUF_INIT(1 << 16);
	struct hello hello;

	made(&bytes, BYTES(SNI("\x06", "\4", "\1", "a") "\xfe\x0d\0\2\0\0"));
	CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_DONE && hello.has_ech);
	CHECK_STR(hello.name, "a");
}

TEST(names, "NET-6 a one name that a host can have, or the hello is refused")
{
	static const struct str bad[] = {
		BYTES(SNI("\x0a", "\x08", "\1", "a") "\0\0\1b"),		  // two names
		BYTES(SNI("\x06", "\4", "\1", "a") SNI("\x06", "\4", "\1", "b")), // twice
		BYTES(SNI("\x06", "\4", "\1", "a") SNI("\x06", "\4", "\1", "a")),
		BYTES("\0\0\0\0"),		     // none
		BYTES("\0\0\0\2\0\0"),		     // an empty list
		BYTES("\0\0\0\5\0\3\0\0\0"),	     // an empty name
		BYTES("\0\0\0\6\0\4\1\0\1a"),	     // of another kind
		BYTES(SNI("\x06", "\5", "\1", "a")), // a longer list
		BYTES(SNI("\x06", "\3", "\1", "a")),
		BYTES(SNI("\x06", "\4", "\2", "a")), // a longer name
		BYTES(SNI("\x07", "\5", "\1", "ab")),
		BYTES(SNI("\x08", "\6", "\3", "a\0b")), // a NUL
		BYTES(SNI("\x08", "\6", "\3", "a b")),
		BYTES(SNI("\x08", "\6", "\3", "a_b")),
		BYTES(SNI("\x07", "\5", "\2", "..")),
		BYTES(SNI("\x0a", "\x08", "\5", "127.1")),
	};
	auto_buf bytes = BUF_INIT(1 << 16);
	struct hello hello;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		printf("# %zu\n", i);
		made(&bytes, bad[i]);
		CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_BAD);
		CHECK(hello.fault && !(hello.has_name && !hello.has_names));
	}
}

TEST(literal, "a literal is told apart from a name")
{
	auto_buf bytes = BUF_INIT(1 << 16);
	struct hello hello;

	made(&bytes, BYTES(SNI("\x0c", "\x0a", "\x07", "1.2.3.4")));
	CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_DONE);
	CHECK(hello.has_name && hello.kind == HOSTNAME_LITERAL);
}

TEST(lengths, "lengths that do not agree are refused")
{
	static const struct {
		size_t at;
		char value;
	} bends[] = {
		{1, 2},	  // the record's version
		{5, 2},	  // no hello
		{8, 57},  // the message longer than the record's end allows
		{8, 50},  // and shorter
		{9, 2},	  // the hello's version
		{43, 33}, // a session of 33
		{45, 3},  // an odd list of ciphers
		{48, 0},  // no compression
		{51, 9},  // extensions
		{55, 7},  // the extension's own
	};
	auto_buf good = BUF_INIT(1 << 16);
	struct hello hello;

	made(&good, BYTES(SNI("\x06", "\4", "\1", "a")));
	CHECK(feed(&hello, buf_view(&good), 1) == HELLO_DONE);
	for (size_t i = 0; i < sizeof(bends) / sizeof(*bends); i++) {
		auto_buf bent = BUF_INIT(1 << 16);

		buf_str(&bent, buf_view(&good));
		bent.at[bends[i].at] = bends[i].value;
		buf_add(&bent, good.at, good.len); // there always is more to read
		if (feed(&hello, buf_view(&bent), 3) != HELLO_BAD)
			printf("# byte %zu\n", bends[i].at);
		CHECK(feed(&hello, buf_view(&bent), 3) == HELLO_BAD && hello.fault);
	}
}

TEST(records, "between the records of a hello there is nothing else, and none is empty")
{
	auto_buf whole = BUF_INIT(1 << 16);
	struct hello hello;

	made(&whole, BYTES(SNI("\x06", "\4", "\1", "a")));
	for (int i = 0; i < 3; i++) {
		static const struct str between[] = {BYTES("\x14\3\3\0\1\1"), BYTES("\x16\3\1\0\0"),
						     BYTES("\x16\3\1\x40\1")};
		auto_buf bytes = BUF_INIT(1 << 16);

		in_records(&bytes, buf_view(&whole), 30);
		buf_clear(&bytes);
		buf_add(&bytes, "\x16\3\1\0\x1e", 5);
		buf_add(&bytes, whole.at + 5, 30);
		buf_str(&bytes, between[i]);
		CHECK(feed(&hello, buf_view(&bytes), SIZE_MAX) == HELLO_BAD);
	}
}

TEST(no_tls, "other protocols are recognised by their first byte")
{
	struct hello hello;

	CHECK(feed(&hello, STR("GET / HTTP/1.1\r\n"), SIZE_MAX) == HELLO_NOT_TLS);
	CHECK(feed(&hello, STR("SSH-2.0-x"), 1) == HELLO_NOT_TLS && hello.seen == 1);
	CHECK(hello_feed(&hello, STR("\x16\3\1")) == HELLO_NOT_TLS); // once and for all
	CHECK(feed(&hello, BYTES("\x80\x2e\1\3\1"), 1) == HELLO_NOT_TLS);
}

TEST(bounds, "NET-6 a hello has 16 KiB, and its records not much more")
{
	auto_buf bytes = BUF_INIT(1 << 20);
	struct hello hello;

	CHECK(feed(&hello, BYTES("\x16\3\1\x40\0\1\0\x40\0"), 1) == HELLO_TOO_LARGE);
	CHECK(feed(&hello, BYTES("\x16\3\1\x40\0\1\xff\xff\xff"), 1) == HELLO_TOO_LARGE);
	CHECK(feed(&hello, BYTES("\x16\3\1\x40\0\1\0\x3f\xfc"), 1) == HELLO_MORE);
	// One byte a record: six times as many as the message has.
	buf_add(&bytes, "\x16\3\1\0\x09\1\0\x3f\xf0\3\3rrr", 14);
	for (int i = 0; i < 29; i++)
		buf_add(&bytes, "\x16\3\1\0\1r", 6);
	buf_add(&bytes, "\x16\3\1\0\3\0\x3f\x80", 8);
	while (bytes.len < HELLO_BYTES_MAX + 100)
		buf_add(&bytes, "\x16\3\1\0\1c", 6);
	CHECK(feed(&hello, buf_view(&bytes), 1000) == HELLO_TOO_LARGE);
	CHECK(hello.seen == HELLO_BYTES_MAX + 1);
}
