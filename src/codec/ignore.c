// A rule without a slash, except a trailing one, is compared with the last name of the path, any
// other with the whole path. The last `*` and the last `**` are the two backtracking points: an
// earlier one could match nothing that the later cannot, so the time is bounded by length times
// length.
#include "codec/ignore.h"

#include <ctype.h>
#include <string.h>

struct rule {
	struct str pattern;
	bool negated, directory, anchored;
};

static bool is_class(struct str name, unsigned char c)
{
	static const struct {
		const char *name;
		int (*is)(int c);
	} classes[] = {
		{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
		{"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
		{"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit},
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (str_is(name, classes[i].name))
			return classes[i].is(c) != 0;
	return false;
}

// Takes a member of a bracket expression, without its backslash. False: the pattern ends in it.
static bool bracket_char(struct str *rest, unsigned char *out)
{
	if (rest->len && rest->at[0] == '\\')
		*rest = str_skip(*rest, 1);
	if (!rest->len)
		return false;
	*out = (unsigned char)rest->at[0];
	*rest = str_skip(*rest, 1);
	return true;
}

// `[:name:]` at the start of `rest`, behind its bracket.
static bool bracket_class(struct str *rest, struct str *out)
{
	size_t end = 2;

	if (!str_starts(*rest, "[:"))
		return false;
	while (end + 1 < rest->len && rest->at[end] != ']')
		end++;
	if (end + 1 > rest->len || rest->at[end] != ']' || end < 3 || rest->at[end - 1] != ':')
		return false;
	*out = (struct str){rest->at + 2, end - 3};
	*rest = str_skip(*rest, end + 1);
	return true;
}

// The length of the bracket expression that `pattern` begins with, if it matches; else 0. An
// expression without an end matches nothing.
static size_t bracket_match(struct str pattern, unsigned char c)
{
	struct str rest = str_skip(pattern, 1), name;
	bool negated = rest.len && (rest.at[0] == '!' || rest.at[0] == '^');
	bool hit = false, first = true;

	if (negated)
		rest = str_skip(rest, 1);
	for (; rest.len && (first || rest.at[0] != ']'); first = false) {
		unsigned char low, high;

		if (bracket_class(&rest, &name)) {
			hit |= is_class(name, c);
			continue;
		}
		if (!bracket_char(&rest, &low))
			return 0;
		high = low;
		if (rest.len > 1 && rest.at[0] == '-' && rest.at[1] != ']') {
			rest = str_skip(rest, 1);
			if (!bracket_char(&rest, &high))
				return 0;
		}
		hit |= c >= low && c <= high;
	}
	if (!rest.len)
		return 0;
	return hit != negated && c != '/' ? pattern.len - rest.len + 1 : 0;
}

// Matches a character of a path by the first element of the pattern: the element's length, or 0.
static size_t element_match(struct str pattern, char c)
{
	if (!pattern.len)
		return 0;
	if (pattern.at[0] == '?')
		return c != '/';
	if (pattern.at[0] == '[')
		return bracket_match(pattern, (unsigned char)c);
	if (pattern.at[0] == '\\')
		return pattern.len > 1 && pattern.at[1] == c ? 2 : 0;
	return pattern.at[0] == c;
}

struct retry {
	struct str pattern, path;
	bool set;
};

// Counts two or more stars at the beginning of a name, followed by a slash or the end. Else 0.
static size_t deep_stars(struct str whole, struct str pattern)
{
	size_t stars = 0;

	if (pattern.at != whole.at && pattern.at[-1] != '/')
		return 0;
	while (stars < pattern.len && pattern.at[stars] == '*')
		stars++;
	return stars > 1 && (stars == pattern.len || pattern.at[stars] == '/') ? stars : 0;
}

static bool retry_star(struct retry *star)
{
	if (!star->set || !star->path.len || star->path.at[0] == '/')
		return false;
	star->path = str_skip(star->path, 1);
	return true;
}

// Retries the pattern one directory further down.
static bool retry_deep(struct retry *deep)
{
	const char *slash = deep->set && deep->path.len ? memchr(deep->path.at, '/', deep->path.len)
							: NULL;

	if (!slash)
		return false;
	deep->path = str_skip(deep->path, (size_t)(slash - deep->path.at) + 1);
	return true;
}

bool ignore_match(struct str pattern, struct str path)
{
	struct retry star = {0}, deep = {0};
	struct str whole = pattern;

	for (;;) {
		size_t stars = deep_stars(whole, pattern), len;

		if (stars) {
			if (pattern.len == stars)
				return path.len > 0;
			pattern = str_skip(pattern, stars + 1);
			deep = (struct retry){pattern, path, true};
			star.set = false;
			continue;
		}
		if (pattern.len && pattern.at[0] == '*') {
			while (pattern.len && pattern.at[0] == '*')
				pattern = str_skip(pattern, 1);
			star = (struct retry){pattern, path, true};
			continue;
		}
		if (!pattern.len && !path.len)
			return true;
		len = path.len ? element_match(pattern, path.at[0]) : 0;
		if (len) {
			pattern = str_skip(pattern, len);
			path = str_skip(path, 1);
		} else if (retry_star(&star)) {
			pattern = star.pattern;
			path = star.path;
		} else if (retry_deep(&deep)) {
			pattern = deep.pattern;
			path = deep.path;
			star.set = false;
		} else {
			return false;
		}
	}
}

// Trailing blanks count only after a backslash.
static struct str trim_end(struct str line)
{
	size_t len = 0;

	for (size_t i = 0; i < line.len; i++) {
		if (line.at[i] == '\\' && i + 1 < line.len)
			i++;
		else if (line.at[i] == ' ')
			continue;
		len = i + 1;
	}
	return (struct str){line.at, len};
}

// False: the line is not a rule.
static bool ignore_rule_read(struct str line, struct rule *out)
{
	if (line.len && line.at[line.len - 1] == '\r')
		line.len--;
	line = trim_end(line);
	if (!line.len || line.at[0] == '#')
		return false;
	*out = (struct rule){.negated = line.at[0] == '!'};
	if (out->negated)
		line = str_skip(line, 1);
	if (line.len && line.at[line.len - 1] == '/') {
		out->directory = true;
		line.len--;
	}
	out->anchored = line.len && memchr(line.at, '/', line.len);
	if (line.len && line.at[0] == '/')
		line = str_skip(line, 1);
	out->pattern = line;
	return line.len > 0;
}

static struct str last_name(struct str path)
{
	size_t at = path.len;

	while (at && path.at[at - 1] != '/')
		at--;
	return str_skip(path, at);
}

enum ignore_verdict ignore_judge(struct str rules, struct str path, bool is_directory)
{
	enum ignore_verdict verdict = IGNORE_SILENT;
	struct str name = last_name(path), line;
	struct rule rule;

	if (str_starts(rules, "\xef\xbb\xbf"))
		rules = str_skip(rules, 3);
	while (rules.len && str_cut(&rules, '\n', &line))
		if (ignore_rule_read(line, &rule) && (is_directory || !rule.directory) &&
		    ignore_match(rule.pattern, rule.anchored ? path : name))
			verdict = rule.negated ? IGNORE_KEEP : IGNORE_OUT;
	return verdict;
}
