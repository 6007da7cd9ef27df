// Parses lists of challenges: SCHEME NAME=VALUE, NAME="VALUE", SCHEME … A word that is not followed
// by '=' begins the next challenge. The text is the registry's and hostile.
#include "types/challenge.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define BLANKS " \t"

struct scan {
	struct str left;
};

static void scan_skip(struct scan *scan, const char *chars)
{
	while (scan->left.len && strchr(chars, scan->left.at[0]) && scan->left.at[0])
		scan->left = str_skip(scan->left, 1);
}

static bool is_token_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static struct str scan_token(struct scan *scan)
{
	struct str token = {scan->left.at, 0};

	while (token.len < scan->left.len && is_token_char(token.at[token.len]))
		token.len++;
	scan->left = str_skip(scan->left, token.len);
	return token;
}

// A quoted string or a token, unescaped into `room`; room NULL: skipped. False: malformed or too
// long.
static bool scan_value(struct scan *scan, char *room, size_t size)
{
	size_t len = 0;
	bool quoted = scan->left.len && scan->left.at[0] == '"';
	bool fits = true;

	if (quoted)
		scan->left = str_skip(scan->left, 1);
	while (scan->left.len) {
		char c = scan->left.at[0];

		// Slashes and colons of realms occur without quotes, too.
		if (quoted ? c == '"' : !is_token_char(c) && !(c && strchr("/:=", c)))
			break;
		if (quoted && c == '\\' && scan->left.len > 1) {
			scan->left = str_skip(scan->left, 1);
			c = scan->left.at[0];
		}
		scan->left = str_skip(scan->left, 1);
		if ((unsigned char)c < ' ' || c == 0x7f || (room && len + 1 >= size))
			fits = false;
		else if (room)
			room[len++] = c;
	}
	if (room)
		room[fits ? len : 0] = 0;
	if (!quoted)
		return fits;
	if (!scan->left.len)
		return false; // no closing quote
	scan->left = str_skip(scan->left, 1);
	return fits;
}

// True if NAME= comes next; then it was taken.
static bool scan_name(struct scan *scan, struct str *out)
{
	struct scan ahead = *scan;

	scan_skip(&ahead, BLANKS ",");
	*out = scan_token(&ahead);
	scan_skip(&ahead, BLANKS);
	if (!out->len || !ahead.left.len || ahead.left.at[0] != '=')
		return false;
	ahead.left = str_skip(ahead.left, 1);
	scan_skip(&ahead, BLANKS);
	*scan = ahead;
	return true;
}

static const struct {
	const char *name;
	size_t at, size;
} parameters[] = {
	{"realm", offsetof(struct challenge, realm), sizeof(((struct challenge *)0)->realm)},
	{"service", offsetof(struct challenge, service), sizeof(((struct challenge *)0)->service)},
	{"scope", offsetof(struct challenge, scope), sizeof(((struct challenge *)0)->scope)},
};

static bool challenge_take(struct scan *scan, struct challenge *challenge)
{
	struct str name;
	bool good = true;

	while (scan_name(scan, &name)) {
		char *room = NULL;
		size_t size = 0;

		for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++)
			if (str_eq_nocase(name, str_of(parameters[i].name))) {
				room = (char *)challenge + parameters[i].at;
				size = parameters[i].size;
			}
		good &= scan_value(scan, room, size);
	}
	return good;
}

void challenge_read(struct str header, struct challenge *out)
{
	struct scan scan = {header};

	for (;;) {
		struct challenge one = {0};
		struct str scheme;
		bool good;

		scan_skip(&scan, BLANKS ",");
		scheme = scan_token(&scan);
		if (!scheme.len)
			return; // the end, or no scheme
		if (str_eq_nocase(scheme, STR("Bearer")))
			one.kind = CHALLENGE_BEARER;
		else if (str_eq_nocase(scheme, STR("Basic")))
			one.kind = CHALLENGE_BASIC;
		good = challenge_take(&scan, &one);
		if (one.kind == CHALLENGE_BEARER && !one.realm[0])
			good = false;
		if (good && one.kind > out->kind)
			*out = one;
		// A token68 of another scheme: up to the next comma.
		while (scan.left.len && scan.left.at[0] != ',')
			scan.left = str_skip(scan.left, 1);
	}
}
