// Splits URLs into slices of the input; nothing is decoded except by url_query(). Only printable
// ASCII is accepted, so a NUL, a blank or a control character never passes.
#include "codec/url.h"

#include "codec/text.h"

static bool is_printable(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] <= ' ' ||
		    s.at[i] >= 0x7f) // char may be signed: both comparisons reject >= 0x80
			return false;
	return true;
}

bool url_target(struct str text, struct url *out)
{
	struct url url = {0};

	if (!str_starts(text, "/") || !is_printable(text) || memchr(text.at, '#', text.len))
		return false;
	str_cut(&text, '?', &url.path);
	url.query = text;
	*out = url;
	return true;
}

static bool url_is_host(struct str s, const char *others)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    !(c && strchr(others, c)))
			return false;
	}
	return s.len > 0 && s.len <= 253;
}

// host, host:port, [v6] or [v6]:port
static bool split_authority(struct str text, struct url *url)
{
	const char *end;
	uint64_t port;

	if (str_starts(text, "[")) {
		end = memchr(text.at, ']', text.len);
		if (!end)
			return false;
		url->host = (struct str){text.at + 1, (size_t)(end - text.at) - 1};
		text = str_skip(text, url->host.len + 2);
		if (!url_is_host(url->host, ":."))
			return false;
	} else {
		end = memchr(text.at, ':', text.len);
		url->host = (struct str){text.at, end ? (size_t)(end - text.at) : text.len};
		text = str_skip(text, url->host.len);
		if (!url_is_host(url->host, ".-_"))
			return false;
	}
	if (text.len == 0)
		return true;
	if (text.at[0] != ':' || text.len > 6 || !str_to_u64(str_skip(text, 1), 1, 65535, &port))
		return false;
	url->port = (uint16_t)port;
	return true;
}

bool url_absolute(struct str text, struct url *out)
{
	struct str scheme = STR("http"), rest, authority;
	struct url url = {0}, target;
	const char *slash;

	if (str_eq_nocase((struct str){text.at, text.len < 8 ? text.len : 8}, STR("https://")))
		scheme = STR("https");
	else if (!str_eq_nocase((struct str){text.at, text.len < 7 ? text.len : 7}, STR("http://")))
		return false;
	rest = str_skip(text, scheme.len + 3);
	slash = rest.len ? memchr(rest.at, '/', rest.len) : NULL;
	authority = (struct str){rest.at, slash ? (size_t)(slash - rest.at) : rest.len};
	if (authority.len == 0 || !split_authority(authority, &url))
		return false;
	rest = str_skip(rest, authority.len);
	if (!url_target(rest.len ? rest : STR("/"), &target))
		return false;
	url.scheme = scheme;
	url.path = target.path;
	url.query = target.query;
	*out = url;
	return true;
}

bool url_pair(struct str *rest, struct str *key, struct str *value)
{
	struct str pair;

	while (str_cut(rest, '&', &pair)) {
		if (pair.len == 0)
			continue;
		str_cut(&pair, '=', key);
		*value = pair.at ? pair : STR("");
		return true;
	}
	return false;
}

// In a query a plus is a blank, unless written as %2B.
static bool next_char(struct str *rest, char *c)
{
	bool plus = rest->len > 0 && rest->at[0] == '+';

	if (!text_percent_next(rest, c))
		return false;
	if (plus)
		*c = ' ';
	return true;
}

static bool url_is_key(struct str coded, const char *key)
{
	char c;

	while (coded.len > 0)
		if (!next_char(&coded, &c) || c != *key++)
			return false;
	return *key == 0;
}

static bool is_coded(struct str value)
{
	char c;

	while (value.len > 0)
		if (!next_char(&value, &c))
			return false;
	return true;
}

bool url_query(struct str query, const char *key, struct buf *out)
{
	struct str coded, value;
	char c;

	while (url_pair(&query, &coded, &value)) {
		if (!url_is_key(coded, key))
			continue;
		if (!is_coded(value))
			return false;
		while (value.len > 0 && next_char(&value, &c))
			buf_char(out, c);
		return buf_ok(out);
	}
	return false;
}
