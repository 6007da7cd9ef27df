// Identifies a connection by its first bytes, read with MSG_PEEK so that they stay in the socket.
//
// Anything that a lenient server would take for a request is one: blank lines before it, a method
// in any case. follow.c is stricter and refuses what is doubtful. Other protocols begin with a word
// and a space, too (SSH-2.0-x y, EHLO me, get key): the version at the end of the line tells them
// apart.
//
// syscalls: recvfrom
#include <errno.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/mem.h"
#include "egress/private.h"

#define PEEK_MAX (HELLO_BYTES_MAX + 1)
#define WORD_MAX 4096 // longer than any method that a server accepts

struct sniff *sniff_new(void)
{
	struct sniff *sniff = mem_new_of(struct sniff);

	*sniff = (struct sniff){.room = mem_new(PEEK_MAX), .hello = HELLO_INIT};
	return sniff;
}

void sniff_forget(struct sniff *sniff)
{
	free(take_ptr(sniff->room));
}

void sniff_free(struct sniff *sniff)
{
	sniff_forget(sniff);
	free(sniff);
}

void sniff_take_target(struct conn *conn)
{
	const char *name = conn->box->names ? names_find(conn->box->names, &conn->to) : NULL;

	if (name) {
		conn->kind = HOSTNAME_NAME;
		verdict_set(conn->name, sizeof(conn->name), name);
	} else if (names_is_synthetic(&conn->to)) {
		conn->kind = HOSTNAME_BAD;
		conn->name[0] = 0;
	} else {
		char text[ADDRESS_TEXT];

		conn->kind = HOSTNAME_LITERAL;
		address_write(&conn->to, text);
		verdict_set(conn->name, sizeof(conn->name), text);
	}
}

fallible sniff_wait(struct conn *conn, struct sniff *sniff, int64_t deadline, bool *out_end)
{
	struct stream *in = &conn->in;

	for (;;) {
		bool over = in->hung_up;
		ssize_t n;

		if (in->fd < 0 || sniff->over)
			return err_new(BAD_PEER, "peer_gone", "the connection is over");
		in->readable = false;
		n = recv(in->fd, sniff->room + sniff->gone, PEEK_MAX - sniff->gone,
			 MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_new(BAD_PEER, "peer_gone", "the client closed the connection");
		if (n > 0 && sniff->gone + (size_t)n > sniff->have) {
			sniff->have = sniff->gone + (size_t)n;
			*out_end = false;
			return OK;
		}
		if (n == 0 || (n > 0 && over)) {
			*out_end = true;
			return OK;
		}
		TRY(stream_wait_readable(in, deadline));
	}
}

// ------------------------------------------------------------------------------------- a request

static bool is_blank(char c)
{
	return c == '\r' || c == '\n' || c == ' ' || c == '\t';
}

static bool is_token(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool sniff_has_version(struct str line)
{
	for (; line.len >= 5; line = str_skip(line, 1))
		if (!strncasecmp(line.at, "HTTP/", 5))
			return true;
	return false;
}

// HTTP/0.9 has no version.
static bool is_plain_method(struct str method, struct str rest)
{
	static const char *const methods[] = {"GET",	 "HEAD",  "POST",  "PUT",
					      "OPTIONS", "PATCH", "DELETE"};

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (str_is(method, methods[i]))
			return rest.len > 1 && rest.at[1] == '/';
	return false;
}

static bool has_control(struct str line)
{
	for (size_t i = 0; i < line.len; i++)
		if ((uint8_t)line.at[i] < ' ' && !is_blank(line.at[i]))
			return true;
	return false;
}

// Is this the beginning of a request? BAD: of something else.
static enum looked sniff_http(struct str all)
{
	struct str method, line;
	const char *end;
	size_t i = 0;

	while (i < all.len && is_blank(all.at[i]))
		i++;
	if (i == all.len)
		return LOOKED_MORE;
	method = str_skip(all, i);
	i = 0;
	while (i < method.len && i < WORD_MAX && is_token(method.at[i]))
		i++;
	if (i == method.len)
		return LOOKED_MORE;
	line = str_skip(method, i);
	method.len = i;
	if (!i || (line.at[0] != ' ' && line.at[0] != '\t'))
		return LOOKED_BAD;
	if (is_plain_method(method, line))
		return LOOKED_DONE;
	end = memchr(line.at, '\n', line.len);
	if (end)
		line.len = (size_t)(end - line.at);
	if (sniff_has_version(line))
		return LOOKED_DONE;
	return end || has_control(line) ? LOOKED_BAD : LOOKED_MORE;
}

// The connection preface of RFC 9113, 3.4: HTTP/2 without TLS, by prior knowledge. BAD: it is not.
static enum looked sniff_http2(struct str all)
{
	const struct str preface = STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	size_t len = all.len < preface.len ? all.len : preface.len;

	if (memcmp(all.at, preface.at, len) != 0)
		return LOOKED_BAD;
	return len == preface.len ? LOOKED_DONE : LOOKED_MORE;
}

enum looked sniff_at(struct conn *conn, struct sniff *sniff)
{
	struct str all = {sniff->room, sniff->have};
	enum looked http2;

	switch (hello_feed(&sniff->hello, str_skip(all, sniff->hello.seen))) {
	case HELLO_MORE:
		conn->protocol = SNIFF_TLS;
		return sniff->have < PEEK_MAX ? LOOKED_MORE : LOOKED_BAD;
	case HELLO_DONE:
		conn->protocol = SNIFF_TLS;
		conn->ech = sniff->hello.has_ech;
		return LOOKED_DONE;
	case HELLO_NOT_TLS:
		break;
	default:
		conn->protocol = SNIFF_TLS;
		return LOOKED_BAD;
	}
	http2 = sniff_http2(all);
	if (http2 == LOOKED_DONE)
		conn->protocol = SNIFF_HTTP2;
	if (http2 != LOOKED_BAD)
		return http2;
	switch (sniff_http(all)) {
	case LOOKED_MORE:
		return sniff->have < PEEK_MAX ? LOOKED_MORE : LOOKED_BAD;
	case LOOKED_DONE:
		conn->protocol = SNIFF_HTTP;
		return LOOKED_DONE;
	default:
		conn->protocol = SNIFF_UNKNOWN;
		return LOOKED_DONE;
	}
}

fallible sniff_find_out(struct conn *conn, struct sniff *sniff, bool patient)
{
	struct loop *loop = conn->box->egress->loop;
	int64_t deadline = loop_now(loop) + HELLO_MS;

	for (;;) {
		bool may_wait = !patient && conn->protocol == SNIFF_UNKNOWN, end = false;
		int64_t quiet = loop_now(loop) + SILENT_MS;
		struct err *err = sniff_wait(conn, sniff,
					     may_wait && quiet < deadline ? quiet : deadline, &end);

		if (err && may_wait && err_kind(err) == ERR_TIMEOUT) {
			err_free(err);
			sniff->undecided = true;
			return OK;
		}
		TRY(err);
		if (end && sniff->have && conn->protocol == SNIFF_UNKNOWN)
			return OK; // end of the stream
		if (end)
			return err_new(BAD_PEER, "peer_gone", "the client sent nothing");
		switch (sniff_at(conn, sniff)) {
		case LOOKED_BAD:
			return err_new(INVALID, "bad_hello", "not a TLS ClientHello");
		case LOOKED_MORE:
			break;
		case LOOKED_DONE:
			if (conn->protocol == SNIFF_TLS && sniff->hello.has_name) {
				conn->kind = sniff->hello.kind;
				memcpy(conn->name, sniff->hello.name, sizeof(conn->name));
			}
			return OK;
		}
	}
}
