// POSTs JSON to the URL of a sink. Success is a status of 2xx; a redirect is not followed. The head
// of the answer is bounded and parsed by codec/http1; its body is not read. A webhook with a secret
// is signed: HMAC-SHA256 over "TIME.BODY".
#include <openssl/hmac.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codec/http1.h"
#include "codec/text.h"
#include "codec/url.h"
#include "monitor/delivery.h"
#include "monitor/reach.h"

#define HEAD_MAX 8192
#define PIECE 4096
#define ALERTMANAGER_PATH "/api/v2/alerts"

static void post_put_signature(struct buf *head, const struct delivery *delivery)
{
	auto_buf text = BUF_INIT(delivery->body.len + 64);
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	long long now = (long long)(clock_wall_ms() / 1000);

	buf_fmt(&text, "%lld.", now);
	buf_str(&text, delivery->body);
	if (!HMAC(EVP_sha256(), delivery->secret.at, (int)delivery->secret.len,
		  (const uint8_t *)text.at, text.len, mac, &len))
		return;
	buf_fmt(head, "X-Cove-Signature: t=%lld,v1=", now);
	for (unsigned i = 0; i < len; i++)
		buf_fmt(head, "%02x", mac[i]);
	buf_text(head, "\r\n");
}

static void post_put_head(struct buf *head, const struct delivery *delivery, const struct url *url)
{
	bool bare = delivery->sink->kind == SINK_ALERTMANAGER && url->path.len <= 1;
	bool v6 = memchr(url->host.at, ':', url->host.len) != NULL;

	buf_fmt(head, "POST " STR_FMT "%s" STR_FMT " HTTP/1.1\r\n",
		STR_ARG(bare ? STR(ALERTMANAGER_PATH) : url->path), url->query.at ? "?" : "",
		STR_ARG(url->query));
	buf_fmt(head, "Host: %s" STR_FMT "%s", v6 ? "[" : "", STR_ARG(url->host), v6 ? "]" : "");
	if (url->port)
		buf_fmt(head, ":%u", url->port);
	buf_fmt(head,
		"\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nUser-Agent: cove\r\n"
		"Connection: close\r\nX-Cove-Delivery: %s\r\n",
		delivery->body.len, delivery->id);
	if (delivery->secret.len)
		post_put_signature(head, delivery);
	buf_text(head, "\r\n");
}

static fallible post_read_status(struct reach *reach, int *out)
{
	auto_free struct http1_head *head = mem_new_of(struct http1_head);
	auto_buf bytes = BUF_INIT(HEAD_MAX);

	for (;;) {
		enum http1_verdict verdict = bytes.len ? http1_reply(buf_view(&bytes), head)
						       : HTTP1_MORE;
		char piece[PIECE / 2];
		size_t got = 0;

		if (verdict == HTTP1_DONE && head->status >= 200) {
			*out = head->status;
			return OK;
		}
		if (verdict == HTTP1_DONE) {
			buf_drop_front(&bytes, head->size);
			continue;
		}
		if (verdict != HTTP1_MORE)
			return err_new(BAD_PEER, "bad_reply", "the server's answer is malformed");
		TRY(reach_read(reach, piece, sizeof(piece), &got));
		if (!got)
			return err_new(BAD_PEER, "peer_gone", "the server closed the connection");
		buf_add(&bytes, piece, got);
		if (!buf_ok(&bytes))
			return err_new(BAD_PEER, "bad_reply",
				       "the head of the server's answer is too large");
	}
}

static fallible post_exchange(struct reach *reach, const struct delivery *delivery,
			      const struct url *url)
{
	auto_buf head = BUF_INIT(HEAD_MAX);
	int status = 0;
	struct err *lost;

	post_put_head(&head, delivery, url);
	if (!buf_ok(&head))
		return err_new(TOO_LARGE, "bad_url", "the URL is too long");
	TRY(reach_write(reach, head.at, head.len));
	// A server may refuse before it has read all.
	lost = reach_write(reach, delivery->body.at, delivery->body.len);
	if (lost && err_kind(lost) != ERR_BAD_PEER)
		return lost;
	err_free(lost);
	TRY(post_read_status(reach, &status));
	if (status < 200 || status > 299)
		return err_new(BAD_PEER, "refused", "the server answered %d", status);
	return OK;
}

fallible delivery_post(const struct delivery *delivery)
{
	struct reach reach = {.trust = delivery->trust};
	struct url url = {0};
	struct err *err = OK;
	bool tls;

	if (!url_absolute(str_of(delivery->sink->url), &url))
		return err_new(INVALID, "bad_url", "the URL is malformed");
	tls = str_is(url.scheme, "https");
	err = reach_open(&reach, delivery->loop, delivery->hosts, url.host,
			 url.port ? url.port
			 : tls	  ? 443
				  : 80);
	if (!err && tls)
		err = reach_secure(&reach);
	if (!err)
		err = post_exchange(&reach, delivery, &url);
	reach_close(&reach);
	return err;
}
