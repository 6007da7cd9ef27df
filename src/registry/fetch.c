// A connection per request: registries redirect blobs to other hosts anyway. libcurl was declined:
// it would bring a second HTTP parser, a second resolver and a second TLS configuration into the
// daemon, and each would have to be driven through the judged dialer and the seccomp filter.
#include "registry/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/weak.h"
#include "codec/url.h"
#include "egress/tls_stream.h"
#include "types/address.h"
#include "types/timers.h"

#define CONNECT_MS 15000
#define URL_MAX 8192
#define REQUEST_MAX (32 * 1024)
#define HEADS_MAX 8 // 1xx before the answer
#define PIECE (16 * 1024)

struct fetch {
	struct loop *loop;
	struct stream stream;
	struct tls_stream *tls; // NULL: plain
	struct buf in;		// the head; then bytes of the body that came with it
	size_t taken;		// of `in`
	struct http1_head head;
	enum { BODY_LENGTH, BODY_CHUNKED, BODY_TO_CLOSE } framing;
	uint64_t left;
	struct http1_chunks chunks;
	char *room; // chunked: read, not yet decoded
	size_t room_at, room_len;
	bool ended;
	int64_t answer_ms; // loop time until which the head, or a document, must be there; 0: none
};

void fetch_free(struct fetch *fetch)
{
	if (!fetch)
		return;
	tls_stream_free(fetch->tls);
	stream_close(&fetch->stream);
	buf_done(&fetch->in);
	free(fetch->room);
	free(fetch);
}

int fetch_status(const struct fetch *fetch)
{
	return fetch->head.status;
}

struct str fetch_field(const struct fetch *fetch, const char *name)
{
	return http1_field(&fetch->head, name);
}

const struct http1_head *fetch_head(const struct fetch *fetch)
{
	return &fetch->head;
}

// --------------------------------------------------------------------------------------------
// where

static bool is_loopback_host(struct str host)
{
	struct address address;

	if (str_eq_nocase(host, STR("localhost")))
		return true;
	return address_read(host, &address) &&
	       (address.is_v6 ? !memcmp(address.at, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16)
			      : address.at[0] == 127);
}

// HOST or HOST:PORT in the operator's list.
static bool is_insecure(const struct fetch_rules *rules, const struct url *url)
{
	struct str rest = rules->insecure, word;
	char whole[300];
	int len = snprintf(whole, sizeof(whole), STR_FMT ":%u", STR_ARG(url->host),
			   url->port ? url->port : 80);

	while (rest.len && str_cut(&rest, ',', &word)) {
		word = str_trim(word);
		if (str_eq_nocase(word, url->host) ||
		    str_eq_nocase(word, (struct str){whole, (size_t)len}))
			return true;
	}
	return rules->loopback && is_loopback_host(url->host);
}

bool fetch_is_loopback(const char *text)
{
	struct url url;

	return url_absolute(str_of(text), &url) && is_loopback_host(url.host);
}

bool fetch_may_carry_secrets(const struct fetch_rules *rules, const char *text)
{
	struct url url;

	return url_absolute(str_of(text), &url) &&
	       (str_is(url.scheme, "https") || is_insecure(rules, &url));
}

static fallible fetch_explain(struct err *err, const struct url *url)
{
	int len = (int)url->host.len;

	if (!err || err_kind(err) == ERR_CANCELLED)
		return err;
	if (!strcmp(err_reason(err), "not_global"))
		return err_hint(err_recast(err, ERR_FORBIDDEN, "not_global",
					   "the registry '%.*s' is on this host or in a private "
					   "network",
					   len, url->host.at),
				"the operator may list its address in registry-exceptions");
	if (!strcmp(err_reason(err), "bad_tls"))
		return err_hint(err_recast(err, ERR_BAD_PEER, "tls_untrusted",
					   "the registry '%.*s' is not trusted: %s", len,
					   url->host.at, err_message(err)),
				"registry-ca names further certificates that cove trusts");
	if (err_kind(err) == ERR_EXHAUSTED || err_kind(err) == ERR_INTERNAL)
		return err;
	return err_hint(err_recast(err, ERR_BAD_PEER, "registry_unreachable",
				   "the registry '%.*s' cannot be reached: %s", len, url->host.at,
				   err_message(err)),
			"check its name and the network of cove's host");
}

static fallible fetch_connect(struct fetch *fetch, const struct fetch_rules *rules,
			      const struct url *url)
{
	static const char loopback[] = "127.0.0.0/8, ::1";
	struct outbound outbound = *rules->outbound;
	bool tls = str_is(url->scheme, "https");
	uint16_t port = url->port ? url->port : tls ? 443 : 80;
	auto_free char *name = mem_dup(url->host.at, url->host.len);
	auto_free char *exceptions = NULL;

	if (!tls && !is_insecure(rules, url) && !weak(OUTBOUND))
		return err_hint(err_new(FORBIDDEN, "insecure_registry",
					"the registry '%s' would be asked without TLS", name),
				"the operator may list it in registry-insecure");
	if (rules->loopback) {
		exceptions = mem_fmt("%s%s" STR_FMT, loopback, outbound.exceptions.len ? ", " : "",
				     STR_ARG(outbound.exceptions));
		outbound.exceptions = str_of(exceptions);
	}
	TRY(fetch_explain(outbound_open(&outbound, rules->loop, url->host, port,
					loop_now(rules->loop) + CONNECT_MS, &fetch->stream),
			  url));
	if (!tls)
		return OK;
	return fetch_explain(tls_stream_connect(&fetch->stream, outbound.trust, name,
						timer_ms(TIMER_REGISTRY_SILENCE), &fetch->tls),
			     url);
}

// ---------------------------------------------------------------------------------------- exchange

static fallible fetch_send(struct fetch *fetch, const struct fetch_request *request,
			   const struct url *url)
{
	bool v6 = memchr(url->host.at, ':', url->host.len);
	auto_secret_buf text = BUF_INIT(REQUEST_MAX);

	buf_fmt(&text, "%s " STR_FMT "%s" STR_FMT " HTTP/1.1\r\nHost: %s" STR_FMT "%s",
		request->form.at ? "POST" : "GET", STR_ARG(url->path), url->query.len ? "?" : "",
		STR_ARG(url->query), v6 ? "[" : "", STR_ARG(url->host), v6 ? "]" : "");
	if (url->port)
		buf_fmt(&text, ":%u", url->port);
	buf_text(&text, "\r\nUser-Agent: cove\r\nConnection: close\r\n");
	if (request->accept)
		buf_fmt(&text, "Accept: %s\r\n", request->accept);
	if (request->authorization)
		buf_fmt(&text, "Authorization: %s\r\n", request->authorization);
	if (request->from)
		buf_fmt(&text, "Range: bytes=%llu-\r\n", (unsigned long long)request->from);
	if (request->form.at)
		buf_fmt(&text,
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "
			"%zu\r\n",
			request->form.len);
	buf_text(&text, "\r\n");
	buf_str(&text, request->form);
	if (!buf_ok(&text))
		return err_new(INVALID, "bad_reference", "the request is too long");
	if (fetch->tls)
		return tls_stream_write(fetch->tls, text.at, text.len,
					timer_ms(TIMER_REGISTRY_SILENCE));
	return stream_write(&fetch->stream, text.at, text.len, timer_ms(TIMER_REGISTRY_SILENCE));
}

static fallible fetch_raw(struct fetch *fetch, void *room, size_t size, size_t *out)
{
	int64_t deadline = loop_now(fetch->loop) + timer_ms(TIMER_REGISTRY_SILENCE);
	struct err *err;

	if (fetch->answer_ms && fetch->answer_ms < deadline)
		deadline = fetch->answer_ms;
	err = fetch->tls ? tls_stream_read(fetch->tls, room, size, deadline, out)
			 : stream_read(&fetch->stream, room, size, deadline, out);
	if (err && err_kind(err) == ERR_TIMEOUT)
		return err_hint(err_recast(err, ERR_BAD_PEER, "registry_unreachable",
					   "the registry sends nothing, or too slowly"),
				"try again in a moment");
	return err;
}

static fallible bad_reply(const char *what)
{
	return err_hint(err_new(BAD_PEER, "registry_unreachable", "the registry's answer %s", what),
			"is that the address of a registry?");
}

void fetch_hurry(struct fetch *fetch)
{
	fetch->answer_ms = loop_now(fetch->loop) + timer_ms(TIMER_REGISTRY_ANSWER);
}

static fallible fetch_receive(struct fetch *fetch)
{
	enum http1_verdict verdict = HTTP1_MORE;
	int heads = 0;

	fetch->in = BUF_INIT(HTTP1_HEAD_MAX + PIECE);
	fetch_hurry(fetch);
	for (;;) {
		size_t got = 0;
		char *room;

		verdict = fetch->in.len ? http1_reply(buf_view(&fetch->in), &fetch->head)
					: HTTP1_MORE;
		if (verdict == HTTP1_DONE && fetch->head.status >= 200)
			break;
		if (verdict == HTTP1_DONE && ++heads <= HEADS_MAX) {
			buf_drop_front(&fetch->in, fetch->head.size);
			continue;
		}
		if (verdict != HTTP1_MORE)
			return bad_reply("is no HTTP, or its head is too large");
		room = buf_space(&fetch->in, PIECE / 4);
		if (!room)
			return bad_reply("has a head that is too large");
		TRY(fetch_raw(fetch, room, PIECE / 4, &got));
		if (!got)
			return bad_reply("is missing: it closed the connection");
		buf_grew(&fetch->in, got);
	}
	fetch->answer_ms = 0;
	fetch->taken = fetch->head.size;
	if (fetch->head.chunked) {
		fetch->framing = BODY_CHUNKED;
		fetch->room = mem_new(PIECE);
	} else if (fetch->head.has_length) {
		fetch->framing = BODY_LENGTH;
		fetch->left = fetch->head.length;
	} else {
		fetch->framing = BODY_TO_CLOSE;
	}
	fetch->ended = fetch->head.status == 204 || fetch->head.status == 304;
	return OK;
}

// Bytes as they came, those beside the head first.
static fallible fetch_next(struct fetch *fetch, void *room, size_t size, size_t *out)
{
	size_t ready = fetch->in.len - fetch->taken;

	if (!ready)
		return fetch_raw(fetch, room, size, out);
	*out = ready < size ? ready : size;
	memcpy(room, fetch->in.at + fetch->taken, *out);
	fetch->taken += *out;
	return OK;
}

static fallible fetch_cut(void)
{
	return err_new(BAD_PEER, "cut_body", "the registry ended the transfer too early");
}

static fallible fetch_read_chunked(struct fetch *fetch, char *room, size_t size, size_t *out)
{
	for (;;) {
		struct str in = {fetch->room + fetch->room_at, fetch->room_len - fetch->room_at};
		struct str data = {0};
		enum http1_verdict verdict;
		size_t used = 0;

		if (in.len > size)
			in.len = size; // decoded bytes are no more than these
		verdict = http1_unchunk(&fetch->chunks, in, &data, &used);
		fetch->room_at += used;
		fetch->ended = verdict == HTTP1_DONE;
		if (verdict != HTTP1_DONE && verdict != HTTP1_MORE)
			return bad_reply("is malformed");
		if (data.len || fetch->ended) {
			if (data.len)
				memcpy(room, data.at, data.len);
			*out = data.len;
			return OK;
		}
		if (fetch->room_at < fetch->room_len && used)
			continue;
		fetch->room_at = fetch->room_len = 0;
		TRY(fetch_next(fetch, fetch->room, PIECE, &fetch->room_len));
		if (!fetch->room_len)
			return fetch_cut();
	}
}

fallible fetch_read(struct fetch *fetch, void *room, size_t size, size_t *out)
{
	*out = 0;
	if (fetch->ended || (fetch->framing == BODY_LENGTH && !fetch->left))
		return OK;
	if (fetch->framing == BODY_CHUNKED)
		return fetch_read_chunked(fetch, room, size, out);
	if (fetch->framing == BODY_LENGTH && fetch->left < size)
		size = (size_t)fetch->left;
	TRY(fetch_next(fetch, room, size, out));
	if (fetch->framing == BODY_LENGTH) {
		if (!*out)
			return fetch_cut();
		fetch->left -= *out;
	} else if (!*out) {
		if (fetch->tls && tls_stream_is_cut(fetch->tls))
			return fetch_cut();
		fetch->ended = true;
	}
	return OK;
}

// ----------------------------------------------------------------------------------------
// redirects

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static uint16_t port_of(const struct url *url)
{
	return url->port ? url->port : str_is(url->scheme, "https") ? 443 : 80;
}

static bool is_same_server(const struct url *a, const struct url *b)
{
	return str_eq(a->scheme, b->scheme) && str_eq_nocase(a->host, b->host) &&
	       port_of(a) == port_of(b);
}

// The address that a redirect leads to, as a whole URL. The caller frees it.
static fallible fetch_target(const struct fetch *fetch, const struct url *from, char **out)
{
	struct str place = fetch_field(fetch, "Location");
	struct url to;
	bool v6 = memchr(from->host.at, ':', from->host.len);
	char *text;

	if (!place.len || place.len > URL_MAX)
		return bad_reply("is a redirect to nowhere");
	if (str_starts(place, "/") && !str_starts(place, "//"))
		text = mem_fmt(STR_FMT "://%s" STR_FMT "%s:%u" STR_FMT, STR_ARG(from->scheme),
			       v6 ? "[" : "", STR_ARG(from->host), v6 ? "]" : "", port_of(from),
			       STR_ARG(place));
	else
		text = mem_dup(place.at, place.len);
	if (!url_absolute(str_of(text), &to) ||
	    (str_is(from->scheme, "https") && !str_is(to.scheme, "https"))) {
		free(text);
		return bad_reply("is a redirect to what is no https address");
	}
	*out = text;
	return OK;
}

static fallible fetch_once(const struct fetch_rules *rules, const struct fetch_request *request,
			   const struct url *url, struct fetch **out)
{
	auto_fetch fetch = mem_new_of(struct fetch);
	struct err *err;

	fetch->loop = rules->loop;
	fetch->stream.fd = -1;
	TRY(fetch_connect(fetch, rules, url));
	err = fetch_send(fetch, request, url);
	if (!err)
		err = fetch_receive(fetch);
	if (err && (err_kind(err) == ERR_BAD_PEER || err_kind(err) == ERR_TIMEOUT) &&
	    strcmp(err_reason(err), "registry_unreachable") != 0)
		err = fetch_explain(err, url);
	if (err)
		return err;
	*out = take_ptr(fetch);
	return OK;
}

fallible fetch_open(const struct fetch_rules *rules, const struct fetch_request *request,
		    struct fetch **out)
{
	struct fetch_request now = *request;
	struct fetch_rules here = *rules;
	auto_free char *text = mem_str(request->url);
	struct url url;

	for (int turn = 0; turn <= FETCH_REDIRECTS; turn++) {
		auto_fetch fetch = NULL;
		char *next = NULL;
		struct url to;

		if (!url_absolute(str_of(text), &url))
			return bad_reply("names what is no http or https address");
		now.url = text;
		// A server elsewhere does not lead back to loopback, nor does a name.
		here.loopback = here.loopback && is_loopback_host(url.host);
		TRY(fetch_once(&here, &now, &url, &fetch));
		if (!is_redirect(fetch->head.status)) {
			*out = take_ptr(fetch);
			return OK;
		}
		TRY(fetch_target(fetch, &url, &next));
		url_absolute(str_of(next), &to);
		if (!is_same_server(&url, &to) && !weak(REGISTRY_AUTH))
			now.authorization = NULL;
		now.form = (struct str){0};
		free(text);
		text = next;
	}
	return bad_reply("redirects in a circle");
}
