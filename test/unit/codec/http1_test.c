#include "codec/http1.h"

#include "base/clock.h"
#include "tap.h"

static struct http1_head head;

static enum http1_verdict request(const char *text)
{
	return http1_request(str_of(text), &head);
}

TEST(whole_request, "a request is sliced where it lies")
{
	static const char text[] = "POST /v1/x?y HTTP/1.1\r\nHost: localhost:8484\r\n"
				   "Content-Length:5\r\nX-Empty:\r\nX-Odd: \t a b\t \r\n"
				   "Connection: foo, Upgrade\r\nExpect: 100-continue\r\n\r\nhello";

	CHECK(request(text) == HTTP1_DONE);
	CHECK(str_is(head.method, "POST") && str_is(head.target, "/v1/x?y"));
	CHECK(head.minor == 1 && head.field_count == 6 && head.size == strlen(text) - 5);
	CHECK(head.has_length && head.length == 5 && !head.chunked && head.keep_alive);
	CHECK(head.upgrade && head.expect_continue);
	CHECK(str_is(http1_field(&head, "x-ODD"), "a b"));
	CHECK(http1_field(&head, "x-empty").at && http1_field(&head, "x-empty").len == 0);
	CHECK(http1_field(&head, "absent").at == NULL);
}

TEST(every_cut, "every prefix of a good head wants more, and none is refused")
{
	static const char text[] =
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

	for (size_t len = 0; len < strlen(text); len++)
		CHECK(http1_request((struct str){text, len}, &head) == HTTP1_MORE);
	CHECK(request(text) == HTTP1_DONE && head.chunked);
}

TEST(refused, "a head that a proxy might parse differently is refused, with a message")
{
	static const char *const bad[] = {
		// the line
		"\r\nGET / HTTP/1.1\r\n",
		" GET / HTTP/1.1\r\n",
		"GET  / HTTP/1.1\r\n",
		"GET /  HTTP/1.1\r\n",
		"GET / HTTP/1.1 \r\n",
		"GET / HTTP/1.2\r\n",
		"GET / HTTP/2.0\r\n",
		"GET / http/1.1\r\n",
		"GET /\r\n",
		"GET\t/ HTTP/1.1\r\n",
		"G(T / HTTP/1.1\r\n",
		"GET /\x80 HTTP/1.1\r\n",
		"GET /\x7f HTTP/1.1\r\n",
		"GET / HTTP/1.1\n",
		"GET / HTTP/1.1\r\r\n",
		"\x16\x03\x01\x02",
		// the fields
		"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX\x80: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\rX",
		// the host
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
		// the framing
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"P / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding:chunked\r\n\r\n",
		"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\nContent-Length: 5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n",
		"P / HTTP/1.1\r\nTransfer-Encoding:chunked\r\nTransfer-Encoding:chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
		"GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\ntransfer_encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\013chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (request(bad[i]) != HTTP1_BAD)
			printf("# accepted: %s\n", bad[i]);
		CHECK(request(bad[i]) == HTTP1_BAD && head.fault && *head.fault);
	}
	CHECK(http1_request(STR("GET /\0 HTTP/1.1\r\n"), &head) == HTTP1_BAD);
	CHECK(http1_request(STR("GET / HTTP/1.1\r\nX: a\0b\r\n"), &head) == HTTP1_BAD);
}

TEST(persistence, "version and Connection together decide whether the connection stays")
{
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == HTTP1_DONE && head.keep_alive);
	CHECK(request("GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: Close\r\n\r\n") ==
	      HTTP1_DONE);
	CHECK(!head.keep_alive);
	CHECK(request("GET / HTTP/1.0\r\n\r\n") == HTTP1_DONE && !head.keep_alive);
	CHECK(request("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n") == HTTP1_DONE);
	CHECK(head.keep_alive);
	CHECK(request("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n") == HTTP1_DONE);
	CHECK(!head.keep_alive);
	CHECK(request("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n") == HTTP1_DONE);
	CHECK(!head.expect_continue);
}

TEST(too_large, "a head of more than 32 KiB or 100 fields is too large, not a byte less")
{
	auto_buf text = BUF_INIT(200000);
	size_t pad;

	buf_text(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
	pad = HTTP1_HEAD_MAX - text.len - 4;
	for (size_t i = 0; i < pad; i++)
		buf_char(&text, 'x');
	buf_text(&text, "\r\n\r\n");
	CHECK(text.len == HTTP1_HEAD_MAX && http1_request(buf_view(&text), &head) == HTTP1_DONE);
	text.at[text.len - 4] = 'x';
	CHECK(http1_request((struct str){text.at, text.len - 4}, &head) == HTTP1_MORE);
	text.len -= 4;
	buf_text(&text, "y\r\n\r\n");
	CHECK(http1_request(buf_view(&text), &head) == HTTP1_TOO_LARGE);
	buf_clear(&text);
	buf_text(&text, "GET /");
	for (int i = 0; i < 100000; i++)
		buf_char(&text, 'x');
	CHECK(http1_request(buf_view(&text), &head) == HTTP1_TOO_LARGE);
	buf_clear(&text);
	buf_text(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < 99; i++)
		buf_text(&text, "a:b\r\n");
	buf_text(&text, "\r\n");
	CHECK(http1_request(buf_view(&text), &head) == HTTP1_DONE && head.field_count == 100);
	text.len -= 2;
	buf_text(&text, "a:b\r\n\r\n");
	CHECK(http1_request(buf_view(&text), &head) == HTTP1_TOO_LARGE);
}

TEST(replies, "a reply has a status of three digits")
{
	static const char *const bad[] = {"HTTP/1.1 99 x\r\n\r\n",     "HTTP/1.1 600 x\r\n\r\n",
					  "HTTP/1.1 20 OK\r\n\r\n",    "HTTP/1.1 2000 O\r\n\r\n",
					  "HTTP/1.1  200 OK\r\n\r\n",  "HTTP/1.1 200\r\n\r\n",
					  "HTTP/1.1 200 \x01\r\n\r\n", "ICY 200 OK\r\n\r\n"};

	CHECK(http1_reply(STR("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), &head) ==
	      HTTP1_DONE);
	CHECK(head.status == 404 && head.has_length && head.keep_alive);
	CHECK(http1_reply(STR("HTTP/1.1 200 \r\n\r\n"), &head) == HTTP1_DONE && head.status == 200);
	CHECK(http1_reply(STR("HTTP/1.1 20"), &head) == HTTP1_MORE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(http1_reply(str_of(bad[i]), &head) == HTTP1_BAD);
	CHECK_STR(http1_status_text(404), "Not Found");
	CHECK_STR(http1_status_text(599), "Unknown");
}

// Feeds `text` in steps of `step` bytes and gathers the content.
static enum http1_verdict unchunk(struct str text, size_t step, struct buf *out, size_t *eaten)
{
	struct http1_chunks chunks = {0};
	enum http1_verdict verdict = HTTP1_MORE;
	struct str data;
	size_t used;

	buf_clear(out);
	*eaten = 0;
	while (text.len > 0 && verdict == HTTP1_MORE) {
		struct str in = {text.at, text.len < step ? text.len : step};

		verdict = http1_unchunk(&chunks, in, &data, &used);
		buf_str(out, data);
		text = str_skip(text, used);
		*eaten += used;
		if (used == 0)
			return HTTP1_BAD;
	}
	return verdict;
}

TEST(chunks, "a chunked body is the same in whatever steps it comes")
{
	static const char text[] = "5\r\nhello\r\n00A;x=\"y\"; z\r\n 0123\r\n\r\n9\r\n"
				   "0\r\nX: y\r\nZ:\r\n\r\nNEXT";
	auto_buf out = BUF_INIT(100);
	size_t eaten;

	for (size_t step = 1; step <= strlen(text); step++) {
		CHECK(unchunk(str_of(text), step, &out, &eaten) == HTTP1_DONE);
		CHECK_STR(out.at, "hello 0123\r\n\r\n9");
		CHECK(eaten == strlen(text) - 4);
	}
}

TEST(bad_chunks, "malformed chunks are refused for good")
{
	static const char *const bad[] = {"\r\n",
					  ";x\r\n",
					  "+5\r\n",
					  "0x5\r\n",
					  " 5\r\n",
					  "5 \r\n",
					  "5\n",
					  "5\rx",
					  "5\r\nhelloX",
					  "5\r\nhello\rX",
					  "g\r\n",
					  "5;a\nb\r\n",
					  "5;a\rb\r\n",
					  "5;\x01\r\n",
					  "8000000000000000\r\n",
					  "-1\r\n",
					  "ffffffffffffffff1\r\n",
					  "0\r\n X: y\r\n",
					  "0\r\nX : y\r\n",
					  "0\r\nX\r\n",
					  "0\r\nX: \x01\r\n",
					  "0\r\n\rX",
					  "0\r\n\n",
					  "5;\"a\nb\"\r\n"};
	struct http1_chunks chunks = {0};
	auto_buf out = BUF_INIT(100);
	struct str data;
	size_t used;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(unchunk(str_of(bad[i]), 100, &out, &used) == HTTP1_BAD);
	CHECK(http1_unchunk(&chunks, STR("x"), &data, &used) == HTTP1_BAD);
	CHECK(http1_unchunk(&chunks, STR("5\r\nhello"), &data, &used) == HTTP1_BAD && used == 0);
}

TEST(bounded_chunks, "extensions and trailers are bounded")
{
	static char text[20000];
	auto_buf out = BUF_INIT(100);
	size_t eaten;

	memset(text, 'x', sizeof(text));
	memcpy(text, "5;", 2);
	CHECK(unchunk((struct str){text, sizeof(text)}, 7, &out, &eaten) == HTTP1_TOO_LARGE);
	CHECK(eaten < 2000);
	memset(text, '0', sizeof(text));
	CHECK(unchunk((struct str){text, sizeof(text)}, 7, &out, &eaten) == HTTP1_TOO_LARGE);
	memcpy(text, "0\r\n", 3);
	for (size_t i = 3; i + 5 < sizeof(text); i += 5)
		memcpy(text + i, "a:b\r\n", 5);
	CHECK(unchunk((struct str){text, sizeof(text)}, 7, &out, &eaten) == HTTP1_TOO_LARGE);
	CHECK(eaten < 9000);
}

TEST(speed, "a hundred thousand heads are read in a second")
{
	static const char text[] = "POST /v1/sandboxes/box-0123/api/execute HTTP/1.1\r\n"
				   "Host: 127.0.0.1:8484\r\nUser-Agent: cove/1\r\n"
				   "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
				   "Accept: */*\r\nContent-Type: application/json\r\n"
				   "Content-Length: 42\r\n\r\n";
	int64_t start = clock_us();

	for (int i = 0; i < 20000; i++)
		CHECK(request(text) == HTTP1_DONE);
	// A fifth of the count in a second, so that a sanitizer on a busy machine passes too.
	CHECK(clock_us() - start < 1000000);
}
