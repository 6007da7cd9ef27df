// Two backtracking points are enough: the last `*` and, when its segment is exhausted, the last
// `**`. An earlier one could match nothing that the later cannot, so the time is bounded by length
// times length.
#include "codec/glob.h"

#include <stddef.h>
#include <string.h>

#define PATH_ROOM 3840 // a longer path matches nothing

// Matches one character of `text` by one element of the pattern: the element's length, or 0.
static size_t match_class(const char *glob, char c)
{
	const char *at = glob + 1;
	bool negated = *at == '!' || *at == '^';
	bool hit = false;

	at += negated;
	do {
		unsigned char low = (unsigned char)*at, high = low;

		if (!*at)
			return 0; // never closed: not a class
		if (at[1] == '-' && at[2] && at[2] != ']') {
			high = (unsigned char)at[2];
			at += 2;
		}
		at++;
		hit |= (unsigned char)c >= low && (unsigned char)c <= high;
	} while (*at != ']');
	return hit != negated ? (size_t)(at + 1 - glob) : 0;
}

static bool is_class(const char *glob)
{
	return glob[0] == '[' && glob[1] && strchr(glob + 2, ']');
}

static size_t match_one(const char *glob, char c)
{
	if (c != '/' && *glob == '?')
		return 1;
	if (is_class(glob))
		return c != '/' ? match_class(glob, c) : 0;
	if (*glob == '\\' && glob[1])
		return glob[1] == c ? 2 : 0;
	return *glob && *glob == c ? 1 : 0;
}

struct back {
	const char *glob, *text;
	bool whole; // `**/`: only at the beginning of a name
};

// The next position for `**` to try.
static bool go_deeper(struct back *deep)
{
	if (!deep->glob || !*deep->text)
		return false;
	if (!deep->whole) {
		deep->text++;
		return true;
	}
	deep->text = strchr(deep->text, '/');
	if (!deep->text)
		return false;
	deep->text++;
	return true;
}

bool glob_match(const char *glob, const char *text)
{
	struct back star = {0}, deep = {0};

	for (;;) {
		size_t n;

		if (glob[0] == '*' && glob[1] == '*') {
			while (*glob == '*')
				glob++;
			deep = (struct back){glob, text, *glob == '/'};
			deep.glob = glob += deep.whole;
			star = (struct back){0};
			continue;
		}
		if (*glob == '*') {
			star = (struct back){++glob, text, false};
			continue;
		}
		if (!*glob && !*text)
			return true;
		n = *text ? match_one(glob, *text) : 0;
		if (n > 0) {
			glob += n;
			text++;
		} else if (star.glob && *star.text && *star.text != '/') {
			glob = star.glob;
			text = ++star.text;
		} else if (go_deeper(&deep)) {
			glob = deep.glob;
			text = deep.text;
			star = (struct back){0};
		} else {
			return false;
		}
	}
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool glob_names(const char *glob, const char *path)
{
	return glob_match(glob, strchr(glob, '/') ? path : last_name(path));
}

bool glob_hits(const char *glob, const char *path)
{
	bool whole = strchr(glob, '/') != NULL;
	char part[PATH_ROOM];
	const char *from = path;

	while (*glob == '/')
		glob++;
	for (const char *end = path; *path; end++) {
		size_t len = (size_t)(end - from);

		if (*end && *end != '/')
			continue;
		if (len >= sizeof(part))
			return false;
		memcpy(part, from, len);
		part[len] = 0;
		if (len > 0 && glob_match(glob, part))
			return true;
		if (!*end)
			break;
		if (!whole)
			from = end + 1;
	}
	return false;
}
