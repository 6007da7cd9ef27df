// No backtracking: one element of the pattern after the other moves the set of all places in the
// text that the pattern up to it can end at. An element costs at most its length times the length
// of the text, so the whole is bounded by length times length, whatever the pattern. The set is a
// range of bits: before the first star it has one place.
#include "codec/glob.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PATH_ROOM 3840 // a longer path matches nothing
#define TEXT_MAX 8191  // the same

// The length of a class, 0: never closed. *out_hit: it has `c`.
static size_t match_class(const char *glob, char c, bool *out_hit)
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
	*out_hit = hit != negated && c != '/';
	return (size_t)(at + 1 - glob);
}

// One element of the pattern that is not a star. `close` is the last ']' of the pattern, or NULL.
static size_t match_one(const char *glob, const char *close, char c, bool *out_hit)
{
	*out_hit = false;
	if (*glob == '[' && close && close - glob >= 2)
		return match_class(glob, c, out_hit);
	if (*glob == '\\' && glob[1]) {
		*out_hit = glob[1] == c;
		return 2;
	}
	*out_hit = *glob == '?' ? c != '/' : *glob == c;
	return 1;
}

struct places {
	const char *text;
	size_t len;
	size_t low, high; // no place is outside
	uint64_t bits[TEXT_MAX / 64 + 1];
};

static bool place_has(const struct places *places, size_t at)
{
	return places->bits[at / 64] >> at % 64 & 1;
}

static void place_set(struct places *places, size_t at, bool on)
{
	uint64_t bit = 1ull << at % 64;

	places->bits[at / 64] = on ? places->bits[at / 64] | bit : places->bits[at / 64] & ~bit;
}

// Every place moves by a character that the element at *glob matches. False: none is left.
static bool places_step(struct places *places, const char **glob, const char *close)
{
	size_t low = SIZE_MAX, high = 0, n = 1;

	for (size_t at = places->high + 1; at-- > places->low;) {
		bool hit = false;

		if (!place_has(places, at))
			continue;
		place_set(places, at, false);
		if (at == places->len)
			continue;
		n = match_one(*glob, close, places->text[at], &hit);
		if (!hit)
			continue;
		place_set(places, at + 1, true);
		low = at + 1;
		high = high ? high : low;
	}
	*glob += n;
	places->low = low;
	places->high = high;
	return high > 0;
}

// `*`, `**` or, if `whole`, `**` with the slash behind it: nothing, or up to any slash.
static void places_spread(struct places *places, bool deep, bool whole)
{
	bool on = false, seen = false;

	for (size_t at = places->low; at <= places->len; at++) {
		bool slash = at > 0 && places->text[at - 1] == '/';

		if (whole)
			on = seen && slash;
		else if (slash && !deep)
			on = false;
		on |= place_has(places, at);
		seen |= on;
		if (!on)
			continue;
		place_set(places, at, true);
		places->high = at > places->high ? at : places->high;
	}
}

bool glob_match(const char *glob, const char *text)
{
	const char *close = strrchr(glob, ']');
	struct places places = {.text = text, .len = strlen(text)};

	if (places.len > TEXT_MAX)
		return false;
	place_set(&places, 0, true);
	while (*glob) {
		size_t stars = strspn(glob, "*");
		bool whole = stars > 1 && glob[stars] == '/';

		glob += stars + whole;
		if (stars)
			places_spread(&places, stars > 1, whole);
		else if (!places_step(&places, &glob, close))
			return false;
	}
	return place_has(&places, places.len);
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
