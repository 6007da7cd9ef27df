// X-Forwarded-… fields are set by us: those of a client are dropped, unless the client is
// authenticated by the API and acts for somebody else (keep_origin). The Host field has the name by
// which the server knows itself, because development servers refuse others; the client's name is in
// X-Forwarded-Host.
#include "http/relay_head.h"

#include <string.h>

#define FIELDS_MAX (28 * 1024) // fields of the reply: the limit of a head minus our own fields

#define NAME(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

static bool relay_head_is_among(struct str name, const struct str *list)
{
	for (; list->at; list++)
		if (str_eq_nocase(name, *list))
			return true;
	return false;
}

// RFC 9110, 7.6.1: fields named in Connection are hop-by-hop too.
static bool relay_head_is_named(const struct http1_head *head, struct str name)
{
	for (size_t i = 0; i < head->field_count; i++)
		if (str_eq_nocase(head->fields[i].name, STR("Connection")) &&
		    http_has_token(head->fields[i].value, name))
			return true;
	return false;
}

static bool relay_head_stays(const struct http1_head *head, struct str name)
{
	static const struct str hops[] = {
		NAME("Connection"),
		NAME("Keep-Alive"),
		NAME("Proxy-Authenticate"),
		NAME("Proxy-Authorization"),
		NAME("Proxy-Connection"),
		NAME("TE"),
		NAME("Trailer"),
		NAME("Transfer-Encoding"),
		NAME("Upgrade"),
		NAME("HTTP2-Settings"),
		NAME("Content-Length"),
		NAME("Host"),
		NAME("Expect"),
		{NULL, 0},
	};

	return relay_head_is_among(name, hops) || relay_head_is_named(head, name);
}

static bool is_origin_story(struct str name)
{
	static const struct str told[] = {
		NAME("Forwarded"),	 NAME("X-Real-IP"),	 NAME("X-Original-URL"),
		NAME("X-Original-Host"), NAME("X-Sandbox-Name"), {NULL, 0},
	};

	return (name.len > 12 && str_eq_nocase((struct str){name.at, 12}, STR("X-Forwarded-"))) ||
	       relay_head_is_among(name, told);
}

// Fields that apply to a whole origin, of which the server has only a path.
static bool is_of_origin(struct str name)
{
	static const struct str wide[] = {
		NAME("Service-Worker-Allowed"),
		NAME("Clear-Site-Data"),
		NAME("Strict-Transport-Security"),
		NAME("Alt-Svc"),
		{NULL, 0},
	};

	return relay_head_is_among(name, wide);
}

static bool is_more(const struct relay_options *options, struct str name)
{
	for (size_t i = 0; i < options->more_count; i++)
		if (str_eq_nocase(name, options->more[i].name))
			return true;
	return false;
}

bool relay_head_is_upgrade(const struct http *x)
{
	return x->conn && x->head.upgrade && x->head.minor == 1 && !x->head.chunked &&
	       !x->body_left && str_is(x->head.method, "GET") &&
	       http_has_token(http_field(x, "Upgrade"), STR("websocket"));
}

static const char *proto_of(const struct relay_options *options)
{
	return options->proto ? options->proto : "http";
}

// Whether Origin is the page's own server. A page that opens a WebSocket to its own server must
// look same-origin to that server too.
static bool is_own_origin(const struct http *x, const struct relay_options *options,
			  struct str origin)
{
	struct str host = http_field(x, "Host");
	size_t proto = strlen(proto_of(options));

	return origin.len == proto + 3 + host.len && host.len &&
	       memcmp(origin.at, proto_of(options), proto) == 0 &&
	       memcmp(origin.at + proto, "://", 3) == 0 &&
	       str_eq_nocase(str_skip(origin, proto + 3), host);
}

static void relay_head_put_field(struct buf *out, struct str name, struct str value)
{
	buf_str(out, name);
	buf_add(out, ": ", 2);
	buf_str(out, value);
	buf_add(out, "\r\n", 2);
}

static void put_client_fields(const struct http *x, const struct relay_options *options,
			      bool upgrade, struct buf *out)
{
	for (size_t i = 0; i < x->head.field_count; i++) {
		struct http1_field field = x->head.fields[i];

		if (relay_head_stays(&x->head, field.name) ||
		    (!options->keep_origin && is_origin_story(field.name)) ||
		    is_more(options, field.name) ||
		    (!options->keep_bearer && str_eq_nocase(field.name, STR("Authorization"))) ||
		    (options->shares_origin && str_eq_nocase(field.name, STR("Referer"))))
			continue; // a Referer of this origin may contain a token
		if (upgrade && str_eq_nocase(field.name, STR("Origin")) &&
		    is_own_origin(x, options, field.value))
			buf_fmt(out, "Origin: http://" STR_FMT "\r\n", STR_ARG(options->host));
		else
			relay_head_put_field(out, field.name, field.value);
	}
}

// Writes a field about the request's origin; the client's own one wins where keep_origin allows.
static void put_origin(const struct http *x, const struct relay_options *options, const char *name,
		       struct str value, struct buf *out)
{
	if (value.len && !(options->keep_origin && http_field(x, name).at))
		relay_head_put_field(out, str_of(name), value);
}

fallible relay_head_request(const struct http *x, const struct relay_options *options, bool upgrade,
			    struct buf *out)
{
	uint64_t len;

	buf_str(out, x->head.method);
	buf_char(out, ' ');
	buf_str(out, options->path);
	if (x->url.query.at && x->url.query.len) {
		buf_char(out, '?');
		buf_str(out, x->url.query);
	}
	buf_text(out, " HTTP/1.1\r\n");
	relay_head_put_field(out, STR("Host"), options->host);
	put_client_fields(x, options, upgrade, out);
	put_origin(x, options, "X-Forwarded-For", x->peer, out);
	put_origin(x, options, "X-Forwarded-Proto", str_of(proto_of(options)), out);
	put_origin(x, options, "X-Forwarded-Host", http_field(x, "Host"), out);
	for (size_t i = 0; i < options->more_count; i++)
		relay_head_put_field(out, options->more[i].name, options->more[i].value);
	if (upgrade)
		buf_text(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
	else {
		if (x->head.chunked)
			buf_text(out, "Transfer-Encoding: chunked\r\n");
		else if (http_length(x, &len))
			buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long)len);
		buf_text(out, options->conn ? "\r\n" : "Connection: close\r\n\r\n");
	}
	if (!buf_ok(out))
		return err_new(HEAD_TOO_LARGE, "head_too_large", "the head is too large");
	return OK;
}

void relay_head_cookie(struct str value, struct str prefix, struct buf *out)
{
	struct str part;

	for (bool first = true; value.at && str_cut(&value, ';', &part); first = false) {
		struct str name, rest = str_trim(part);

		if (first) {
			buf_str(out, rest);
			continue;
		}
		str_cut(&rest, '=', &name);
		name = str_trim(name);
		if (str_eq_nocase(name, STR("Domain")))
			continue;
		buf_add(out, "; ", 2);
		if (rest.at && str_eq_nocase(name, STR("Path")) &&
		    str_starts(str_trim(rest), "/")) {
			buf_text(out, "Path=");
			buf_str(out, prefix);
			buf_str(out, str_trim(rest));
		} else {
			buf_str(out, str_trim(part));
		}
	}
}

// Reduces "http://localhost:8080/x" to "/x" if that is the server itself.
static bool is_itself(struct str *value, struct str host)
{
	static const char *const starts[] = {"http://", "https://", "//", NULL};

	for (size_t i = 0; starts[i]; i++) {
		struct str rest;
		size_t len = strlen(starts[i]);

		if (!str_starts(*value, starts[i]))
			continue;
		rest = str_skip(*value, len);
		if (rest.len < host.len || !str_eq_nocase((struct str){rest.at, host.len}, host) ||
		    (rest.len > host.len && !memchr("/?#", rest.at[host.len], 3)))
			return false;
		*value = str_skip(rest, host.len);
		return true;
	}
	return false;
}

void relay_head_location(struct str value, const struct relay_options *options, struct buf *out)
{
	bool itself = is_itself(&value, options->host);

	if (itself || (str_starts(value, "/") && !str_starts(value, "//"))) {
		buf_str(out, options->prefix);
		if (!str_starts(value, "/"))
			buf_char(out, '/');
	}
	buf_str(out, value);
}

static void set_field(struct http *x, const struct relay_options *options, struct str name,
		      struct str value)
{
	auto_buf changed = BUF_INIT(FIELDS_MAX);
	const char *words = arena_dup(x->arena, name.at, name.len);

	if (options->prefix.at && str_eq_nocase(name, STR("Set-Cookie")))
		relay_head_cookie(value, options->prefix, &changed);
	else if (options->prefix.at && str_eq_nocase(name, STR("Location")))
		relay_head_location(value, options, &changed);
	else {
		http_set(x, words, value);
		return;
	}
	http_set(x, words, buf_view(&changed));
}

fallible relay_head_reply(struct http *x, const struct relay_options *options,
			  const struct http1_head *head, bool upgrade)
{
	size_t bytes = 0;

	for (size_t i = 0; i < head->field_count; i++)
		bytes += head->fields[i].name.len + head->fields[i].value.len + 4 +
			 options->prefix.len;
	if (bytes > FIELDS_MAX)
		return err_new(BAD_PEER, "bad_reply", "the server's head is too large");
	for (size_t i = 0; i < head->field_count; i++) {
		struct http1_field field = head->fields[i];

		if (relay_head_stays(head, field.name) || str_eq_nocase(field.name, STR("Date")) ||
		    (!upgrade && str_eq_nocase(field.name, STR("Content-Type"))) ||
		    (options->prefix.len && is_of_origin(field.name)) ||
		    (options->shares_origin && str_eq_nocase(field.name, STR("Referrer-Policy"))))
			continue;
		set_field(x, options, field.name, field.value);
	}
	// A preview's URL is a secret: the browser must not send it to other sites.
	if (options->prefix.at && !http1_field(head, "Referrer-Policy").at)
		http_set(x, "Referrer-Policy", STR("same-origin"));
	// The server's pages are untrusted: a browser must not treat them as part of this origin,
	// nor send their URL, which may contain a token, to others.
	if (options->shares_origin) {
		http_set(x, "Referrer-Policy", STR("no-referrer"));
		http_set(x, "Content-Security-Policy", STR("sandbox allow-scripts allow-forms"));
	}
	return OK;
}
