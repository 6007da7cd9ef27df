// One kept connection; one request at a time. The head of the reply stays in its buffer until the
// next request, so fields can be read while the body is read.
//
// A server may close an idle connection. This is checked before a kept connection is reused. If the
// close happens at the same moment, an idempotent request is sent again, once, on a new connection.
#include "http/client.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "codec/text.h"
#include "http/body_reader.h"
#include "loop/dial.h"

#define CONNECT_MS 10000
#define SILENCE_MS 60000
#define HEAD_MAX (64 * 1024)

struct http_client {
	struct loop *loop;
	char *base_url, *bearer;
	struct url base;  // slices of base_url
	const char *path; // of a Unix socket; NULL: TCP
	struct stream stream;
	bool connected, used; // used: at least one reply was read on this connection
	bool sending;	      // between begin and finish
	bool early;	      // the server answered before the body was sent
	bool no_body;	      // the request was HEAD
	struct buf out, extra;
	struct body_reader body_reader;
	struct http1_head head;
};

static void hang_up(struct http_client *client)
{
	stream_close(&client->stream);
	body_reader_reset(&client->body_reader);
	client->connected = client->used = false;
}

static fallible client_connect_now(struct http_client *client)
{
	uint16_t port = client->base.port ? client->base.port : 80;
	int64_t deadline = loop_now(client->loop) + CONNECT_MS;

	if (client->path)
		TRY(dial_unix(client->loop, client->path, deadline, &client->stream));
	else
		TRY(dial_tcp(client->loop, client->base.host, port, deadline, &client->stream));
	// A reply may take hours, but a dead peer must be detected.
	setsockopt(client->stream.fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
	client->connected = true;
	client->body_reader.stream = &client->stream;
	return OK;
}

// Prepares a new request: the last reply is finished, and the connection is open.
static fallible client_prepare(struct http_client *client)
{
	char c;

	client->sending = client->early = false;
	if (client->connected) {
		bool whole = client->used && client->body_reader.ended && client->head.keep_alive;

		body_reader_next(&client->body_reader);
		// An idle connection has nothing to read: an end, a reset and unexpected bytes all
		// mean that it cannot be reused.
		if (!whole || body_reader_has_bytes(&client->body_reader) ||
		    recv(client->stream.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
			hang_up(client);
	}
	return client->connected ? OK : client_connect_now(client);
}

static void client_put_head(struct http_client *client, const char *method, const char *path)
{
	struct buf *out = &client->out;
	struct str prefix = client->base.path;

	if (prefix.len > 0 && prefix.at[prefix.len - 1] == '/')
		prefix.len--;
	client->no_body = strcmp(method, "HEAD") == 0;
	buf_clear(out);
	buf_text(out, method);
	buf_char(out, ' ');
	buf_str(out, prefix);
	if (*path != '/')
		buf_char(out, '/');
	buf_text(out, path);
	buf_text(out, " HTTP/1.1\r\nHost: ");
	if (memchr(client->base.host.at, ':', client->base.host.len))
		buf_fmt(out, "[" STR_FMT "]", STR_ARG(client->base.host));
	else
		buf_str(out, client->base.host);
	if (client->base.port)
		buf_fmt(out, ":%u", client->base.port);
	if (client->bearer) {
		buf_text(out, "\r\nAuthorization: Bearer ");
		buf_text(out, client->bearer);
	}
	buf_text(out, "\r\n");
	buf_str(out, buf_view(&client->extra));
	buf_clear(&client->extra);
}

static fallible too_long(void)
{
	return err_new(TOO_LARGE, "head_too_large", "the request's head is too large");
}

static fallible client_read_head(struct http_client *client, int *out_status)
{
	enum http1_verdict verdict = HTTP1_MORE;

	do {
		TRY(body_reader_head(&client->body_reader, http1_reply, CLOCK_NEVER, &client->head,
				     &verdict));
		if (verdict == HTTP1_MORE)
			return err_new(BAD_PEER, "peer_gone",
				       "the server closed without an answer");
		if (verdict != HTTP1_DONE)
			return err_hint(err_new(BAD_PEER, "bad_reply",
						"the server's answer is not HTTP/1.1"),
					"is the URL that of a cove server?");
	} while (client->head.status < 200 && client->head.status != 101);
	// 1xx heads are not the answer.
	body_reader_frame_reply(&client->body_reader, &client->head, client->no_body);
	client->used = true;
	*out_status = client->head.status;
	return OK;
}

static fallible client_ask_once(struct http_client *client, struct str body, int *out_status)
{
	struct iovec parts[2] = {
		{client->out.at, client->out.len},
		{(void *)body.at, body.len},
	};
	struct err *err = stream_writev(&client->stream, parts, body.len ? 2 : 1, SILENCE_MS);

	// A server that refuses a long body may have answered before it closed.
	if (err && err_kind(err) != ERR_BAD_PEER)
		return err;
	err_free(err);
	return client_read_head(client, out_status);
}

fallible http_client_ask(struct http_client *client, const char *method, const char *path,
			 struct str body, int *out_status)
{
	bool may_repeat = strcmp(method, "POST") != 0 && strcmp(method, "PATCH") != 0;
	bool was_used;
	struct err *err;

	TRY(client_prepare(client));
	client_put_head(client, method, path);
	if (body.at)
		buf_fmt(&client->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			body.len);
	buf_text(&client->out, "\r\n");
	if (!buf_ok(&client->out))
		return too_long();
	was_used = client->used;
	client->used = false;
	err = client_ask_once(client, body, out_status);
	if (!err)
		return OK;
	hang_up(client);
	if (!was_used || !may_repeat || err_kind(err) != ERR_BAD_PEER)
		return err;
	err_free(err);
	TRY(client_connect_now(client));
	err = client_ask_once(client, body, out_status);
	if (err)
		hang_up(client);
	return err;
}

fallible http_client_begin(struct http_client *client, const char *method, const char *path,
			   const char *type)
{
	TRY(client_prepare(client));
	client_put_head(client, method, path);
	if (type) {
		buf_text(&client->out, "Content-Type: ");
		buf_text(&client->out, type);
		buf_text(&client->out, "\r\n");
	}
	buf_text(&client->out, "Transfer-Encoding: chunked\r\n\r\n");
	if (!buf_ok(&client->out))
		return too_long();
	client->used = false;
	client->sending = true;
	return stream_write(&client->stream, client->out.at, client->out.len, SILENCE_MS);
}

// Sends as much as possible; after the server has answered, the rest is dropped.
static fallible client_offer(struct http_client *client, const char *at, size_t len)
{
	char c;

	while (len > 0 && !client->early) {
		int64_t deadline = loop_now(client->loop) + SILENCE_MS;
		struct err *err;
		size_t n = 0;

		if (recv(client->stream.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
			break;
		err = stream_offer(&client->stream, at, len, deadline, &n);
		if (err && err_kind(err) != ERR_BAD_PEER)
			return err;
		if (err || n == 0) {
			err_free(err);
			break;
		}
		at += n;
		len -= n;
	}
	if (len > 0)
		client->early = true;
	return OK;
}

fallible http_client_write(struct http_client *client, const void *bytes, size_t len)
{
	auto_buf line = BUF_INIT(32);

	if (len == 0)
		return OK;
	buf_fmt(&line, "%zx\r\n", len);
	TRY(client_offer(client, line.at, line.len));
	TRY(client_offer(client, bytes, len));
	return client_offer(client, "\r\n", 2);
}

fallible http_client_finish(struct http_client *client, int *out_status)
{
	struct err *err;

	client->sending = false;
	TRY(client_offer(client, "0\r\n\r\n", 5));
	err = client_read_head(client, out_status);
	if (err)
		hang_up(client);
	else if (client->early)
		client->head.keep_alive = false; // our body was cut: no request can follow it
	return err;
}

fallible http_client_read(struct http_client *client, void *room, size_t size, size_t *out)
{
	return body_reader_read(&client->body_reader, room, size, CLOCK_NEVER, out);
}

fallible http_client_body(struct http_client *client, struct buf *out)
{
	for (;;) {
		char *space;
		size_t n = 0, room = out->ceiling - out->len;

		if (room > 16 * 1024)
			room = 16 * 1024;
		if (room == 0) {
			char c;

			TRY(http_client_read(client, &c, 1, &n));
			if (n == 0)
				return OK;
			return err_new(TOO_LARGE, "reply_too_large",
				       "the server's answer is too large");
		}
		space = buf_space(out, room);
		if (!space)
			return err_new(EXHAUSTED, "no_memory", "there is no memory for the answer");
		TRY(http_client_read(client, space, room, &n));
		if (n == 0)
			return OK;
		buf_grew(out, n);
	}
}

int http_client_fd(const struct http_client *client)
{
	return client->connected ? client->stream.fd : -1;
}

static void client_make_key(char out[WS_KEY_LEN + 1])
{
	auto_buf text = BUF_INIT(WS_KEY_LEN);
	uint8_t bytes[16];

	secret_random(bytes, sizeof(bytes));
	text_base64(&text, bytes, sizeof(bytes));
	memcpy(out, text.at, WS_KEY_LEN + 1);
}

fallible http_client_upgrade(struct http_client *client, const char *path,
			     const struct wsock_options *options, int *out_status,
			     struct wsock **out)
{
	char key[WS_KEY_LEN + 1], accept[WS_ACCEPT_LEN + 1];

	client_make_key(key);
	ws_accept(str_of(key), accept);
	http_client_header(client, "Connection", STR("Upgrade"));
	http_client_header(client, "Upgrade", STR("websocket"));
	http_client_header(client, "Sec-WebSocket-Version", STR("13"));
	http_client_header(client, "Sec-WebSocket-Key", str_of(key));
	TRY(http_client_ask(client, "GET", path, (struct str){NULL, 0}, out_status));
	*out = NULL;
	if (*out_status != 101)
		return OK;
	client->head.keep_alive = false;
	if (!str_is(http_client_field(client, "Sec-WebSocket-Accept"), accept)) {
		hang_up(client);
		return err_new(BAD_PEER, "bad_reply", "the server's WebSocket answer is wrong");
	}
	*out = wsock_new(&client->stream, &client->body_reader, false, options);
	return OK;
}

struct str http_client_field(const struct http_client *client, const char *name)
{
	return http1_field(&client->head, name);
}

void http_client_header(struct http_client *client, const char *name, struct str value)
{
	buf_text(&client->extra, name);
	buf_text(&client->extra, ": ");
	buf_str(&client->extra, value);
	buf_text(&client->extra, "\r\n");
}

fallible http_client_open(struct loop *loop, struct str base_url, struct str bearer,
			  struct http_client **out)
{
	auto_http_client client = mem_new_of(struct http_client);

	client->loop = loop;
	client->stream.fd = -1;
	client->out = client->extra = BUF_INIT(HEAD_MAX);
	client->base_url = mem_dup(base_url.at, base_url.len);
	if (str_starts(base_url, HTTP_CLIENT_UNIX)) {
		client->path = client->base_url + strlen(HTTP_CLIENT_UNIX);
		client->base = (struct url){.scheme = STR("http"), .host = STR("localhost")};
	} else if (!url_absolute((struct str){client->base_url, base_url.len}, &client->base))
		return err_hint(err_new(INVALID, "bad_url",
					"'" STR_FMT "' is not the URL of a server",
					STR_ARG(base_url)),
				"write http://127.0.0.1:8484");
	if (!str_is(client->base.scheme, "http"))
		return err_hint(err_new(NOT_OFFERED, "bad_scheme", "only http:// is supported"),
				"reach a remote server through an ssh tunnel");
	if (bearer.at) {
		for (size_t i = 0; i < bearer.len; i++)
			if (bearer.at[i] <= ' ' || bearer.at[i] > '~')
				return err_new(INVALID, "bad_key",
					       "the key contains invalid characters");
		client->bearer = mem_dup(bearer.at, bearer.len);
	}
	*out = take_ptr(client);
	return OK;
}

void http_client_free(struct http_client *client)
{
	if (!client)
		return;
	stream_close(&client->stream);
	body_reader_done(&client->body_reader);
	if (client->bearer)
		secret_wipe(client->bearer, strlen(client->bearer));
	if (client->out.at)
		secret_wipe(client->out.at, client->out.room);
	buf_done(&client->out);
	buf_done(&client->extra);
	free(client->bearer);
	free(client->base_url);
	free(client);
}
