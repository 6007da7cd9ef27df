#include "egress/secrets.h"
#include "unit/egress/house.h"

#define OPAQUE "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"]}"
#define INSPECT                                                                                    \
	"{\"mode\":\"allow\",\"allow\":[\"up.test:%u\",\"deep.up.test:%u\"],"                      \
	"\"inspect\":[\"up.test\",\"deep.up.test\"],"                                              \
	"\"secrets\":[{\"name\":\"KEY\",\"value\":\"s3cr3t\",\"hosts\":[\"up.test\"]}],"           \
	"\"rules\":[{\"name\":\"up.test\",\"methods\":[\"GET\",\"POST\"],\"paths\":[\"/v1/*\"]}]}"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: up.test\r\nConnection: close\r\n\r\n"
#define ACCESS_DENIED 1049 // SSL_R_TLSV1_ALERT_ACCESS_DENIED

static char *box_ca(void)
{
	struct buf pem = BUF_INIT(8192);

	err_free(egress_authority(house.egress, BOX, &pem, NULL));
	return buf_take(&pem);
}

TASK_TEST(opaque,
	  "TLS to an allowed name is carried as it is: the server's own certificate arrives")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(true, OPAQUE));
	client->sni = "up.test";
	client->ca = house.ca;
	client->request = GET("/v1/a");
	ask(client);
	CHECK(client->connected);
	CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
	CHECK(egress_box_counts(house.box).requests == 1 && egress_box_counts(house.box).opaque);
	page = read_ledger(arena, 1);
	CHECK(page.count == 1 && page.at[0].bytes_out > 200 && page.sums.opaque);
	leave_house();
}

TASK_TEST(
	alert,
	"N-01, N-04: another SNI, or none, gets the alert access_denied, and nothing is connected")
{
	static const char *const names[] = {"evil.test", ""};

	CHECK_OK(enter_house(true, OPAQUE));
	for (int i = 0; i < 2; i++) {
		auto_free struct client *client = mem_new_of(struct client);

		client->sni = names[i];
		client->request = GET("/");
		ask(client);
		CHECK(!client->connected);
		CHECK(ERR_GET_REASON(client->error) == ACCESS_DENIED);
	}
	CHECK(house.accepted == 0);
	CHECK(egress_box_counts(house.box).denied == 2);
	leave_house();
}

TASK_TEST(inspected,
	  "NET-12: an inspected name is answered by the box's authority, and its requests are seen")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_free char *ca = NULL;
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	client->sni = "up.test";
	client->ca = ca;
	client->alpn = "\2h2\10http/1.1";
	client->request = "GET /v1/a HTTP/1.1\r\nHost: up.test\r\n\r\n" GET("/v1/b");
	ask(client);
	CHECK(client->connected);
	CHECK(strstr(client->reply, "GET /v1/a ") && strstr(client->reply, "GET /v1/b "));
	CHECK(house.accepted == 1 && house.requests == 2);
	page = read_ledger(arena, 1);
	CHECK(page.count == 1 && page.at[0].requests == 2 && !page.sums.opaque);
	CHECK(page.at[0].bytes_out ==
	      strlen(client->request) + 2 * strlen("Accept-Encoding: identity\r\n"));
	leave_house();
}

TASK_TEST(not_believed, "nobody but that box believes its authority")
{
	auto_free struct client *client = mem_new_of(struct client);
	struct buf other = BUF_INIT(8192);

	CHECK_OK(enter_house(true, INSPECT));
	CHECK_OK(egress_authority(house.egress, "box-of-another", &other, NULL));
	client->sni = "up.test";
	client->ca = other.at;
	client->request = GET("/v1/a");
	ask(client);
	CHECK(!client->connected && client->verified != X509_V_OK);
	CHECK(house.accepted == 0);
	buf_done(&other);
	leave_house();
}

TASK_TEST(rules, "method and path of an inspected request are judged: 403, and it never arrives")
{
	static const char *const bad[] = {
		GET("/v2/a"), "DELETE /v1/a HTTP/1.1\r\nHost: up.test\r\nConnection: close\r\n\r\n",
		GET("/v1/../v2"),
		"GET /v1/a HTTP/1.1\r\nHost: deep.up.test\r\n\r\n", // not whom it greeted
	};
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	for (size_t i = 0; i < 4; i++) {
		auto_free struct client *client = mem_new_of(struct client);

		client->sni = "up.test";
		client->ca = ca;
		client->request = bad[i];
		ask(client);
		CHECK(strncmp(client->reply, i < 3 ? "HTTP/1.1 403 " : "HTTP/1.1 421 ", 13) == 0);
	}
	CHECK(house.requests == 0);
	leave_house();
}

TASK_TEST(plain_rules, "rules bind requests without TLS as well, and TLS that nobody looks into")
{
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	auto_free struct client *good = mem_new_of(struct client);
	auto_free struct client *bad = mem_new_of(struct client);
	auto_free struct client *hidden = mem_new_of(struct client);
	auto_arena arena = arena_new();
	struct store_egress_page page;

	CHECK_OK(enter_house(false, INSPECT));
	good->request = GET("/v1/a");
	ask(good);
	CHECK(strncmp(good->reply, "HTTP/1.1 200 ", 13) == 0);
	bad->request = GET("/v2/a");
	ask(bad);
	CHECK(strncmp(bad->reply, "HTTP/1.1 403 ", 13) == 0);
	CHECK(strstr(bad->reply, "path_not_allowed: no rule allows this path; to allow it: cove "
				 "policy " BOX " --rule '* up.test'") != NULL);
	// As no reader of a policy lets it be: a rule, and no inspection.
	CHECK_OK(read_policy(INSPECT, &policy));
	policy.inspect_count = policy.secret_count = 0;
	egress_box_policy(house.box, &policy);
	policy.inspect_count = 2;
	policy.secret_count = 1;
	hidden->sni = "up.test";
	hidden->request = GET("/v1/a");
	ask(hidden);
	CHECK(!hidden->connected && ERR_GET_REASON(hidden->error) == ACCESS_DENIED);
	CHECK(house.accepted == 1);
	page = read_ledger(arena, 3);
	CHECK(page.count == 3);
	CHECK_STR(page.at[2].reason, "not_inspected");
	leave_house();
}

TASK_TEST(strict, "a server that cannot prove its name is not talked to: 502")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	client->sni = "deep.up.test"; // its certificate says up.test
	client->ca = ca;
	client->request = "GET / HTTP/1.1\r\nHost: deep.up.test\r\n\r\n";
	ask(client);
	CHECK(client->connected);
	CHECK(strncmp(client->reply, "HTTP/1.1 502 ", 13) == 0);
	CHECK(house.requests == 0);
	CHECK(egress_box_counts(house.box).connections == 0);
	leave_house();
}

#define FREE "{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"],\"inspect\":[\"up.test\"]}"

TASK_TEST(upgraded, "an inspected connection may become something else, both ways, and is counted")
{
	auto_free struct client *one = mem_new_of(struct client);
	auto_free char *ca = NULL;
	struct egress_counts counts;

	CHECK_OK(enter_house(true, FREE));
	ca = box_ca();
	one->sni = "up.test";
	one->ca = ca;
	one->request = "GET /up HTTP/1.1\r\nHost: up.test\r\nConnection: upgrade\r\n"
		       "Upgrade: WebSocket\r\n\r\nping";
	client_start(one);
	for (int i = 0; i < 500 && one->total < strlen(upgrade) + 4; i++)
		inside_sleep(10);
	counts = egress_box_counts(house.box);
	CHECK(counts.open == 1 && counts.requests == 1);
	CHECK(counts.bytes_out == strlen(one->request) && counts.bytes_in == one->total);
	egress_box_free(house.box);
	house.box = NULL;
	client_await(one);
	CHECK(strncmp(one->reply, "HTTP/1.1 101 ", 13) == 0);
	CHECK(memmem(one->reply, one->len, "\r\n\r\nping", 8) != NULL);
	leave_house();
}

TASK_TEST(large, "a large reply comes through an inspected connection whole")
{
	auto_free struct client *one = mem_new_of(struct client);
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, FREE));
	ca = box_ca();
	one->sni = "up.test";
	one->ca = ca;
	one->request = "GET /big/20000000 HTTP/1.1\r\nHost: up.test\r\nConnection: close\r\n\r\n";
	one->forget = true;
	ask(one);
	CHECK(one->total > 20000000 && one->total < 20000200);
	CHECK(egress_box_counts(house.box).bytes_in == one->total);
	leave_house();
}

// ------------------------------------------------------------------------------------- secrets

TASK_TEST(substituted,
	  "a placeholder becomes the value in head, credentials and body, for its host alone")
{
	const char *placeholder;
	auto_free char *ca = NULL;
	auto_buf request = BUF_INIT(65536), basic = BUF_INIT(256);
	unsigned char encoded[256];
	auto_free struct client *client = mem_new_of(struct client);

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	placeholder = house.placeholder;
	buf_fmt(&basic, "me:%s", placeholder);
	EVP_EncodeBlock(encoded, (const unsigned char *)basic.at, (int)basic.len);
	buf_fmt(&request,
		"POST /v1/x?k=%s HTTP/1.1\r\nHost: up.test\r\nX-Key: a%sb\r\n"
		"Authorization: Basic %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n<%s>",
		placeholder, placeholder, (char *)encoded, strlen(placeholder) + 2, placeholder);
	client->sni = "up.test";
	client->ca = ca;
	client->request = request.at;
	ask(client);
	CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
	CHECK(strstr(house.saw, "?k=s3cr3t ") != NULL);
	CHECK(strstr(house.saw, "X-Key: as3cr3tb\r\n") != NULL);
	CHECK(strstr(house.saw, "Basic bWU6czNjcjN0\r\n") != NULL);
	CHECK(strstr(house.saw, "Content-Length: 8\r\n") != NULL);
	CHECK(strstr(house.saw, "<s3cr3t>") != NULL);
	CHECK(!strstr(house.saw, placeholder));
	// The server tells what it saw; the box reads what it sent.
	CHECK(!strstr(client->reply, "s3cr3t") && !strstr(client->reply, "bWU6czNjcjN0"));
	CHECK(strstr(client->reply, (char *)encoded) != NULL);
	buf_clear(&basic);
	buf_fmt(&basic, "<%s>", placeholder);
	CHECK(strstr(client->reply, basic.at) != NULL);
	leave_house();
}

TASK_TEST(no_trace, "TRACE, which tells a request back, is refused where secrets are put in")
{
	static const char *const methods[] = {"TRACE", "trace", "TRACK"};
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	for (int i = 0; i < 3; i++) {
		auto_free struct client *client = mem_new_of(struct client);
		auto_buf request = BUF_INIT(4096);

		buf_fmt(&request, "%s /v1/a HTTP/1.1\r\nHost: up.test\r\nX: %s\r\n\r\n", methods[i],
			house.placeholder);
		client->sni = "up.test";
		client->ca = ca;
		client->request = request.at;
		ask(client);
		CHECK(strncmp(client->reply, "HTTP/1.1 403 ", 13) == 0);
	}
	CHECK(house.requests == 0);
	leave_house();
}

TASK_TEST(h2c_with_secrets, "an offer of HTTP/2 does not reach a server that secrets are for")
{
	static const char *const offers[] = {
		"Upgrade: H2C\r\nHTTP2-Settings: AA\r\nConnection: Upgrade, HTTP2-Settings, close",
		"Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade, close",
		"Upgrade: websocket, h2c\r\nConnection: close, upgrade",
	};
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	for (int i = 0; i < 3; i++) {
		auto_free struct client *client = mem_new_of(struct client);
		auto_buf request = BUF_INIT(4096);

		buf_fmt(&request, "GET /v1/a HTTP/1.1\r\nHost: up.test\r\n%s\r\n\r\n", offers[i]);
		client->sni = "up.test";
		client->ca = ca;
		client->request = request.at;
		ask(client);
		CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
		CHECK(!strcasestr(house.saw, "h2c") && !strcasestr(house.saw, "http2-settings"));
		CHECK(!strcasestr(house.saw, "upgrade"));
		CHECK(strstr(house.saw, "Connection: close\r\n") != NULL);
	}
	leave_house();
}

TASK_TEST(long_body, "a long body goes out in chunks, piece by piece, with the values in it")
{
	auto_free struct client *client = mem_new_of(struct client);
	auto_free char *ca = NULL;
	auto_buf request = BUF_INIT(1 << 20);

	CHECK_OK(enter_house(true, INSPECT));
	ca = box_ca();
	buf_fmt(&request,
		"POST /v1/x HTTP/1.1\r\nHost: up.test\r\nContent-Length: %d\r\n"
		"Connection: close\r\n\r\n",
		3000 * (POLICY_PLACEHOLDER_LEN + 1));
	for (int i = 0; i < 3000; i++)
		buf_fmt(&request, "%s;", house.placeholder);
	client->sni = "up.test";
	client->ca = ca;
	client->request = request.at;
	ask(client);
	CHECK(strncmp(client->reply, "HTTP/1.1 200 ", 13) == 0);
	CHECK(strstr(house.saw, "Transfer-Encoding: chunked\r\n") != NULL);
	CHECK(!strstr(house.saw, "Content-Length") && !strstr(house.saw, "cove-secret-"));
	CHECK(!strstr(client->reply, "s3cr3t") && strstr(client->reply, house.placeholder));
	// A head of some 150 bytes, then frames and 3000 times "s3cr3t;".
	CHECK(egress_box_counts(house.box).bytes_out > 21000 &&
	      egress_box_counts(house.box).bytes_out < 21000 + 1000);
	leave_house();
}

#define KEYED                                                                                      \
	"{\"mode\":\"allow\",\"allow\":[\"up.test:%u\"],"                                          \
	"\"secrets\":[{\"name\":\"KEY\",\"value\":\"xxxxxxxy\",\"hosts\":[\"up.test\"]}]}"

TASK_TEST(long_reply, "a long reply comes in chunks, or up to the end for HTTP/1.0: whole")
{
	auto_free char *ca = NULL;

	CHECK_OK(enter_house(true, KEYED));
	ca = box_ca();
	for (int minor = 0; minor < 2; minor++) {
		auto_free struct client *client = mem_new_of(struct client);
		auto_buf request = BUF_INIT(4096);
		size_t content = 0;

		buf_fmt(&request, "GET /big/30000000 HTTP/1.%d\r\nHost: up.test\r\n\r\n", minor);
		client->sni = "up.test";
		client->ca = ca;
		client->request = request.at;
		client->forget = true;
		client_start(client);
		// It is kept open for more where it can be.
		for (int i = 0; i < 3000 && !client->done && client->total < 30000000; i++)
			inside_sleep(5);
		inside_sleep(100);
		content = client->total;
		CHECK(content > 30000000 && content < 30000000 + (minor ? 60000 : 100));
		CHECK(client->done == !minor);
		if (minor) {
			egress_box_free(house.box);
			house.box = NULL;
		}
		client_await(client);
	}
	leave_house();
}

// However a text is cut into pieces, what comes of it is the same.
static void check_cuts(struct secrets_set *set, struct str text, const char *want,
		       size_t (*change)(struct secrets_set *, struct str, bool, struct buf *))
{
	for (size_t cut = 1; cut <= text.len; cut++) {
		auto_buf held = BUF_INIT(1 << 16), out = BUF_INIT(1 << 18);

		for (size_t at = 0; at < text.len; at += cut) {
			size_t n = text.len - at < cut ? text.len - at : cut;

			buf_add(&held, text.at + at, n);
			buf_drop_front(&held,
				       change(set, buf_view(&held), at + n == text.len, &out));
		}
		CHECK(held.len == 0 && str_is(buf_view(&out), want));
	}
}

#define HOLDER_A "cove-secret-00112233445566778899aabbccddeeff"
#define HOLDER_B "cove-secret-ffeeddccbbaa99887766554433221100"

static size_t mask(struct secrets_set *set, struct str in, bool is_end, struct buf *out)
{
	return secrets_mask(set, in, is_end, out);
}

TEST(pieces, "values and placeholders are found wherever a stream is cut, the longest first")
{
	static const struct policy_secret plain;
	static struct secrets_set set = {
		.count = 2,
		.used = ~0ull, // there is no connection to note it in
		.at = {{.value = STR("abcabc"), .placeholder = STR(HOLDER_A), .secret = &plain},
		       {.value = STR("abcabcabd"), .placeholder = STR(HOLDER_B), .secret = &plain}},
	};

	check_cuts(&set, STR("cove-secret-cove-secret-" HOLDER_A "cove-" HOLDER_B "cove-secre"),
		   "cove-secret-cove-secret-abcabccove-abcabcabdcove-secre", secrets_substitute);
	check_cuts(&set, STR("ab abcabcabcabd abcabcabd abcab abcabcabe abcabcab"),
		   "ab " HOLDER_A "abcabd " HOLDER_B " abcab " HOLDER_A "abe " HOLDER_A "ab", mask);
}

TASK_TEST(seal, "a sealed value opens for its box alone, and not when a bit has changed")
{
	auto_buf tls = BUF_INIT(1024), open = BUF_INIT(1024), none = BUF_INIT(1024);

	CHECK_OK(enter_house(false, OPAQUE));
	CHECK_OK(egress_seal(house.egress, BOX, STR("value"), &tls));
	CHECK(!memmem(tls.at, tls.len, "value", 5));
	CHECK_OK(egress_unseal(house.egress, BOX, buf_view(&tls), &open));
	CHECK(str_is(buf_view(&open), "value"));
	CHECK_ERR(egress_unseal(house.egress, "box-2", buf_view(&tls), &none), INVALID);
	tls.at[tls.len / 2] ^= 1;
	CHECK_ERR(egress_unseal(house.egress, BOX, buf_view(&tls), &none), INVALID);
	CHECK_ERR(egress_unseal(house.egress, BOX, STR("short"), &none), INVALID);
	leave_house();
}
