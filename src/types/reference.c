// Reads and writes names of images. The grammar is that of the distribution specification; the
// default host and tag are those of docker. The first component is a host only if it has a dot or a
// port, or is localhost.
#include "types/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 255
#define TAG_BYTES 128
#define HEX 64

static fallible bad_reference(const char *what)
{
	return err_hint(err_new(INVALID, "bad_reference", "this is no name of an image: %s", what),
			"[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST], such as python:3.12");
}

static bool is_small(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*
static bool reference_is_component(struct str part)
{
	size_t at = 0;

	while (at < part.len) {
		size_t begin = at;

		while (at < part.len && is_small(part.at[at]))
			at++;
		if (at == begin)
			return false;
		if (at == part.len)
			return true;
		if (part.at[at] == '-')
			while (at < part.len && part.at[at] == '-')
				at++;
		else if (part.at[at] == '_')
			at += at + 1 < part.len && part.at[at + 1] == '_' ? 2 : 1;
		else if (part.at[at] == '.')
			at++;
		else
			return false;
	}
	return false; // empty, or it ends with a separator
}

static bool reference_is_path(struct str path)
{
	struct str rest = path, part;

	if (!path.len || path.len > PATH_BYTES || path.at[path.len - 1] == '/')
		return false;
	while (rest.len && str_cut(&rest, '/', &part))
		if (!reference_is_component(part))
			return false;
	return true;
}

static bool reference_is_tag(struct str tag)
{
	for (size_t i = 0; i < tag.len; i++)
		if (!isalnum((unsigned char)tag.at[i]) && tag.at[i] != '_' &&
		    (!i || (tag.at[i] != '.' && tag.at[i] != '-')))
			return false;
	return tag.len && tag.len <= TAG_BYTES;
}

bool reference_is_digest(struct str text)
{
	if (text.len != REFERENCE_DIGEST || !str_starts(text, "sha256:"))
		return false;
	for (size_t i = text.len - HEX; i < text.len; i++)
		if (!(text.at[i] >= '0' && text.at[i] <= '9') &&
		    !(text.at[i] >= 'a' && text.at[i] <= 'f'))
			return false;
	return true;
}

static bool reference_is_host(struct str host)
{
	struct str name = host, port = {0};
	const char *colon = memchr(host.at, ':', host.len);
	uint64_t number;

	if (colon) {
		name.len = (size_t)(colon - host.at);
		port = str_skip(host, name.len + 1);
	}
	if (!name.len || host.len > 253 || name.at[0] == '.' || name.at[0] == '-' ||
	    (colon && !str_to_u64(port, 1, 65535, &number)))
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.at[i]) && name.at[i] != '.' && name.at[i] != '-')
			return false;
	return true;
}

static void reference_copy(char *room, size_t size, struct str text)
{
	snprintf(room, size, STR_FMT, STR_ARG(text));
}

// Cuts the host off the front; else it is docker's.
static fallible reference_take_host(struct str *rest, struct reference *out)
{
	const char *slash = rest->len ? memchr(rest->at, '/', rest->len) : NULL;
	struct str head = {rest->at, slash ? (size_t)(slash - rest->at) : 0};

	if (!slash || (!memchr(head.at, '.', head.len) && !memchr(head.at, ':', head.len) &&
		       !str_is(head, "localhost"))) {
		snprintf(out->host, sizeof(out->host), "docker.io");
		return OK;
	}
	if (!reference_is_host(head))
		return bad_reference("its host is malformed");
	reference_copy(out->host, sizeof(out->host), head);
	for (char *c = out->host; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (!strcmp(out->host, "index.docker.io") || !strcmp(out->host, "registry-1.docker.io"))
		snprintf(out->host, sizeof(out->host), "docker.io");
	*rest = str_skip(*rest, head.len + 1);
	return OK;
}

fallible reference_read(struct str text, struct reference *out)
{
	struct reference reference = {0};
	struct str rest = text, digest = {0}, tag = STR("latest");
	const char *mark;

	if (!text.len || text.len >= REFERENCE_MAX || memchr(text.at, 0, text.len))
		return bad_reference(text.len ? "it is too long" : "it is empty");
	mark = memchr(rest.at, '@', rest.len);
	if (mark) {
		digest = str_skip(rest, (size_t)(mark - rest.at) + 1);
		rest.len = (size_t)(mark - rest.at);
		if (!reference_is_digest(digest))
			return bad_reference("a digest is sha256: and 64 lower-case hex digits");
	}
	TRY(reference_take_host(&rest, &reference));
	mark = rest.len ? memchr(rest.at, ':', rest.len) : NULL;
	if (mark) {
		tag = str_skip(rest, (size_t)(mark - rest.at) + 1);
		rest.len = (size_t)(mark - rest.at);
		if (!reference_is_tag(tag))
			return bad_reference("its tag is malformed");
	}
	if (!reference_is_path(rest))
		return bad_reference("its path is malformed");
	if (!strcmp(reference.host, "docker.io") && !memchr(rest.at, '/', rest.len)) {
		if (rest.len + strlen("library/") > PATH_BYTES)
			return bad_reference("its path is too long");
		snprintf(reference.path, sizeof(reference.path), "library/" STR_FMT, STR_ARG(rest));
	} else {
		reference_copy(reference.path, sizeof(reference.path), rest);
	}
	if (digest.at)
		reference_copy(reference.digest, sizeof(reference.digest), digest);
	else
		reference_copy(reference.tag, sizeof(reference.tag), tag);
	*out = reference;
	return OK;
}

void reference_write(const struct reference *reference, struct buf *out)
{
	bool pinned = reference->digest[0];

	buf_fmt(out, "%s/%s%s%s", reference->host, reference->path, pinned ? "@" : ":",
		pinned ? reference->digest : reference->tag);
}

bool reference_is_pattern(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.at[i]) && !memchr("*./:@_-", text.at[i], 7))
			return false;
	return str_is(text, "*") ||
	       (text.len && text.len < REFERENCE_MAX && memchr(text.at, '/', text.len));
}

// `*` of the pattern stands for any characters, also none.
static bool pattern_fits(const char *pattern, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text)
		if (*pattern == '*') {
			star = pattern++;
			from = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++from;
		} else {
			return false;
		}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

bool reference_matches(const struct reference *reference, const char *pattern)
{
	auto_buf text = BUF_INIT(REFERENCE_MAX), name = BUF_INIT(REFERENCE_MAX);

	reference_write(reference, &text);
	buf_fmt(&name, "%s/%s", reference->host, reference->path);
	return buf_ok(&text) && (pattern_fits(pattern, text.at) || pattern_fits(pattern, name.at));
}

void reference_template(const struct reference *reference, struct buf *out)
{
	const char *slash = strrchr(reference->path, '/');
	const char *last = slash ? slash + 1 : reference->path;

	buf_fmt(out, "%s-", last);
	if (reference->digest[0]) {
		buf_fmt(out, "%.12s", reference->digest + strlen("sha256:"));
		return;
	}
	for (const char *c = reference->tag; *c; c++)
		buf_char(out, (char)tolower((unsigned char)*c));
}
