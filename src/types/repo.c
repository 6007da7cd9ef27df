// Checks git URLs and branch names, and redacts credentials. git treats some URLs as options or as
// commands of a helper (ext::, --upload-pack): everything but plain forms is refused.
#include "types/repo.h"

#include <ctype.h>

static const char *const schemes[] = {"https", "http", "ssh", "git", "file"};
static const char *const secret_keys[] = {
	"token",	   "secret",	       "password",
	"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Security-Token"};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static fallible bad_url(const char *why)
{
	return err_hint(err_new(INVALID, "bad_git_url", "the repository's URL %s", why),
			"send https://HOST/PATH, ssh://HOST/PATH, HOST:PATH, or the path of a "
			"repository in the sandbox");
}

static const char *find(struct str text, const char *word)
{
	return text.len ? memmem(text.at, text.len, word, strlen(word)) : NULL;
}

static bool is_scheme(struct str word)
{
	for (size_t i = 0; i < COUNT(schemes); i++)
		if (str_eq_nocase(word, str_of(schemes[i])))
			return true;
	return false;
}

// "user:secret@host:port" to "host:port".
static struct str host_of(struct str authority)
{
	const char *at = authority.len ? memrchr(authority.at, '@', authority.len) : NULL;

	return at ? str_skip(authority, (size_t)(at - authority.at) + 1) : authority;
}

static fallible check_scheme_url(struct str url, size_t scheme_len)
{
	struct str rest = str_skip(url, scheme_len + 3);
	struct str authority = rest;
	const char *slash = rest.len ? memchr(rest.at, '/', rest.len) : NULL;

	if (!is_scheme((struct str){url.at, scheme_len}))
		return bad_url("has a scheme that is not taken");
	if (slash)
		authority.len = (size_t)(slash - rest.at);
	// ssh and git would read a host that begins with a dash as an option.
	if (str_starts(authority, "-") || str_starts(host_of(authority), "-"))
		return bad_url("names a host that begins with a dash");
	if (authority.len == 0 && !str_is((struct str){url.at, scheme_len}, "file"))
		return bad_url("names no host");
	return OK;
}

fallible repo_check(struct str url)
{
	const char *scheme, *colon;
	struct str host;

	if (url.len == 0)
		return bad_url("is empty");
	if (url.len > REPO_URL_MAX)
		return bad_url("is longer than 2048 bytes");
	for (size_t i = 0; i < url.len; i++)
		if ((unsigned char)url.at[i] < 0x20 || url.at[i] == 0x7f)
			return bad_url("has a control character");
	if (url.at[0] == '-')
		return bad_url("begins with a dash");
	if (find(url, "::"))
		return bad_url("names a helper of git");
	scheme = find(url, "://");
	if (scheme)
		return check_scheme_url(url, (size_t)(scheme - url.at));
	colon = memchr(url.at, ':', url.len);
	if (!colon || memchr(url.at, '/', (size_t)(colon - url.at)))
		return OK; // a local path
	host = host_of((struct str){url.at, (size_t)(colon - url.at)});
	if (host.len == 0 || host.at[0] == '-')
		return bad_url("names a host that begins with a dash");
	return OK;
}

fallible repo_check_branch(struct str name)
{
	bool bad = name.len == 0 || name.len > 255 || name.at[0] == '-';

	for (size_t i = 0; !bad && i < name.len; i++)
		bad = (unsigned char)name.at[i] <= 0x20 || strchr("~^:?*[\\\x7f", name.at[i]);
	if (bad)
		return err_new(INVALID, "bad_field", "'branch' is not the name of a branch or tag");
	return OK;
}

struct str repo_name(struct str url)
{
	struct str rest = url;
	size_t from;

	while (rest.len && rest.at[rest.len - 1] == '/')
		rest.len--;
	for (from = rest.len; from > 0 && !strchr("/:", rest.at[from - 1]);)
		from--;
	rest = str_skip(rest, from);
	if (str_ends(rest, ".git"))
		rest.len -= 4;
	if (rest.len == 0 || str_is(rest, ".") || str_is(rest, ".."))
		return STR("repository");
	return rest;
}

// Length of the credentials after "http://" or "https://", without the @; 0: none.
static size_t credentials(struct str rest)
{
	for (size_t i = 0; i < rest.len; i++) {
		if (rest.at[i] == '@')
			return i;
		if (isspace((unsigned char)rest.at[i]) || strchr("/'\"", rest.at[i]))
			return 0;
	}
	return 0;
}

// Length of "key=" if a secret parameter begins here; 0: none.
static size_t secret_key(struct str rest)
{
	for (size_t i = 0; i < COUNT(secret_keys); i++) {
		size_t len = strlen(secret_keys[i]);

		if (rest.len > len && rest.at[len] == '=' &&
		    str_eq_nocase((struct str){rest.at, len}, str_of(secret_keys[i])))
			return len + 1;
	}
	return 0;
}

static size_t value_len(struct str rest)
{
	size_t len = 0;

	while (len < rest.len && !isspace((unsigned char)rest.at[len]) &&
	       !strchr("&#'\"", rest.at[len]))
		len++;
	return len;
}

void repo_redact(struct buf *out, struct str text)
{
	while (text.len) {
		size_t scheme = str_starts(text, "https://")  ? 8
				: str_starts(text, "http://") ? 7
							      : 0;
		size_t hidden = scheme ? credentials(str_skip(text, scheme)) : 0;
		size_t key = strchr("?&", text.at[0]) ? secret_key(str_skip(text, 1)) : 0;

		if (hidden) {
			buf_add(out, text.at, scheme);
			buf_text(out, "******");
			text = str_skip(text, scheme + hidden);
		} else if (key) {
			buf_add(out, text.at, 1 + key);
			buf_text(out, "REDACTED");
			text = str_skip(text, 1 + key);
			text = str_skip(text, value_len(text));
		} else {
			buf_char(out, text.at[0]);
			text = str_skip(text, 1);
		}
	}
}
