// Reads .dockerignore line by line, for each path anew: no state, and nothing is allocated. The
// rules come from a stranger's directory: a rule that is no pattern matches nothing.
#include "codec/dockerignore.h"

#include "codec/ignore.h"

// The next rule, without comments, blanks, "/" and "./" around it. False: the end.
static bool rule_next(struct str *rules, struct str *out, bool *out_keeps)
{
	struct str line;

	while (rules->len && str_cut(rules, '\n', &line)) {
		if (line.len && line.at[line.len - 1] == '\r')
			line.len--;
		if (line.len && line.at[0] == '#')
			continue;
		line = str_trim(line);
		*out_keeps = line.len && line.at[0] == '!';
		line = str_trim(str_skip(line, *out_keeps));
		while (str_starts(line, "/") || str_starts(line, "./"))
			line = str_skip(line, line.at[0] == '/' ? 1 : 2);
		while (line.len && line.at[line.len - 1] == '/')
			line.len--;
		if (!line.len)
			continue;
		*out = line;
		return true;
	}
	return false;
}

static bool rule_matches(struct str rule, struct str path)
{
	if (str_is(rule, "."))
		return true;
	for (size_t i = 1; i <= path.len; i++)
		if ((i == path.len || path.at[i] == '/') &&
		    ignore_match(rule, (struct str){path.at, i}))
			return true;
	return false;
}

bool dockerignore_drops(struct str rules, struct str path)
{
	bool drops = false, keeps;
	struct str rule;

	while (rule_next(&rules, &rule, &keeps))
		if (rule_matches(rule, path))
			drops = !keeps;
	return drops;
}

bool dockerignore_has_exceptions(struct str rules)
{
	struct str rule;
	bool keeps;

	while (rule_next(&rules, &rule, &keeps))
		if (keeps)
			return true;
	return false;
}
